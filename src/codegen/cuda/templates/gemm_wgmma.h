// Matrix products of 16-bit floats, and of f32 rounded to tf32, on Hopper's tensor cores.
#pragma once

#include <string>
#include <vector>

#include "codegen/cuda/templates/gemm_wgmma_text.h"
#include "codegen/cuda/templates/parts.h"
#include "codegen/forms.h"
#include "codegen/kernel_text.h"
#include "device/cuda/gpu.h"
#include "program/program.h"

namespace toroid::codegen {

// Why generate_gemm_wgmma() does not take a Gemm node; empty when it does.
std::string gemm_wgmma_refusal(const program::Node& node, const program::Gemm& g);
// processors: multiprocessors of the GPU.
KernelText generate_gemm_wgmma(const program::Node& node, const program::Gemm& g, const WgmmaTile& tile, int processors, bool overlaps);
// The kernel of a template around that text, for the tiles of a product of g's sizes.
KernelText wgmma_kernel(CudaArguments& arguments, const GemmWgmma& w, const std::string& name, const program::Node& node,
                        const CudaPoints& epilogue, const program::Gemm& g, int processors);

// The map {k, n} of a B with the boxes of wgmma_box_rows_b() as GemmWgmma::neighbours (`begin`) wants it: columns 8 q + 2 j + e of
// kQuadColumns come in the order of j, q, e. Its coordinates are in units of `begin` columns.
device::cuda::TensorMap in_order_of_lanes(device::cuda::TensorMap map, int begin);

// What the choice of a tile looks at.
struct WgmmaSizes {
  int64_t m, n, k, batch = 1;  // guesses where they are symbolic
  int processors = 132;
  bool sums = false;      // of columns, see takes_sums()
  bool window = false;    // A is read through a convolution's window, which blocks do not share
  double share_of_a = 1;  // of its elements that memory holds: windows that overlap have some in common
};
// All tiles of a product that is not refused, those of them that make sense for these sizes, by a model of the time, and the fastest of
// those.
std::vector<WgmmaTile> wgmma_tiles(const program::Gemm& g, bool window = false);
std::vector<WgmmaTile> ranked_wgmma_tiles(const program::Gemm& g, const WgmmaSizes& sizes);
WgmmaTile choose_wgmma_tile(const program::Gemm& g, const WgmmaSizes& sizes);
// Why a tile is none of those that make sense, but for fewer stages; empty when it is one.
std::string wgmma_tile_refusal(const program::Gemm& g, const WgmmaSizes& sizes, const WgmmaTile& t);
// Gives a tile as many stages as fit.
void settle_wgmma_tile(WgmmaTile& t);

// On this GPU.
std::string gemm_wgmma_refusal(const program::Node& node, const program::Gemm& g, const device::cuda::GpuInfo& gpu);

// The names of what an epilogue stores sums of columns to (GemmWgmma::sums).
std::vector<std::string> sums_of_columns(CudaArguments& arguments, const loop::Body& body);
// Why the tile of a configuration, or of the rule, does not leave sums of columns; empty when it does. points: what the epilogue stores.
std::string wgmma_sums_refusal(const loop::Nest& points, const program::Gemm& g, WgmmaSizes sizes, const program::Config& config);

// The sizes of a product, guessed where the run tells them.
WgmmaSizes wgmma_sizes(const program::Gemm& g, int processors);
// `g` is copied: it may be made up.
Tiling<WgmmaTile> wgmma_tiling(const program::Gemm& g, const WgmmaSizes& sizes, std::function<KernelText(const WgmmaTile&)> generate);

}  // namespace toroid::codegen
