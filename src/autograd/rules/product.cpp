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

// What windows of a convolution leave over of its input, which the sizes of its result do not tell.
Sizes left_over(const GradientCall& c, const Tensor& input, const Tensor& weight) {
  const Sizes stride = c.exprs("stride"), padding = c.exprs("padding"), dilation = c.exprs("dilation");
  Sizes out;
  for (size_t d = 0; d < stride.size(); ++d) {
    const auto at = static_cast<int64_t>(d) + 2;
    if (planted(GradientBug::ConvolutionRest)) return Sizes(stride.size(), Expr(0));
    const Expr room = size_at(input, at) + Expr(2) * padding[d] - dilation[d] * (size_at(weight, at) - Expr(1)) - Expr(1);
    out.push_back(sym::mod(room, stride[d]));
  }
  return out;
}

struct Window {
  Sizes stride, padding, dilation;
};

Tensor weight_gradient(const Expr& groups, const Window& by, const Tensor& x, const Tensor& g, const Tensor& weight) {
  return ops::call1("prims.convolution_weight_gradient", {x, sizes_of(weight), g, by.stride, by.padding, by.dilation, groups});
}

// Whether the windows are single pixels, some of which are left out: it is the convolution of those that are not.
bool skips_pixels(const Window& by, const Tensor& weight) {
  bool skips = false;
  for (size_t d = 0; d < by.stride.size(); ++d) {
    if (!(size_at(weight, static_cast<int64_t>(d) + 2) == Expr(1)) || !(by.padding[d] == Expr(0))) return false;
    skips = skips || !(by.stride[d] == Expr(1));
  }
  return skips;
}

void set_gradients_of_taken_pixels(GradientCall& c, const Window& by, const Tensor& x, const Tensor& w, const Tensor& g) {
  const Sizes ones(by.stride.size(), Expr(1)), none(by.stride.size(), Expr(0));
  if (c.wants("input")) {
    Tensor t = ops::call1("convolution", {g, w, Arg<Tensor>(), ones, none, ones, true, none, c.at("groups")});
    for (size_t d = 0; d < by.stride.size(); ++d) {
      const auto dim = static_cast<int64_t>(d) + 2;
      Sizes sizes = sizes_of(t);
      sizes[d + 2] = size_at(x, dim);
      t = ops::call1("slice_scatter", {zeros(sizes, t.dtype()), t, num(dim), Expr(0), size_at(x, dim), by.stride[d]});
    }
    c.set("input", t);
  }
  if (c.wants("weight")) {
    Tensor taken = x;
    for (size_t d = 0; d < by.stride.size(); ++d) {
      const auto dim = static_cast<int64_t>(d) + 2;
      taken = ops::call1("slice.Tensor", {taken, num(dim), Expr(0), size_at(taken, dim), by.stride[d]});
    }
    c.set("weight", weight_gradient(c.expr("groups"), {ones, none, ones}, taken, g, w));
  }
}

void convolution_rule(GradientCall& c) {
  const Tensor x = conjugate(c.tensor("input")), w = conjugate(c.tensor("weight")), g = c.cotangent();
  const bool is_transposed = c.flag("transposed");
  const Window by{c.exprs("stride"), c.exprs("padding"), c.exprs("dilation")};
  const bool skips = !is_transposed && skips_pixels(by, w);
  if (skips) set_gradients_of_taken_pixels(c, by, x, w, g);
  if (c.wants("input") && !skips) {
    const Sizes output_padding = is_transposed ? Sizes(c.exprs("stride").size(), Expr(0)) : left_over(c, x, w);
    c.set("input", ops::call1("convolution", {g, w, Arg<Tensor>(), c.at("stride"), c.at("padding"), c.at("dilation"), !is_transposed,
                                              output_padding, c.at("groups")}));
  }
  if (c.wants("weight") && !skips) {
    const Expr groups = c.expr("groups");
    c.set("weight", is_transposed ? weight_gradient(groups, by, g, x, w) : weight_gradient(groups, by, x, g, w));
  }
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
