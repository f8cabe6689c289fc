// What transposed convolutions and gradients of convolutions are made of: rows that are lowered as they are.
#include "base/check.h"
#include "base/gradient_bugs.h"
#include "ops/rows/dense_compose.h"

namespace toroid::ops {
namespace {

using namespace compose;

struct Window {
  explicit Window(const CallReader& c) : stride(c.exprs("stride")), padding(c.exprs("padding")), dilation(c.exprs("dilation")) {}
  Sizes stride, padding, dilation;
};

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
  return reshape(permute(reshape(t, split), order), joined);
}

// A convolution of the larger operand by the smaller one, with strides and dilations exchanged: how each weight met the input.
Tensor weight_gradient(const Expr& groups, const Window& by, const Tensor& large, const Tensor& small, const Sizes& weight) {
  std::vector<int64_t> order{1, 0};
  for (int64_t d = 2; d < small.dim(); ++d) order.push_back(d);
  const Sizes none(by.stride.size(), Expr(0));
  const bool exchanged = !planted(GradientBug::ConvolutionStride);
  Tensor w = call1("convolution", {channels_first(large, groups), permute(small, order), Arg<Tensor>(), exchanged ? by.dilation : by.stride,
                                   by.padding, exchanged ? by.stride : by.dilation, false, none, groups});
  w = permute(w, order);
  for (int64_t d = 2; d < w.dim(); ++d)
    if (const Expr size = weight[static_cast<size_t>(d)]; !(extent(w, d) == size)) w = slice(w, d, 0, size);
  return w;
}

// Of few channels, whose windows as a matrix take less than a convolution over all pixels for each weight. [channels * taps, results].
bool has_narrow_windows(const Tensor& x, const Sizes& weight) {
  constexpr int64_t kFewChannels = 4;
  const auto channels = extent(x, 1).maybe_constant();
  return is_half(x.dtype()) && x.dim() == 4 && channels && *channels <= kFewChannels && !(weight[3] == Expr(1));
}

Tensor weight_gradient_by_windows(const Window& by, Tensor x, const Tensor& g, const Sizes& weight) {
  for (size_t d = 0; d < 2; ++d) {
    const auto dim = static_cast<int64_t>(d) + 2;
    const Expr span = by.dilation[d] * (weight[d + 2] - Expr(1)) + Expr(1);
    Sizes around(static_cast<size_t>(2 * (x.dim() - dim)), Expr(0));  // the last dimension first
    around[around.size() - 2] = around.back() = by.padding[d];
    if (!(by.padding[d] == Expr(0))) x = call1("constant_pad_nd", {x, around, 0.0});
    x = call1("unfold", {x, Expr(dim), span, by.stride[d]});
    if (!(by.dilation[d] == Expr(1))) x = call1("slice.Tensor", {x, Expr(-1), Expr(0), span, by.dilation[d]});
  }
  const Tensor windows = reshape(permute(x, {1, 4, 5, 0, 2, 3}), {weight[1] * weight[2] * weight[3], Expr(-1)}),
               results = reshape(permute(g, {0, 2, 3, 1}), {Expr(-1), weight[0]});
  return permute(reshape(mm(windows, results), {weight[1], weight[2], weight[3], weight[0]}), {3, 0, 1, 2});
}

std::vector<Tensor> convolution_weight_gradient(const CallReader& c) {
  const Tensor input = c.tensor("input"), g = c.tensor("grad_output");
  const Window by(c);
  const Sizes weight = c.exprs("weight_size");
  const auto rank = static_cast<size_t>(input.dim());
  TOROID_USER_CHECK(rank >= 3 && rank <= 5 && static_cast<size_t>(g.dim()) == rank && weight.size() == rank,
                    "{}: input, weight_size and grad_output must have equally many dimensions, 3 to 5; got {}, {} and {}", c.op().name,
                    rank, weight.size(), g.dim());
  for (auto* list : {&by.stride, &by.padding, &by.dilation})
    TOROID_USER_CHECK(list->size() == rank - 2, "{}: stride, padding and dilation must have {} numbers, one a spatial dimension; got {}",
                      c.op().name, rank - 2, list->size());
  TOROID_USER_CHECK(sym::known_ge(c.expr("groups"), 1), "{}: groups must be positive, got {}", c.op().name,
                    sym::to_string(c.expr("groups")));
  const bool narrow = c.expr("groups") == Expr(1) && has_narrow_windows(input, weight);
  return {narrow ? weight_gradient_by_windows(by, input, g, weight) : weight_gradient(c.expr("groups"), by, input, g, weight)};
}

// [n, c, height, width] of as many parts as there are phases of rows and columns: pixel (q, r) of phase (a, b) is (q * rows + a,
// r * columns + b) of the whole.
std::vector<Tensor> interleave(const CallReader& c) {
  const std::vector<Tensor> parts = c.tensors("parts");
  const int64_t rows = c.integer("rows"), columns = c.integer("columns");
  TOROID_USER_CHECK(rows > 0 && columns > 0 && rows <= static_cast<int64_t>(parts.size()) &&
                        static_cast<int64_t>(parts.size()) % rows == 0 && static_cast<int64_t>(parts.size()) / rows == columns,
                    "{}: {} parts are no {} x {}", c.op().name, parts.size(), rows, columns);
  for (auto& part : parts) TOROID_USER_CHECK(part.defined() && part.dim() == 4, "{}: each part must have 4 dimensions", c.op().name);
  const Sizes s = sizes_of(parts[0]);
  const Tensor all = reshape(stack(parts, 0), {Expr(rows), Expr(columns), s[0], s[1], s[2], s[3]});
  return {reshape(permute(all, {2, 3, 4, 0, 5, 1}), {s[0], s[1], s[2] * Expr(rows), s[3] * Expr(columns)})};
}

}  // namespace

void add_convolution_gradient_rows(Table& t) {
  t.composite("prims.interleave(Tensor[] parts, int rows, int columns) -> Tensor", interleave);
  t.composite(
      "prims.convolution_weight_gradient(Tensor input, SymInt[] weight_size, Tensor grad_output, SymInt[] stride, SymInt[] padding, SymInt[] "
      "dilation, SymInt groups) -> Tensor",
      convolution_weight_gradient);
}

}  // namespace toroid::ops
