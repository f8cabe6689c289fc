// Text of matrix products of 16-bit floats, and of f32 rounded to tf32, on Hopper's tensor cores (sm_90a): TMA copies tiles into a ring of
// shared memory, wgmma multiplies them from there, and the caller's text takes the f32 sums.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codegen/cuda/writer.h"
#include "codegen/forms.h"
#include "toroid/dtype.h"

namespace toroid::codegen {

// What a block computes. split: blocks of one cluster that share a tile's K range and add their sums through distributed shared memory.
// share: blocks of one cluster that compute tiles below each other; each copies a part of B into the memory of all. beside: the same for
// tiles beside each other and A. A split goes with neither.
struct WgmmaTile {
  int block_m = 128;
  int block_n = 256;  // a multiple of 16 for each consumer, and of 64 where B is n-contiguous (takes_boxes)
  int stages = 4;
  int split = 1;
  int consumers = 2;  // warpgroups that multiply; 1 only where block_m is 64
  int share = 1, beside = 1;
  // Clusters that share a tile's K range and add their sums through memory: `scratch` and `counters` of KernelText.
  int slices = 1;
  bool alternate = false;  // the two warpgroups take tiles in turn: one multiplies while the other stores its sums
  int cluster() const { return split * share * beside; }
  bool operator==(const WgmmaTile&) const = default;
};
template <class Visit>
void fields(WgmmaTile& t, const Visit& visit) {
  visit("block_m", t.block_m, kDoubles);
  visit("block_n", t.block_n, 16);
  visit("stages", t.stages, 1);
  visit("split", t.split, kDoubles);
  visit("consumers", t.consumers, 1);
  visit("share", t.share, kDoubles);
  visit("beside", t.beside, kDoubles);
  visit("slices", t.slices, kDoubles);
  visit("alternate", t.alternate, 1);
}

// One matrix as a tensor map: {contiguous dimension, the other one, batch...}, 128-byte swizzle, boxes of 128 bytes x wgmma_box_rows x 1...
struct WgmmaOperand {
  bool k_contiguous = true;  // else m (of A) or n (of B) is
  int rank = 2;              // dimensions of the map
  std::string map;           // its name
  std::string batch;         // ", c0, c1": the coordinates of the batch numbered `batch`, an int
  std::string load = "";     // of A: when not empty, the statements that copy a stage to `to_a`, counted in `bar`; they see w and k
};

constexpr int kQuadColumns = 32;  // of a unit of sums in 4 lanes

struct GemmWgmma {
  DType type = DType::BF16;  // of A and B; F32: tf32, which their maps round to, and both k-contiguous
  WgmmaTile tile;
  WgmmaOperand a, b;
  std::optional<WgmmaOperand> b2;  // the second right operand: half of a tile's columns are of its product
  // Not 0: tiles of B lie in shared memory in the order that gives each thread 8 neighbouring columns of the result (in_order_of_lanes()).
  // Tiles begin at multiples of kQuadColumns (32), as n is one; or, of 8 or 1, and none crosses the end of a row.
  int neighbours = 0;
  std::string m, n, k, batches;  // C expressions
  // Statements on `float acc[8]`, the sums of `batch` at (m, n .. n + 7), and acc2, those with b2; they leave out columns at and past N.
  std::string epilogue;
  CudaEarly near, far;  // of CudaPoints
  // The epilogue is a cuda_epilogue_around(), and this is its `carried`.
  bool around = false;
  std::string carried = "";
  bool whole_tiles = false;  // no tile crosses the end of a row or column
  // The last tile of a column (row) of tiles begins as early as it takes to end where the result does: some elements are computed twice.
  bool last_row_early = false, last_column_early = false;
  bool overlaps = false;  // see KernelText
  // Pointers to sums of columns (loop::StoreMode::Sum), in the order of `terms` of the epilogue (cuda_epilogue()). With them: no slices, no
  // split, one right operand, and no row is computed twice (takes_sums()).
  std::vector<std::string> sums = {};
};

// Definitions, and the statements of the kernel: wgmma_threads() threads, clusters of tile.cluster() blocks along x; with a split
// or slices exactly as many clusters as there are tiles and slices.
struct GemmWgmmaText {
  std::string definitions, body;
};
GemmWgmmaText gemm_wgmma_text(const GemmWgmma& g);

// Elements of k in a stage: 128 bytes, one row of the swizzle.
inline int wgmma_block_k(DType type) { return static_cast<int>(128 / size_of(type)); }
int wgmma_threads(const WgmmaTile& t);
int wgmma_shared_bytes(const WgmmaTile& t);
int64_t wgmma_scratch_bytes(const WgmmaTile& t);  // with slices, for each cluster; each of its blocks takes kWgmmaCounters counters, too
constexpr int kWgmmaCounters = 4;
bool wgmma_adds_together(const WgmmaTile& t);  // all slices add up a tile, not the last one alone
int wgmma_box_rows_a(const GemmWgmma& g);
int wgmma_box_rows_b(const GemmWgmma& g);
// Whether a tile can be of an n-contiguous B, which comes in boxes of 64 columns; and of two right operands.
bool takes_boxes(const WgmmaTile& t);
bool takes_neighbours(const WgmmaTile& t, bool pair);
bool takes_pair(const WgmmaTile& t);
bool takes_sums(const WgmmaTile& t);
// Shared memory behind wgmma_shared_bytes() for so many sums of columns; and the tile with fewer stages, where that does not fit.
int wgmma_sums_bytes(const WgmmaTile& t, size_t sums);
WgmmaTile with_room_for_sums(WgmmaTile t, size_t sums);

}  // namespace toroid::codegen
