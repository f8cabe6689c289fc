// The gradient of attention, which keeps no weights: they are made of queries and keys again (T. Dao and others, "FlashAttention", 2022, of
// which this is the recomputation alone), of some heads at a time where there are many.
#include "autograd/rules/attention.h"

#include <array>

#include "autograd/rules/forms.h"
#include "base/gradient_bugs.h"
#include "ops/rows/attention.h"

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

constexpr std::array<const char*, 4> kOperands = {"query", "key", "value", "attn_mask"};
using Gradients = std::array<Tensor, kOperands.size()>;

// The gradients that c wants, of the operands that it has.
Gradients gradients_of(const GradientCall& c) {
  const ops::Attention a = ops::attention_weights(c);
  const Tensor g = c.cotangents[0], out = c.results[0];
  const DType compute = ops::compute_type(g.dtype());
  const auto wide = [&](const Tensor& t) { return cast_to(t, compute); };
  Gradients gradients;
  if (c.wants("value")) gradients[2] = sum_heads(product(flipped(a.weights), g), c.tensor("value"));
  // The slope of softmax takes from each row the mean of its cotangents by their weights, which is the cotangent times the result.
  const Tensor mean = sum(mul(wide(g), wide(out)), {g.dim() - 1}, true);
  Tensor slope = wide(product(g, flipped(a.value)));
  if (!planted(GradientBug::AttentionMean)) slope = sub(slope, mean);
  const Tensor by_scores = mul(wide(a.weights), slope);
  if (c.wants("attn_mask")) gradients[3] = by_scores;
  const Tensor by_product = cast_to(mul(by_scores, a.scale), g.dtype());
  if (c.wants("query")) gradients[0] = product(by_product, a.key);
  if (c.wants("key")) gradients[1] = sum_heads(product(flipped(by_product), a.query), c.tensor("key"));
  return gradients;
}

// Into how many parts the heads are cut: a divisor of the heads of the keys.
int64_t parts_of(const GradientCall& c, int64_t most_bytes) {
  const Tensor q = c.tensor("query"), k = c.tensor("key"), v = c.tensor("value");
  if (q.dim() < 3 || k.dim() != q.dim() || v.dim() != q.dim() || c.wants("attn_mask")) return 1;
  const auto heads = size_at(k, k.dim() - 3).maybe_constant(), queries = size_at(q, q.dim() - 3).maybe_constant();
  const auto weights = (product_of(sizes_of(q)) * size_at(k, k.dim() - 2)).maybe_constant(),
             width = size_at(q, q.dim() - 1).maybe_constant();
  if (!heads || !queries || !weights || !width || *heads < 1 || *width < 1 || *queries % *heads != 0 ||
      !(size_at(v, v.dim() - 3) == Expr(*heads)))
    return 1;
  const int64_t bytes = *weights / *width * static_cast<int64_t>(size_of(q.dtype()));
  int64_t parts = 1;
  while (parts < *heads && (bytes / parts > most_bytes || *heads % parts != 0)) ++parts;
  return parts;
}

// The part of t that heads number part of `parts` are in; all of it where it has one for all of them.
Tensor heads_of(const Tensor& t, int64_t part, int64_t parts) {
  if (!t.defined() || t.dim() < 3 || size_at(t, t.dim() - 3) == Expr(1)) return t;
  const int64_t count = size_at(t, t.dim() - 3).constant() / parts;
  const int64_t first = planted(GradientBug::AttentionFirstHeads) ? 0 : part * count;
  return slice(t, t.dim() - 3, Expr(first), Expr(first + count));
}

}  // namespace

void attention_gradients(GradientCall& c, int64_t most_bytes) {
  std::array<std::vector<Tensor>, kOperands.size()> of_parts;
  const int64_t parts = parts_of(c, most_bytes);
  for (int64_t part = 0; part < parts; ++part) {
    CallArgs args(c.args().begin(), c.args().end());
    if (parts > 1)
      for (auto& a : args) a = map_arg<Tensor>(a, [&](const Tensor& t) { return heads_of(t, part, parts); });
    GradientCall some(c.op(), args);
    some.wanted = c.wanted;
    some.results = {heads_of(c.results[0], part, parts)};
    some.cotangents = {heads_of(c.cotangent(), part, parts)};
    const Gradients gradients = gradients_of(some);
    for (size_t i = 0; i < gradients.size(); ++i)
      if (gradients[i].defined()) of_parts[i].push_back(gradients[i]);
  }
  for (size_t i = 0; i < of_parts.size(); ++i)
    if (!of_parts[i].empty())
      c.set(kOperands[i], parts == 1 ? of_parts[i][0] : ops::call1("cat", {of_parts[i], num(of_parts[i][0].dim() - 3)}));
}

namespace {

void attention_rule(GradientCall& c) {
  constexpr int64_t kMostWeights = int64_t{512} << 20;
  attention_gradients(c, kMostWeights);
}

constexpr RuleRow kAttentionRules[] = {{"scaled_dot_product_attention", attention_rule}};

}  // namespace

std::span<const RuleRow> attention_rules() { return kAttentionRules; }

}  // namespace toroid::autograd
