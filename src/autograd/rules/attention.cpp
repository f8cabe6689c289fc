// The gradient of attention, which keeps no weights: one operation, of what the forward pass gives with the logarithms of its sums.
#include "ops/rows/attention.h"

#include "autograd/rules/forms.h"
#include "base/gradient_bugs.h"

namespace toroid::autograd {

namespace {

constexpr const char* kFlash = "_scaled_dot_product_flash_attention_for_cpu";
constexpr const char* kBackward = "_scaled_dot_product_flash_attention_for_cpu_backward";

void by_weights(GradientCall& c, const Tensor& grad_logsumexp) {
  constexpr const char* kOperands[] = {"query", "key", "value", "attn_mask"};
  std::array<bool, 4> wanted;
  for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = c.wants(kOperands[i]);
  const auto gradients = ops::attention_gradients(ops::attention_call(c), {c.results[0], c.cotangent(), grad_logsumexp}, wanted);
  for (size_t i = 0; i < wanted.size(); ++i)
    if (wanted[i]) c.set(kOperands[i], gradients[i]);
}

void attention_rule(GradientCall& c) { by_weights(c, {}); }

// The operation has no gradient of a mask, and none by a change of the logarithms.
void flash_rule(GradientCall& c) {
  const bool by_logarithms = c.cotangents[1].defined() && !planted(GradientBug::AttentionLogarithms);
  if (c.wants("attn_mask") || by_logarithms) return by_weights(c, by_logarithms ? c.cotangents[1] : Tensor());
  const auto gradients = ops::call(kBackward, {c.cotangent(), c.tensor("query"), c.tensor("key"), c.tensor("value"), c.results[0],
                                               c.results[1], 0.0, c.flag("is_causal"), c.at("attn_mask"), c.at("scale")});
  c.set("query", gradients[0]);
  c.set("key", gradients[1]);
  c.set("value", gradients[2]);
}

std::vector<Tensor> with_logsumexp(const GradientCall& c) {
  if (c.wants("attn_mask") || c.real("dropout_p") > 0) return {};
  const Arg<Tensor> mask = planted(GradientBug::AttentionMaskLost) ? Arg<Tensor>() : c.at("attn_mask");
  return {ops::call(kFlash, {c.tensor("query"), c.tensor("key"), c.tensor("value"), 0.0, c.flag("is_causal"), mask, c.at("scale")})[0]};
}

constexpr RuleRow kAttentionRules[] = {{"scaled_dot_product_attention", attention_rule, with_logsumexp}, {kFlash, flash_rule}};

}  // namespace

std::span<const RuleRow> attention_rules() { return kAttentionRules; }

}  // namespace toroid::autograd
