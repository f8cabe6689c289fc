// Calls of users' code (toroid/opaque_op.h), as passes see them.
#pragma once

#include "program/program.h"

namespace toroid::program {

// Whether the node does something besides giving results, so that its kind keeps the order in which it was called.
bool has_effect(const Node& n);
// Whether the call may write the buffer `result` into the memory of the buffer `old`: these are the new contents of an argument that it
// writes, and it reads `old` as that argument alone.
bool writes_over(const Extern& call, int old, int result);

}  // namespace toroid::program
