#include "codegen/cpu/convolutions.h"

#include <algorithm>

#include "codegen/cpu/packings.h"
#include "codegen/cpu/parts.h"
#include "codegen/cpu/template.h"

namespace toroid::codegen {

ConvLayout layout_of(const program::Convolution& c) {
  Expr h = c.in_h, w = c.in_w, ch = c.in_channels;
  const auto& s = c.input.strides;
  auto is = [](const Expr& extent, const Expr& stride, const Expr& want) { return extent == Expr(1) || stride == want; };
  if (is(ch, s[1], 1) && is(w, s[3], ch) && is(h, s[2], w * ch) && is(c.n, s[0], h * w * ch)) return ConvLayout::Nhwc;
  if (is(w, s[3], 1) && is(h, s[2], w) && is(ch, s[1], h * w) && is(c.n, s[0], h * w * ch)) return ConvLayout::Nchw;
  return ConvLayout::Other;
}

ConvShape shape_of(const program::Convolution& c) {
  ConvShape s;
  s.channels = c.in_channels;
  s.height = c.in_h.constant();
  s.width = c.in_w.constant();
  s.out_channels = c.out_channels;
  s.kernel_h = c.kernel_h;
  s.kernel_w = c.kernel_w;
  s.stride_h = c.stride_h;
  s.stride_w = c.stride_w;
  s.dilation_h = c.dilation_h;
  s.dilation_w = c.dilation_w;
  s.pad_top = s.pad_bottom = c.pad_h;
  s.pad_left = s.pad_right = c.pad_w;
  s.groups = c.groups;
  return s;
}

ConvInput input_of(const program::Convolution& c) { return layout_of(c) == ConvLayout::Nchw ? ConvInput::Nchw : ConvInput::Nhwc; }

std::optional<ConvWeights> weights_of(const program::Convolution& c) {
  const auto& s = c.weight.strides;
  const auto known = [](const Expr& e) { return e.is_const(); };
  if (c.weight.dtype != DType::F32 || !c.weight.offset.is_const() || !std::all_of(s.begin(), s.end(), known)) return std::nullopt;
  const int64_t in = c.in_channels / c.groups, h = c.kernel_h, w = c.kernel_w;
  const auto is = [](int64_t extent, const Expr& stride, int64_t want) { return extent == 1 || stride == Expr(want); };
  if (is(in, s[1], h * w) && is(h, s[2], w) && is(w, s[3], 1)) return ConvWeights::Oihw;
  if (is(in, s[1], 1) && is(h, s[2], w * in) && is(w, s[3], in)) return ConvWeights::Ohwi;
  return std::nullopt;
}

namespace {

// Whether running the body twice at a point is the same as once: it overwrites, and nothing that it reads.
bool repeatable(const loop::Body& body) {
  for (auto& s : body.steps) {
    if (s.step != loop::Step::Store) continue;
    if (s.mode != loop::StoreMode::Set) return false;
    for (auto& l : body.steps)
      if (l.step == loop::Step::Load && l.buffer == s.buffer) return false;
  }
  return true;
}

// What all kernels of convolutions have in common, in the order of their making.
struct ConvolutionKernel {
  ConvolutionKernel(const char* name, const program::Node& node, const program::Convolution& problem, device::Isa isa, const ConvTile& tile)
      : c(problem), slots(kernel) {
    config.name = kernel.name = kernel_name(name, node);
    config.batch = slots.extent(c.n);
    config.shape = shape_of(c);
    config.input = input_of(c);
    config.input_type = c.input.dtype;
    config.zero = c.zero;
    config.tile = tile;
    config.tile.lanes = lanes_of(isa);
    config.input_buffer = slots.buffer(c.input.buffer);
  }

  // Weights that are no constants, as they lie.
  void add_weights_in_place() {
    config.weights = weights_of(c).value();
    config.weight_stride = c.weight.strides[0].constant(), config.weight_offset = c.weight.offset.constant();
    config.weight_buffer = slots.buffer(c.weight.buffer);
  }

