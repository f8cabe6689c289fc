// CUDA C++ kernels for loop nodes.
#pragma once

#include "codegen/kernel_text.h"
#include "loop/node.h"

namespace toroid::codegen {

// Different buffers must not overlap.
KernelText generate_cuda_loop(const loop::Domain& d, const loop::Body& b);

}  // namespace toroid::codegen
