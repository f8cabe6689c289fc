// CUDA C++ kernels for loop nodes.
#pragma once

#include <string>
#include <vector>

#include "loop/node.h"

namespace toroid::codegen {

// extern "C" __global__ void name(pointers in the order of `buffers`, then params as 64-bit integers)
struct CudaKernel {
  std::string name;          // a C identifier made of the body's operations
  std::string source;        // complete text for NVRTC; equal loops give equal text whatever their buffers and sizes are called
  std::vector<int> buffers;  // ids of the program's buffers; each begins at a multiple of 16 bytes
  std::vector<Expr> params;
  Expr grid = 1;     // blocks
  int block = 1;     // threads of each
  std::string plan;  // for people
};

// Different buffers must not overlap.
CudaKernel generate_cuda_loop(const loop::Domain& d, const loop::Body& b);

}  // namespace toroid::codegen
