// What every code generator gives: a kernel's text, and what it must be launched with.
#pragma once

#include <string>
#include <vector>

#include "device/cuda/tensor_map.h"
#include "toroid/sym_expr.h"

namespace toroid::codegen {

// On the CPU: void name(void* const* bufs, const int64_t* params, int64_t begin, int64_t end, int thread).
// On a GPU: extern "C" __global__ void name(pointers in the order of `buffers`, scratch memory, counters, tensor
// maps, params as 64-bit integers).
struct KernelText {
  std::string name;          // a C identifier made of the body's operations
  std::string source;        // complete text; equal loops give equal text whatever their buffers and sizes are called
  std::vector<int> buffers;  // ids of the program's buffers; on a GPU each begins at a multiple of 16 bytes
  std::vector<Expr> params;
  Expr tasks = 1;  // the range that begin and end are in; tasks are independent unless `serial`. On a GPU: blocks
  int block = 0;   // GPU: threads of a block
  std::vector<device::cuda::TensorMap> tensor_maps;  // GPU
  int shared_bytes = 0;                              // GPU: dynamic shared memory of a block
  // GPU: begins while the kernel before it ends, and waits for its results itself (programmatic dependent launch).
  bool overlaps = false;
  bool together = false;   // GPU: the pointers to buffers are one parameter, an array of them
  Expr scratch_bytes = 0;  // GPU: when not 0, the parameter behind the buffers is this much memory, at a multiple of 256 bytes
  // GPU: when not 0, the parameter behind those is so many u32 at a multiple of 16 bytes, zero at the launch, which leaves them zero.
  Expr counters = 0;
  // CPU: when not 0, bufs[buffers.size()] is scratch memory of threads * this many bytes; thread t uses the t-th part, whose first 8 bytes
  // are -1 when a launch begins: what a thread leaves there serves its later calls of the launch.
  Expr scratch_bytes_per_thread = 0;
  bool serial = false;  // CPU: all tasks in one call
  std::string plan;     // for people: tiling, passes and the simplified loop
};

}  // namespace toroid::codegen
