// Text of matrix products of 16-bit floats, and of f32 rounded to tf32, on tensor cores by mma.sync (sm_80): any strides.
#pragma once

#include <string>
#include <string_view>

#include "codegen/forms.h"
#include "toroid/dtype.h"

namespace toroid::codegen {

struct MmaTile {
  int block_m = 128, block_n = 128, block_k = 32;
  int stages = 4;
  int warps_m = 2, warps_n = 4;
  int threads() const { return warps_m * warps_n * 32; }
  bool operator==(const MmaTile&) const = default;
};
template <class Visit>
void fields(MmaTile& t, const Visit& visit) {
  visit("block_m", t.block_m, kDoubles);
  visit("block_n", t.block_n, kDoubles);
  visit("block_k", t.block_k, kDoubles);
  visit("stages", t.stages, 1);
  visit("warps_m", t.warps_m, kDoubles);
  visit("warps_n", t.warps_n, kDoubles);
}

// One matrix: C expressions of a pointer to its element (0, 0), which sees `batch`, an int, and of its strides.
struct MmaOperand {
  bool k_contiguous = true;  // else m or n is; when neither is, this only says how shared memory is laid out
  int width = 8;             // neighbours that one copy can move: those of 16 bytes, a half of them, and so on down to 1
  std::string data, stride_mn, stride_k;
};

struct GemmMma {
  DType type = DType::BF16;  // of A and B; F32: rounded to tf32
  MmaTile tile;
  MmaOperand a, b;
  std::string m, n, k;  // C expressions
  // Statements on `float acc[8]`, the sums of `batch` at (m, n .. n + 7); they leave out columns at and past N.
  std::string epilogue;
  // It is a cuda_epilogue_around(), and this is its `carried`.
  bool around = false;
  std::string carried = "";
};

// Definitions, and the statements of the kernel; of threads() threads, a block per tile and batch.
struct GemmMmaText {
  std::string definitions, body;
};
GemmMmaText gemm_mma_text(const GemmMma& g);
int mma_shared_bytes(const GemmMma& g);

// Function transpose_quad(float (&v)[8]): from the pairs of columns that 4 lanes have after wgmma and mma.sync to 8 columns of each lane.
std::string_view transpose_quad_text();
// Function round_to_tf32(u32 (&v)[4]) on the bits of f32 operands of mma.sync, to nearest.
std::string_view round_to_tf32_text();

}  // namespace toroid::codegen
