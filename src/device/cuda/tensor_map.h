// What the tensor memory accelerator of Hopper GPUs needs to know of a tensor to copy boxes of it.
#pragma once

#include <optional>
#include <vector>

#include "toroid/dtype.h"
#include "toroid/sym_expr.h"

namespace toroid::device::cuda {

// Elements (i, j, ...) of a buffer, innermost dimension first, at offset + i + j * strides[0] + ...: the innermost one is contiguous.
// The first byte and all strides are multiples of 16 bytes. Elements outside of the sizes read as zero.
struct TensorMap {
  int buffer = -1;  // in a kernel's arguments
  DType dtype = DType::F32;
  bool tf32 = false;  // of f32, which the copy rounds to tf32
  Expr offset = 0;
  std::vector<Expr> sizes, strides;  // strides: one less than sizes
  std::vector<int> box;              // elements copied at once; as many as sizes
  int swizzle = 0;                   // bytes: 0, 32, 64 or 128, at least those of the box's innermost row
  // Of a convolution's input, whose sizes are channels, columns, rows, images (CUDA calls this im2col): a copy takes box[0] channels at
  // box[1] positions of the window, one after another through columns, rows and images. Numbers are for columns and rows: the first
  // position and the last one (counted from the last element), neither of which must be an element, and the step between positions.
  struct Window {
    int first[2], last[2], step[2];
  };
  std::optional<Window> window;
};

}  // namespace toroid::device::cuda
