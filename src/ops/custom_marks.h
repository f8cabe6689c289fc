// Custom operations that stay one node until gradients have been taken.
#pragma once

#include "ops/op.h"

namespace toroid::ops {

// Whether a custom operation has a gradient of its own (toroid/custom_gradient.h).
bool has_own_gradient(const Op& op);
// False where it was marked before.
bool mark_own_gradient(const Op& op);

}  // namespace toroid::ops
