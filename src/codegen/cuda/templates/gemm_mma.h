// Matrix products of 16-bit floats, and of f32 rounded to tf32, on tensor cores of any layout (sm_80 and later).
#pragma once

#include <string>
#include <vector>

#include "codegen/cuda/templates/gemm_mma_text.h"
#include "codegen/kernel_text.h"
#include "program/program.h"

namespace toroid::codegen {

// Why tensor cores do not multiply operands of these types; empty when they do. tf32: f32 may be rounded to it.
std::string tensor_core_refusal(DType a, DType b, bool tf32);

// Why generate_gemm_mma() does not take a Gemm node; empty when it does.
std::string gemm_mma_refusal(const program::Node& node, const program::Gemm& g);
KernelText generate_gemm_mma(const program::Node& node, const program::Gemm& g, const MmaTile& tile);

// All tiles worth a trial for a product that is not refused, and the one that is expected to be fastest. processors: multiprocessors of the
// GPU.
std::vector<MmaTile> mma_tiles(const program::Gemm& g);
MmaTile choose_mma_tile(const program::Gemm& g, int64_t m, int64_t n, int64_t batch, int processors);
// Why a tile is none of those, but for the number of its stages, or does not fit; empty when it is one. shared_bytes: of a block.
std::string mma_tile_refusal(const program::Gemm& g, const MmaTile& t, int64_t shared_bytes);

}  // namespace toroid::codegen
