// Scans (cumsum and relatives), sorting, and searches in sorted sequences.
#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "ops/rows/forms.h"
#include "ops/rows/host_lines.h"
#include "ops/rows/scan_sort_rules.h"

namespace toroid::ops {
namespace {

using namespace host;
using Results = std::vector<Tensor>;

void sum_scan_meta(MetaCall& c) {
  auto* self = c.tensor("self");
  normal_dim(c.op(), c.integer("dim"), self->dim());
  c.result(c.dtype("dtype").value_or(is_int(self->dtype) || is_bool(self->dtype) ? DType::I64 : self->dtype), self->sizes);
}
template <bool product>
void sum_scan_kernel(KernelCall& c) {
  Tensor self = c.tensor("self").contiguous();
  Lines lines(self, host::dim_of(c, self));
  with_accumulator(c.outputs[0].dtype(), [&]<class T>(T) {
    for (int64_t l = 0; l < lines.count(); ++l) {
      T total = product ? T(1) : T(0);
      for (int64_t k = 0; k < lines.n; ++k) {
        T v = get_as<T>(self, lines.at(l, k));
        if constexpr (std::is_same_v<T, int64_t>) {  // wraps around
          uint64_t a = static_cast<uint64_t>(total), b = static_cast<uint64_t>(v);
          total = static_cast<int64_t>(product ? a * b : a + b);
        } else {
          total = product ? total * v : total + v;
        }
        put_as<T>(c.outputs[0], lines.at(l, k), total);
      }
    }
  });
}

void same_meta(MetaCall& c) {
  auto* self = c.tensor("self");
  normal_dim(c.op(), c.integer("dim"), self->dim());
  c.result(self->dtype, self->sizes);
}
void pair_meta(MetaCall& c) {
  TOROID_USER_CHECK(!is_complex(c.tensor("self")->dtype), "{}: complex numbers have no order", c.op().name);
  same_meta(c);
  c.result(DType::I64, c.tensor("self")->sizes);
}

// The last of equal elements, and NaN from its first place on.
template <bool largest>
void extremum_scan_kernel(KernelCall& c) {
  Tensor self = c.tensor("self").contiguous();
  Lines lines(self, host::dim_of(c, self));
  for (int64_t l = 0; l < lines.count(); ++l) {
    int64_t best = 0;
    for (int64_t k = 0; k < lines.n; ++k) {
      Number v = get(self, lines.at(l, k)), b = get(self, lines.at(l, best));
      if (is_nan(v) || (!is_nan(b) && !(largest ? less(v, b) : less(b, v)))) best = k;
      copy_element(self, lines.at(l, best), c.outputs[0], lines.at(l, k));
      put(c.outputs[1], lines.at(l, k), Number::of(best));
    }
  }
}

template <class T>
T log_add_exp(T a, T b) {
  if constexpr (std::is_same_v<T, double>) {
    double top = std::max(a, b);
    if (std::isnan(a) || std::isnan(b)) return a + b;
    if (std::isinf(top)) return top;
    return top + std::log1p(std::exp(-std::abs(a - b)));
  } else {
    if (std::isnan(a.real()) || std::isnan(b.real())) return a + b;
    T hi = a.real() >= b.real() ? a : b, lo = a.real() >= b.real() ? b : a;
    if (std::isinf(hi.real()) && hi.real() < 0) return hi;
    return hi + std::log(T(1) + std::exp(lo - hi));
  }
}
void logcumsumexp_kernel(KernelCall& c) {
  Tensor self = c.tensor("self").contiguous();
  Lines lines(self, host::dim_of(c, self));
  auto scan = [&]<class T>(T) {
    for (int64_t l = 0; l < lines.count(); ++l) {
      T total = -std::numeric_limits<double>::infinity();
      for (int64_t k = 0; k < lines.n; ++k) {
        T v = get_as<T>(self, lines.at(l, k));
        total = k ? log_add_exp<T>(total, v) : v;
        put_as<T>(c.outputs[0], lines.at(l, k), total);
      }
    }
  };
  if (is_complex(self.dtype()))
    scan(std::complex<double>{});
  else
    scan(double{});
}

// Positions of a line's elements in stable order. Descending order has NaN first.
std::vector<int64_t> sorted_positions(const Tensor& self, const Lines& lines, int64_t l, bool descending) {
  std::vector<Number> values;
  for (int64_t k = 0; k < lines.n; ++k) values.push_back(get(self, lines.at(l, k)));
  std::vector<int64_t> order(values.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    const Number &x = values[static_cast<size_t>(a)], &y = values[static_cast<size_t>(b)];
    return descending ? less(y, x) : less(x, y);
  });
  return order;
}
// The first elements of each line's order, as many as the output has.
void sort_lines(KernelCall& c, bool descending) {
  Tensor self = c.tensor("self").contiguous();
  int64_t dim = host::dim_of(c, self);
  Lines lines(self, dim), out(c.outputs[0], dim);
  for (int64_t l = 0; l < lines.count(); ++l) {
    auto order = sorted_positions(self, lines, l, descending);
    for (int64_t k = 0; k < out.n; ++k) {
      copy_element(self, lines.at(l, order[static_cast<size_t>(k)]), c.outputs[0], out.at(l, k));
      put(c.outputs[1], out.at(l, k), Number::of(order[static_cast<size_t>(k)]));
    }
  }
}
void sort_kernel(KernelCall& c) { sort_lines(c, c.flag("descending")); }

void topk_meta(MetaCall& c) {
  auto* self = c.tensor("self");
  Expr k = c.expr("k");
  size_t dim = static_cast<size_t>(normal_dim(c.op(), c.integer("dim"), self->dim()));
  auto sizes = self->sizes;
  Expr size = sizes.empty() ? Expr(1) : sizes[dim];
  for (const auto& fits : {sym::Relation{sym::Rel::Le, k, size}, sym::Relation{sym::Rel::Ge, k, 0}})
    c.require(fits, "{}: k is {}, the dimension has {} elements", c.op().name, sym::to_string(k), sym::to_string(size));
  if (!sizes.empty()) sizes[dim] = k;
  c.result(self->dtype, sizes);
  c.result(DType::I64, sizes);
}
void topk_kernel(KernelCall& c) { sort_lines(c, c.flag("largest")); }

Results argsort(const CallReader& c) { return {call("sort.stable", {c.tensor("self"), true, c.at("dim"), c.at("descending")}).at(1)}; }

void searchsorted_meta(MetaCall& c) {
  auto *sequence = c.tensor("sorted_sequence"), *self = c.tensor("self");
  TOROID_USER_CHECK(sequence->dim() >= 1, "{}: the sequence must have a dimension", c.op().name);
  if (sequence->dim() > 1) {
    TOROID_USER_CHECK(sequence->dim() == self->dim(), "{}: sequences of {} dimensions need values of as many, these have {}", c.op().name,
                      sequence->dim(), self->dim());
    for (size_t d = 0; d + 1 < self->sizes.size(); ++d)
      c.require_same(sequence->sizes[d], self->sizes[d], "{}: sequences and values differ in dimension {}", c.op().name, d);
  }
  if (auto* sorter = c.opt_tensor("sorter")) {
    TOROID_USER_CHECK(sorter->sizes.size() == sequence->sizes.size(), "{}: sorter and sequence differ in size", c.op().name);
    for (size_t d = 0; d < sorter->sizes.size(); ++d)
      c.require_same(sorter->sizes[d], sequence->sizes[d], "{}: sorter and sequence differ in size", c.op().name);
  }
  c.result(c.flag("out_int32") ? DType::I32 : DType::I64, self->sizes);
}
void searchsorted_kernel(KernelCall& c) {
  Tensor sequence = c.tensor("sorted_sequence").contiguous(), self = c.tensor("self").contiguous(), sorter = c.opt_tensor("sorter");
  if (sorter.defined()) sorter = sorter.contiguous();
  bool right = c.flag("right");
  if (c.has("side")) {
    TOROID_USER_CHECK(c.text("side") == "left" || c.text("side") == "right", "{}: side is \"{}\"; it must be \"left\" or \"right\"",
                      c.op().name, c.text("side"));
    right = c.text("side") == "right";
  }
  int64_t n = sequence.sizes().back(), per_row = self.sizes().empty() ? 1 : self.sizes().back();
  for (int64_t i = 0; i < self.numel(); ++i) {
    int64_t row = sequence.dim() == 1 ? 0 : i / per_row, lo = 0, hi = n;
    Number v = get(self, i);
    while (lo < hi) {
      int64_t mid = lo + (hi - lo) / 2;
      int64_t at = sorter.defined() ? checked_index("searchsorted", get_int(sorter, row * n + mid), n, sorter.dim() - 1, false) : mid;
      Number m = get(sequence, row * n + at);
      bool after = right ? !less(v, m) : less(m, v);
      if (after)
        lo = mid + 1;
      else
        hi = mid;
    }
    put(c.outputs[0], i, Number::of(lo));
  }
}

Tensor number_tensor(const CallReader& c, std::string_view param) {
  bool real = std::holds_alternative<double>(c.at(param));
  return forms::full_number({}, c.at(param), real ? DType::F64 : DType::I64);
}
Results searchsorted_scalar(const CallReader& c) {
  return {call1("searchsorted.Tensor",
                {c.tensor("sorted_sequence"), number_tensor(c, "self"), c.at("out_int32"), c.at("right"), c.at("side"), c.at("sorter")})};
}
Results bucketize(const CallReader& c) {
  Tensor values = c.is_number("self") ? number_tensor(c, "self") : c.tensor("self");
  return {call1("searchsorted.Tensor", {c.tensor("boundaries"), values, c.at("out_int32"), c.at("right")})};
}

}  // namespace

