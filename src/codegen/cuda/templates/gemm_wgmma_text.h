// Text of matrix products of 16-bit floats on Hopper's tensor cores (sm_90a): TMA copies tiles into a ring of shared memory, wgmma
// multiplies them from there, and the caller's text takes the f32 sums.
#pragma once

#include <string>

#include "toroid/dtype.h"

namespace toroid::codegen {

// What a block computes. split: blocks of one cluster that share a tile's K range and add their sums through distributed shared memory.
struct WgmmaTile {
  int block_m = 128;
  int block_n = 256;  // a multiple of 32 for each consumer, and of 64 where B is n-contiguous
  int stages = 4;
  int split = 1;
  int consumers = 2;  // warpgroups that multiply; 1 only where block_m is 64
};

// One matrix as a tensor map: {contiguous dimension, the other one, batch...}, 128-byte swizzle, boxes of 64 x wgmma_box_rows x 1...
struct WgmmaOperand {
  bool k_contiguous = true;  // else m (of A) or n (of B) is
  int rank = 2;              // dimensions of the map
  std::string map;           // its name
  std::string batch;         // ", c0, c1": the coordinates of the batch numbered `batch`, an int
  std::string load = "";     // of A: when not empty, the statements that copy a stage to `to_a`, counted in `bar`; they see w and k
};

struct GemmWgmma {
  DType type = DType::BF16;  // of A and B
  WgmmaTile tile;
  WgmmaOperand a, b;
  std::string m, n, k, batches;  // C expressions
  // Statements on `float acc[8]`, the sums of `batch` at (m, n .. n + 7); they leave out columns at and past N.
  std::string epilogue;
  bool whole_tiles = false;  // no tile crosses the end of a row or column
  bool overlaps = false;     // see KernelText
};

// Definitions, and the statements of the kernel: wgmma_threads() threads, clusters of tile.split blocks along x; with a split
// exactly as many clusters as there are tiles.
struct GemmWgmmaText {
  std::string definitions, body;
};
GemmWgmmaText gemm_wgmma_text(const GemmWgmma& g);

int wgmma_threads(const WgmmaTile& t);
int wgmma_shared_bytes(const WgmmaTile& t);
int wgmma_box_rows_a(const GemmWgmma& g);
int wgmma_box_rows_b(const GemmWgmma& g);

}  // namespace toroid::codegen
