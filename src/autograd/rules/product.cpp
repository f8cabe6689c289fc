// Gradients of matrix products and convolutions: products and convolutions again.
#include "autograd/rules/forms.h"
#include "base/gradient_bugs.h"

namespace toroid::autograd {

using namespace ops::forms;

namespace {

Tensor transposed(const Tensor& t) { return ops::call1("transpose.int", {conjugate(t), num(-2), num(-1)}); }

// The cotangent of a product in f32 is rounded to the operands' dtype: it is an operand of products whose results are rounded to it.
void product_rule(GradientCall& c) {
  const std::string_view name = std::string_view(c.op().name).substr(0, c.op().name.find('.'));
  const Tensor a = c.tensor(c.op().schema.params[0].name), b = c.tensor("mat2"), g = cast_to(c.cotangent(), a.dtype());
  if (c.wants("self")) c.set("self", ops::call1(name, {g, planted(GradientBug::ProductTransposed) ? b : transposed(b)}));
  if (c.wants("mat2")) c.set("mat2", ops::call1(name, {transposed(a), g}));
}

// What the sizes of a convolution leave undecided of its input's.
Sizes left_over(const GradientCall& c, const Tensor& input, const Tensor& weight, const Tensor& result) {
  const Sizes stride = c.exprs("stride"), padding = c.exprs("padding"), dilation = c.exprs("dilation");
  Sizes out;
  for (size_t d = 0; d < stride.size(); ++d) {
    const auto at = static_cast<int64_t>(d) + 2;
    if (planted(GradientBug::ConvolutionRest)) return Sizes(stride.size(), Expr(0));
    out.push_back(size_at(input, at) - ((size_at(result, at) - Expr(1)) * stride[d] - Expr(2) * padding[d] +
                                        dilation[d] * (size_at(weight, at) - Expr(1)) + Expr(1)));
  }
  return out;
}

// The channels of each group beside the images: [n, groups * c, ...] as [c, groups * n, ...].
Tensor channels_first(const Tensor& t, const Expr& groups) {
  Sizes split = sizes_of(t), joined;
  const Expr n = split[0], channels = sym::floor_div(split[1], groups);
  split.insert(split.begin() + 1, groups);
  split[2] = channels;
  std::vector<int64_t> order{2, 1, 0};
  if (planted(GradientBug::ConvolutionGroups)) std::swap(order[1], order[2]);
  for (size_t d = 3; d < split.size(); ++d) order.push_back(static_cast<int64_t>(d));
  joined = {channels, groups * n};
  joined.insert(joined.end(), split.begin() + 3, split.end());
  return ops::call1("reshape", {permute(view(t, split), order), joined});
}

// A convolution of the larger operand by the smaller one, with strides and dilations exchanged: how each weight met the input.
Tensor weight_gradient(const GradientCall& c, const Tensor& large, const Tensor& small, const Tensor& weight) {
  const Expr groups = c.expr("groups");
  std::vector<int64_t> order{1, 0};
  for (int64_t d = 2; d < small.dim(); ++d) order.push_back(d);
  const Sizes none(static_cast<size_t>(large.dim()) - 2, Expr(0));
  const bool exchanged = !planted(GradientBug::ConvolutionStride);
  const auto &stride = c.at(exchanged ? "dilation" : "stride"), &dilation = c.at(exchanged ? "stride" : "dilation");
  Tensor w = ops::call1("convolution", {channels_first(large, groups), permute(small, order), Arg<Tensor>(), stride, c.at("padding"),
                                        dilation, false, none, groups});
  w = permute(w, order);
  for (int64_t d = 2; d < w.dim(); ++d)
    if (const Expr size = size_at(weight, d); !(size_at(w, d) == size)) w = slice(w, d, 0, size);
  return w;
}

void convolution_rule(GradientCall& c) {
  const Tensor x = conjugate(c.tensor("input")), w = conjugate(c.tensor("weight")), g = c.cotangent();
  const bool is_transposed = c.flag("transposed");
  if (c.wants("input")) {
    const Sizes output_padding = is_transposed ? Sizes(c.exprs("stride").size(), Expr(0)) : left_over(c, x, w, g);
    c.set("input", ops::call1("convolution", {g, w, Arg<Tensor>(), c.at("stride"), c.at("padding"), c.at("dilation"), !is_transposed,
                                              output_padding, c.at("groups")}));
  }
  if (c.wants("weight")) c.set("weight", is_transposed ? weight_gradient(c, g, x, w) : weight_gradient(c, x, g, w));
  if (c.wants("bias")) {
    std::vector<int64_t> dims{0};
    for (int64_t d = 2; d < g.dim(); ++d) dims.push_back(d);
    c.set("bias", sum(planted(GradientBug::ConvolutionBias) ? slice(g, 0, 0, 1) : g, dims, false));
  }
}

constexpr RuleRow kProductRules[] = {{"mm", product_rule},
                                     {"bmm", product_rule},
                                     {"mm.dtype", product_rule},
                                     {"bmm.dtype", product_rule},
                                     {"convolution", convolution_rule}};

}  // namespace

std::span<const RuleRow> product_rules() { return kProductRules; }

}  // namespace toroid::autograd
