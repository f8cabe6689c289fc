#include "codegen/cuda/templates/gemm_mma_text.h"

#include <algorithm>

#include "base/check.h"
#include "codegen/cuda/templates/gemm_mma.cu.h"
#include "codegen/expand.h"

namespace toroid::codegen {

namespace {

// Neighbours along a row follow each other, and all lanes take part.
constexpr std::string_view kOrder = "h = u % 2, j = u / 2 % (kWarpN / 32)", kRowOrder = "h = u / (kWarpN / 32) % 2, j = u % (kWarpN / 32)";
// Elements that a row of shared memory is longer.
int pad(DType type, const MmaOperand& o) { return is_half(type) || !o.k_contiguous ? 8 : 4; }

std::string truth(bool x) { return x ? "true" : "false"; }

}  // namespace

std::string_view transpose_quad_text() { return gemm_mma_cu::kTranspose; }

std::string_view round_to_tf32_text() { return gemm_mma_cu::kRound; }

GemmMmaText gemm_mma_text(const GemmMma& g) {
  const MmaTile& t = g.tile;
  const int warp_m = t.block_m / t.warps_m, warp_n = t.block_n / t.warps_n;
  const bool half = is_half(g.type);
  TOROID_CHECK((half || g.type == DType::F32) && warp_m % 16 == 0 && warp_n % 32 == 0 && t.block_k % 16 == 0);
  TOROID_CHECK(t.block_m * t.block_k % (8 * t.threads()) == 0 && t.block_n * t.block_k % (8 * t.threads()) == 0);
  const std::string pad_a = std::to_string(pad(g.type, g.a)), pad_b = std::to_string(pad(g.type, g.b));
  const std::string element = half ? "u16" : "f32";
  return {std::string(gemm_mma_cu::kTranspose) +
              expand(gemm_mma_cu::kDefinitions, {{"BLOCK_M", std::to_string(t.block_m)},
                                                 {"BLOCK_N", std::to_string(t.block_n)},
                                                 {"BLOCK_K", std::to_string(t.block_k)},
                                                 {"STAGES", std::to_string(t.stages)},
                                                 {"THREADS", std::to_string(t.threads())},
                                                 {"GROUP", std::to_string(std::max(1, 1024 / t.block_m))},
                                                 {"WARP_M", std::to_string(warp_m)},
                                                 {"WARP_N", std::to_string(warp_n)},
                                                 {"A_K", truth(g.a.k_contiguous)},
                                                 {"B_K", truth(g.b.k_contiguous)},
                                                 {"WIDTH_A", std::to_string(g.a.width)},
                                                 {"WIDTH_B", std::to_string(g.b.width)},
                                                 {"ELEMENT", element},
                                                 {"SIZE", half ? "2" : "4"},
                                                 {"WIDTH", half ? "8" : "4"},
                                                 {"PAD_A", pad_a},
                                                 {"PAD_B", pad_b},
                                                 {"PAD_PARAMETER", half ? "" : ", int kPad"},
                                                 {"PAD", half ? "8" : "kPad"},
                                                 {"HOLDS", half ? "kWidth == 1" : "false"},
                                                 {"END", half ? std::string(gemm_mma_cu::kStoreHeld) : ""}}) +
              (half ? expand(gemm_mma_cu::kHalfStage, {{"T", g.type == DType::BF16 ? "bf16" : "f16"}})
                    : expand(gemm_mma_cu::kTf32Stage, {{"ROUND", std::string(gemm_mma_cu::kRound)}, {"PAD_A", pad_a}, {"PAD_B", pad_b}})),
          expand(gemm_mma_cu::kBody, {{"M", g.m},
                                      {"N", g.n},
                                      {"K", g.k},
                                      {"ELEMENT", element},
                                      {"PAD_ARGUMENT_A", half ? "" : ", " + pad_a},
                                      {"PAD_ARGUMENT_B", half ? "" : ", " + pad_b},
                                      {"A_DATA", g.a.data},
                                      {"B_DATA", g.b.data},
                                      {"A_MN", g.a.stride_mn},
                                      {"A_STRIDE_K", g.a.stride_k},
                                      {"B_MN", g.b.stride_mn},
                                      {"B_STRIDE_K", g.b.stride_k},
                                      {"CARRIED", g.carried},
                                      {"ORDER", std::string(g.around ? kRowOrder : kOrder)},
                                      {"INSIDE", g.around ? "true" : "m < M && n < N"},
                                      {"EPILOGUE", (g.around ? std::string(gemm_mma_cu::kRowEnds) : "") + g.epilogue}})};
}

int mma_shared_bytes(const GemmMma& g) {
  const MmaTile& t = g.tile;
  auto bytes = [&](const MmaOperand& o, int mn) {
    const int rows = o.k_contiguous ? mn : t.block_k, inner = o.k_contiguous ? t.block_k : mn;
    return rows * (inner + pad(g.type, o)) * static_cast<int>(size_of(g.type));
  };
  return t.stages * (bytes(g.a, t.block_m) + bytes(g.b, t.block_n));
}

}  // namespace toroid::codegen
