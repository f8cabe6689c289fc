// Kernels of opaque operations for NVIDIA GPUs (toroid/cuda_kernel.h).
#pragma once

#include "ops/op.h"

namespace toroid::ops {

// Whether an opaque operation, or the one that a functional form is of, has a kernel.
bool has_cuda_kernel(const Op& op);

// A launch of it for operands of some types.
struct CudaKernelLaunch {
  std::string name, text;
  Expr blocks = 1;
  int threads = 0, shared_bytes = 0;
  std::vector<Expr> params;
};
// UserError for what its launch rule throws, or asks of open sizes, and for a launch that no GPU takes.
CudaKernelLaunch cuda_kernel_launch(const Op& op, std::span<const Arg<const TensorType*>> args);

}  // namespace toroid::ops
