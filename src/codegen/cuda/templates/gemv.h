// C = A x B of few rows (decoding) as a CUDA kernel that streams the weights B through all multiprocessors at the speed of memory.
#pragma once

#include <string>
#include <vector>

#include "choice/program.h"
#include "codegen/kernel_text.h"

namespace toroid::codegen {

// What the kernel may use of a GPU.
struct CudaGemvTarget {
  int multiprocessors = 132;
  int64_t shared_bytes = 227 * 1024;  // of a block
};

// Why generate_cuda_gemv() does not take a Gemm node; empty when it does.
std::string cuda_gemv_refusal(const choice::Node& node, const CudaGemvTarget& target);
// buffers: the program's. Constant ones are read before the kernel waits for its predecessor.
KernelText generate_cuda_gemv(const choice::Node& node, const std::vector<loop::Buffer>& buffers, const CudaGemvTarget& target);

}  // namespace toroid::codegen
