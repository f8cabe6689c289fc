// Convolutions of each channel by itself over channels-last memory: a thread has some neighbouring channels of some pixels of a row.
#pragma once

#include <string>

#include "codegen/cuda/templates/conv_parts.h"
#include "codegen/kernel_text.h"

namespace toroid::codegen {

// Why generate_conv_depthwise() does not take a convolution with a constant weight; empty when it does.
std::string conv_depthwise_refusal(const choice::Convolution& c);
// weight: the buffer that conv_weight_by_taps() gave. pixels: of the result, or a guess. overlaps: see KernelText.
KernelText generate_conv_depthwise(const choice::Node& node, const choice::Convolution& c, int weight, int64_t pixels, bool overlaps);

}  // namespace toroid::codegen
