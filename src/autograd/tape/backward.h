// Walking the tape back.
#pragma once

#include "autograd/tape/node.h"

namespace toroid::autograd {

// Adds the gradients that follow from `gradient` at `root` to the sums of leaves and of what retains its own.
void walk_back(const GradEdge& root, Tensor gradient, bool retain_graph);

// Whether backward() of this thread looks for NaN.
inline thread_local bool detects_anomaly = false;

}  // namespace toroid::autograd
