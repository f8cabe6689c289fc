// Indices in tensors, looked at before an operation runs at once: a compiled program does not look, and would read and write elsewhere.
#pragma once

#include "ops/op.h"

namespace toroid::front {

// UserError for an index of the operation that is out of range. For tensors on the CPU; those on a GPU would have to be waited for.
void check_indices(const ops::Op& op, const CallArgs& args);

}  // namespace toroid::front
