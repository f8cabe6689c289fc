// Much memory from the host to a GPU at once.
#pragma once

#include <span>

#include "toroid/tensor.h"

namespace toroid {

struct CopyPair {
  Tensor from, to;
};

// Copies tensors of the host (stacks without being made whole first) to dense ones of one GPU, of the same sizes and dtypes. Done when it
// returns.
void upload(std::span<const CopyPair> pairs);

}  // namespace toroid
