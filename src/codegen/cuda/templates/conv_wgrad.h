// Gradients of the weights of convolutions of 16-bit floats on Hopper's tensor cores (program::is_weight_gradient()): gemm_wgmma, whose k
// is the pixels of the results. Both operands are read where they lie, channels last; copies of the left one walk the window over the
// images.
#pragma once

#include <string>

#include "codegen/cuda/templates/conv_parts.h"
#include "codegen/cuda/templates/gemm_wgmma_text.h"
#include "codegen/kernel_text.h"

namespace toroid::codegen {

// Why generate_conv_wgrad() does not take a convolution; empty when it does.
std::string conv_wgrad_refusal(const program::Convolution& c);
// The product that it is implicitly, for the choice of a tile: rows are taps and, innermost, channels of images.
program::Gemm conv_wgrad_product(const program::Convolution& c);
// processors: multiprocessors of the GPU.
KernelText generate_conv_wgrad(const program::Node& node, const program::Convolution& c, const WgmmaTile& tile, int processors);

}  // namespace toroid::codegen
