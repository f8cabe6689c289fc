// C[M,N] = A[M,K] x B[K,N] of whole numbers of 8 bits, summed in 32, as C text: packed constant B, register tiles, caller-written epilogue.
#pragma once

#include <string>

#include "codegen/cpu/templates/template_text.h"
#include "codegen/forms.h"

namespace toroid::codegen {

struct Int8Tile {
  int lanes = 16;         // sums in a vector
  int rows = 8;           // rows of the register tile
  int vecs = 3;           // vectors of the register tile: a panel has vecs * lanes columns
  int64_t block_m = 128;  // rows of a task (a multiple of rows)
};
template <class Visit>
void fields(Int8Tile& t, const Visit& visit) {
  visit("rows", t.rows, 1);
  visit("vecs", t.vecs, 1);
  visit("block_m", t.block_m, kDoubles);
}

struct Int8Config {
  std::string name;
  Extent m, batch = 1;
  int64_t n = 1, k = 1;
  Int8Tile tile;

  // A: I8 or U8; element (i, j) of batch b is a[offset(b) + i*row_stride + j*col_stride]. Strides are C expressions over `params`,
  // offset is one over `batch` too.
  int a_buffer = 0;
  DType a_type = DType::I8;
  std::string a_row_stride, a_col_stride = "1", a_batch_offset = "0";
  int b_buffer = 1;  // as pack_int8 leaves it

  // As in GemmConfig, but `acc` is vi32 and int32_t.
  Hole epilogue;
  int scratch_buffer = 2;  // see int8_scratch_bytes
};

Int8Tile choose_int8_tile(int64_t m, int64_t n, int64_t k, int lanes);
std::vector<Int8Tile> other_int8_tiles(int64_t m, int64_t n, int64_t k, int lanes);
std::string int8_tile_refusal(const Int8Tile& t);
void settle_int8_tile(Int8Tile& t);

// The kernel: void name(void* const* bufs, const int64_t* params, int64_t begin, int64_t end, int thread).
std::string int8_text(const Int8Config& config);
// Number of tasks to split over threads, and bytes of scratch of each thread, as for gemm_text.
int64_t int8_task_count(const Int8Config& config, const int64_t* params);
int64_t int8_scratch_bytes(const Int8Config& config);

// Bytes of a packed B: whole panels of `panel` columns. A panel is what its sums begin with (panel numbers of 32 bits), then four rows of B
// at a time: [ceil(k / 4)][panel][4] numbers of 8 bits, zeros past the last row and column.
int64_t packed_int8_bytes(int64_t k, int64_t n, int panel);
// Packs B(k, n) = src[k*row_stride + n*col_stride]. The kernel reads numbers that are `more` than those of A (128 for an I8 A, as it knows
// none with sign): sums begin with what that adds, negated.
void pack_int8(const int8_t* src, int64_t k, int64_t n, int64_t row_stride, int64_t col_stride, int panel, int64_t more, void* dst);

// The text of t_dot4, which multiplies bytes.
std::string int8_dot_text(int lanes);

}  // namespace toroid::codegen
