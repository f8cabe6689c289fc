// Convolutions of 16-bit floats, and of f32 rounded to tf32, on Hopper's tensor cores: gemm_wgmma, whose copies of the left operand walk a
// window over the input.
#pragma once

#include <string>

#include "codegen/cuda/templates/conv_parts.h"
#include "codegen/cuda/templates/gemm_wgmma_text.h"
#include "codegen/kernel_text.h"

namespace toroid::codegen {

// Why generate_conv_wgmma() does not take a convolution; empty when it does.
std::string conv_wgmma_refusal(const program::Convolution& c);
// The product that a convolution is implicitly, for the choice of a tile.
program::Gemm conv_implicit_product(const program::Convolution& c);
// weight: the buffer that conv_packed_weight() gave. processors: multiprocessors of the GPU.
KernelText generate_conv_wgmma(const program::Node& node, const program::Convolution& c, int weight, const WgmmaTile& tile, int processors);

}  // namespace toroid::codegen
