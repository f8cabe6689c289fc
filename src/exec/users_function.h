// Functions over the memory of NVIDIA GPUs that users gave opaque operations (toroid/cuda_function.h).
#pragma once

#include "ops/op.h"

namespace toroid::exec {

// Runs the operation's function on tensors of a GPU, as run_opaque() (ops/opaque.h) runs the one on the host, with the stream of the
// calling thread's work. EnvironmentError, with the operation and the line of the call, where it did what a recording that is under way
// cannot hold.
void run_cuda_function(const ops::Op& op, std::span<const Arg<Tensor>> args, std::span<const Tensor> outputs, const Device& device);

}  // namespace toroid::exec
