#include "codegen/cuda/templates/conv_wgmma.h"

#include <fmt/core.h>

#include <algorithm>

#include "codegen/cuda/template.h"
#include "codegen/cuda/templates/conv_wgmma.cu.h"
#include "codegen/cuda/templates/gemm_mma.h"
#include "codegen/cuda/templates/gemm_wgmma.h"

namespace toroid::codegen {
namespace {

int64_t block_k(const program::Convolution& c) { return wgmma_block_k(c.input.dtype); }

WindowWalk walk_of(const program::Convolution& c) {
  return {.taps_h = c.kernel_h,
          .taps_w = c.kernel_w,
          .out_h = c.out_h.constant(),
          .out_w = c.out_w.constant(),
          .stride_h = c.stride_h,
          .stride_w = c.stride_w,
          .dilation_h = c.dilation_h,
          .dilation_w = c.dilation_w,
          .pad_h = c.pad_h,
          .pad_w = c.pad_w};
}

}  // namespace

std::string window_refusal(const WindowWalk& w) {
  // What a tensor map holds: corners and offsets of 8 bits, steps up to 8.
  constexpr int64_t kMostStep = 8, kCorner = 127;
  const int64_t reach = std::max((w.taps_h - 1) * w.dilation_h, (w.taps_w - 1) * w.dilation_w);
  const bool fits = reach <= kCorner && std::max(w.pad_h, w.pad_w) <= kCorner && std::max(w.stride_h, w.stride_w) <= kMostStep;
  return fits ? "" : "a large window";
}

device::cuda::TensorMap::Window window_of(const WindowWalk& w) {
  auto number = [](int64_t x) { return static_cast<int>(x); };
  return {{number(-w.pad_w), number(-w.pad_h)},
          {number(w.pad_w - (w.taps_w - 1) * w.dilation_w), number(w.pad_h - (w.taps_h - 1) * w.dilation_h)},
          {number(w.stride_w), number(w.stride_h)}};
}

double window_share(const WgmmaSizes& sizes, int64_t images, int64_t elements) {
  return std::min(1.0, double(images) * double(elements) / (double(sizes.m) * double(sizes.k)));
}

std::string load_window_text(const WindowWalk& w, int64_t pieces, int64_t channels) {
  auto n = [](int64_t x) { return std::to_string(x); };
  return expand(conv_wgmma_cu::kLoad, {{"PIECES", n(pieces)},
                                       {"BLOCK_K", n(channels)},
                                       {"OUT_H", n(w.out_h)},
                                       {"OUT_W", n(w.out_w)},
                                       {"TAPS_W", n(w.taps_w)},
                                       {"DILATION_H", n(w.dilation_h)},
                                       {"DILATION_W", n(w.dilation_w)},
                                       {"STEP_H", n(w.stride_h)},
                                       {"STEP_W", n(w.stride_w)},
                                       {"PAD_H", n(w.pad_h)},
                                       {"PAD_W", n(w.pad_w)}});
}

std::string conv_wgmma_refusal(const program::Convolution& c) {
  if (std::string why = tensor_core_refusal(c.input.dtype, c.weight.dtype, c.tf32); !why.empty()) return why;
  if (c.groups != 1) return "groups";
  if (c.in_channels % block_k(c) != 0) return fmt::format("channels are no multiple of {}", block_k(c));
  if (!(c.input.strides[1] == Expr(1)) || conv_input_width(c) * size_of(c.input.dtype) != 16)
    return "channels are not contiguous, or not aligned to 16 bytes";
  if (!sym::known_lt(conv_pixels(c), int64_t{1} << 31)) return "too many pixels";
  if (!c.out_h.is_const() || !c.out_w.is_const()) return "height and width are no constants";
  return window_refusal(walk_of(c));
}

program::Gemm conv_implicit_product(const program::Convolution& c) {
  program::Gemm g;
  g.m = conv_pixels(c);
  g.n = c.out_channels;
  g.k = conv_k(c);
  g.a = {c.input.buffer, c.input.dtype, c.input.offset, {g.k, 1}};
  g.b = {c.weight.buffer, c.weight.dtype, 0, {1, g.k}};
  g.tf32 = c.tf32;
  return g;
}

KernelText generate_conv_wgmma(const program::Node& node, const program::Convolution& c, int weight, const WgmmaTile& tile,
                               int processors) {
  CudaArguments arguments;
  const program::Gemm g = conv_implicit_product(c);
  GemmWgmma w;
  w.type = c.input.dtype;
  w.sums = sums_of_columns(arguments, node.body);
  w.tile = with_room_for_sums(tile, w.sums.size());
  w.whole_tiles = sym::known_multiple(g.m, tile.block_m * tile.share) && sym::known_multiple(g.n, tile.block_n);
  w.overlaps = true;
  device::cuda::TensorMap input;
  input.buffer = c.input.buffer;
  input.dtype = c.input.dtype;
  input.tf32 = c.tf32;
  input.offset = c.input.offset;
  input.sizes = {c.in_channels, c.in_w, c.in_h, c.n};
  input.strides = {c.input.strides[3], c.input.strides[2], c.input.strides[0]};
  input.box = {wgmma_block_k(c.input.dtype), wgmma_box_rows_a(w)};
  input.swizzle = 128;
  const WindowWalk walk = walk_of(c);
  input.window = window_of(walk);
  w.a.map = arguments.tensor_map(std::move(input));
  device::cuda::TensorMap weights;
  weights.buffer = weight;
  weights.dtype = c.weight.dtype;
  weights.tf32 = c.tf32;
  weights.sizes = {g.k, g.n};
  weights.strides = {g.k};
  weights.box = {wgmma_block_k(c.input.dtype), wgmma_box_rows_b(w)};
  weights.swizzle = 128;
  w.neighbours = sym::known_multiple(g.n, kQuadColumns) && takes_neighbours(tile, false) ? kQuadColumns : 0;
  if (w.neighbours) weights = in_order_of_lanes(std::move(weights), w.neighbours);
  w.b.rank = static_cast<int>(weights.sizes.size());
  w.b.map = arguments.tensor_map(std::move(weights));
  w.m = cuda_size(arguments, g.m);
  w.n = cuda_size(arguments, g.n);
  w.k = cuda_size(arguments, g.k);
  w.batches = cuda_size(arguments, Expr(1));
  w.a.load = fmt::format("load_window(to_a, {}, bar, w.m, k);", w.a.map);
  const loop::Nest points = conv_points(node, c, false);
  w.around = begins_anywhere(points, 8);
  const std::vector<std::string> at = {w.around && !w.whole_tiles ? "(m < M ? m : M - 1)" : "m", "n"};
  const CudaPoints epilogue = w.around ? cuda_epilogue_around(arguments, points, at, "acc", 8, {.whole = w.whole_tiles})
                                       : cuda_epilogue(arguments, points, at, "acc", 8, !w.sums.empty());
  w.epilogue = epilogue.statements, w.near = epilogue.near, w.far = epilogue.far, w.carried = epilogue.carried;
  arguments.define(load_window_text(walk, c.in_channels / block_k(c), block_k(c)));
  return wgmma_kernel(arguments, w, "conv_wgmma", node, epilogue, g, processors);
}

Form cuda_conv_wgmma_form(const CudaSite& site) {
  const auto& c = site.problem<program::Convolution>();
  const int processors = site.gpu.multiprocessors;
  WgmmaSizes sizes{.m = typical_size(conv_pixels(c)), .n = c.out_channels, .k = conv_k(c), .processors = processors, .window = true};
  sizes.share_of_a = window_share(sizes, typical_size(c.n), typical_size(c.in_h) * typical_size(c.in_w) * c.in_channels);
  sizes.sums = leaves_sums(site.node.body);
  Form form = make_form("conv_wgmma", site.gpu.is_hopper() ? conv_wgmma_refusal(c) : "the GPU has no wgmma",
                        wgmma_tiling(conv_implicit_product(c), sizes, [=, &c](const WgmmaTile& t) {
                          return generate_conv_wgmma(site.node, c, conv_packed_weight(c, *site.writable, *site.constants), t, processors);
                        }));
  form.sums_refusal = [=, &c](const program::Config& config) {
    return wgmma_sums_refusal(conv_points(site.node, c, false), conv_implicit_product(c), sizes, config);
  };
  return form;
}

}  // namespace toroid::codegen