  // Adds the constant that the weights are packed into.
  void add_weights(program::Program& program, ConstantMemory& constants, ConvPacking how) {
    how.shape = config.shape, how.input = config.input, how.input_type = config.input_type, how.zero = config.zero;
    how.offset = c.weight.offset.constant();
    for (size_t d = 0; d < how.strides.size(); ++d) how.strides[d] = c.weight.strides[d].constant();
    config.weight_buffer = slots.buffer(constants.add(program, c.weight.buffer, packing_of(how), {constants.tensors.at(c.weight.buffer)}));
  }

  void add_epilogue(const program::Node& node) {
    // The template walks pixels of the whole plane: rows and columns are parts of one number.
    loop::Domain domain = node.domain;
    Expr pixel = sym::loop_symbol("pixel", c.out_h * c.out_w);
    loop::VarMap<Expr> of_pixel;
    of_pixel[domain.vars[2].symbol] = sym::floor_div(pixel, c.out_w);
    of_pixel[domain.vars[3].symbol] = sym::mod(pixel, c.out_w);
    loop::Body body = loop::substitute(node.body, loop::replacing(of_pixel));
    domain.vars = {domain.vars[0], {pixel, false}, domain.vars[1]};
    PointNames points;
    points[domain.vars[0].symbol] = "image";
    points[pixel] = "pixel";
    points[domain.vars[2].symbol] = "oc";
    const int lanes = config.tile.lanes;
    config.epilogue = epilogue_of(domain, body, lanes, slots, points, needs, c.out_channels / c.groups % lanes == 0);
    config.repeatable_epilogue = repeatable(body);
    config.scratch_buffer = static_cast<int>(kernel.buffers.size());
  }

