// C[M,N] = A[M,K] x B[K,N] (batched) as C text: packed panels of B, register tiles, caller-written prologue and epilogue.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "codegen/cpu/templates/template_text.h"
#include "codegen/forms.h"

namespace toroid::codegen {

// Where B comes from.
enum class GemmB {
  Packed,   // pack_b's layout, made before the first call: [panel][K][panel columns], zero padded to whole panels
  InPlace,  // [K][N] f32 with contiguous columns: read in place; the ragged last panel is copied to scratch
  Strided,  // any strides, any float storage: each panel is copied to scratch, once per panel and thread
};

// Register tile and blocking.
struct GemmTile {
  int lanes = 16;         // floats in a vector
  int rows = 8;           // rows of the register tile
  int vecs = 3;           // vectors of the register tile: a panel has vecs * lanes columns
  int64_t block_k = 384;  // K block: partial sums of longer sums wait in scratch
  int64_t block_m = 128;  // rows of a task (a multiple of rows)
  // Copy A even where its rows could be read in place. Ignored for groups (a few tasks do not pay for it), and where panels of B are copied
  // and A has several blocks of rows, which would be copied for each panel.
  bool copy_a = false;
  int group = 1;  // packed panels that a K block of A is used for before the next one (long K only)
};
template <class Visit>
void fields(GemmTile& t, const Visit& visit) {
  visit("rows", t.rows, 1);
  visit("vecs", t.vecs, 1);
  visit("block_k", t.block_k, kDoubles);
  visit("block_m", t.block_m, kDoubles);
  visit("copy_a", t.copy_a, 1);
  visit("group", t.group, kDoubles);
}

struct GemmConfig {
  std::string name;
  Extent m, n, k, batch = 1;
  GemmTile tile;

  // A: element (i, j) of batch b is a[offset(b) + i*row_stride + j*col_stride]. Strides are C expressions over `params`,
  // offset is one over `batch` too. Read in place when f32 with col_stride "1", or with row_stride "1", near columns and one
  // panel of B, else copied (scratch).
  int a_buffer = 0;
  DType a_type = DType::F32;
  std::string a_row_stride, a_col_stride = "1", a_batch_offset = "0";
  // Computes the rows of A instead: of all rows of a task, kept (scratch) for the tasks of the same rows that follow.
  RowProducer rows_of_a;

  int b_buffer = 1;
  GemmB b_source = GemmB::Packed;
  DType b_type = DType::F32;                                           // storage of B (of the packed panels for Packed)
  std::string b_row_stride, b_col_stride = "1", b_batch_offset = "0";  // not used by Packed, but for b_batch_offset

  // Statements that consume `acc` (vf32: columns n .. n+lanes-1 of row m; or float at (m, n)) and do the stores. They see
  // `m`, `n`, `batch`, `bufs`, `params`. The vector text is never run on columns at or past N.
  Hole epilogue;

  int scratch_buffer = 2;  // see gemm_scratch_bytes; not touched when that is 0
};

// A tile for these sizes (any extent may be a guess when symbolic), and others worth a trial, the most promising first. packed: B is.
GemmTile choose_gemm_tile(int64_t m, int64_t n, int64_t k, int lanes, bool packed);
std::vector<GemmTile> other_gemm_tiles(int64_t m, int64_t n, int64_t k, int lanes, bool packed);
// Why a tile is none for these lanes; empty when it is one.
std::string gemm_tile_refusal(const GemmTile& t);
// Rounds block_m up to whole tiles.
void settle_gemm_tile(GemmTile& t);

// The kernel: void name(void* const* bufs, const int64_t* params, int64_t begin, int64_t end, int thread).
std::string gemm_text(const GemmConfig& config);

// Number of tasks to split over threads, and bytes of scratch each thread needs (thread t uses [t*bytes, (t+1)*bytes) of
// the scratch buffer, which must be 64-byte aligned; its first 8 bytes are -1 when a launch begins).
int64_t gemm_task_count(const GemmConfig& config, const int64_t* params);
Expr gemm_scratch_bytes(const GemmConfig& config, const Expr& k);

// Adds the row counts of the register tiles of one task with `rows` rows: equal heights where M is known, so that the last tile is
// not a sliver; full tiles and then 4, 2, 1 where it is not (few kernels to compile).
void collect_row_counts(int64_t rows, int tile_rows, std::set<int>& counts);

}  // namespace toroid::codegen
