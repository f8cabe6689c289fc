// One kernel for many loops that differ in memory and sizes alone: the updates of all parameters of an optimizer.
#pragma once

#include <string>

#include "codegen/kernel_text.h"
#include "device/cuda/gpu.h"
#include "program/program.h"

namespace toroid::codegen {

// What equal loops have in common, as text: loops whose sizes are known, without reductions, whose points each touch their own element of
// row-major memory, also by what lies in another order (a transpose). Empty for all others.
std::string cuda_foreach_key(const program::Node& node);

// Whether a kernel can take the memory of so many loops, given one of them.
bool cuda_foreach_takes(const program::Node& node, size_t loops);

// The kernel of a node with loops beside its own, all of one key. faults: see CudaLoopTarget.
KernelText generate_cuda_foreach(const program::Node& node, int faults);

}  // namespace toroid::codegen
