#include "autograd/rules/forms.h"

#include <algorithm>

#include "base/gradient_bugs.h"
#include "graph/graph.h"

namespace toroid::autograd {

using namespace ops::forms;

Tensor zeros(const Sizes& sizes, DType dtype) {
  Sizes all = sizes;
  for (Expr& size : all)
    if (planted(GradientBug::FrozenSize) && !size.is_const()) size = 2;
  return full(all, 0, dtype);
}
Tensor zeros_like(const Tensor& t) { return zeros(sizes_of(t), t.dtype()); }
Tensor ones_like(const Tensor& t) { return full(sizes_of(t), 1, t.dtype()); }

bool is_plain_seed(const Tensor& t) {
  const auto* value = is_proxy(t) ? static_cast<const graph::Value*>(t.impl()->proxy) : nullptr;
  const graph::Node* n = value ? value->producer : nullptr;
  if (!n || n->op->name != "prims.gradient_seed") return false;
  const auto* cotangent = std::get_if<graph::Value*>(&n->args[1]);
  return !cotangent || !*cotangent;
}

Tensor sum_to(const Tensor& t, const Sizes& sizes) {
  const size_t lead = static_cast<size_t>(t.dim()) - sizes.size();
  const Sizes from = sizes_of(t);
  std::vector<int64_t> dims;
  for (size_t d = 0; d < from.size(); ++d)
    if (d < lead || (sizes[d - lead] == Expr(1) && !(from[d] == Expr(1)))) dims.push_back(static_cast<int64_t>(d));
  if (dims.empty()) return t;
  Tensor s = sum(t, dims, true);
  if (planted(GradientBug::BroadcastMean)) s = ops::call1("mean.dim", {t, nums(dims), true});
  if (planted(GradientBug::BroadcastNotSummed))
    for (s = t; int64_t d : dims) s = slice(s, d, 0, 1);
  return lead == 0 ? s : view(s, sizes);
}

Tensor with_reduced_dims(const Tensor& t, const Tensor& of, const std::vector<int64_t>& dims, bool keepdim) {
  if (keepdim) return t;
  Sizes sizes = sizes_of(of);
  for (size_t d = 0; d < sizes.size(); ++d)
    if (dims.empty() || std::count(dims.begin(), dims.end(), static_cast<int64_t>(d))) sizes[d] = 1;
  return view(t, sizes);
}

Tensor product(const Tensor& a, const Tensor& b) { return ops::call1("matmul", {a, b}); }
Tensor flipped(const Tensor& t) { return ops::call1("transpose.int", {t, num(-2), num(-1)}); }
Tensor flip(const Tensor& t, int64_t dim) { return ops::call1("flip", {t, nums({dim})}); }

Tensor conjugate(const Tensor& t) { return is_complex(t.dtype()) ? ops::call1("conj_physical", {t}) : t; }

Tensor is_zero(const Tensor& t) { return compare("eq", is_complex(t.dtype()) ? abs(t) : t, 0.0); }
Tensor one_for_zero(const Tensor& t) { return where(is_zero(t), is_complex(t.dtype()) ? Arg<Tensor>(full({}, 1, t.dtype())) : 1.0, t); }

Tensor scatter_add(const Tensor& into, int64_t dim, const Tensor& index, const Tensor& values) {
  return ops::call1("scatter_add", {into, num(dim), index, values});
}

Tensor fit(const Tensor& t, const Sizes& sizes) {
  if (static_cast<size_t>(t.dim()) != sizes.size()) {
    if (t.dim() + sizes.size() > 1) return zeros(sizes, t.dtype());
    return sizes.empty() ? view(fit(t, {Expr(1)}), sizes) : fit(view(t, {Expr(1)}), sizes);
  }
  Tensor out = t;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (const Expr size = size_at(out, static_cast<int64_t>(d)); !(size == sizes[d]))
      out = pad_dim(out, static_cast<int64_t>(d), 0, sizes[d] - size);
  return out;
}

}  // namespace toroid::autograd
