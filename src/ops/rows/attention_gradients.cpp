// The gradient of attention as products over its weights.
#include "base/gradient_bugs.h"
#include "ops/rows/attention.h"

namespace toroid::ops {

using namespace compose;

namespace {

using Gradients = std::array<Tensor, 4>;

Tensor product(const Tensor& a, const Tensor& b) { return call1("matmul", {a, b}); }
Tensor flipped(const Tensor& t) { return transpose(t, -2, -1); }

// Of a gradient for repeated heads, the sum for those that they were repeated from.
Tensor sum_heads(const Tensor& gradient, const Tensor& of) {
  if (gradient.dim() < 3 || gradient.dim() != of.dim()) return gradient;
  const int64_t dim = of.dim() - 3;
  const Expr heads = extent(of, dim), repeated = extent(gradient, dim);
  if (heads == repeated) return gradient;
  Sizes grouped = sizes_of(gradient);
  grouped[static_cast<size_t>(dim)] = heads;
  grouped.insert(grouped.begin() + dim + 1, sym::floor_div(repeated, heads));
  return sum(reshape(gradient, grouped), {dim + 1});
}

Gradients gradients_of(const AttentionCall& c, const AttentionChange& change, const std::array<bool, 4>& wanted) {
  const Attention a = attention_weights(c);
  const Tensor g = change.grad_out;
  const DType compute = compute_type(g.dtype());
  const auto wide = [&](const Tensor& t) { return cast(t, compute); };
  Gradients gradients;
  if (wanted[2]) gradients[2] = sum_heads(product(flipped(cast(a.weights, g.dtype())), g), c.value);
  // The slope of softmax takes from each row the mean of its cotangents by their weights, which is the cotangent times the result.
  const Tensor out = wide(change.out);
  Tensor mean = sum(mul(wide(g), out), {-1}, true);
  if (change.grad_logsumexp.defined()) mean = sub(mean, unsqueeze(cast(change.grad_logsumexp, compute), -1));
  Tensor slope = scores_product(c, g, flipped(a.value));
  if (!planted(GradientBug::AttentionMean)) slope = sub(slope, mean);
  const Tensor by_scores = mul(a.weights, slope);
  if (wanted[3]) gradients[3] = by_scores;
  const Tensor by_product = cast(mul(by_scores, a.scale), g.dtype());
  if (wanted[0]) gradients[0] = product(by_product, a.key);
  if (wanted[1]) gradients[1] = sum_heads(product(flipped(by_product), a.query), c.key);
  return gradients;
}

// Into how many parts the heads are cut: a divisor of the heads of the keys.
int64_t parts_of(const AttentionCall& c, const std::array<bool, 4>& wanted, int64_t most_bytes) {
  const Tensor &q = c.query, &k = c.key, &v = c.value;
  if (q.dim() < 3 || k.dim() != q.dim() || v.dim() != q.dim() || wanted[3]) return 1;
  const auto heads = extent(k, k.dim() - 3).maybe_constant(), queries = extent(q, q.dim() - 3).maybe_constant();
  const auto weights = (product_of(sizes_of(q)) * extent(k, k.dim() - 2)).maybe_constant(), width = extent(q, q.dim() - 1).maybe_constant();
  if (!heads || !queries || !weights || !width || *heads < 1 || *width < 1 || *queries % *heads != 0 ||
      !(extent(v, v.dim() - 3) == Expr(*heads)))
    return 1;
  const int64_t bytes = *weights / *width * static_cast<int64_t>(size_of(compute_type(q.dtype())));
  int64_t parts = 1;
  while (parts < *heads && (bytes / parts > most_bytes || *heads % parts != 0)) ++parts;
  return parts;
}

// The part of t that heads number part of `parts` are in, along dimension t.dim() - from_end; all of it where it has one for all of them.
Tensor heads_of(const Tensor& t, int64_t part, int64_t parts, int64_t from_end = 3) {
  if (!t.defined() || t.dim() < from_end || extent(t, t.dim() - from_end) == Expr(1)) return t;
  const int64_t count = extent(t, t.dim() - from_end).constant() / parts;
  const int64_t first = planted(GradientBug::AttentionFirstHeads) ? 0 : part * count;
  return slice(t, t.dim() - from_end, first, first + count);
}

}  // namespace

Gradients attention_gradients(const AttentionCall& call, const AttentionChange& change, const std::array<bool, 4>& wanted,
                              int64_t most_bytes) {
  const int64_t parts = parts_of(call, wanted, most_bytes);
  if (parts == 1) return gradients_of(call, change, wanted);
  std::array<std::vector<Tensor>, 4> of_parts;
  for (int64_t part = 0; part < parts; ++part) {
    const auto some = [&](const Tensor& t) { return heads_of(t, part, parts); };
    AttentionCall c = call;
    for (Tensor* t : {&c.query, &c.key, &c.value, &c.mask}) *t = some(*t);
    const Gradients gradients =
        gradients_of(c, {some(change.out), some(change.grad_out), heads_of(change.grad_logsumexp, part, parts, 2)}, wanted);
    for (size_t i = 0; i < gradients.size(); ++i)
      if (gradients[i].defined()) of_parts[i].push_back(gradients[i]);
  }
  Gradients out;
  for (size_t i = 0; i < out.size(); ++i)
    if (!of_parts[i].empty()) out[i] = cat(of_parts[i], of_parts[i][0].dim() - 3);
  return out;
}

}  // namespace toroid::ops
