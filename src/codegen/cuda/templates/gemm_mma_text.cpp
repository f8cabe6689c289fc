#include "codegen/cuda/templates/gemm_mma_text.h"

#include <algorithm>

#include "base/check.h"
#include "codegen/expand.h"

namespace toroid::codegen {

namespace {

// Rows of shared memory are 16 bytes longer than what they hold: ldmatrix then reads 8 of them from different banks.
constexpr std::string_view kDefinitions = R"(
constexpr int kBlockM = @BLOCK_M@, kBlockN = @BLOCK_N@, kBlockK = @BLOCK_K@, kStages = @STAGES@, kThreads = @THREADS@, kGroup = @GROUP@;
constexpr int kWarpM = @WARP_M@, kWarpN = @WARP_N@;
constexpr bool kContiguousKA = @A_K@, kContiguousKB = @B_K@;
constexpr int kWidthA = @WIDTH_A@, kWidthB = @WIDTH_B@;
constexpr int kRowsA = kContiguousKA ? kBlockM : kBlockK, kInnerA = kContiguousKA ? kBlockK : kBlockM;
constexpr int kRowsB = kContiguousKB ? kBlockN : kBlockK, kInnerB = kContiguousKB ? kBlockK : kBlockN;
constexpr int kBytesA = kRowsA * (kInnerA + 8) * 2, kBytesB = kRowsB * (kInnerB + 8) * 2;

// Copies kRows x kInner elements, zeros where fewer are left: asynchronously by kWidth, or element by element through registers, which
// are stored later.
template <int kRows, int kInner, int kWidth>
struct TileCopy {
  static constexpr int kHeld = kWidth == 1 ? kRows * kInner / kThreads : 1;
  u16 held[kHeld];

  __device__ __forceinline__ void begin(u32 to, const u16* from, i64 stride, i64 inner_stride, i64 rows, i64 inner) {
    if constexpr (kWidth == 1) {
#pragma unroll
      for (int i = 0; i < kHeld; ++i) {
        const int at = threadIdx.x + i * kThreads, r = at / kInner, c = at % kInner;
        held[i] = r < rows && c < inner ? from[r * stride + c * inner_stride] : u16(0);
      }
    } else {
#pragma unroll
      for (int i = 0; i < kRows * kInner / kWidth / kThreads; ++i) {
        const int at = threadIdx.x + i * kThreads, r = at / (kInner / kWidth), c = at % (kInner / kWidth) * kWidth;
        const int left = r < rows ? static_cast<int>(min(max(inner - c, i64(0)), i64(kWidth))) : 0;
        const u16* p = left > 0 ? from + r * stride + c : from;
        const u32 place = to + (r * (kInner + 8) + c) * 2;
        if constexpr (kWidth == 8)
          asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(place), "l"(p), "r"(left * 2) : "memory");
        else
          asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(place), "l"(p), "n"(kWidth * 2), "r"(left * 2) : "memory");
      }
    }
  }
  __device__ __forceinline__ void end(u32 to) const {
    if constexpr (kWidth == 1) {
#pragma unroll
      for (int i = 0; i < kHeld; ++i) {
        const int at = threadIdx.x + i * kThreads;
        asm volatile("st.shared.u16 [%0], %1;" ::"r"(to + (at / kInner * (kInner + 8) + at % kInner) * 2), "h"(held[i]) : "memory");
      }
    }
  }
};

