// C[M,N] = A[M,K] x W[N,K]^T for very small M as C text: streams plain row-major weights at memory speed.
#pragma once

#include <string>

#include "codegen/cpu/templates/template_text.h"
#include "codegen/forms.h"

namespace toroid::codegen {

struct GemvTile {
  int64_t task_columns = 64;  // columns of C of a task, a multiple of lanes
  int streams = 4;            // rows of the weights that are read side by side: four keep the memory busy
};
template <class Visit>
void fields(GemvTile& t, const Visit& visit) {
  visit("task_columns", t.task_columns, kDoubles);
  visit("streams", t.streams, kDoubles);
}

struct GemvConfig {
  std::string name;
  int lanes = 16;
  int64_t m = 1;  // 1 .. 4
  Extent n, k;
  // A: f32, contiguous columns, rows a_row_stride (C expression) apart. A half A is converted by the caller.
  int a_buffer = 0, b_buffer = 1;
  std::string a_row_stride, a_offset = "0";  // the offset, of the first element, is a C expression too
  RowProducer rows_of_a;                     // computes the rows of A instead, once a thread and launch
  int scratch_buffer = 2;                    // see gemv_scratch_bytes; not touched when that is 0
  // Weights [N][K] in storage b_type (f32, bf16, f16), rows b_row_stride (C expression) apart.
  DType b_type = DType::F32;
  std::string b_row_stride, b_offset = "0";
  GemvTile tile;
  // As in GemmConfig: consumes `acc` of columns n .. n+lanes-1 of row m (vector text) or of (m, n) (scalar text).
  Hole epilogue;
};

// Why a tile is none for `m` rows; empty when it is one.
std::string gemv_tile_refusal(const GemvTile& t, int64_t m, int lanes);

// The kernel: void name(void* const* bufs, const int64_t* params, int64_t begin, int64_t end, int thread).
std::string gemv_text(const GemvConfig& config);

// Bytes of scratch that each thread needs, as in gemm_scratch_bytes.
Expr gemv_scratch_bytes(const GemvConfig& config, const Expr& k);
int64_t gemv_task_count(const GemvConfig& config, const int64_t* params);

}  // namespace toroid::codegen
