// CUDA C++ kernels for loop nodes.
#pragma once

#include <set>

#include "codegen/forms.h"
#include "device/cuda/gpu.h"
#include "loop/node.h"

namespace toroid::codegen {

// Different buffers must not overlap. constants: buffers that no kernel writes. faults: see CudaLoopTarget.
KernelText generate_cuda_loop(const loop::Domain& d, const loop::Body& b, const device::cuda::GpuInfo& gpu,
                              const std::set<int>& constants = {}, int faults = -1);
// The same as a form that leaves open how threads share the work; it has no tile where the loop leaves nothing open. The loop must stay.
std::vector<Form> cuda_loop_forms(const loop::Domain& d, const loop::Body& b, const device::cuda::GpuInfo& gpu,
                                  const std::set<int>& constants, int faults);

}  // namespace toroid::codegen
