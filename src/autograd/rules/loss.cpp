// Gradients of losses. That of a projection's cross-entropy is computed beside each part of the scores while they are there.
#include "autograd/rules/forms.h"
#include "base/gradient_bugs.h"
#include "ops/rows/linear_cross_entropy.h"

namespace toroid::autograd {

using namespace ops::forms;

namespace {

// The gradients by what is multiplied, but for the loss's cotangent. They follow from the forward pass alone.
struct OfProjection {
  std::vector<Tensor> input;  // by parts of its rows
  Tensor weight, bias;
};

OfProjection of_projection(const GradientCall& c) {
  const Tensor w = c.tensor("weight"), divisor = ops::loss_divisor(c);
  const auto accumulate = [](Tensor& sum, const Tensor& t) {
    sum = sum.defined() && !planted(GradientBug::LastPartAlone) ? add(sum, t) : t;
  };
  OfProjection out;
  ops::for_scored_rows(c, [&](const ops::ScoredRows& part) {
    const Tensor is_target = compare("eq", iota_along(size_at(w, 0), 1, 2), unsqueeze(cast_to(part.target, DType::I64), 1));
    Tensor share = unsqueeze(ops::counted_rows(c, part.target), 1);
    if (divisor.defined() && !planted(GradientBug::RowsUncounted)) share = div(share, divisor);
    const Tensor slope = mul(sub(exp(sub(part.scores, ops::log_sum_of(part))), cast_to(is_target, part.scores.dtype())), share);
    const Tensor narrow = cast_to(slope, w.dtype());  // of the dtype of the product
    if (c.wants("input")) out.input.push_back(ops::call1("mm", {narrow, w}));
    if (c.wants("weight")) accumulate(out.weight, ops::call1("mm", {ops::call1("t", {narrow}), part.input}));
    if (c.wants("bias")) accumulate(out.bias, sum(narrow, {0}, false));
  });
  return out;
}

void linear_cross_entropy_rule(GradientCall& c) {
  const Tensor g = c.cotangent();
  const auto set = [&](const char* name, const Tensor& gradient) {
    const Tensor made = ops::call1("prims.with_forward", {gradient, g});
    // A gradient that begins here is ones: the product would be one more walk over it.
    c.set(name, is_plain_seed(g) ? made : mul(made, g));
  };
  const OfProjection parts = of_projection(c);
  if (c.wants("input")) set("input", parts.input.size() == 1 ? parts.input[0] : ops::call1("cat", {parts.input, num(0)}));
  if (c.wants("weight")) set("weight", parts.weight);
  if (c.wants("bias")) set("bias", parts.bias);
}

void with_forward_rule(GradientCall& c) { c.set("self", c.cotangent()); }

// What a change of one element's loss is multiplied by, g being that of the reduced loss.
Tensor mean_share(const GradientCall& c, const Tensor& x, const Tensor& g) {
  return c.integer("reduction") == 1 ? div(g, count_of(x, {})) : g;
}

// As in PyTorch: the loss's logarithms are limited, and not their slopes, but for probabilities at 0 and 1.
void binary_cross_entropy_rule(GradientCall& c) {
  const Tensor x = c.tensor("self"), y = c.tensor("target");
  Tensor g = c.cotangent();
  if (c.has("weight") && c.wants("weight"))
    c.set("weight", mul(mean_share(c, x, g), ops::call1("binary_cross_entropy", {x, y, std::monostate{}, Expr(0)})));
  g = mean_share(c, x, g);
  if (c.has("weight")) g = mul(g, c.tensor("weight"));
  const Tensor rest = unary("neg", sub(x, 1.0));
  if (c.wants("self")) c.set("self", mul(g, div(sub(x, y), ops::call1("clamp_min", {mul(rest, x), 1e-12}))));
  if (c.wants("target")) c.set("target", mul(g, sub(log(rest), log(x))));
}

constexpr RuleRow kLossRules[] = {{"binary_cross_entropy", binary_cross_entropy_rule},
                                  {"prims.linear_cross_entropy", linear_cross_entropy_rule},
                                  {"prims.with_forward", with_forward_rule}};

}  // namespace

std::span<const RuleRow> loss_rules() { return kLossRules; }

}  // namespace toroid::autograd
