// Text of convolutions as implicit products over any memory layout (sm_80): 16-bit floats, and f32 rounded to tf32, on tensor cores by
// mma.sync, other f32 by plain arithmetic.
#pragma once

#include <string>

#include "codegen/forms.h"
#include "toroid/dtype.h"

namespace toroid::codegen {

struct ConvGemmTile {
  int block_m = 64, block_n = 64;  // pixels and output channels
  int stages = 4;
  int warps_m = 2, warps_n = 2, warps_k = 1;  // warps_k: share the products of a stage
  int split = 1;                              // blocks, of a cluster, that share k: 1, 2, 4 or 8; more than 1 needs Hopper
  int threads() const { return warps_m * warps_n * warps_k * 32; }
  bool operator==(const ConvGemmTile&) const = default;
};
template <class Visit>
void fields(ConvGemmTile& t, const Visit& visit) {
  visit("block_m", t.block_m, kDoubles);
  visit("block_n", t.block_n, kDoubles);
  visit("stages", t.stages, 1);
  visit("warps_m", t.warps_m, kDoubles);
  visit("warps_n", t.warps_n, kDoubles);
  visit("warps_k", t.warps_k, kDoubles);
  visit("split", t.split, kDoubles);
}

// Numbers are C expressions. Rows m are pixels of the result, of all images.
struct ConvGemm {
  DType type = DType::F16;
  bool tf32 = false;  // f32 is rounded to tf32
  ConvGemmTile tile;
  int width = 8;                         // neighbours of k, all at one tap, that one copy of the input moves: of 16 bytes at most
  bool overlaps = false;                 // see KernelText
  bool far = false;                      // places in the input need 64 bits
  std::string input, weight;             // pointers; weight: [groups * n][pitch], rows at multiples of 16 bytes
  std::string m, n, k, pitch, channels;  // but m of one group; channels: of the input
  std::string out_h, out_w, in_h, in_w;
  std::string stride_n, stride_c, stride_h, stride_w, group_stride;  // of the input, in elements
  int kernel_h = 1, kernel_w = 1, step_h = 1, step_w = 1, pad_h = 0, pad_w = 0, dilation_h = 1, dilation_w = 1;
  // Statements on `float acc[unit]`, the sums at (m, group, n and on) that fill 16 bytes; they leave out channels at and past n's end.
  std::string epilogue;
  // It is a cuda_epilogue_around() for 32 lanes, and this is its `carried`.
  bool around = false;
  std::string carried = "";
};

// Definitions, and the statements of the kernel; of threads() threads, `split` blocks per tile and group.
struct ConvGemmText {
  std::string definitions, body;
};
ConvGemmText conv_gemm_text(const ConvGemm& c);
// gathers: 16-bit elements one by one (width 1).
int conv_gemm_shared_bytes(const ConvGemmTile& t, bool gathers);

}  // namespace toroid::codegen
