// Distinct elements: _unique, _unique2, unique_dim, unique_consecutive. Their number is known only after a run.
#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "ops/rows/host_lines.h"
#include "ops/rows/scan_sort_rules.h"

namespace toroid::ops {
namespace {

using namespace host;

// Which of values, inverse and counts a row returns.
bool wants(const auto& c, std::string_view param) { return c.op().schema.find(param) >= 0 && c.flag(param); }

// Slices of a tensor along a dimension (all elements one by one without one), to be told apart.
struct Slices {
  Tensor data;  // contiguous, [count, length]
  int64_t count = 0, length = 1;

  Slices(const Tensor& self, std::optional<int64_t> dim) {
    Tensor x = self;
    if (dim && self.dim() > 0) {
      auto sizes = self.sizes(), strides = self.strides();
      std::rotate(sizes.begin(), sizes.begin() + *dim, sizes.begin() + *dim + 1);
      std::rotate(strides.begin(), strides.begin() + *dim, strides.begin() + *dim + 1);
      x = self.as_strided(sizes, strides);
      count = sizes[0];
      for (size_t d = 1; d < sizes.size(); ++d) length *= sizes[d];
    } else {
      count = self.numel();
    }
    data = x.contiguous();
  }
  bool less(int64_t a, int64_t b) const {
    for (int64_t i = 0; i < length; ++i) {
      Number x = get(data, a * length + i), y = get(data, b * length + i);
      if (host::less(x, y)) return true;
      if (host::less(y, x)) return false;
    }
    return false;
  }
  bool equal(int64_t a, int64_t b) const {
    for (int64_t i = 0; i < length; ++i) {
      Number x = get(data, a * length + i), y = get(data, b * length + i);
      if (is_nan(x) || host::less(x, y) || host::less(y, x)) return false;
    }
    return true;
  }
};

struct Groups {
  std::vector<int64_t> first;    // a member of each group
  std::vector<int64_t> inverse;  // group of each slice
  std::vector<int64_t> counts;
};
Groups group(const Slices& s, const std::vector<int64_t>& order) {
  Groups g;
  g.inverse.resize(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || !s.equal(order[i - 1], order[i])) {
      g.first.push_back(order[i]);
      g.counts.push_back(0);
    }
    ++g.counts.back();
    g.inverse[static_cast<size_t>(order[i])] = static_cast<int64_t>(g.first.size()) - 1;
  }
  return g;
}

Tensor integers(const std::vector<int64_t>& v, const std::vector<int64_t>& sizes) {
  Tensor t = Tensor::empty(sizes, DType::I64);
  for (size_t i = 0; i < v.size(); ++i) put(t, static_cast<int64_t>(i), Number::of(v[i]));
  return t;
}

// As PyTorch on CPUs: what is distinct along a dimension comes with its inverse and counts, asked for or not.
template <bool has_counts>
void unique_meta(MetaCall& c) {
  auto* self = c.tensor("self");
  Expr n = c.fresh_size();
  bool with_dim = c.op().schema.find("dim") >= 0 && c.has("dim");
  std::vector<Expr> sizes = {n}, inverse = self->sizes;
  if (with_dim) {
    size_t dim = static_cast<size_t>(normal_dim(c.op(), c.integer("dim"), self->dim()));
    if (!self->sizes.empty()) {
      sizes = self->sizes;
      sizes[dim] = n;
      inverse = {self->sizes[dim]};
    }
  }
  c.result(self->dtype, std::move(sizes));
  c.result(DType::I64, with_dim || wants(c, "return_inverse") ? inverse : std::vector<Expr>{Expr(0)});
  if (has_counts) c.result(DType::I64, {with_dim || wants(c, "return_counts") ? n : Expr(0)});
}

template <bool sorted>
void unique_kernel(KernelCall& c) {
  Tensor self = c.tensor("self");
  std::optional<int64_t> dim;
  if (c.op().schema.find("dim") >= 0 && c.has("dim")) dim = host::dim_of(c, self);
  Slices slices(self, dim);
  TOROID_USER_CHECK(!is_complex(self.dtype()), "{}: complex numbers have no order", c.op().name);
  std::vector<int64_t> order(static_cast<size_t>(slices.count));
  std::iota(order.begin(), order.end(), int64_t{0});
  if (sorted) std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return slices.less(a, b); });
  Groups g = group(slices, order);
  int64_t n = static_cast<int64_t>(g.first.size());
  std::vector<int64_t> sizes = {n};
  if (dim && self.dim() > 0) {
    sizes = self.sizes();
    sizes[static_cast<size_t>(*dim)] = n;
  }
  Tensor out = Tensor::empty(sizes, self.dtype());
  Lines lines(out, dim.value_or(0));
  for (int64_t k = 0; k < n; ++k)
    for (int64_t l = 0; l < slices.length; ++l)
      copy_element(slices.data, g.first[static_cast<size_t>(k)] * slices.length + l, out, lines.at(l, k));
  c.outputs[0] = out;
  if (dim || wants(c, "return_inverse"))
    c.outputs[1] = integers(g.inverse, dim && self.dim() > 0 ? std::vector<int64_t>{slices.count} : self.sizes());
  if (c.outputs.size() > 2 && (dim || wants(c, "return_counts"))) c.outputs[2] = integers(g.counts, {n});
}

}  // namespace

void add_unique_rows(Table& t) {
  t.primitive("_unique(Tensor self, bool sorted=True, bool return_inverse=False) -> (Tensor, Tensor)", unique_meta<false>,
              unique_kernel<true>);
  t.primitive("_unique2(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False) -> (Tensor, Tensor, Tensor)",
              unique_meta<true>, unique_kernel<true>);
  t.primitive(
      "unique_dim(Tensor self, int dim, bool sorted=True, bool return_inverse=False, bool return_counts=False) -> (Tensor, Tensor, Tensor)",
      unique_meta<true>, unique_kernel<true>);
  t.primitive(
      "unique_consecutive(Tensor self, bool return_inverse=False, bool return_counts=False, int? dim=None) -> (Tensor, Tensor, Tensor)",
      unique_meta<true>, unique_kernel<false>);
}

}  // namespace toroid::ops
