// Matrix products of 16-bit floats on Hopper's tensor cores.
#pragma once

#include <string>
#include <vector>

#include "choice/program.h"
#include "codegen/cuda/templates/gemm_wgmma_text.h"
#include "codegen/cuda/templates/parts.h"
#include "codegen/kernel_text.h"

namespace toroid::codegen {

// Why generate_gemm_wgmma() does not take a Gemm node; empty when it does.
std::string gemm_wgmma_refusal(const choice::Node& node, const choice::Gemm& g);
// processors: multiprocessors of the GPU.
KernelText generate_gemm_wgmma(const choice::Node& node, const choice::Gemm& g, const WgmmaTile& tile, int processors, bool overlaps);
// The kernel of a template around that text, for the tiles of a product of g's sizes.
KernelText wgmma_kernel(CudaArguments& arguments, const GemmWgmma& w, const std::string& name, const choice::Node& node,
                        const CudaPoints& epilogue, const choice::Gemm& g, int processors);

// All tiles worth a trial for a product that is not refused, and the one that a model of the time expects to be fastest for these sizes
// (guesses where they are symbolic).
std::vector<WgmmaTile> wgmma_tiles(const choice::Gemm& g);
WgmmaTile choose_wgmma_tile(const choice::Gemm& g, int64_t m, int64_t n, int64_t k, int64_t batch, int processors);

}  // namespace toroid::codegen
