// Problems of cuDNN, as data.
#pragma once

#include <cstdint>

#include "toroid/dtype.h"

namespace toroid::external {

// out[i, o, y, x] = relu(sum over the window of input * weight + addend[i, o, y, x] + bias[o]), rounded once.
struct CudnnProblem {
  DType dtype = DType::F16;  // of all tensors: F16, BF16 or F32; sums are F32
  int64_t n = 1, in_channels = 0, in_h = 0, in_w = 0, out_channels = 0, out_h = 0, out_w = 0, groups = 1;
  struct Window {
    int64_t size[2] = {1, 1}, stride[2] = {1, 1}, pad[2] = {0, 0}, dilation[2] = {1, 1};  // height, width
  } window;
  // Of the first elements, in elements. No tensor has gaps; weights lie as [out_channels][height][width][in_channels / groups].
  int64_t input_offset = 0, weight_offset = 0, out_offset = 0, bias_offset = 0, addend_offset = 0;
  bool has_bias = false, has_addend = false, relu = false;  // the others only with a bias
  bool tf32 = false;                                        // f32 operands may be rounded to tf32
};

}  // namespace toroid::external
