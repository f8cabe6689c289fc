// Windows of convolutions and poolings: kernel sizes, strides and widths of padding, as ONNX's attributes give them.
#pragma once

#include "import/onnx/operators.h"

namespace toroid::import::onnx {

struct Windows {
  std::vector<int64_t> kernel, strides, dilations;
  std::vector<int64_t> begin, end;  // padding of each spatial dimension

  size_t spatial() const { return kernel.size(); }
  bool is_symmetric() const { return begin == end; }
  bool is_padded() const;
  // From the last dimension on, as the pad operations have it.
  Sizes pad_widths() const;
};

// Reads kernel_shape (or takes `kernel`), strides, dilations, pads and auto_pad. `x` has a batch and channels before its spatial
// dimensions. UserError for lists of other lengths than the spatial dimensions are.
Windows read_windows(OpCall& c, const Tensor& x, std::vector<int64_t> kernel = {});

}  // namespace toroid::import::onnx
