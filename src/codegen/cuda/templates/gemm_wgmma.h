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

// The map {k, n} of a B with the boxes of wgmma_box_rows_b() as GemmWgmma::neighbours (`begin`) wants it: columns 8 q + 2 j + e of
// kQuadColumns come in the order of j, q, e.
device::cuda::TensorMap in_order_of_lanes(device::cuda::TensorMap map, int begin);

// All tiles worth a trial for a product that is not refused, and the one that a model of the time expects to be fastest for these sizes
// (guesses where they are symbolic). window: A is read through a convolution's window, which blocks do not share.
std::vector<WgmmaTile> wgmma_tiles(const choice::Gemm& g, bool window = false);
WgmmaTile choose_wgmma_tile(const choice::Gemm& g, int64_t m, int64_t n, int64_t k, int64_t batch, int processors, bool window = false);

}  // namespace toroid::codegen
