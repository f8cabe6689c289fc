#include "codegen/cuda/templates/conv_gemm.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/check.h"
#include "codegen/cuda/template.h"
#include "codegen/cuda/templates/parts.h"

namespace toroid::codegen {
namespace {

int64_t block_k(const program::Convolution& c) { return static_cast<int64_t>(128 / size_of(c.input.dtype)); }

bool gathers(const program::Convolution& c) { return is_half(c.input.dtype) && conv_input_width(c) == 1; }

// The end of the input's places.
Expr input_end(const program::Convolution& c) {
  const auto& s = c.input.strides;
  return c.input.offset + s[0] * c.n + s[1] * Expr(c.in_channels) + s[2] * c.in_h + s[3] * c.in_w;
}

}  // namespace

std::string conv_gemm_refusal(const program::Convolution& c) {
  if (program::is_weight_gradient(c)) return "operands lie as the gradient of weights has them";
  if (c.input.dtype != c.weight.dtype) return "operands of two types";
  return is_half(c.input.dtype) || c.input.dtype == DType::F32 ? "" : "operands are not bf16, f16 or f32";
}

const char* conv_gemm_name(const program::Convolution& c) { return is_half(c.input.dtype) || c.tf32 ? "conv_mma" : "conv_simt"; }

KernelText generate_conv_gemm(const program::Node& node, const program::Convolution& c, int weight, const ConvGemmTile& tile,
                              bool clusters) {
  CudaArguments arguments;
  ConvGemm x;
  x.type = c.input.dtype;
  x.tf32 = c.tf32;
  x.tile = tile;
  x.width = conv_input_width(c);
  x.overlaps = clusters;
  x.far = !sym::known_lt(input_end(c), int64_t{1} << 31);
  auto size = [&](const Expr& e) { return cuda_size(arguments, e); };
  x.input = arguments.pointer(c.input.buffer, c.input.dtype);
  if (!(c.input.offset == Expr(0))) x.input += " + " + size(c.input.offset);
  x.weight = arguments.pointer(weight, c.weight.dtype);
  x.m = size(conv_pixels(c));
  x.n = size(conv_group_out(c));
  x.k = size(conv_k(c));
  x.pitch = size(conv_weight_pitch(c));
  x.channels = size(conv_group_in(c));
  x.out_h = size(c.out_h);
  x.out_w = size(c.out_w);
  x.in_h = size(c.in_h);
  x.in_w = size(c.in_w);
  x.stride_n = size(c.input.strides[0]);
  x.stride_c = size(c.input.strides[1]);
  x.stride_h = size(c.input.strides[2]);
  x.stride_w = size(c.input.strides[3]);
  x.group_stride = size(Expr(conv_group_in(c)) * c.input.strides[1]);
  x.kernel_h = static_cast<int>(c.kernel_h), x.kernel_w = static_cast<int>(c.kernel_w);
  x.step_h = static_cast<int>(c.stride_h), x.step_w = static_cast<int>(c.stride_w);
  x.pad_h = static_cast<int>(c.pad_h), x.pad_w = static_cast<int>(c.pad_w);
  x.dilation_h = static_cast<int>(c.dilation_h), x.dilation_w = static_cast<int>(c.dilation_w);
  const auto unit = static_cast<int>(16 / size_of(c.input.dtype));
  const loop::Nest points = conv_points(node, c, c.groups > 1);
  x.around = begins_anywhere(points, unit);
  std::vector<std::string> at = {x.around ? "(m < M ? m : M - 1)" : "m", "n"};
  if (c.groups > 1) at.insert(at.begin() + 1, "group");
  const CudaPoints epilogue = x.around ? cuda_epilogue_around(arguments, points, at, "acc", unit, {.lanes = 32})
                                       : cuda_epilogue(arguments, points, at, "acc", unit);
  x.epilogue = epilogue.statements, x.carried = epilogue.carried;
  const ConvGemmText text = conv_gemm_text(x);
  arguments.define(text.definitions);
  KernelText k = arguments.kernel(cuda_template_name(conv_gemm_name(c), node.body), text.body, tile.threads(), epilogue.wide || x.far,
                                  tile.threads() <= 128 ? 2 : 1, clusters);
  if (tile.split > 1) {
    TOROID_CHECK(clusters);
    run_in_clusters(k, tile.split);
  }
  k.shared_bytes = conv_gemm_shared_bytes(tile, gathers(c));
  k.tasks = sym::ceil_div(conv_pixels(c), tile.block_m) * Expr(ceil_div(conv_group_out(c), tile.block_n) * c.groups * tile.split);
  k.plan =
      fmt::format("{}: tiles of {} pixels x {} channels, k of {} in {} stages of {}, {} x {} x {} warps, split {}\n", conv_gemm_name(c),
                  tile.block_m, tile.block_n, conv_k(c), tile.stages, block_k(c), tile.warps_m, tile.warps_n, tile.warps_k, tile.split) +
      loop::to_string(node.domain, node.body);
  return k;
}

// --- the choice of a tile -------------------------------------------------------------------------------------------------------------

namespace {

// Two blocks fit a multiprocessor: those of the next kernel fetch their weights while this one's end.
constexpr int kSharedOfTwo = 113 * 1024;

// The tile with as many stages as are useful and fit.
ConvGemmTile tile_of(const program::Convolution& c, int block_m, int block_n, int warps_m, int warps_n, int warps_k, int split) {
  ConvGemmTile t{block_m, block_n, 2, warps_m, warps_n, warps_k, split};
  const auto steps = static_cast<int>(ceil_div(ceil_div(conv_k(c), block_k(c)), split));
  constexpr int kMostStages = 8;
  while (t.stages < std::min(kMostStages, steps + 1)) {
    ++t.stages;
    if (conv_gemm_shared_bytes(t, gathers(c)) > kSharedOfTwo) {
      --t.stages;
      break;
    }
  }
  return t;
}

// Microseconds, from rates measured on an H200.
double expected_time(const program::Convolution& c, const ConvGemmTile& t, int64_t pixels, int processors) {
  const int64_t tiles = ceil_div(pixels, t.block_m) * ceil_div(conv_group_out(c), t.block_n) * c.groups;
  const int64_t steps = ceil_div(ceil_div(conv_k(c), block_k(c)), t.split);
  const double area = double(t.block_m) * t.block_n;
  const double products = is_half(c.input.dtype) ? 1.2e6 : c.tf32 ? 6e5 : 1.2e5;  // multiply-adds of a multiprocessor in a microsecond
  constexpr double kStep = 0.3, kGathered = 0.02, kLaunch = 2.2, kSplit = 0.7, kStore = 1e-4;
  double step = kStep + area * double(block_k(c)) / products;
  if (gathers(c)) step += kGathered * double(t.block_m) * double(block_k(c)) / t.threads();
  const double waves = std::max(1.0, double(tiles * t.split) / processors);
  double time = kLaunch + step * double(steps) * waves + area * kStore * waves;
  if (t.split > 1) time += kSplit + area * 5e-5;
  return time;
}

}  // namespace

std::vector<ConvGemmTile> conv_gemm_tiles(const program::Convolution& c, bool clusters) {
  std::vector<ConvGemmTile> tiles;
  const int64_t steps = ceil_div(conv_k(c), block_k(c));
  for (int split : {1, 2, 4, 8}) {
    if (split > 1 && (!clusters || split > steps)) continue;
    if (!is_half(c.input.dtype) && !c.tf32) tiles.push_back(tile_of(c, 32, 32, 1, 1, 4, split));
    tiles.push_back(tile_of(c, 64, 32, 2, 1, 2, split));
    tiles.push_back(tile_of(c, 64, 64, 2, 2, 1, split));
    tiles.push_back(tile_of(c, 64, 64, 2, 2, 2, split));
    if (split > 2) continue;
    tiles.push_back(tile_of(c, 128, 64, 4, 2, 1, split));
    tiles.push_back(tile_of(c, 64, 128, 2, 4, 1, split));
    tiles.push_back(tile_of(c, 128, 128, 2, 4, 1, split));
  }
  return tiles;
}

std::vector<ConvGemmTile> ranked_conv_gemm_tiles(const program::Convolution& c, int64_t pixels, int processors, bool clusters) {
  std::vector<ConvGemmTile> tiles = conv_gemm_tiles(c, clusters);
  std::stable_sort(tiles.begin(), tiles.end(), [&](const ConvGemmTile& x, const ConvGemmTile& y) {
    return expected_time(c, x, pixels, processors) < expected_time(c, y, pixels, processors);
  });
  return tiles;
}

ConvGemmTile choose_conv_gemm_tile(const program::Convolution& c, int64_t pixels, int processors, bool clusters) {
  return ranked_conv_gemm_tiles(c, pixels, processors, clusters)[0];
}

std::string conv_gemm_tile_refusal(const program::Convolution& c, const ConvGemmTile& t, bool clusters) {
  if (t.stages < 2) return "stages is less than 2";
  const auto tiles = conv_gemm_tiles(c, clusters);
  const bool known = std::any_of(tiles.begin(), tiles.end(), [&](ConvGemmTile x) { return x.stages = t.stages, x == t; });
  if (!known) return "there is no such tile";
  return conv_gemm_shared_bytes(t, gathers(c)) > kSharedOfTwo ? "its stages do not fit shared memory" : "";
}

Form cuda_conv_gemm_form(const CudaSite& site) {
  const auto& c = site.problem<program::Convolution>();
  const int64_t pixels = typical_size(conv_pixels(c));
  const int processors = site.gpu.multiprocessors;
  const bool clusters = site.gpu.is_hopper();
  Tiling<ConvGemmTile> how;
  how.rule = [=, &c] { return choose_conv_gemm_tile(c, pixels, processors, clusters); };
  how.others = [=, &c] { return ranked_conv_gemm_tiles(c, pixels, processors, clusters); };
  how.refusal = [=, &c](const ConvGemmTile& t) { return conv_gemm_tile_refusal(c, t, clusters); };
  how.generate = [=, &c](const ConvGemmTile& t) {
    return generate_conv_gemm(site.node, c, conv_packed_weight(c, *site.writable, *site.constants), t, clusters);
  };
  return make_form(conv_gemm_name(c), conv_gemm_refusal(c), how);
}

}  // namespace toroid::codegen
