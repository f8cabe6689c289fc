// Reductions that lowering knows: sum, prod, amax, amin, argmax, argmin, any, all.
#include <algorithm>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "ops/rows/host_lines.h"
#include "ops/rows/reduction_rules.h"

namespace toroid::ops {

std::vector<Expr> reduced_sizes(const std::vector<Expr>& sizes, const std::vector<int64_t>& dims, bool keepdim) {
  std::vector<bool> drop(sizes.size(), dims.empty());
  if (!sizes.empty())
    for (int64_t d : dims) drop[static_cast<size_t>(d)] = true;
  std::vector<Expr> out;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (!drop[d])
      out.push_back(sizes[d]);
    else if (keepdim)
      out.push_back(1);
  }
  return out;
}

bool keepdim_of(const TypeReader& c) { return c.op().schema.find("keepdim") >= 0 && c.flag("keepdim"); }

namespace {

using namespace host;

void reduce_to(MetaCall& c, DType dtype) {
  auto* self = c.tensor("self");
  auto dims = reduced_dims(c, self->dim());
  std::vector<bool> seen(self->sizes.size());
  for (int64_t d : dims) {
    if (seen.empty()) break;
    TOROID_USER_CHECK(!seen[static_cast<size_t>(d)], "{}: dimension {} is named twice", c.op().name, d);
    seen[static_cast<size_t>(d)] = true;
  }
  c.result(dtype, reduced_sizes(self->sizes, dims, keepdim_of(c)));
}

void sum_meta(MetaCall& c) {
  DType in = c.tensor("self")->dtype;
  reduce_to(c, c.dtype("dtype").value_or(is_int(in) || is_bool(in) ? DType::I64 : in));
}
void require_elements(MetaCall& c) {
  auto* self = c.tensor("self");
  auto dims = reduced_dims(c, self->dim());
  for (size_t d = 0; d < self->sizes.size(); ++d) {
    bool reduced = dims.empty() || std::find(dims.begin(), dims.end(), static_cast<int64_t>(d)) != dims.end();
    if (reduced) c.require({sym::Rel::Ge, self->sizes[d], 1}, "{}: dimension {} has no elements to choose from", c.op().name, d);
  }
}
// Whether the extreme of nothing is the lowest value instead of an error.
template <class T>
bool or_lowest(const ArgReader<T>& c) {
  return c.op().schema.find("or_lowest") >= 0 && c.flag("or_lowest");
}
void extremum_meta(MetaCall& c) {
  TOROID_USER_CHECK(!is_complex(c.tensor("self")->dtype), "{}: complex numbers have no order", c.op().name);
  if (!or_lowest(c)) require_elements(c);
  reduce_to(c, c.tensor("self")->dtype);
}
void arg_meta(MetaCall& c) {
  TOROID_USER_CHECK(!is_complex(c.tensor("self")->dtype), "{}: complex numbers have no order", c.op().name);
  require_elements(c);
  reduce_to(c, DType::I64);
}
void truth_meta(MetaCall& c) { reduce_to(c, c.tensor("self")->dtype == DType::U8 ? DType::U8 : DType::Bool); }

// Calls fn(row of the output, first element, elements) on the input joined along the reduced dimensions.
template <class F>
void for_each_row(KernelCall& c, F&& fn) {
  Tensor self = c.tensor("self");
  Tensor rows = joined_last(self, reduced_dims(c, self.dim()));
  for (int64_t r = 0; r < rows.sizes()[0]; ++r) fn(rows, r, r * rows.sizes()[1], rows.sizes()[1]);
}

template <bool product>
void accumulate_kernel(KernelCall& c) {
  with_accumulator(c.outputs[0].dtype(), [&]<class T>(T) {
    for_each_row(c, [&](const Tensor& rows, int64_t r, int64_t first, int64_t n) {
      T total = product ? T(1) : T(0);
      for (int64_t i = 0; i < n; ++i) {
        T v = get_as<T>(rows, first + i);
        if constexpr (std::is_same_v<T, int64_t>) {  // wraps around
          uint64_t a = static_cast<uint64_t>(total), b = static_cast<uint64_t>(v);
          total = static_cast<int64_t>(product ? a * b : a + b);
        } else {
          if (product)
            total *= v;
          else
            total += v;
        }
      }
      put_as<T>(c.outputs[0], r, total);
    });
  });
}

// Position of the largest or smallest element: the first one; NaN wins.
template <bool largest>
int64_t extremum(const Tensor& rows, int64_t first, int64_t n) {
  int64_t best = 0;
  Number b = get(rows, first);
  for (int64_t i = 1; i < n && !is_nan(b); ++i) {
    Number v = get(rows, first + i);
    if (is_nan(v) || (largest ? less(b, v) : less(v, b))) b = v, best = i;
  }
  return best;
}
// What is below all values of a dtype, or equal to the least one.
Number lowest(DType t) {
  if (is_float(t)) return Number::of(-std::numeric_limits<double>::infinity());
  const bool is_signed = t == DType::I8 || t == DType::I16 || t == DType::I32 || t == DType::I64;
  return Number::of(is_signed ? std::numeric_limits<int64_t>::min() >> (64 - 8 * size_of(t)) : int64_t{0});
}
template <bool largest>
void extremum_kernel(KernelCall& c) {
  for_each_row(c, [&](const Tensor& rows, int64_t r, int64_t first, int64_t n) {
    if (n == 0)  // the type rule has let amax alone pass, which says or_lowest
      put(c.outputs[0], r, lowest(rows.dtype()));
    else
      copy_element(rows, first + extremum<largest>(rows, first, n), c.outputs[0], r);
  });
}
template <bool largest>
void arg_kernel(KernelCall& c) {
  for_each_row(c, [&](const Tensor& rows, int64_t r, int64_t first, int64_t n) {
    put(c.outputs[0], r, Number::of(extremum<largest>(rows, first, n)));
  });
}
template <bool all>
void truth_kernel(KernelCall& c) {
  for_each_row(c, [&](const Tensor& rows, int64_t r, int64_t first, int64_t n) {
    bool result = all;
    for (int64_t i = 0; i < n && result == all; ++i) result = get_complex(rows, first + i) != std::complex<double>(0);
    put(c.outputs[0], r, Number::of(int64_t{result}));
  });
}

// Exclusive or of the bits of all elements, floats widened to f64.
void hash_meta(MetaCall& c) { reduce_to(c, DType::U64); }
void hash_kernel(KernelCall& c) {
  TOROID_USER_CHECK(c.integer("mode") == 0, "{}: mode {} is not known", c.op().name, c.integer("mode"));
  for_each_row(c, [&](const Tensor& rows, int64_t r, int64_t first, int64_t n) {
    uint64_t hash = 0;
    for (int64_t i = 0; i < n; ++i) {
      Number v = get(rows, first + i);
      uint64_t bits = static_cast<uint64_t>(v.i);
      if (v.kind == Number::Kind::Float) std::memcpy(&bits, &v.f, sizeof bits);
      hash ^= bits;
    }
    put(c.outputs[0], r, Number::of(static_cast<int64_t>(hash)));
  });
}

}  // namespace

