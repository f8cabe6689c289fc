// Matrix products on the plain arithmetic units of a GPU: any layout, any size, f32, f16 and bf16.
#pragma once

#include "codegen/kernel_text.h"
#include "program/program.h"

namespace toroid::codegen {

// Why generate_gemm_simt() does not take a Gemm node; empty when it does.
std::string gemm_simt_refusal(const program::Node& node, const program::Gemm& g);

// Columns and rows of the part of the result that a block computes: 64, 32 or 16. The smaller ones divide K among groups of threads.
struct SimtTile {
  int tile = 64;
};
KernelText generate_gemm_simt(const program::Node& node, const program::Gemm& g, const SimtTile& tile);
// processors: multiprocessors of the GPU.
SimtTile choose_simt_tile(const program::Gemm& g, int processors);

}  // namespace toroid::codegen
