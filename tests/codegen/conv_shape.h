// Shapes of square convolutions, for tests.
#pragma once

#include "codegen/cpu/templates/conv_template.h"

namespace toroid::codegen::test_shapes {

inline ConvShape shape(int64_t channels, int64_t h, int64_t w, int64_t out, int64_t kernel, int64_t stride, int64_t pad, int64_t groups = 1,
                       int64_t dilation = 1) {
  ConvShape s;
  s.channels = channels, s.height = h, s.width = w, s.out_channels = out, s.groups = groups;
  s.kernel_h = s.kernel_w = kernel, s.stride_h = s.stride_w = stride, s.dilation_h = s.dilation_w = dilation;
  s.pad_top = s.pad_left = s.pad_bottom = s.pad_right = pad;
  return s;
}

}  // namespace toroid::codegen::test_shapes
