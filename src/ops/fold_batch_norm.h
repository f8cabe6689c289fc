// Batch normalisation folded into the layer before it.
#pragma once

#include <vector>

#include "toroid/tensor.h"

namespace toroid::ops {

struct FoldedNorm {
  Tensor weight, bias;
};

// of: the layer's weight and bias, the normalisation's weight, bias, mean and variance; all but the first may be undefined, and those that
// are not have an element a channel. groups: 0 where output channels are outermost in the weight; else of a transposed convolution, where
// those of a group are within each of the group's input channels. The results are in the host's memory.
FoldedNorm fold_batch_norm(const std::vector<Tensor>& of, double eps, int64_t groups);

}  // namespace toroid::ops
