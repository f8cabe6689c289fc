// C = A x B of few rows (decoding) as a CUDA kernel that streams the weights B through all multiprocessors at the speed of memory.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "codegen/cuda/writer.h"
#include "codegen/forms.h"
#include "device/cuda/gpu.h"
#include "program/program.h"

namespace toroid::codegen {

// With more rows the sums that warps exchange cost more than what tiles of 64 rows copy for nothing.
inline constexpr int64_t kCudaGemvFewRows = 8;

// What the kernel may use of a GPU.
struct CudaGemvTarget {
  int multiprocessors = 132;
  int64_t shared_bytes = 227 * 1024;  // of a block
};

// How the work is divided.
struct CudaGemvTile {
  int warps_k = 16;    // of a block's 16 warps, those that share a tile's k; a power of two
  int64_t slices = 1;  // of k: blocks that share a tile
  int depth = 8;       // pieces of 16 bytes in the ring of each thread: with 8, 64 KB of a multiprocessor cover the latency of memory
  int64_t kept = 1;    // bundles of tiles whose sums over k wait to be added up together
};
template <class Visit>
void fields(CudaGemvTile& t, const Visit& visit) {
  visit("warps_k", t.warps_k, kDoubles);
  visit("slices", t.slices, 1);
  visit("depth", t.depth, 2);
  visit("kept", t.kept, kDoubles);
}
// By rule, and others worth a trial; for a node that is not refused.
CudaGemvTile choose_cuda_gemv_tile(const program::Node& node, const CudaGemvTarget& target);
std::vector<CudaGemvTile> other_cuda_gemv_tiles(const program::Node& node, const CudaGemvTarget& target);
// Why a tile is none for the node; empty when it is one.
std::string cuda_gemv_tile_refusal(const program::Node& node, const CudaGemvTarget& target, const CudaGemvTile& t);
// Chooses `kept` for what else a tile has.
void settle_cuda_gemv_tile(const program::Node& node, const CudaGemvTarget& target, CudaGemvTile& t);

// Why generate_cuda_gemv() does not take a Gemm node; empty when it does.
std::string cuda_gemv_refusal(const program::Node& node, const CudaGemvTarget& target);

// What becomes of sums, where it is not what the node's body says.
struct CudaGemvEnd {
  std::string name = {};    // of the template
  std::string begin = {};   // statements of all threads, behind the wait for the kernel before
  std::string finish = {};  // of a thread that has the sum `total` of row m and column n
  std::string rest = {};    // of the blocks that have finished sums, behind those of their columns, bundles `first` to `last`
  bool wide = false;        // their indices need 64 bits
};
using MakeCudaGemvEnd = std::function<CudaGemvEnd(CudaArguments& arguments)>;
// buffers: the program's. Constant ones are read before the kernel waits for its predecessor.
KernelText generate_cuda_gemv(const program::Node& node, const std::vector<loop::Buffer>& buffers, const CudaGemvTarget& target,
                              const CudaGemvTile& tile, const MakeCudaGemvEnd& make_end = {});
// A form that divides its work as gemv does; product: the node of the product. It outlives the form.
Tiling<CudaGemvTile> cuda_gemv_tiling(const program::Node& product, const CudaGemvTarget& target);

CudaGemvTarget cuda_gemv_target(const device::cuda::GpuInfo& gpu);

}  // namespace toroid::codegen
