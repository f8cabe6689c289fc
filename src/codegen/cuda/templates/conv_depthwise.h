// Convolutions of each channel by itself over channels-last memory: a thread has some neighbouring channels of some pixels of a row.
#pragma once

#include <string>

#include "codegen/cuda/templates/conv_parts.h"
#include "codegen/forms.h"

namespace toroid::codegen {

// Why generate_conv_depthwise() does not take a convolution with a constant weight; empty when it does.
std::string conv_depthwise_refusal(const program::Convolution& c);
struct ConvDepthwiseTile {
  int pixels = 1;  // of a thread, beside each other; up to 8
};
template <class Visit>
void fields(ConvDepthwiseTile& t, const Visit& visit) {
  visit("pixels", t.pixels, kDoubles);
}
// For so many pixels of the result.
ConvDepthwiseTile choose_conv_depthwise_tile(const program::Convolution& c, int64_t pixels);
// weight: the buffer that conv_weight_by_taps() gave. overlaps: see KernelText.
KernelText generate_conv_depthwise(const program::Node& node, const program::Convolution& c, int weight, const ConvDepthwiseTile& tile,
                                   bool overlaps);

}  // namespace toroid::codegen
