// cuBLASLt: matrix products of fixed sizes on an NVIDIA GPU, with a bias, an addend and an activation.
//
// The library (libcublasLt.so, found as NVRTC is) is opened at the first use; each function throws an EnvironmentError that says what to
// install where it is missing. Calls run on the stream of the calling thread's work, and may be recorded.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/cuda/gpu.h"
#include "extern/cublaslt/problem.h"
#include "extern/library_call.h"

namespace toroid::external {

// "13.1.0"
std::string cublaslt_version();

// Calls of the library's implementations of a problem, the one that it expects to be fastest first, at most `most`; none when it takes the
// problem not at all. Their buffers: a, b, out, then addend and bias where there are.
std::vector<std::shared_ptr<const LibraryCall>> prepare_cublaslt(const CublasLtProblem& problem, device::cuda::Gpu& gpu, int most);

}  // namespace toroid::external
