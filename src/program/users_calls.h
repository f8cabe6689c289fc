// Calls of users' code (toroid/opaque_op.h), as passes see them.
#pragma once

#include "program/program.h"

namespace toroid::program {

// Whether the node, or one in its blocks, does something besides giving results, so that its kind keeps the order in which it was called.
bool has_effect(const Node& n);
// What the call writes over, of an opaque operation's: numbers of inputs, each with that of the output that is its new contents.
std::vector<std::pair<size_t, size_t>> written_operands(const Extern& call);
// Whether the call may write the buffer `result` into the memory of the buffer `old`: these are the new contents of an argument that it
// writes, and it reads `old` as that argument alone.
bool writes_over(const Extern& call, int old, int result);
// Whether a GPU has a kernel for it (toroid/cuda_kernel.h), so that it is a launch; or a function that works there
// (toroid/cuda_function.h).
bool is_users_kernel(const Extern& call);
bool is_users_function(const Extern& call);
// Whether its operands are as that one wants them once all passes have run. What it writes over lies where it writes. Others are row-major,
// for kernels from the beginning of their buffers, unless the operation takes strides and has a function.
bool has_gpu_operands(const Extern& call);

}  // namespace toroid::program