__device__ __forceinline__ void load_matrices(u32 (&v)[4], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3]) : "r"(address) : "memory");
}
__device__ __forceinline__ void load_transposed(u32 (&v)[4], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3]) : "r"(address) : "memory");
}
__device__ __forceinline__ void mma(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.@T@.@T@.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// One stage of products: rows `row` and on, columns `column` and on of the tile.
__device__ __forceinline__ void multiply_stage(float (&sums)[kWarpM / 16][kWarpN / 8][4], u32 a, u32 b, int row, int column) {
  const int lane = threadIdx.x % 32;
  u32 va[2][kWarpM / 16][4], vb[2][kWarpN / 16][4];
  auto load = [&](int k) {
    const int to = k / 16 % 2;
#pragma unroll
    for (int i = 0; i < kWarpM / 16; ++i) {
      const int m = row + i * 16;
      if (kContiguousKA) load_matrices(va[to][i], a + ((m + lane % 16) * (kInnerA + 8) + k + lane / 16 * 8) * 2);
      else load_transposed(va[to][i], a + ((k + lane % 8 + lane / 16 * 8) * (kInnerA + 8) + m + lane / 8 % 2 * 8) * 2);
    }
#pragma unroll
    for (int j = 0; j < kWarpN / 16; ++j) {
      const int n = column + j * 16;
      if (kContiguousKB) load_matrices(vb[to][j], b + ((n + lane % 8 + lane / 16 * 8) * (kInnerB + 8) + k + lane / 8 % 2 * 8) * 2);
      else load_transposed(vb[to][j], b + ((k + lane % 8 + lane / 8 % 2 * 8) * (kInnerB + 8) + n + lane / 16 * 8) * 2);
    }
  };
  load(0);
#pragma unroll
  for (int k = 0; k < kBlockK; k += 16) {
    const int at = k / 16 % 2;
    if (k + 16 < kBlockK) load(k + 16);
#pragma unroll
    for (int i = 0; i < kWarpM / 16; ++i)
#pragma unroll
      for (int j = 0; j < kWarpN / 8; ++j) mma(sums[i][j], va[at][i], vb[at][j / 2][j % 2 * 2], vb[at][j / 2][j % 2 * 2 + 1]);
  }
}
)";

constexpr std::string_view kBody = R"(
  extern __shared__ __align__(128) unsigned char shared[];
  const u32 shared_a = static_cast<u32>(__cvta_generic_to_shared(shared)), shared_b = shared_a + kStages * kBytesA;
  const i64 M = @M@, N = @N@, K = @K@;
  const int rows = static_cast<int>((M + kBlockM - 1) / kBlockM), columns = static_cast<int>((N + kBlockN - 1) / kBlockN);
  // Groups of rows of tiles, columns by columns: what runs at a time covers about a square, which reads the fewest different bytes.
  const int batch = blockIdx.x / (rows * columns), tile = blockIdx.x % (rows * columns);
  const int top = tile / (kGroup * columns) * kGroup, height = min(rows - top, kGroup), place = tile - top * columns;
  const i64 first_m = i64(top + place % height) * kBlockM, first_n = i64(place / height) * kBlockN;
  const u16* const a = @A_DATA@;
  const u16* const b = @B_DATA@;
  const i64 a_mn = @A_MN@, a_k = @A_STRIDE_K@, b_mn = @B_MN@, b_k = @B_STRIDE_K@;
  TileCopy<kRowsA, kInnerA, kWidthA> copy_a;
  TileCopy<kRowsB, kInnerB, kWidthB> copy_b;
  auto begin = [&](int step) {
    const i64 k = i64(step) * kBlockK, left = K - k;
    const u32 to_a = shared_a + step % kStages * kBytesA, to_b = shared_b + step % kStages * kBytesB;
    const u16 *const from_a = a + first_m * a_mn + k * a_k, *const from_b = b + first_n * b_mn + k * b_k;
    if (kContiguousKA) copy_a.begin(to_a, from_a, a_mn, a_k, M - first_m, left);
    else copy_a.begin(to_a, from_a, a_k, a_mn, left, M - first_m);
    if (kContiguousKB) copy_b.begin(to_b, from_b, b_mn, b_k, N - first_n, left);
    else copy_b.begin(to_b, from_b, b_k, b_mn, left, N - first_n);
  };
  auto end = [&](int step) {
    copy_a.end(shared_a + step % kStages * kBytesA);
    copy_b.end(shared_b + step % kStages * kBytesB);
  };
  const int steps = static_cast<int>((K + kBlockK - 1) / kBlockK);
#pragma unroll 1
  for (int i = 0; i < kStages - 1; ++i) {
    if (i < steps) {
      begin(i);
      end(i);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int row = warp / (kBlockN / kWarpN) * kWarpM, column = warp % (kBlockN / kWarpN) * kWarpN;
  float sums[kWarpM / 16][kWarpN / 8][4] = {};
#pragma unroll 1
  for (int i = 0; i < steps; ++i) {
    asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 2) : "memory");
    __syncthreads();
    const int next = i + kStages - 1;
    if (next < steps) begin(next);
    asm volatile("cp.async.commit_group;" ::: "memory");
    multiply_stage(sums, shared_a + i % kStages * kBytesA, shared_b + i % kStages * kBytesB, row, column);
    if (next < steps) end(next);
  }
