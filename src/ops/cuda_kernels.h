// What computes opaque operations on NVIDIA GPUs: kernels (toroid/cuda_kernel.h), or functions (toroid/cuda_function.h).
#pragma once

#include "ops/op.h"
#include "toroid/cuda_function.h"

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

// Whether it has a function that works on memory of a GPU; and whether what that starts may be recorded.
bool has_cuda_function(const Op& op);
bool is_capturable(const Op& op);
// Runs it on tensors of the stream's GPU, as run_opaque() (ops/opaque.h) runs the one on the host.
void run_cuda_function(const Op& op, std::span<const Arg<Tensor>> args, std::span<const Tensor> outputs, const CudaStream& stream);

}  // namespace toroid::ops
