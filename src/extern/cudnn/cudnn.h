// cuDNN: 2-d convolutions of fixed sizes on an NVIDIA GPU, in channels-last memory, with a bias, an addend and a ReLU.
//
// The library (libcudnn.so.9: see device/cuda/library_folder.h for where it is looked for) is opened at the first use; each function throws
// an EnvironmentError that says what to install where it is missing. Calls run on the stream of the calling thread's work, and may be
// recorded; those that repeat addresses are recorded by themselves, as the library is slow on the host. ReLU gives 0 for NaN.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/cuda/gpu.h"
#include "extern/cudnn/problem.h"
#include "extern/library_call.h"

namespace toroid::external {

// "9.19.0"
std::string cudnn_version();

// Calls of the library's algorithms for a problem, the one that it expects to be fastest first, at most `most`; none when it takes the
// problem not at all. Each has run once, on memory of its own (where there is as much), so that its code is loaded. Their buffers: input,
// weight, out, then bias and addend where there are.
std::vector<std::shared_ptr<const LibraryCall>> prepare_cudnn(const CudnnProblem& problem, device::cuda::Gpu& gpu, int most);

}  // namespace toroid::external
