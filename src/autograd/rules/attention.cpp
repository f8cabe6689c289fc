// The gradient of attention, which keeps no weights: they are made of queries and keys again (T. Dao and others, "FlashAttention", 2022, of
// which this is the recomputation alone).
#include "ops/rows/attention.h"

#include "autograd/rules/forms.h"
#include "base/gradient_bugs.h"

namespace toroid::autograd {

using namespace ops::forms;

namespace {

// Of a gradient for repeated heads, the sum for those that they were repeated from.
Tensor sum_heads(const Tensor& gradient, const Tensor& of) {
  if (gradient.dim() < 3 || gradient.dim() != of.dim()) return gradient;
  const int64_t dim = of.dim() - 3;
  const Expr heads = size_at(of, dim), repeated = size_at(gradient, dim);
  if (heads == repeated) return gradient;
  Sizes grouped = sizes_of(gradient);
  grouped[static_cast<size_t>(dim)] = heads;
  grouped.insert(grouped.begin() + dim + 1, sym::floor_div(repeated, heads));
  return sum(ops::call1("reshape", {gradient, grouped}), {dim + 1}, false);
}

void attention_rule(GradientCall& c) {
  const ops::Attention a = ops::attention_weights(c);
  const Tensor g = c.cotangent(), out = c.results[0];
  const DType compute = ops::compute_type(g.dtype());
  const auto wide = [&](const Tensor& t) { return cast_to(t, compute); };
  if (c.wants("value")) c.set("value", sum_heads(product(flipped(a.weights), g), c.tensor("value")));
  // The slope of softmax takes from each row the mean of its cotangents by their weights, which is the cotangent times the result.
  const Tensor mean = sum(mul(wide(g), wide(out)), {g.dim() - 1}, true);
  Tensor slope = wide(product(g, flipped(a.value)));
  if (!planted(GradientBug::AttentionMean)) slope = sub(slope, mean);
  const Tensor by_scores = mul(wide(a.weights), slope);
  if (c.wants("attn_mask")) c.set("attn_mask", by_scores);
  const Tensor by_product = cast_to(mul(by_scores, a.scale), g.dtype());
  if (c.wants("query")) c.set("query", product(by_product, a.key));
  if (c.wants("key")) c.set("key", sum_heads(product(flipped(by_product), a.query), c.tensor("key")));
}

constexpr RuleRow kAttentionRules[] = {{"scaled_dot_product_attention", attention_rule}};

}  // namespace

std::span<const RuleRow> attention_rules() { return kAttentionRules; }

}  // namespace toroid::autograd