void add_scan_sort_rows(Table& t) {
  t.primitive("cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor", sum_scan_meta, sum_scan_kernel<false>);
  t.primitive("cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor", sum_scan_meta, sum_scan_kernel<true>);
  t.primitive("cummax(Tensor self, int dim) -> (Tensor values, Tensor indices)", pair_meta, extremum_scan_kernel<true>);
  t.primitive("cummin(Tensor self, int dim) -> (Tensor values, Tensor indices)", pair_meta, extremum_scan_kernel<false>);
  t.primitive("logcumsumexp(Tensor self, int dim) -> Tensor", same_meta, logcumsumexp_kernel);
  t.primitive("sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)", pair_meta, sort_kernel);
  t.primitive("sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)", pair_meta,
              sort_kernel);
  t.composite("argsort(Tensor self, int dim=-1, bool descending=False) -> Tensor", argsort);
  t.composite("argsort.stable(Tensor self, *, bool stable, int dim=-1, bool descending=False) -> Tensor", argsort);
  t.composite("msort(Tensor self) -> Tensor", [](const CallReader& c) -> Results {
    return {call("sort", {c.tensor("self"), forms::num(0)}).at(0)};
  });
  t.primitive("topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor indices)", topk_meta,
              topk_kernel);
  t.primitive(
      "searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, bool right=False, str? side=None, Tensor? "
      "sorter=None) -> Tensor",
      searchsorted_meta, searchsorted_kernel);
  t.composite(
      "searchsorted.Scalar(Tensor sorted_sequence, Scalar self, *, bool out_int32=False, bool right=False, str? side=None, Tensor? "
      "sorter=None) -> Tensor",
      searchsorted_scalar);
  t.composite("bucketize.Tensor(Tensor self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor", bucketize);
  t.composite("bucketize.Scalar(Scalar self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor", bucketize);
  add_unique_rows(t);
}

}  // namespace toroid::ops
