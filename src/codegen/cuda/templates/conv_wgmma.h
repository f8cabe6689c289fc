// Convolutions of 16-bit floats, and of f32 rounded to tf32, on Hopper's tensor cores: gemm_wgmma, whose copies of the left operand walk a
// window over the input.
#pragma once

#include <string>

#include "codegen/cuda/templates/conv_parts.h"
#include "codegen/cuda/templates/gemm_wgmma.h"
#include "codegen/kernel_text.h"

namespace toroid::codegen {

// A window that copies of a tensor map walk over images, as the convolution has it whose results are pixels.
struct WindowWalk {
  int64_t taps_h, taps_w, out_h, out_w, stride_h, stride_w, dilation_h, dilation_w, pad_h, pad_w;
};
// Why a tensor map has no such window; empty when it has.
std::string window_refusal(const WindowWalk& w);
device::cuda::TensorMap::Window window_of(const WindowWalk& w);
// WgmmaSizes::share_of_a of so many images, of so many elements each.
double window_share(const WgmmaSizes& sizes, int64_t images, int64_t elements);
// load_window(to, map, bar, pixel, step): what neighbouring pixels from `pixel` on see under the tap step / pieces, of the channels from
// step % pieces * channels on.
std::string load_window_text(const WindowWalk& w, int64_t pieces, int64_t channels);

// Why generate_conv_wgmma() does not take a convolution; empty when it does.
std::string conv_wgmma_refusal(const program::Convolution& c);
// The product that a convolution is implicitly, for the choice of a tile.
program::Gemm conv_implicit_product(const program::Convolution& c);
// weight: the buffer that conv_packed_weight() gave. processors: multiprocessors of the GPU.
KernelText generate_conv_wgmma(const program::Node& node, const program::Convolution& c, int weight, const WgmmaTile& tile, int processors);

}  // namespace toroid::codegen
