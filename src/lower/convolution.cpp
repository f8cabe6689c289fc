// Convolutions, and the gradients of their weights: templates, products of their windows, or loops where neither fits.
#include "lower/convolution.h"

#include <algorithm>

#include "base/check.h"
#include "base/mutants.h"

namespace toroid::lower {

using loop::BodyBuilder;

std::vector<Expr> channels_last(const std::vector<Expr>& sizes) {
  Expr c = sizes[1], h = sizes[2], w = sizes[3];
  return {h * w * c, 1, w * c, c};
}

std::vector<Expr> images_last(const std::vector<Expr>& sizes) {
  Expr n = sizes[0], h = sizes[2], w = sizes[3];
  return {1, h * w * n, w * n, n};
}

Place realize_as(Lowering& l, const graph::Value* v, const std::vector<Expr>& want) {
  Place p = l.strided(v);
  bool fits = p.offset == Expr(0);
  for (size_t d = 0; d < 4; ++d) fits = fits && (v->type.sizes[d] == Expr(1) || p.strides[d] == want[d]);
  if (fits) return {p.buffer, 0, want};
  Lazy from = l.value(v);
  Place copy = l.allocate(v->name, v->type);
  copy.strides = want;
  l.fill(copy, from.dtype, from.sizes, from.at, v);
  return copy;
}

program::Operand images_as_channels(Lowering& l, const graph::Value* v) {
  program::Operand o = operand_of(realize_as(l, v, channels_last(v->type.sizes)), v->type.dtype);
  std::swap(o.strides[0], o.strides[1]);
  return o;
}

S read_inside(BodyBuilder& b, const Lazy& from, const Index& index, const std::vector<std::pair<Expr, Expr>>& ranges) {
  std::optional<S> inside;
  auto require = [&](S holds) { inside = inside ? *inside & holds : holds; };
  for (auto& [e, extent] : ranges) {
    if (!sym::known_ge(e, 0)) require(b.index(e) >= 0.0);
    if (!sym::known_lt(e, extent)) require(b.is_below(e, extent));
  }
  if (!inside) return from.at(b, index);
  b.push_mask(*inside);
  const S element = from.at(b, index);
  b.pop_mask();
  return select(*inside, element, 0.0);
}

namespace {

// A convolution of any rank as a reduction loop over input channels and the window. Each result of a transposed one gathers the taps that
// reach it.
void convolution_loop(Lowering& l, const graph::Node& n, const ops::TypeReader& r) {
  const graph::Value *input = std::get<graph::Value*>(n.args[0]), *weight = std::get<graph::Value*>(n.args[1]);
  const graph::Value* bias = std::holds_alternative<graph::Value*>(n.args[2]) ? std::get<graph::Value*>(n.args[2]) : nullptr;
  const TensorType& type = n.results[0]->type;
  DType compute = ops::compute_type(type.dtype);
  auto stride = r.integers("stride"), pad = r.integers("padding"), dilation = r.integers("dilation");
  Expr groups = r.expr("groups");
  const bool transposed = r.flag("transposed");
  for (auto* v : {input, weight})
    if (!l.value(v).place && l.value(v).work > 2) l.realize(v);
  Lazy x = l.value(input), w = l.value(weight);
  Place out = l.allocate(n.results[0]->name, type);
  program::Node node;
  Index index;
  auto var = [&](const Expr& extent, bool reduction) {
    Expr e = l.fresh_var(extent, reduction);
    if (!e.is_const()) node.domain.vars.push_back({e, reduction});
    return e;
  };
  for (auto& s : type.sizes) index.push_back(var(s, false));
  const Expr in_group = sym::floor_div(x.sizes[1], groups), out_group = sym::max(sym::floor_div(type.sizes[1], groups), 1);
  Expr ic = var(in_group, true), channel = ic + sym::floor_div(index[1], out_group) * in_group;
  Index x_index = {index[0], channel}, w_index = {index[1], ic};
  if (transposed) w_index = {channel, sym::mod(index[1], out_group)};
  for (size_t d = 2; d < type.sizes.size(); ++d) w_index.push_back(var(w.sizes[d], true));
  BodyBuilder b(node.body);
  std::optional<S> inside;
  auto require = [&](S c) { inside = inside ? *inside & c : c; };
  for (size_t d = 2; d < type.sizes.size(); ++d) {
    const Expr step(stride[mutant(Mutant::SwappedStride) ? 0 : d - 2]), tap = w_index[d] * Expr(dilation[d - 2]);
    Expr e = index[d] * step + tap - Expr(pad[d - 2]);
    if (transposed) {
      const Expr reached = index[d] + Expr(pad[d - 2]) - tap;
      e = sym::floor_div(reached, step);
      if (!(step == Expr(1))) require(b.index(sym::mod(reached, step)) == 0.0);
    }
    x_index.push_back(e);
    if (!sym::known_ge(e, 0) && !mutant(Mutant::ConvolutionBorder)) require(b.index(e) >= 0.0);
    if (!sym::known_lt(e, x.sizes[d])) require(b.is_below(e, x.sizes[d]));
  }
  if (inside) b.push_mask(*inside);
  S element = cast(x.at(b, x_index), compute);
  if (inside) b.pop_mask();
  S product = element * cast(w.at(b, w_index), compute);
  if (inside) product = select(*inside, product, 0.0);  // padding adds nothing, not 0 times a weight that may be infinite
  S sum = loop::has_reduction(node.domain) ? b.reduce(loop::Reduction::Sum, product) : product;
  if (bias && !mutant(Mutant::LostBias)) sum = sum + cast(l.value(bias).at(b, {index[1]}), compute);
  b.store(out.buffer, type.dtype, flat_index(out, index), sum);
  loop::eliminate_dead(node.body);
  l.append(std::move(node), n.results[0]);
  l.define(n.results[0], l.at_place(type, out));
}

// As [image][row][column][channel].
Place realize_channels_last(Lowering& l, const graph::Value* v) { return realize_as(l, v, channels_last(v->type.sizes)); }

// Adds the bias of a convolution, which may be null, to the accumulator, by the variable of the node's domain that is the channel.
void add_bias(Lowering& l, const graph::Value* bias, program::Node& node, size_t channel) {
  if (!bias) return;
  const loop::Statement store = node.body.steps.back();
  node.body.steps.clear();
  BodyBuilder b(node.body);
  const loop::Var& var = node.domain.vars[channel];
  const S product = b.accumulator(DType::F32);
  const S sum = product + cast(l.value(bias).at(b, {var.extent() == Expr(1) ? Expr(0) : var.symbol}), DType::F32);
  b.store(store.buffer, store.dtype, store.index, sum);
}

const graph::Value* bias_of(const graph::Node& n) {
  const auto* bias = std::get_if<graph::Value*>(&n.args[2]);
  return bias ? *bias : nullptr;
}

// Whether windows are larger than results, as where the gradient of weights is a convolution by a gradient, whose images are channels, and
// whose channels images.
bool has_large_windows(const program::Convolution& c) {
  const auto pixels = (c.out_h * c.out_w).maybe_constant();
  return pixels && *pixels < c.kernel_h * c.kernel_w;
}

// How the windows of a convolution lie as a matrix. Rows: [image, row, column of the result][tap row][tap column][channel]. Columns, and
// OfGradient where the windows are those of the convolution that this one is the gradient of, whose channels are images:
// [channel][tap row][tap column][image, row, column of the result] and [channel][tap row][tap column][row, column of the result, image].
enum class Windows { Rows, Columns, OfGradient };

Windows order_of_windows(const program::Convolution& c, DType dtype, bool constant_weight) {
  constexpr int64_t kFewChannels = 4, kAligned = 8;  // neighbours that are moved together
  if (constant_weight) return Windows::Rows;
  if (has_large_windows(c)) return Windows::OfGradient;
  // Neighbours in a window of few channels lie apart in memory; neighbouring windows lie evenly.
  const bool narrow = c.in_channels <= kFewChannels && c.kernel_w > 1 && is_half(dtype);
  return narrow && sym::known_multiple(c.out_w, kAligned) ? Windows::Columns : Windows::Rows;
}

// The windows as such a matrix. Zeros are padding.
int realize_windows(Lowering& l, const graph::Node& n, const program::Convolution& c, Windows order) {
  const graph::Value* input = std::get<graph::Value*>(n.args[0]);
  const bool pixels = c.kernel_h == 1 && c.kernel_w == 1 && c.stride_h == 1 && c.stride_w == 1 && c.pad_h == 0 && c.pad_w == 0;
  if (pixels && order == Windows::Rows) return realize_channels_last(l, input).buffer;
  if (!l.value(input).place && l.value(input).work > 2) l.realize(input);
  const Lazy x = l.value(input);
  std::vector<Expr> sizes = {c.n, c.out_h, c.out_w, c.kernel_h, c.kernel_w, c.in_channels};
  if (order == Windows::Columns) sizes = {c.in_channels, c.kernel_h, c.kernel_w, c.n, c.out_h, c.out_w};
  if (order == Windows::OfGradient) sizes = {c.in_channels, c.kernel_h, c.kernel_w, c.out_h, c.out_w, c.n};
  Place windows = l.allocate(input->name, {x.dtype, sizes, {}});
  l.fill(
      windows, x.dtype, sizes,
      [&](BodyBuilder& b, const Index& place) {
        Index at = place;  // as rows have it
        if (order == Windows::Columns) at = {place[3], place[4], place[5], place[1], place[2], place[0]};
        if (order == Windows::OfGradient) at = {place[5], place[3], place[4], place[1], place[2], place[0]};
        const Expr h = at[1] * Expr(c.stride_h) + at[3] * Expr(c.dilation_h) - Expr(c.pad_h),
                   w = at[2] * Expr(c.stride_w) + at[4] * Expr(c.dilation_w) - Expr(c.pad_w);
        return read_inside(b, x, {at[0], at[5], h, w}, {{h, c.in_h}, {w, c.in_w}});
      },
      input);
  return windows.buffer;
}

// A convolution that no template takes as the product of its windows and the weights: for sizes that only the run tells, and for weights
// that are no constants (in training, and their gradients). False where that is no gain, or needs much memory.
bool convolution_product(Lowering& l, const graph::Node& n, const program::Convolution& c, bool constant_weight) {
  constexpr int64_t kLeastTaps = 8, kLeastChannels = 8, kMostElements = int64_t{1} << 28;
  const TensorType& type = n.results[0]->type;
  const int64_t taps = c.in_channels * c.kernel_h * c.kernel_w;
  const bool known = std::all_of(c.weight.strides.begin(), c.weight.strides.end(), [](const Expr& e) { return e.is_const(); });
  if (c.groups != 1 || taps < kLeastTaps || c.out_channels < kLeastChannels) return false;
  if (constant_weight && (!known || !c.weight.offset.is_const())) return false;
  if (!constant_weight && constant(c.n * c.out_h * c.out_w * Expr(taps)).value_or(kMostElements) >= kMostElements) return false;
  program::Gemm g;
  g.m = c.n * c.out_h * c.out_w;
  g.n = c.out_channels;
  g.k = taps;
  g.a.dtype = g.b.dtype = type.dtype;
  if (!l.takes(g, constant_weight)) return false;
  const Windows order = order_of_windows(c, type.dtype, constant_weight);
  const bool rows = order == Windows::Rows;
  g.a = {realize_windows(l, n, c, order), type.dtype, 0, rows ? std::vector<Expr>{taps, 1} : std::vector<Expr>{1, g.m}};
  // The weights in the order of a window.
  if (constant_weight) {
    program::Rearranged weight;
    weight.buffer = l.program().new_buffer("weight_of_windows", type.dtype, c.out_channels * taps, loop::BufferKind::Constant);
    weight.parts.push_back(
        {c.weight, 0, {taps, 1, c.kernel_w * c.in_channels, c.in_channels}, {c.out_channels, c.in_channels, c.kernel_h, c.kernel_w}});
    g.b = {weight.buffer, type.dtype, 0, {1, taps}};
    l.program().rearranged.push_back(std::move(weight));
  } else {
    const graph::Value* weight = std::get<graph::Value*>(n.args[1]);
    if (rows)
      g.b = {realize_channels_last(l, weight).buffer, type.dtype, 0, {1, taps}};
    else
      g.b = {realize_as(l, weight, images_last(weight->type.sizes)).buffer, type.dtype, 0, {c.out_channels, 1}};
  }
  Place out = l.allocate(n.results[0]->name, type);
  out.strides = channels_last(type.sizes);
  if (order == Windows::OfGradient) out.strides = {c.out_channels, 1, c.out_w * c.n * Expr(c.out_channels), c.n * Expr(c.out_channels)};
  program::Node node;
  node.problem = g;
  const std::vector<Expr> points = {g.m, g.n};
  store_accumulator(l, node, points, {out.buffer, 0, dense_strides(points)}, g.accumulate, type.dtype);
  add_bias(l, bias_of(n), node, 1);
  l.append(std::move(node), n.results[0]);
  define_template_result(l, n, out);
  return true;
}

// Dimensions 1 to 3 of two tensors as one, in an order in which the elements of both lie evenly: how far apart; nothing where there is
// none.
std::optional<std::pair<Expr, Expr>> as_one(const std::vector<Expr>& sizes, const Place& a, const Place& b) {
  std::vector<size_t> order;
  for (size_t d = 1; d < sizes.size(); ++d) {
    if (!sizes[d].is_const() || !a.strides[d].is_const() || !b.strides[d].is_const()) return std::nullopt;
    if (sizes[d].constant() > 1) order.push_back(d);
  }
  if (order.empty()) return std::nullopt;
  std::sort(order.begin(), order.end(), [&](size_t x, size_t y) { return a.strides[x].constant() < a.strides[y].constant(); });
  int64_t next_a = a.strides[order[0]].constant(), next_b = b.strides[order[0]].constant();
  const std::pair<Expr, Expr> apart(next_a, next_b);
  for (size_t d : order) {
    if (a.strides[d].constant() != next_a || b.strides[d].constant() != next_b) return std::nullopt;
    next_a *= sizes[d].constant(), next_b *= sizes[d].constant();
  }
  return apart;
}

// A convolution with one window an image, which is all of it, as the product of images and weights where they lie: the gradient of the
// weights of a convolution of single pixels, whose images are channels. False where it is none.
bool whole_window_product(Lowering& l, const graph::Node& n, const program::Convolution& c) {
  const TensorType& type = n.results[0]->type;
  const bool whole = c.out_h == Expr(1) && c.out_w == Expr(1) && c.in_h == Expr(c.kernel_h) && c.in_w == Expr(c.kernel_w) && c.pad_h == 0 &&
                     c.pad_w == 0 && c.groups == 1 && c.kernel_h * c.kernel_w > 1 && c.dilation_h == 1 && c.dilation_w == 1;
  if (!whole) return false;
  const graph::Value *input = std::get<graph::Value*>(n.args[0]), *weight = std::get<graph::Value*>(n.args[1]);
  program::Gemm g;
  g.m = c.n, g.n = c.out_channels, g.k = c.in_channels * c.kernel_h * c.kernel_w;
  g.a.dtype = g.b.dtype = type.dtype;
  g.tf32 = rounds_to_tf32(l, type.dtype);
  if (!l.takes(g, is_constant(l, weight))) return false;
  const Place x = l.strided(input), w = l.strided(weight);
  const auto apart = as_one(input->type.sizes, x, w);
  if (!apart) return false;
  g.a = {x.buffer, type.dtype, x.offset, {x.strides[0], apart->first}};
  g.b = {w.buffer, type.dtype, w.offset, {apart->second, w.strides[0]}};
  Place out = l.allocate(n.results[0]->name, type);
  program::Node node;
  node.problem = g;
  const std::vector<Expr> points = {g.m, g.n};
  store_accumulator(l, node, points, {out.buffer, 0, dense_strides(points)}, g.accumulate, type.dtype);
  add_bias(l, bias_of(n), node, 1);
  l.append(std::move(node), n.results[0]);
  define_template_result(l, n, out);
  return true;
}

// The gradient of weights, whose images are channels, from channels-last memory of both operands. False where no template takes that.
bool weight_gradient_where_it_lies(Lowering& l, const graph::Node& n, program::Convolution c) {
  if (!has_large_windows(c)) return false;
  const graph::Value *input = std::get<graph::Value*>(n.args[0]), *weight = std::get<graph::Value*>(n.args[1]);
  const std::vector<Expr> images = images_last(input->type.sizes), results = images_last(weight->type.sizes);
  c.input = {-1, input->type.dtype, 0, images};
  c.weight = {-1, weight->type.dtype, 0, results};
  if (!l.takes(c)) return false;
  c.input = operand_of(realize_as(l, input, images), input->type.dtype);
  c.weight = operand_of(realize_as(l, weight, results), weight->type.dtype);
  define_template_result(l, n, append_convolution(l, n, c, bias_of(n), n.results[0]->type.dtype));
  return true;
}

// The problem, but for its operands; nothing where no template has it. y: [n, results, height, width].
std::optional<program::Convolution> read_convolution(Lowering& l, const ops::TypeReader& r, const TensorType& x,
                                                     const std::vector<Expr>& weight, const std::vector<Expr>& y) {
  auto stride = r.integers("stride"), pad = r.integers("padding"), dilation = r.integers("dilation");
  bool fits = y.size() == 4 && x.sizes.size() == 4 && stride.size() == 2 && pad.size() == 2 && dilation.size() == 2 &&
              constant(x.sizes[1]) && l.options().templates();
  for (auto& s : weight) fits = fits && constant(s) && *constant(s) > 0;
  for (auto& s : y) fits = fits && constant(s) != 0;
  if (!fits) return std::nullopt;
  program::Convolution c;
  c.n = y[0];
  c.groups = r.integer("groups");
  c.in_channels = *constant(x.sizes[1]);
  c.out_channels = *constant(weight[0]);
  c.in_h = x.sizes[2];
  c.in_w = x.sizes[3];
  c.out_h = y[2];
  c.out_w = y[3];
  c.kernel_h = *constant(weight[2]);
  c.kernel_w = *constant(weight[3]);
  c.stride_h = stride[0];
  c.stride_w = stride[1];
  c.pad_h = pad[0];
  c.pad_w = pad[1];
  c.dilation_h = dilation[0];
  c.dilation_w = dilation[1];
  return c;
}

}  // namespace

Place append_convolution(Lowering& l, const graph::Node& n, const program::Convolution& c, const graph::Value* bias, DType dtype) {
  const std::vector<Expr> sizes = program::points(c);
  program::Node node;
  node.problem = c;
  Place out = l.allocate(n.results[0]->name, {dtype, sizes, {}});
  out.strides = channels_last(sizes);
  store_accumulator(l, node, sizes, out, c.accumulate, dtype);
  add_bias(l, bias, node, 1);
  l.append(std::move(node), n.results[0]);
  return out;
}

std::optional<program::Convolution> gradient_of_weights(const program::Convolution& f, DType dtype) {
  const auto images = constant(f.n), rows = constant(f.out_h), columns = constant(f.out_w);
  if (!images || !rows || !columns) return std::nullopt;
  program::Convolution c = f;
  c.n = f.in_channels, c.in_channels = *images;
  c.kernel_h = *rows, c.kernel_w = *columns;
  c.out_h = f.kernel_h, c.out_w = f.kernel_w;
  std::swap(c.stride_h, c.dilation_h);
  std::swap(c.stride_w, c.dilation_w);
  c.input = {-1, dtype, 0, images_last({c.n, c.in_channels, f.in_h, f.in_w})};
  c.weight = {-1, dtype, 0, images_last({c.out_channels, c.in_channels, f.out_h, f.out_w})};
  return c;
}

void lower_convolution(Lowering& l, const graph::Node& n) {
  auto types = graph::type_args(n);
  ops::TypeReader r(*n.op, types);
  const graph::Value *input = std::get<graph::Value*>(n.args[0]), *weight = std::get<graph::Value*>(n.args[1]);
  const TensorType& type = n.results[0]->type;
  const bool fits =
      !r.flag("transposed") && template_dtype(type.dtype) && input->type.dtype == type.dtype && weight->type.dtype == type.dtype;
  std::optional<program::Convolution> problem = fits ? read_convolution(l, r, input->type, weight->type.sizes, type.sizes) : std::nullopt;
  if (!problem) return convolution_loop(l, n, r);
  program::Convolution& c = *problem;
  c.tf32 = rounds_to_tf32(l, type.dtype);
  if (whole_window_product(l, n, c) || weight_gradient_where_it_lies(l, n, c)) return;
  Place w = l.strided(weight);
  c.weight = operand_of(w, weight->type.dtype);
  bool constant_weight = l.program().buffers[static_cast<size_t>(w.buffer)].kind == loop::BufferKind::Constant;
  auto taken = [&] { return l.takes(c, constant_weight); };
  if (lower_packed_pixels(l, n, c, constant_weight)) return;
  c.input = operand_of(l.strided(input), input->type.dtype);
  if (c.in_channels > 4 || !taken()) {  // all but first layers work on channels-last memory
    c.input.strides = channels_last(input->type.sizes);
    c.input.offset = 0;
    const bool as_is = taken();
    if (!as_is) {  // weights that are no constants can be brought into that order, too
      c.weight.strides = channels_last(weight->type.sizes);
      c.weight.offset = 0;
      if (constant_weight || !taken()) {
        c.weight = operand_of(w, weight->type.dtype);
        if (!convolution_product(l, n, c, constant_weight)) convolution_loop(l, n, r);
        return;
      }
    }
    c.input = operand_of(realize_channels_last(l, input), input->type.dtype);
    if (!as_is) c.weight = operand_of(realize_channels_last(l, weight), weight->type.dtype);
  }
  define_template_result(l, n, append_convolution(l, n, c, bias_of(n), type.dtype));
}

void lower_weight_gradient(Lowering& l, const graph::Node& n) {
  auto types = graph::type_args(n);
  ops::TypeReader r(*n.op, types);
  const graph::Value *input = std::get<graph::Value*>(n.args[0]), *slope = std::get<graph::Value*>(n.args[2]);
  const TensorType& type = n.results[0]->type;
  const bool fits = is_half(type.dtype) && input->type.dtype == type.dtype && slope->type.dtype == type.dtype;
  const auto f = fits ? read_convolution(l, r, input->type, type.sizes, slope->type.sizes) : std::nullopt;
  const bool pixels = f && f->kernel_h == 1 && f->kernel_w == 1;  // a product
  if (!f || pixels || f->groups != 1) return l.lower_composite(n);
  if (lower_packed_pixels_gradient(l, n, *f)) return;
  auto c = gradient_of_weights(*f, type.dtype);
  if (!c || !l.takes(*c)) return l.lower_composite(n);
  c->input = images_as_channels(l, input);
  c->weight = images_as_channels(l, slope);
  Place made = append_convolution(l, n, *c, nullptr, type.dtype);
  std::swap(made.strides[0], made.strides[1]);
  define_template_result(l, n, made);
}

// Whole numbers of 8 bits: a template where the target has one, else what the operation is made of.
void lower_whole_convolution(Lowering& l, const graph::Node& n) {
  auto types = graph::type_args(n);
  ops::TypeReader r(*n.op, types);
  const graph::Value *input = std::get<graph::Value*>(n.args[0]), *weight = std::get<graph::Value*>(n.args[1]);
  const TensorType& type = n.results[0]->type;
  std::optional<program::Convolution> problem = read_convolution(l, r, input->type, weight->type.sizes, type.sizes);
  if (!problem) return l.lower_composite(n);
  program::Convolution& c = *problem;
  c.accumulate = type.dtype;
  c.zero = r.integer("zero_point");
  const Place w = l.strided(weight);
  c.weight = operand_of(w, weight->type.dtype);
  c.input = {-1, input->type.dtype, 0, channels_last(input->type.sizes)};
  const bool constant_weight = l.program().buffers[static_cast<size_t>(w.buffer)].kind == loop::BufferKind::Constant;
  if (!l.takes(c, constant_weight)) return l.lower_composite(n);
  c.input = operand_of(realize_channels_last(l, input), input->type.dtype);
  define_template_result(l, n, append_convolution(l, n, c, nullptr, type.dtype));
}

}  // namespace toroid::lower
