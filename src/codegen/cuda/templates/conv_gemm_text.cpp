#include "codegen/cuda/templates/conv_gemm_text.h"

#include <algorithm>

#include "base/check.h"
#include "codegen/cuda/templates/conv_gemm.cu.h"
#include "codegen/cuda/templates/gemm_mma_text.h"
#include "codegen/expand.h"

namespace toroid::codegen {

namespace {

constexpr int kRowBytes = 128 + 16;  // of one pixel or channel in a stage: 8 of them begin in different banks
constexpr int kPixelBytes = 16, kTapBytes = 16, kGatheredK = 64;

int stage_bytes(const ConvGemmTile& t) { return (t.block_m + t.block_n) * kRowBytes; }
int sum_bytes(const ConvGemmTile& t) { return t.warps_k * t.block_m * (t.block_n + 8) * 4; }

constexpr std::string_view kOutside = "if (m >= M || n >= N) continue;";
}  // namespace

ConvGemmText conv_gemm_text(const ConvGemm& c) {
  const ConvGemmTile& t = c.tile;
  const bool half = is_half(c.type);
  TOROID_CHECK((half || c.type == DType::F32) && t.block_m % (16 * t.warps_m) == 0 && t.block_n % (16 * t.warps_n) == 0);
  TOROID_CHECK(4 % t.warps_k == 0 && t.block_m * 8 % t.threads() == 0 && t.block_m * t.block_n / 8 % t.split == 0);
  const auto n = [](int64_t x) { return std::to_string(x); };
  const bool split = t.split > 1;
  ConvGemmText out;
  out.definitions = expand(conv_gemm_cu::kDefinitions, {{"BLOCK_M", n(t.block_m)},
                                                        {"BLOCK_N", n(t.block_n)},
                                                        {"STAGES", n(t.stages)},
                                                        {"THREADS", n(t.threads())},
                                                        {"SPLIT", n(t.split)},
                                                        {"WARPS_M", n(t.warps_m)},
                                                        {"WARPS_N", n(t.warps_n)},
                                                        {"WARPS_K", n(t.warps_k)},
                                                        {"WIDTH", n(c.width)},
                                                        {"ELEMENT", half ? "u16" : "f32"},
                                                        {"PLACE", c.far ? "i64" : "i32"}});
  if (half || c.tf32)
    out.definitions += expand(conv_gemm_cu::kTensorCores, {{"T", half ? c.type == DType::BF16 ? "bf16" : "f16" : "tf32"},
                                                           {"K", half ? "16" : "8"},
                                                           {"HALF_K", half ? "8" : "4"},
                                                           {"SIZE", half ? "2" : "4"},
                                                           {"ROUND", half ? "" : std::string(round_to_tf32_text())},
                                                           {"ROUND_FRAGMENTS", half ? "" : std::string(conv_gemm_cu::kRoundFragments)}});
  else
    out.definitions += conv_gemm_cu::kPlain;
  const bool one_tap = c.kernel_h * c.kernel_w == 1;
  out.body = expand(conv_gemm_cu::kBody,
                    {{"M", c.m},
                     {"N", c.n},
                     {"K", c.k},
                     {"PITCH", c.pitch},
                     {"RANK", split ? std::string(conv_gemm_cu::kRank) : "constexpr int rank = 0;"},
                     {"INPUT", c.input},
                     {"WEIGHT", c.weight},
                     {"GROUP_STRIDE", c.group_stride},
                     {"CHANNELS", one_tap ? c.k : c.channels},
                     {"TAP_H", one_tap ? "0" : "tap / " + n(c.kernel_w)},
                     {"TAP_W", one_tap ? "0" : "tap % " + n(c.kernel_w)},
                     {"DILATION_H", n(c.dilation_h)},
                     {"DILATION_W", n(c.dilation_w)},
                     {"STEP_H", n(c.step_h)},
                     {"STEP_W", n(c.step_w)},
                     {"PAD_H", n(c.pad_h)},
                     {"PAD_W", n(c.pad_w)},
                     {"IN_H", c.in_h},
                     {"IN_W", c.in_w},
                     {"OUT_H", c.out_h},
                     {"OUT_W", c.out_w},
                     {"STRIDE_N", c.stride_n},
                     {"STRIDE_C", c.stride_c},
                     {"STRIDE_H", c.stride_h},
                     {"STRIDE_W", c.stride_w},
                     {"LOAD_INPUT", std::string(half && c.width == 1 ? conv_gemm_cu::kGatherInput : conv_gemm_cu::kLoadInput)},
                     {"EARLY", c.overlaps ? "asm volatile(\"griddepcontrol.launch_dependents;\" ::: \"memory\");" : ""},
                     {"WAIT", c.overlaps ? "asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");" : ""},
                     {"MEET", split ? std::string(conv_gemm_cu::kMeet) : "__syncthreads();"},
                     {"FIRST_UNIT", split ? "rank * kUnits" : "0"},
                     {"ADD", std::string(split ? conv_gemm_cu::kAddBlocks : conv_gemm_cu::kAdd)},
                     {"CARRIED", c.carried},
                     {"OUTSIDE", std::string(c.around ? conv_gemm_cu::kLeft : kOutside)},
                     {"EPILOGUE", c.epilogue},
                     {"PART", split ? std::string(conv_gemm_cu::kPart) : ""}});
  return out;
}

int conv_gemm_shared_bytes(const ConvGemmTile& t, bool gathers) {
  return std::max(t.stages * stage_bytes(t), sum_bytes(t)) + t.block_m * kPixelBytes + (gathers ? t.stages * kGatheredK * kTapBytes : 0);
}

}  // namespace toroid::codegen