void add_reduction_primitive_rows(Table& t) {
  auto row = [&](const char* schema, Meta meta, Kernel kernel, ReduceKind kind) { t.primitive(schema, meta, kernel).reduce = kind; };
  row("sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", sum_meta,
      accumulate_kernel<false>, ReduceKind::Sum);
  row("prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", sum_meta, accumulate_kernel<true>,
      ReduceKind::Prod);
  row("prod(Tensor self, *, ScalarType? dtype=None) -> Tensor", sum_meta, accumulate_kernel<true>, ReduceKind::Prod);
  row("amax(Tensor self, int[1] dim=[], bool keepdim=False, *, bool or_lowest=False) -> Tensor", extremum_meta, extremum_kernel<true>,
      ReduceKind::Max);
  row("amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor", extremum_meta, extremum_kernel<false>, ReduceKind::Min);
  row("argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor", arg_meta, arg_kernel<true>, ReduceKind::ArgMax);
  row("argmin(Tensor self, int? dim=None, bool keepdim=False) -> Tensor", arg_meta, arg_kernel<false>, ReduceKind::ArgMin);
  row("any(Tensor self) -> Tensor", truth_meta, truth_kernel<false>, ReduceKind::Any);
  row("any.dim(Tensor self, int dim, bool keepdim=False) -> Tensor", truth_meta, truth_kernel<false>, ReduceKind::Any);
  row("any.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor", truth_meta, truth_kernel<false>, ReduceKind::Any);
  row("all(Tensor self) -> Tensor", truth_meta, truth_kernel<true>, ReduceKind::All);
  row("all.dim(Tensor self, int dim, bool keepdim=False) -> Tensor", truth_meta, truth_kernel<true>, ReduceKind::All);
  row("all.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor", truth_meta, truth_kernel<true>, ReduceKind::All);
  t.primitive("hash_tensor(Tensor self, int[1] dim=[], *, bool keepdim=False, int mode=0) -> Tensor", hash_meta, hash_kernel);
}

void add_reduction_rows(Table& t) {
  add_reduction_primitive_rows(t);
  add_reduction_moment_rows(t);
  add_reduction_norm_rows(t);
  add_reduction_order_rows(t);
  add_quantile_rows(t);
  add_reduction_histogram_rows(t);
  add_reduction_loss_rows(t);
}

}  // namespace toroid::ops