#pragma unroll
  for (int u = 0; u < kWarpM / 8 * (kWarpN / 32); ++u) {
    const int p = u / 2 / (kWarpN / 32), h = u % 2, j = u / 2 % (kWarpN / 32);
    const i64 m = first_m + row + p * 16 + h * 8 + lane / 4, n = first_n + column + j * 32 + lane % 4 * 8;
    float acc[8];
#pragma unroll
    for (int e = 0; e < 8; ++e) acc[e] = sums[p][j * 4 + e / 2][h * 2 + e % 2];
    transpose_quad(acc);
    if (m < M && n < N) {
      @EPILOGUE@
    }
  }
)";

constexpr std::string_view kTranspose = R"(
// Lane q of 4 gives its pair v[2p], v[2p + 1] to lane p: 8 neighbouring columns in pairs over 4 lanes become 8 columns of one lane.
__device__ __forceinline__ void transpose_quad(float (&v)[8]) {
  const bool odd = threadIdx.x & 1, high = threadIdx.x & 2;
#pragma unroll
  for (int i = 0; i < 4; ++i) {  // pairs 0 and 2 with 1 and 3
    const int low = i < 2 ? i : i + 2;
    const float got = __shfl_xor_sync(0xffffffffu, odd ? v[low] : v[low + 2], 1);
    if (odd) v[low] = got; else v[low + 2] = got;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {  // pairs 0 and 1 with 2 and 3
    const float got = __shfl_xor_sync(0xffffffffu, high ? v[i] : v[i + 4], 2);
    if (high) v[i] = got; else v[i + 4] = got;
  }
}
)";

std::string truth(bool x) { return x ? "true" : "false"; }

}  // namespace

std::string_view transpose_quad_text() { return kTranspose; }

GemmMmaText gemm_mma_text(const GemmMma& g) {
  const MmaTile& t = g.tile;
  const int warp_m = t.block_m / t.warps_m, warp_n = t.block_n / t.warps_n;
  TOROID_CHECK(is_half(g.type) && warp_m % 16 == 0 && warp_n % 32 == 0 && t.block_k % 16 == 0);
  TOROID_CHECK(t.block_m * t.block_k % (8 * t.threads()) == 0 && t.block_n * t.block_k % (8 * t.threads()) == 0);
  return {std::string(kTranspose) + expand(kDefinitions, {{"BLOCK_M", std::to_string(t.block_m)},
                                                          {"BLOCK_N", std::to_string(t.block_n)},
                                                          {"BLOCK_K", std::to_string(t.block_k)},
                                                          {"STAGES", std::to_string(t.stages)},
                                                          {"THREADS", std::to_string(t.threads())},
                                                          {"GROUP", std::to_string(std::max(1, 1024 / t.block_m))},
                                                          {"WARP_M", std::to_string(warp_m)},
                                                          {"WARP_N", std::to_string(warp_n)},
                                                          {"A_K", truth(g.a.k_contiguous)},
                                                          {"B_K", truth(g.b.k_contiguous)},
                                                          {"WIDTH_A", std::to_string(g.a.width)},
                                                          {"WIDTH_B", std::to_string(g.b.width)},
                                                          {"T", g.type == DType::BF16 ? "bf16" : "f16"}}),
          expand(kBody, {{"M", g.m},
                         {"N", g.n},
                         {"K", g.k},
                         {"A_DATA", g.a.data},
                         {"B_DATA", g.b.data},
                         {"A_MN", g.a.stride_mn},
                         {"A_STRIDE_K", g.a.stride_k},
                         {"B_MN", g.b.stride_mn},
                         {"B_STRIDE_K", g.b.stride_k},
                         {"EPILOGUE", g.epilogue}})};
}

int mma_shared_bytes(const GemmMma& g) {
  const MmaTile& t = g.tile;
  auto bytes = [&](bool k_contiguous, int mn) { return k_contiguous ? mn * (t.block_k + 8) * 2 : t.block_k * (mn + 8) * 2; };
  return t.stages * (bytes(g.a.k_contiguous, t.block_m) + bytes(g.b.k_contiguous, t.block_n));
}

}  // namespace toroid::codegen
