// Packs a constant B[K,N] into the panels that gemm_template reads. Runs once, at compile time of the program.
#pragma once

#include <cstdint>

#include "toroid/dtype.h"

namespace toroid::codegen {

// Elements of the packed form: whole panels of `panel` columns, zero padded.
int64_t packed_b_elements(int64_t k, int64_t n, int panel);

// dst[p][k][c] = B(k, p*panel + c), element (k, n) of B being src[k*row_stride + n*col_stride]: a linear layer's [N,K]
// weight is row_stride 1, col_stride K. src_type and dst_type are f32, bf16 or f16 and, unless dst is f32, equal.
void pack_b(const void* src, DType src_type, int64_t k, int64_t n, int64_t row_stride, int64_t col_stride, int panel, void* dst,
            DType dst_type);

}  // namespace toroid::codegen
