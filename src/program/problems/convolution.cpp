#include "program/problems/convolution.h"

#include "program/problems/sum.h"

namespace toroid::program {
namespace {

Number convolution_value(const Convolution& c, const Tensor& input, const Tensor& weight, std::span<const int64_t> at) {
  const int64_t channels = group_channels(c), group = at[1] / (c.out_channels / c.groups);
  Sum sum;
  for (int64_t y = 0; y < c.kernel_h; ++y)
    for (int64_t x = 0; x < c.kernel_w; ++x) {
      const int64_t row = at[2] * c.stride_h + y * c.dilation_h - c.pad_h, column = at[3] * c.stride_w + x * c.dilation_w - c.pad_w;
      if (row < 0 || row >= input.sizes()[2] || column < 0 || column >= input.sizes()[3]) continue;
      for (int64_t channel = 0; channel < channels; ++channel) {
        Number e = element(input, {at[0], group * channels + channel, row, column});
        if (c.zero != 0) e = Number::of(e.i - c.zero);
        sum.add(e, element(weight, {at[1], channel, y, x}));
      }
    }
  return sum.as(c.accumulate);
}

}  // namespace

loop::Accumulated formula(const Convolution& c, const Tensors& operands) {
  return [&c, operands](std::span<const int64_t> at, int64_t) { return convolution_value(c, operands[0], operands[1], at); };
}

}  // namespace toroid::program
