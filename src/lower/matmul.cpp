// Matrix products, convolutions and attention: problems with several implementations, or loops where no template fits.
#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/mutants.h"
#include "lower/lowering.h"

namespace toroid::lower {

using loop::BodyBuilder;

namespace {

program::Operand operand_of(const Place& p, DType dtype) { return {p.buffer, dtype, p.offset, p.strides}; }

bool template_dtype(DType t) { return t == DType::F32 || is_half(t); }

bool rounds_to_tf32(const Lowering& l, DType t) {
  return t == DType::F32 && l.facts().tf32 && l.options().options.get(options::kAllowTf32);
}

// Whether its elements are in memory, and are known when compiling.
bool is_constant(Lowering& l, const graph::Value* v) {
  const auto& place = l.value(v).place;
  return place && l.program().buffers[static_cast<size_t>(place->buffer)].kind == loop::BufferKind::Constant;
}

std::optional<int64_t> constant(const Expr& e) { return e.maybe_constant(); }

// out[batch, m, n] = sum_k a * b as a reduction loop: any dtype, any size.
void matmul_loop(Lowering& l, const graph::Node& n, const Lazy& a, const Lazy& b, const Place& out) {
  const TensorType& type = n.results[0]->type;
  DType compute = ops::compute_type(type.dtype);
  program::Node node;
  Index index;
  for (auto& s : type.sizes) {
    index.push_back(l.fresh_var(s, false));
    if (!index.back().is_const()) node.domain.vars.push_back({index.back(), false});
  }
  Expr k = l.fresh_var(a.sizes.back(), true);
  if (!k.is_const()) node.domain.vars.push_back({k, true});
  BodyBuilder builder(node.body);
  Index ai = index, bi = index;
  ai.back() = k;
  bi[bi.size() - 2] = k;
  S product = cast(a.at(builder, ai), compute) * cast(b.at(builder, bi), compute);
  builder.store(out.buffer, type.dtype, flat_index(out, index), k.is_const() ? product : builder.reduce(loop::Reduction::Sum, product));
  loop::eliminate_dead(node.body);
  l.append(std::move(node), n.results[0]);
}

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

std::vector<Expr> channels_last(const std::vector<Expr>& sizes) {
  Expr c = sizes[1], h = sizes[2], w = sizes[3];
  return {h * w * c, 1, w * c, c};
}

// [channel][row][column][image]
std::vector<Expr> images_last(const std::vector<Expr>& sizes) {
  Expr n = sizes[0], h = sizes[2], w = sizes[3];
  return {1, h * w * n, w * n, n};
}

// The value, of four dimensions, in memory with these strides.
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

// As [image][row][column][channel].
Place realize_channels_last(Lowering& l, const graph::Value* v) { return realize_as(l, v, channels_last(v->type.sizes)); }

// The result of a template at `out`.
void define_template_result(Lowering& l, const graph::Node& n, const Place& out) {
  Lazy lazy = l.at_place(n.results[0]->type, out);
  lazy.over_template = true;
  l.define(n.results[0], std::move(lazy));
}

// The domain of a template node over `sizes`, and the store of its accumulator.
void store_accumulator(Lowering& l, program::Node& node, const std::vector<Expr>& sizes, const Place& out, DType accumulate, DType dtype) {
  Index index;
  for (auto& s : sizes) {
    Expr var = l.fresh_symbol(s, false);  // kept even when the extent is 1: templates name their variables
    index.push_back(s == Expr(1) ? Expr(0) : var);
    node.domain.vars.push_back({var, false});
  }
  BodyBuilder b(node.body);
  b.store(out.buffer, dtype, flat_index(out, index), b.accumulator(accumulate));
}

// Adds the bias of a convolution to the accumulator, by the variable of the node's domain that is the channel.
void add_bias(Lowering& l, const graph::Node& n, program::Node& node, size_t channel) {
  const auto* bias = std::get_if<graph::Value*>(&n.args[2]);
  if (!bias) return;
  const loop::Statement store = node.body.steps.back();
  node.body.steps.clear();
  BodyBuilder b(node.body);
  const loop::Var& var = node.domain.vars[channel];
  S sum = b.accumulator(DType::F32) + cast(l.value(*bias).at(b, {var.extent() == Expr(1) ? Expr(0) : var.symbol}), DType::F32);
  b.store(store.buffer, store.dtype, store.index, sum);
}

// Whether windows are larger than results, as where the gradient of weights is a convolution by a gradient, whose images are channels, and
// whose channels images.
bool has_large_windows(const program::Convolution& c) {
  const auto pixels = (c.out_h * c.out_w).maybe_constant();
  return pixels && *pixels < c.kernel_h * c.kernel_w;
}

// The windows of a convolution as rows of a matrix: [image, row, column of the result][tap row][tap column][channel]. by_tap: as columns of
// one, [channel][tap row][tap column][row, column of the result, image], which is how the windows lie of the convolution that it is the
// gradient of. Zeros are padding.
int realize_windows(Lowering& l, const graph::Node& n, const program::Convolution& c, bool by_tap) {
  const graph::Value* input = std::get<graph::Value*>(n.args[0]);
  const bool pixels = c.kernel_h == 1 && c.kernel_w == 1 && c.stride_h == 1 && c.stride_w == 1 && c.pad_h == 0 && c.pad_w == 0;
  if (pixels && !by_tap) return realize_channels_last(l, input).buffer;
  if (!l.value(input).place && l.value(input).work > 2) l.realize(input);
  const Lazy x = l.value(input);
  std::vector<Expr> sizes = {c.n, c.out_h, c.out_w, c.kernel_h, c.kernel_w, c.in_channels};
  if (by_tap) sizes = {c.in_channels, c.kernel_h, c.kernel_w, c.out_h, c.out_w, c.n};
  Place windows = l.allocate(input->name, {x.dtype, sizes, {}});
  l.fill(
      windows, x.dtype, sizes,
      [&](BodyBuilder& b, const Index& place) {
        const Index at = by_tap ? Index{place[5], place[3], place[4], place[1], place[2], place[0]} : place;
        const Expr h = at[1] * Expr(c.stride_h) + at[3] * Expr(c.dilation_h) - Expr(c.pad_h),
                   w = at[2] * Expr(c.stride_w) + at[4] * Expr(c.dilation_w) - Expr(c.pad_w);
        std::optional<S> inside;
        auto require = [&](S holds) { inside = inside ? *inside & holds : holds; };
        for (auto& [e, extent] : {std::pair(h, c.in_h), std::pair(w, c.in_w)}) {
          if (!sym::known_ge(e, 0)) require(b.index(e) >= 0.0);
          if (!sym::known_lt(e, extent)) require(b.is_below(e, extent));
        }
        if (!inside) return x.at(b, {at[0], at[5], h, w});
        b.push_mask(*inside);
        const S element = x.at(b, {at[0], at[5], h, w});
        b.pop_mask();
        return select(*inside, element, 0.0);
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
  const bool by_tap = !constant_weight && has_large_windows(c);
  g.a = {realize_windows(l, n, c, by_tap), type.dtype, 0, by_tap ? std::vector<Expr>{1, g.m} : std::vector<Expr>{taps, 1}};
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
    if (by_tap)
      g.b = {realize_as(l, weight, images_last(weight->type.sizes)).buffer, type.dtype, 0, {c.out_channels, 1}};
    else
      g.b = {realize_channels_last(l, weight).buffer, type.dtype, 0, {1, taps}};
  }
  Place out = l.allocate(n.results[0]->name, type);
  out.strides = channels_last(type.sizes);
  if (by_tap) out.strides = {c.out_channels, 1, c.out_w * c.n * Expr(c.out_channels), c.n * Expr(c.out_channels)};
  program::Node node;
  node.problem = g;
  const std::vector<Expr> points = {g.m, g.n};
  store_accumulator(l, node, points, {out.buffer, 0, dense_strides(points)}, g.accumulate, type.dtype);
  add_bias(l, n, node, 1);
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
  add_bias(l, n, node, 1);
  l.append(std::move(node), n.results[0]);
  define_template_result(l, n, out);
  return true;
}

}  // namespace

void lower_matmul(Lowering& l, const graph::Node& n) {
  const graph::Value *av = std::get<graph::Value*>(n.args[0]), *bv = std::get<graph::Value*>(n.args[1]);
  const TensorType& type = n.results[0]->type;
  for (auto& s : av->type.sizes)
    if (constant(s) == 0) return l.lower_extern(n);
  for (auto& s : type.sizes)
    if (constant(s) == 0) return l.lower_extern(n);
  Place out = l.allocate(n.results[0]->name, type);
  program::Gemm g;
  g.batch.assign(type.sizes.begin(), type.sizes.end() - 2);
  g.m = type.sizes[type.sizes.size() - 2];
  g.n = type.sizes.back();
  g.k = av->type.sizes.back();
  g.a.dtype = av->type.dtype;
  g.b.dtype = bv->type.dtype;
  g.tf32 = rounds_to_tf32(l, g.a.dtype);
  const bool fits = template_dtype(g.a.dtype) && g.b.dtype == g.a.dtype && (type.dtype == g.a.dtype || type.dtype == g.accumulate);
  if (fits && l.takes(g, is_constant(l, bv))) {
    g.a = operand_of(l.strided(av), av->type.dtype);
    g.b = operand_of(l.strided(bv), bv->type.dtype);
    program::Node node;
    node.problem = g;
    store_accumulator(l, node, type.sizes, out, g.accumulate, type.dtype);
    l.append(std::move(node), n.results[0]);
    return define_template_result(l, n, out);
  } else {
    Lazy a = l.value(av), b = l.value(bv);
    if (!a.place && a.work > 2) l.realize(av), a = l.value(av);
    if (!b.place && b.work > 2) l.realize(bv), b = l.value(bv);
    matmul_loop(l, n, a, b, out);
  }
  l.define(n.results[0], l.at_place(type, out));
}

// Whole numbers of 8 bits: a template where the target has one, else a loop.
void lower_whole_matmul(Lowering& l, const graph::Node& n) {
  const graph::Value *av = std::get<graph::Value*>(n.args[0]), *bv = std::get<graph::Value*>(n.args[1]);
  const TensorType& type = n.results[0]->type;
  for (auto& sizes : {av->type.sizes, type.sizes})
    for (auto& s : sizes)
      if (constant(s) == 0) return l.lower_extern(n);
  program::Gemm g;
  g.m = type.sizes[0];
  g.n = type.sizes[1];
  g.k = av->type.sizes[1];
  g.b = operand_of(l.strided(bv), bv->type.dtype);
  g.a.dtype = av->type.dtype;
  g.accumulate = type.dtype;
  const bool constant_b = l.program().buffers[static_cast<size_t>(g.b.buffer)].kind == loop::BufferKind::Constant;
  if (l.takes(g, constant_b)) {
    g.a = operand_of(l.strided(av), av->type.dtype);
    Place out = l.allocate(n.results[0]->name, type);
    program::Node node;
    node.problem = g;
    store_accumulator(l, node, type.sizes, out, g.accumulate, type.dtype);
    l.append(std::move(node), n.results[0]);
    return define_template_result(l, n, out);
  }
  l.realize(av);
  Place out = l.allocate(n.results[0]->name, type);
  matmul_loop(l, n, l.value(av), l.value(bv), out);
  l.define(n.results[0], l.at_place(type, out));
}

namespace {

// The problem, but for its operands; nothing where no template has it.
std::optional<program::Convolution> read_convolution(Lowering& l, const graph::Node& n, const ops::TypeReader& r) {
  const graph::Value *input = std::get<graph::Value*>(n.args[0]), *weight = std::get<graph::Value*>(n.args[1]);
  const TensorType& type = n.results[0]->type;
  auto stride = r.integers("stride"), pad = r.integers("padding"), dilation = r.integers("dilation");
  bool fits = type.sizes.size() == 4 && input->type.sizes.size() == 4 && stride.size() == 2 && pad.size() == 2 && dilation.size() == 2 &&
              constant(input->type.sizes[1]) && l.options().templates();
  for (auto& s : weight->type.sizes) fits = fits && constant(s) && *constant(s) > 0;
  for (auto& s : type.sizes) fits = fits && constant(s) != 0;
  if (!fits) return std::nullopt;
  program::Convolution c;
  c.n = type.sizes[0];
  c.groups = r.integer("groups");
  c.in_channels = *constant(input->type.sizes[1]);
  c.out_channels = *constant(weight->type.sizes[0]);
  c.in_h = input->type.sizes[2];
  c.in_w = input->type.sizes[3];
  c.out_h = type.sizes[2];
  c.out_w = type.sizes[3];
  c.kernel_h = *constant(weight->type.sizes[2]);
  c.kernel_w = *constant(weight->type.sizes[3]);
  c.stride_h = stride[0];
  c.stride_w = stride[1];
  c.pad_h = pad[0];
  c.pad_w = pad[1];
  c.dilation_h = dilation[0];
  c.dilation_w = dilation[1];
  return c;
}

}  // namespace

void lower_convolution(Lowering& l, const graph::Node& n) {
  auto types = graph::type_args(n);
  ops::TypeReader r(*n.op, types);
  const graph::Value *input = std::get<graph::Value*>(n.args[0]), *weight = std::get<graph::Value*>(n.args[1]);
  const TensorType& type = n.results[0]->type;
  const bool fits =
      !r.flag("transposed") && template_dtype(type.dtype) && input->type.dtype == type.dtype && weight->type.dtype == type.dtype;
  std::optional<program::Convolution> problem = fits ? read_convolution(l, n, r) : std::nullopt;
  if (!problem) return convolution_loop(l, n, r);
  program::Convolution& c = *problem;
  c.tf32 = rounds_to_tf32(l, type.dtype);
  if (whole_window_product(l, n, c)) return;
  Place w = l.strided(weight);
  c.weight = operand_of(w, weight->type.dtype);
  bool constant_weight = l.program().buffers[static_cast<size_t>(w.buffer)].kind == loop::BufferKind::Constant;
  auto taken = [&] { return l.takes(c, constant_weight); };
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
  program::Node node;
  node.problem = c;
  Place out = l.allocate(n.results[0]->name, type);
  out.strides = channels_last(type.sizes);
  store_accumulator(l, node, type.sizes, out, DType::F32, type.dtype);
  add_bias(l, n, node, 1);
  l.append(std::move(node), n.results[0]);
  define_template_result(l, n, out);
}

// Whole numbers of 8 bits: a template where the target has one, else what the operation is made of.
void lower_whole_convolution(Lowering& l, const graph::Node& n) {
  auto types = graph::type_args(n);
  ops::TypeReader r(*n.op, types);
  const graph::Value *input = std::get<graph::Value*>(n.args[0]), *weight = std::get<graph::Value*>(n.args[1]);
  const TensorType& type = n.results[0]->type;
  std::optional<program::Convolution> problem = read_convolution(l, n, r);
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
  program::Node node;
  node.problem = c;
  Place out = l.allocate(n.results[0]->name, type);
  out.strides = channels_last(type.sizes);
  store_accumulator(l, node, type.sizes, out, c.accumulate, type.dtype);
  l.append(std::move(node), n.results[0]);
  define_template_result(l, n, out);
}

namespace {

// The tensor that a parameter was given, or null.
const graph::Value* given(const graph::Node& n, std::string_view param) {
  const auto* v = std::get_if<graph::Value*>(&n.args[static_cast<size_t>(n.op->schema.find(param))]);
  return v ? *v : nullptr;
}

// The problem of an attention with results of these sizes, or of its gradient, but for its operands; nothing where its sizes are those of
// no template: the queries have all rows and heads of the results, not a mask or keys that they are broadcast to, and each key its value.
std::optional<program::Attention> read_attention(Lowering& l, const graph::Node& n, const ops::TypeReader& r,
                                                 const std::vector<Expr>& out) {
  const graph::Value *q = given(n, "query"), *k = given(n, "key"), *v = given(n, "value");
  const auto &queries = q->type.sizes, &keys = k->type.sizes, &values = v->type.sizes;
  bool whole = l.options().templates() && queries.size() == 4 && keys.size() == 4 && values.size() == 4 && constant(queries[3]) &&
               constant(values[3]) && r.real("dropout_p") == 0 && keys[0] == queries[0] && values[0] == queries[0] &&
               values[1] == keys[1] && values[2] == keys[2];
  whole = whole && out == std::vector<Expr>{queries[0], queries[1], queries[2], values[3]};
  for (auto* sizes : {&queries, &keys, &values})
    for (auto& s : *sizes) whole = whole && constant(s) != 0;
  // "Causal" compares positions from the first query and key on; the template aligns the last ones.
  if (whole && r.flag("is_causal")) whole = queries[2] == keys[2];
  if (!whole) return std::nullopt;
  program::Attention a;
  a.batch = queries[0];
  a.heads = queries[1];
  a.kv_heads = keys[1];
  a.queries = queries[2];
  a.keys = keys[2];
  a.head_dim = queries[3].constant();
  a.value_dim = values[3].constant();
  a.causal = r.flag("is_causal") && !mutant(Mutant::LostCausal);
  a.scale = r.opt_number("scale") ? r.real("scale") : 1 / std::sqrt(static_cast<double>(a.head_dim));
  return a;
}

program::Operand realized(Lowering& l, const graph::Value* v) { return operand_of(l.strided(v), v->type.dtype); }

// In memory as [batch, position, head, dim]: the transpose and reshape that follow are then free.
std::vector<Expr> positions_first(const std::vector<Expr>& sizes) {
  return {sizes[1] * sizes[2] * sizes[3], sizes[3], sizes[1] * sizes[3], 1};
}

// A new dense buffer of numbers for each query.
program::Operand new_rows(Lowering& l, const std::string& name, const program::Attention& a) {
  const std::vector<Expr> sizes = {a.batch, a.heads, a.queries};
  return {l.program().new_buffer(name, DType::F32, program::product(sizes), loop::BufferKind::Temporary), DType::F32, 0,
          dense_strides(sizes)};
}

Place place_of(const program::Operand& o) { return {o.buffer, o.offset, o.strides}; }

}  // namespace

void lower_attention(Lowering& l, const graph::Node& n) {
  auto types = graph::type_args(n);
  ops::TypeReader r(*n.op, types);
  std::optional<program::Attention> problem = read_attention(l, n, r, n.results[0]->type.sizes);
  if (!problem) return l.lower_composite(n);
  program::Attention& a = *problem;
  a.q = realized(l, given(n, "query"));
  a.k = realized(l, given(n, "key"));
  a.v = realized(l, given(n, "value"));
  if (const graph::Value* mask = given(n, "attn_mask")) {
    Place p = l.strided(mask);
    a.mask = operand_of(p, mask->type.dtype);
    a.mask.strides.assign(4, 0);
    size_t lead = 4 - mask->type.sizes.size();
    for (size_t d = 0; d < mask->type.sizes.size(); ++d)
      if (mask->type.sizes[d] != Expr(1) && !(mutant(Mutant::MaskBroadcast) && d == 0)) a.mask.strides[d + lead] = p.strides[d];
  }
  const graph::Value* logsumexp = n.results.size() > 1 && l.uses(n.results[1]) > 0 ? n.results[1] : nullptr;
  if (logsumexp) a.logsumexp = program::Operand{};
  if (!l.takes(a)) return l.lower_composite(n);
  if (logsumexp) a.logsumexp = new_rows(l, logsumexp->name, a);
  program::Node node;
  node.problem = a;
  const TensorType& type = n.results[0]->type;
  Place out;
  out.buffer = l.program().new_buffer(n.results[0]->name, type.dtype, type.numel(), loop::BufferKind::Temporary);
  out.strides = positions_first(type.sizes);
  store_accumulator(l, node, type.sizes, out, DType::F32, type.dtype);
  l.append(std::move(node), n.results[0]);
  define_template_result(l, n, out);
  if (n.results.size() > 1)
    l.define(n.results[1], logsumexp ? l.at_place(logsumexp->type, place_of(*a.logsumexp)) : l.nothing(n.results[1]->type));
}

// The row sums before the problem, and zeros that it adds the gradient of the queries to, are loops.
void lower_attention_backward(Lowering& l, const graph::Node& n) {
  auto types = graph::type_args(n);
  ops::TypeReader r(*n.op, types);
  const graph::Value *grad_out = given(n, "grad_out"), *out = given(n, "out"), *logsumexp = given(n, "logsumexp");
  const auto forward = given(n, "attn_mask") ? std::nullopt : read_attention(l, n, r, out->type.sizes);
  if (!forward) return l.lower_composite(n);
  program::AttentionBackward a;
  a.batch = forward->batch, a.heads = forward->heads, a.kv_heads = forward->kv_heads;
  a.queries = forward->queries, a.keys = forward->keys, a.head_dim = forward->head_dim, a.value_dim = forward->value_dim;
  a.causal = forward->causal, a.scale = forward->scale;
  a.ordered = l.options().options.get(options::kOrderedSums);
  a.q = realized(l, given(n, "query"));
  a.k = realized(l, given(n, "key"));
  a.v = realized(l, given(n, "value"));
  a.grad_out = realized(l, grad_out);
  program::Operand* const gradients[] = {&a.grad_query, &a.grad_key, &a.grad_value};
  for (size_t i = 0; i < 3; ++i)
    *gradients[i] = {-1, i == 0 ? DType::F32 : n.results[i]->type.dtype, 0, positions_first(n.results[i]->type.sizes)};
  if (!l.takes(a)) return l.lower_composite(n);
  a.logsumexp = realized(l, logsumexp);
  a.row_sums = new_rows(l, "row_sums", *forward);
  for (size_t i = 0; i < 3; ++i)
    gradients[i]->buffer =
        l.program().new_buffer(n.results[i]->name, gradients[i]->dtype, n.results[i]->type.numel(), loop::BufferKind::Temporary);
  program::Node sums;
  Index index;
  for (size_t d = 0; d < 4; ++d) {
    index.push_back(l.fresh_var(out->type.sizes[d], d == 3));
    if (!index.back().is_const()) sums.domain.vars.push_back({index.back(), d == 3});
  }
  BodyBuilder b(sums.body);
  const S result = cast(l.value(out).at(b, index), DType::F32), product = cast(l.value(grad_out).at(b, index), DType::F32) * result;
  b.store(a.row_sums.buffer, DType::F32, flat_index(place_of(a.row_sums), {index[0], index[1], index[2]}),
          index[3].is_const() ? product : b.reduce(loop::Reduction::Sum, product));
  loop::eliminate_dead(sums.body);
  l.append(std::move(sums), n.results[0]);
  l.fill(
      {a.grad_query.buffer, 0, {1}}, DType::F32, {n.results[0]->type.numel()},
      [](BodyBuilder& into, const Index&) { return into.constant(DType::F32, Number::of(0.0)); }, n.results[0]);
  program::Node node;
  node.problem = a;
  l.append(std::move(node), n.results[0]);
  for (size_t i = 0; i < 3; ++i) {
    const TensorType& type = n.results[i]->type;
    Lazy result = l.at_place({gradients[i]->dtype, type.sizes, {}}, place_of(*gradients[i]));
    if (gradients[i]->dtype != type.dtype) {
      result.place.reset();
      result.dtype = type.dtype;
    }
    l.define(n.results[i], std::move(result));
  }
}

}  // namespace toroid::lower
