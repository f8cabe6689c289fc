#include "codegen/cuda/templates/conv_wgrad.h"

#include <fmt/core.h>

#include "codegen/cuda/template.h"
#include "codegen/cuda/templates/conv_wgmma.h"
#include "codegen/cuda/templates/gemm_mma.h"
#include "codegen/cuda/templates/gemm_wgmma.h"

namespace toroid::codegen {
namespace {

constexpr int kBox = 64;  // channels, and pixels, that are copied at once

// The convolution whose gradient this is.
struct Forward {
  explicit Forward(const program::Convolution& c)
      : channels(c.n),
        results(c.out_channels),
        taps(c.out_h * c.out_w),
        pixels(Expr(c.in_channels * c.kernel_h * c.kernel_w)),
        window{.taps_h = c.out_h.maybe_constant().value_or(0),
               .taps_w = c.out_w.maybe_constant().value_or(0),
               .out_h = c.kernel_h,
               .out_w = c.kernel_w,
               .stride_h = c.dilation_h,
               .stride_w = c.dilation_w,
               .dilation_h = c.stride_h,
               .dilation_w = c.stride_w,
               .pad_h = c.pad_h,
               .pad_w = c.pad_w} {}
  Expr channels;
  int64_t results;
  Expr taps, pixels;
  WindowWalk window;
};

bool follows(const program::Convolution& c) {
  const auto& s = c.weight.strides;
  return s[2] == Expr(c.kernel_w) * s[3] && s[1] == Expr(c.kernel_h) * s[2];
}

// Positions of a window along a dimension of `size`, as a tensor map counts them.
int64_t positions(const Expr& size, int64_t pad, int64_t reach, int64_t step) {
  const auto known = size.maybe_constant();
  return known ? (*known - 1 + 2 * pad - reach) / step + 1 : -1;
}

}  // namespace

std::string conv_wgrad_refusal(const program::Convolution& c) {
  if (!program::is_weight_gradient(c)) return "it is no gradient of weights whose operands lie channels last";
  if (std::string why = tensor_core_refusal(c.input.dtype, c.weight.dtype, c.tf32); !why.empty()) return why;
  if (!is_half(c.input.dtype)) return "operands are not of 16 bits";
  if (c.groups != 1) return "groups";
  const Forward f(c);
  if (!f.channels.is_const() || f.channels.constant() % kBox != 0) return fmt::format("channels are no multiple of {}", kBox);
  constexpr int kAligned = 8;  // elements of 16 bytes
  bool aligned = sym::known_multiple(c.input.offset, kAligned) && sym::known_multiple(c.weight.offset, kAligned) &&
                 c.out_channels % kAligned == 0 && sym::known_multiple(c.weight.strides[3], kAligned);
  for (size_t d = 1; d < 4; ++d) aligned = aligned && sym::known_multiple(c.input.strides[d], kAligned);
  if (!aligned) return "channels are not aligned to 16 bytes";
  if (!follows(c)) return "pixels of the results' gradient do not follow each other";
  if (!sym::known_lt(f.pixels, int64_t{1} << 31)) return "too many pixels";
  if (std::string why = window_refusal(f.window); !why.empty()) return why;
  if (f.window.taps_h < 1 || f.window.taps_w < 1) return "the window is no constant";
  const WindowWalk& w = f.window;
  if (positions(c.in_h, w.pad_h, (w.taps_h - 1) * w.dilation_h, w.stride_h) != w.out_h ||
      positions(c.in_w, w.pad_w, (w.taps_w - 1) * w.dilation_w, w.stride_w) != w.out_w)
    return "windows end beyond the last result";
  return "";
}

program::Gemm conv_wgrad_product(const program::Convolution& c) {
  const Forward f(c);
  program::Gemm g;
  g.m = f.taps * f.channels;
  g.n = f.results;
  g.k = f.pixels;
  g.a = {c.input.buffer, c.input.dtype, c.input.offset, {1, g.m}};
  g.b = {c.weight.buffer, c.weight.dtype, c.weight.offset, {c.weight.strides[3], 1}};
  return g;
}

KernelText generate_conv_wgrad(const program::Node& node, const program::Convolution& c, const WgmmaTile& tile, int processors) {
  CudaArguments arguments;
  const Forward f(c);
  const program::Gemm g = conv_wgrad_product(c);
  GemmWgmma w;
  w.type = c.input.dtype;
  w.tile = tile;
  w.whole_tiles = sym::known_multiple(g.m, tile.block_m * tile.share) && sym::known_multiple(g.n, tile.block_n);
  w.overlaps = true;
  device::cuda::TensorMap images;
  images.buffer = c.input.buffer;
  images.dtype = c.input.dtype;
  images.offset = c.input.offset;
  images.sizes = {f.channels, c.in_w, c.in_h, c.in_channels};
  images.strides = {c.input.strides[3], c.input.strides[2], c.input.strides[1]};
  images.box = {kBox, kBox};
  images.swizzle = 128;
  images.window = window_of(f.window);
  w.a.map = arguments.tensor_map(std::move(images));
  w.a.k_contiguous = w.b.k_contiguous = false;
  device::cuda::TensorMap gradient;
  gradient.buffer = c.weight.buffer;
  gradient.dtype = c.weight.dtype;
  gradient.offset = c.weight.offset;
  gradient.sizes = {g.n, g.k};
  gradient.strides = {c.weight.strides[3]};
  gradient.box = {kBox, wgmma_box_rows_b(w)};
  gradient.swizzle = 128;
  w.b.map = arguments.tensor_map(std::move(gradient));
  w.m = cuda_size(arguments, g.m);
  w.n = cuda_size(arguments, g.n);
  w.k = cuda_size(arguments, g.k);
  w.batches = cuda_size(arguments, Expr(1));
  w.a.load = fmt::format("for (int x = 0; x < kBlockM; x += {0}) load_window(to_a + x * 128, {1}, bar, k * kBlockK, (w.m + x) / {0});",
                         kBox, w.a.map);
  arguments.define(load_window_text(f.window, f.channels.constant() / kBox, kBox));
  // The result's pixels are taps, each of a channel: rows come the other way round.
  const loop::Nest points = conv_points(node, c, false);
  w.around = begins_anywhere(points, 8);
  const std::string row = w.around && !w.whole_tiles ? "(m < M ? m : M - 1)" : "m";
  const std::vector<std::string> at = {fmt::format("({0} % {1} * {2} + {0} / {1})", row, f.channels.constant(), f.taps.constant()), "n"};
  const CudaPoints epilogue = w.around ? cuda_epilogue_around(arguments, points, at, "acc", 8, {.whole = w.whole_tiles})
                                       : cuda_epilogue(arguments, points, at, "acc", 8);
  w.epilogue = epilogue.statements, w.near = epilogue.near, w.far = epilogue.far, w.carried = epilogue.carried;
  return wgmma_kernel(arguments, w, "conv_wgrad", node, epilogue, g, processors);
}

Form cuda_conv_wgrad_form(const CudaSite& site) {
  const auto& c = site.problem<program::Convolution>();
  const int processors = site.gpu.multiprocessors;
  const std::string refusal = site.gpu.is_hopper() ? conv_wgrad_refusal(c) : "the GPU has no wgmma";
  if (!refusal.empty()) return make_form("conv_wgrad", refusal, Tiling<WgmmaTile>{});
  const Forward f(c);
  const program::Gemm g = conv_wgrad_product(c);
  WgmmaSizes sizes{.m = typical_size(g.m), .n = typical_size(g.n), .k = typical_size(g.k), .processors = processors, .window = true};
  sizes.share_of_a = window_share(sizes, c.in_channels, c.in_h.constant() * c.in_w.constant() * f.channels.constant());
  return make_form("conv_wgrad", "",
                   wgmma_tiling(g, sizes, [=, &c](const WgmmaTile& t) { return generate_conv_wgrad(site.node, c, t, processors); }));
}

}  // namespace toroid::codegen
