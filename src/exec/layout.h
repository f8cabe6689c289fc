// Where the elements of tensors lie.
#pragma once

#include "tensor/tensor_impl.h"

namespace toroid::exec {

// Elements of memory from the first to the last one of t, gaps included.
inline int64_t extent_of(const Tensor& t) {
  int64_t last = 0;
  for (size_t d = 0; d < t.sizes().size(); ++d) {
    if (t.sizes()[d] == 0) return 0;
    last += (t.sizes()[d] - 1) * t.strides()[d];
  }
  return last + 1;
}

}  // namespace toroid::exec
