// cuBLASLt: matrix products of fixed sizes on an NVIDIA GPU, with a bias, an addend and an activation.
//
// The library (libcublasLt.so, found as NVRTC is) is opened at the first use; each function throws an EnvironmentError that says what to
// install where it is missing. Calls run on the stream of the calling thread's work, and may be recorded.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/cuda/gpu.h"
#include "extern/library_call.h"
#include "toroid/dtype.h"

namespace toroid::external {

enum class CublasLtActivation : uint8_t { None, Relu, GeluTanh };

// out[i, m, n] = activation(sum over k of a[i, m, k] * b[i, k, n] + addend[i, m, n] + bias[n]), for i < batch.
struct CublasLtProblem {
  // Strides in elements. Of `row` and `column` one is 1.
  struct Matrix {
    int64_t offset = 0, row = 0, column = 1, batch = 0;
  };
  DType dtype = DType::BF16, out_dtype = DType::BF16;  // of a and b; of out, addend and bias
  int64_t m = 0, n = 0, k = 0, batch = 1;
  Matrix a, b, out;  // out: column 1
  Matrix addend;     // where has_addend; column 1
  bool has_addend = false, has_bias = false;
  int64_t bias_offset = 0;
  CublasLtActivation activation = CublasLtActivation::None;
  bool tf32 = false;  // f32 operands may be rounded to tf32
};

// "13.1.0"
std::string cublaslt_version();

// Calls of the library's implementations of a problem, the one that it expects to be fastest first, at most `most`; none when it takes the
// problem not at all. Their buffers: a, b, out, then addend and bias where there are.
std::vector<std::shared_ptr<const LibraryCall>> prepare_cublaslt(const CublasLtProblem& problem, device::cuda::Gpu& gpu, int most);

}  // namespace toroid::external