  const program::Convolution& c;
  KernelText kernel;
  Slots slots;
  ConvConfig config;
  PreludeNeeds needs;
};

}  // namespace

KernelText generate_convolution(const program::Node& node, const program::Convolution& c, program::Program& program, device::Isa isa,
                                ConstantMemory& constants, const ConvTile& tile) {
  ConvolutionKernel k(c.accumulate == DType::F32 ? "convolution" : "conv_depthwise_int8", node, c, isa, tile);
  if (constants.tensors.count(c.weight.buffer))
    k.add_weights(program, constants,
                  {.kind = c.accumulate == DType::F32 ? ConvPacking::Direct : ConvPacking::DepthwiseInt8, .tile = k.config.tile});
  else
    k.add_weights_in_place();
  k.add_epilogue(node);
  k.kernel.source = k.needs.text(tile.lanes) + conv_text(k.config);
  k.kernel.scratch_bytes_per_thread = conv_scratch_bytes(k.config);
  ConvConfig one = k.config;
  one.batch = 1;
  k.kernel.tasks = c.n * Expr(conv_task_count(one, nullptr));
  k.kernel.plan =
      fmt::format("convolution tile {} pixels x {} vectors, {} rows a task, input {}, weights {}", tile.pixels, tile.vecs, tile.block_rows,
                  k.config.input == ConvInput::Nchw ? "nchw" : "nhwc", k.config.weights == ConvWeights::Packed ? "packed" : "copied");
  return std::move(k.kernel);
}

KernelText generate_winograd(const program::Node& node, const program::Convolution& c, program::Program& program, device::Isa isa,
                             ConstantMemory& constants, const WinogradTile& tile) {
  ConvolutionKernel k("winograd", node, c, isa, {});
  const ConvShape shape = shape_of(c);
  k.add_weights(program, constants, {.kind = ConvPacking::Winograd, .winograd = tile});
  k.add_epilogue(node);
  k.kernel.source = k.needs.text(tile.lanes) + winograd_text(k.config, tile);
  k.kernel.scratch_bytes_per_thread = winograd_scratch_bytes(shape, tile);
  k.kernel.tasks = c.n * Expr(winograd_task_count(shape, tile));
  k.kernel.plan = fmt::format("winograd tile {} squares x {} vectors, {} rows of squares and {} tiles of channels a task", tile.squares,
                              tile.vecs, tile.rows, tile.channels);
  return std::move(k.kernel);
}

KernelText generate_conv_int8(const program::Node& node, const program::Convolution& c, program::Program& program, device::Isa isa,
                              ConstantMemory& constants, const ConvInt8Tile& tile) {
  ConvolutionKernel k("conv_int8", node, c, isa, {});
  ConvInt8Tile own = tile;
  own.lanes = lanes_of(isa);
  const ConvShape shape = shape_of(c);
  k.add_weights(program, constants, {.kind = ConvPacking::Int8, .int8 = own});
  k.add_epilogue(node);
  k.kernel.source = k.needs.text(own.lanes) + conv_int8_text(k.config, own);
  k.kernel.scratch_bytes_per_thread = conv_int8_scratch_bytes(shape, own);
  k.kernel.tasks = c.n * Expr(conv_int8_task_count(shape, own));
  k.kernel.plan = fmt::format("int8 convolution tile {} pixels x {} vectors, {} pixels a task", own.pixels, own.vecs, own.block);
  return std::move(k.kernel);
}

namespace {

// Whether the weights of a convolution can be packed when the program is compiled.
bool are_constant(const CpuSite& site, const program::Convolution& c) {
  return site.program.buffers.at(static_cast<size_t>(c.weight.buffer)).kind == loop::BufferKind::Constant;
}

}  // namespace

Form cpu_conv_int8_form(const CpuSite& site) {
  const auto& c = site.problem<program::Convolution>();
  const int lanes = lanes_of(site.isa);
  Tiling<ConvInt8Tile> how;
  how.rule = [=, &c] { return choose_conv_int8_tile(shape_of(c), lanes); };
  how.others = [=, &c] { return other_conv_int8_tiles(shape_of(c), lanes); };
  how.refusal = [=, &c](const ConvInt8Tile& t) { return conv_int8_tile_refusal(shape_of(c), t); };
  how.generate = [=, &c](const ConvInt8Tile& t) { return generate_conv_int8(site.node, c, *site.writable, site.isa, *site.constants, t); };
  const char* refusal = c.accumulate != DType::I32 ? "its sums are floats" : shape_of(c).depthwise() ? "it is depthwise" : "";
  return make_form("conv_int8", refusal, how);
}

Form cpu_winograd_form(const CpuSite& site) {
  const auto& c = site.problem<program::Convolution>();
  const int lanes = lanes_of(site.isa);
  Tiling<WinogradTile> how;
  how.rule = [=, &c] { return choose_winograd_tile(shape_of(c), lanes); };
  how.others = [=, &c] { return other_winograd_tiles(shape_of(c), lanes); };
  how.refusal = [=, &c](const WinogradTile& t) { return winograd_tile_refusal(shape_of(c), t); };
  how.generate = [=, &c](const WinogradTile& t) { return generate_winograd(site.node, c, *site.writable, site.isa, *site.constants, t); };
  if (c.accumulate == DType::I32) return make_form("winograd", "its sums are integers", how);
  if (!are_constant(site, c)) return make_form("winograd", "its weights are no constants", how);
  Form form = make_form("winograd", winograd_refusal(shape_of(c), input_of(c), lanes), how);
  form.reluctance = winograd_reluctance(shape_of(c));
  return form;
}

Form cpu_convolution_form(const CpuSite& site) {
  const auto& c = site.problem<program::Convolution>();
  const int lanes = lanes_of(site.isa);
  Tiling<ConvTile> how;
  how.rule = [=, &c] { return choose_conv_tile(shape_of(c), input_of(c), lanes); };
  how.others = [=, &c] { return other_conv_tiles(shape_of(c), input_of(c), lanes); };
  how.refusal = [=, &c](const ConvTile& t) { return conv_tile_refusal(shape_of(c), input_of(c), t); };
  how.generate = [=, &c](const ConvTile& t) { return generate_convolution(site.node, c, *site.writable, site.isa, *site.constants, t); };
  const bool integers = c.accumulate == DType::I32, depthwise = shape_of(c).depthwise();
  const char* name = integers ? "conv_depthwise_int8" : depthwise ? "conv_depthwise" : "convolution";
  return make_form(name, integers && !depthwise ? "only depthwise ones of integers" : "", how);
}

}  // namespace toroid::codegen
