// Convolutions as implicit products (sm_80 and later), of any layout, window and number of channels.
#pragma once

#include <string>
#include <vector>

#include "codegen/cuda/templates/conv_gemm_text.h"
#include "codegen/cuda/templates/conv_parts.h"
#include "codegen/kernel_text.h"

namespace toroid::codegen {

// Why generate_conv_gemm() does not take a convolution; empty when it does.
std::string conv_gemm_refusal(const program::Convolution& c);
// "conv_mma" on tensor cores, for 16-bit floats and tf32; "conv_simt" for f32.
const char* conv_gemm_name(const program::Convolution& c);
// weight: the buffer that conv_packed_weight() gave.
// clusters: the GPU has Hopper's instructions; then launches overlap.
KernelText generate_conv_gemm(const program::Node& node, const program::Convolution& c, int weight, const ConvGemmTile& tile,
                              bool clusters);

// Tiles worth a trial, the same by a model of the time for `pixels` of the result, and the fastest of them. processors: multiprocessors of
// the GPU.
std::vector<ConvGemmTile> conv_gemm_tiles(const program::Convolution& c, bool clusters);
std::vector<ConvGemmTile> ranked_conv_gemm_tiles(const program::Convolution& c, int64_t pixels, int processors, bool clusters);
ConvGemmTile choose_conv_gemm_tile(const program::Convolution& c, int64_t pixels, int processors, bool clusters);
// Why a tile is none of those, but for the number of its stages, or does not fit; empty when it is one.
std::string conv_gemm_tile_refusal(const program::Convolution& c, const ConvGemmTile& t, bool clusters);

}  // namespace toroid::codegen
