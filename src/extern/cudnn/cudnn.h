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
#include "extern/library_call.h"
#include "toroid/dtype.h"

namespace toroid::external {

// out[i, o, y, x] = relu(sum over the window of input * weight + addend[i, o, y, x] + bias[o]), rounded once.
struct CudnnProblem {
  DType dtype = DType::F16;  // of all tensors: F16, BF16 or F32; sums are F32
  int64_t n = 1, in_channels = 0, in_h = 0, in_w = 0, out_channels = 0, out_h = 0, out_w = 0, groups = 1;
  struct Window {
    int64_t size[2] = {1, 1}, stride[2] = {1, 1}, pad[2] = {0, 0}, dilation[2] = {1, 1};  // height, width
  } window;
  // Of the first elements, in elements. No tensor has gaps; weights lie as [out_channels][height][width][in_channels / groups].
  int64_t input_offset = 0, weight_offset = 0, out_offset = 0, bias_offset = 0, addend_offset = 0;
  bool has_bias = false, has_addend = false, relu = false;  // the others only with a bias
  bool tf32 = false;                                        // f32 operands may be rounded to tf32
};

// "9.19.0"
std::string cudnn_version();

// Calls of the library's algorithms for a problem, the one that it expects to be fastest first, at most `most`; none when it takes the
// problem not at all. Each has run once, on memory of its own (where there is as much), so that its code is loaded. Their buffers: input,
// weight, out, then bias and addend where there are.
std::vector<std::shared_ptr<const LibraryCall>> prepare_cudnn(const CudnnProblem& problem, device::cuda::Gpu& gpu, int most);

}  // namespace toroid::external
