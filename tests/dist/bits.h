// Elements of tensors as they are.
#pragma once

#include <string>

#include "toroid/ops.h"

namespace toroid::test {

// In the order of the elements, wherever the tensor is.
inline std::string bits_of(const Tensor& t) {
  const Tensor dense = t.to(Device::cpu()).contiguous();
  return std::string(reinterpret_cast<const char*>(dense.raw_data()), static_cast<size_t>(dense.numel()) * size_of(dense.dtype()));
}

}  // namespace toroid::test
