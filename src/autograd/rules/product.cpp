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

struct Window {
  Sizes stride, padding, dilation;
};

// A convolution of the larger operand by the smaller one, with strides and dilations exchanged: how each weight met the input.
Tensor weight_gradient(const Expr& groups, const Window& by, const Tensor& large, const Tensor& small, const Tensor& weight) {
  std::vector<int64_t> order{1, 0};
  for (int64_t d = 2; d < small.dim(); ++d) order.push_back(d);
  const Sizes none(by.stride.size(), Expr(0));
  const bool exchanged = !planted(GradientBug::ConvolutionStride);
  Tensor w =
      ops::call1("convolution", {channels_first(large, groups), permute(small, order), Arg<Tensor>(), exchanged ? by.dilation : by.stride,
                                 by.padding, exchanged ? by.stride : by.dilation, false, none, groups});
  w = permute(w, order);
  for (int64_t d = 2; d < w.dim(); ++d)
    if (const Expr size = size_at(weight, d); !(size_at(w, d) == size)) w = slice(w, d, 0, size);
  return w;
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

// Of few channels, whose windows as a matrix take less than a convolution over all pixels for each weight. [channels * taps, results].
bool has_narrow_windows(const GradientCall& c, const Tensor& x, const Tensor& weight) {
  constexpr int64_t kFewChannels = 4;
  const auto channels = size_at(x, 1).maybe_constant();
  return is_half(x.dtype()) && x.dim() == 4 && c.expr("groups") == Expr(1) && channels && *channels <= kFewChannels &&
         !(size_at(weight, 3) == Expr(1));
}

Tensor weight_gradient_by_windows(const Window& by, Tensor x, const Tensor& g, const Tensor& weight) {
  for (size_t d = 0; d < 2; ++d) {
    const auto dim = static_cast<int64_t>(d) + 2;
    const Expr span = by.dilation[d] * (size_at(weight, dim) - Expr(1)) + Expr(1);
    x = pad_dim(x, dim, by.padding[d], by.padding[d]);
    x = ops::call1("unfold", {x, num(dim), span, by.stride[d]});
    if (!(by.dilation[d] == Expr(1))) x = ops::call1("slice.Tensor", {x, num(-1), Expr(0), span, by.dilation[d]});
  }
  const Sizes w = sizes_of(weight);
  const Tensor windows = ops::call1("reshape", {permute(x, {1, 4, 5, 0, 2, 3}), Sizes{w[1] * w[2] * w[3], Expr(-1)}}),
               results = ops::call1("reshape", {permute(g, {0, 2, 3, 1}), Sizes{Expr(-1), w[0]}});
  return permute(view(product(windows, results), {w[1], w[2], w[3], w[0]}), {3, 0, 1, 2});
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
    if (is_transposed)
      c.set("weight", weight_gradient(groups, by, g, x, w));
    else
      c.set("weight", has_narrow_windows(c, x, w) ? weight_gradient_by_windows(by, x, g, w) : weight_gradient(groups, by, x, g, w));
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
