// Matrix products of 16-bit floats on tensor cores of any layout (sm_80 and later).
#pragma once

#include <string>

#include "choice/program.h"
#include "codegen/cuda/templates/gemm_mma_text.h"
#include "codegen/kernel_text.h"

namespace toroid::codegen {

// Why generate_gemm_mma() does not take a Gemm node; empty when it does.
std::string gemm_mma_refusal(const choice::Node& node, const choice::Gemm& g);
KernelText generate_gemm_mma(const choice::Node& node, const choice::Gemm& g, const MmaTile& tile);

// processors: multiprocessors of the GPU.
MmaTile choose_mma_tile(const choice::Gemm& g, int64_t m, int64_t n, int64_t batch, int processors);

}  // namespace toroid::codegen
