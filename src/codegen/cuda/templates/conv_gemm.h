// Convolutions as implicit products (sm_80 and later), of any layout, window and number of channels.
#pragma once

#include <string>
#include <vector>

#include "codegen/cuda/templates/conv_gemm_text.h"
#include "codegen/cuda/templates/conv_parts.h"
#include "codegen/kernel_text.h"

namespace toroid::codegen {

// Why generate_conv_gemm() does not take a convolution; empty when it does.
std::string conv_gemm_refusal(const choice::Convolution& c);
// "conv_mma" on tensor cores, for 16-bit floats; "conv_simt" for f32.
const char* conv_gemm_name(const choice::Convolution& c);
// weight: the buffer that conv_packed_weight() gave.
// clusters: the GPU has Hopper's instructions; then launches overlap.
KernelText generate_conv_gemm(const choice::Node& node, const choice::Convolution& c, int weight, const ConvGemmTile& tile, bool clusters);

// Tiles worth a trial, and the one that a model of the time expects to be fastest for `pixels` of the result. processors:
// multiprocessors of the GPU.
std::vector<ConvGemmTile> conv_gemm_tiles(const choice::Convolution& c, bool clusters);
ConvGemmTile choose_conv_gemm_tile(const choice::Convolution& c, int64_t pixels, int processors, bool clusters);

}  // namespace toroid::codegen
