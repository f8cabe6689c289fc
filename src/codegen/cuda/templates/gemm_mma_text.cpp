#include "codegen/cuda/templates/gemm_mma_text.h"

#include <algorithm>

#include "base/check.h"
#include "codegen/expand.h"

namespace toroid::codegen {

namespace {

// Rows of shared memory are so much longer than what they hold that a fragment is read from different banks: 8 rows of 16 bytes by
// ldmatrix, or of 32-bit elements 8 neighbours in each of 4 rows.
constexpr std::string_view kDefinitions = R"(
constexpr int kBlockM = @BLOCK_M@, kBlockN = @BLOCK_N@, kBlockK = @BLOCK_K@, kStages = @STAGES@, kThreads = @THREADS@, kGroup = @GROUP@;
constexpr int kWarpM = @WARP_M@, kWarpN = @WARP_N@;
constexpr bool kContiguousKA = @A_K@, kContiguousKB = @B_K@;
constexpr int kWidthA = @WIDTH_A@, kWidthB = @WIDTH_B@;
constexpr int kRowsA = kContiguousKA ? kBlockM : kBlockK, kInnerA = kContiguousKA ? kBlockK : kBlockM;
constexpr int kRowsB = kContiguousKB ? kBlockN : kBlockK, kInnerB = kContiguousKB ? kBlockK : kBlockN;
constexpr int kBytesA = kRowsA * (kInnerA + @PAD_A@) * @SIZE@, kBytesB = kRowsB * (kInnerB + @PAD_B@) * @SIZE@;

// Copies slices of kRows x kInner elements, one after the other, zeros where fewer are left: asynchronously by kWidth, or element by
// element through registers, which are stored later. A thread copies the same columns of every kDown-th row.
template <int kRows, int kInner, int kWidth@PAD_PARAMETER@>
struct TileCopy {
  static constexpr int kAcross = kInner / kWidth, kDown = kThreads / kAcross, kPasses = kRows / kDown, kHeld = @HOLDS@ ? kPasses : 1;
  static_assert(kThreads % kAcross == 0 && kRows % kDown == 0);
  const @ELEMENT@* from;
  i64 down, inner_stride;
  int row, column;
  @ELEMENT@ held[kHeld];

  __device__ __forceinline__ TileCopy(const @ELEMENT@* data, i64 stride, i64 inner_stride)
      : down(stride * kDown), inner_stride(inner_stride), row(threadIdx.x / kAcross), column(threadIdx.x % kAcross * kWidth) {
    from = data + row * stride + column * inner_stride;
  }
  __device__ __forceinline__ u32 place(u32 to) const { return to + (row * (kInner + @PAD@) + column) * @SIZE@; }
  // rows, inner: how many are left. step: from the beginning of this slice to that of the next one.
  __device__ __forceinline__ void begin(u32 to, int rows, int inner, i64 step) {
    const @ELEMENT@* p = from;
    from += step;
    if constexpr (@HOLDS@) {
#pragma unroll
      for (int i = 0; i < kPasses; ++i, p += down) held[i] = row + i * kDown < rows && column < inner ? *p : @ELEMENT@(0);
    } else {
      const int bytes = min(max(inner - column, 0), kWidth) * @SIZE@;
      to = place(to);
#pragma unroll
      for (int i = 0; i < kPasses; ++i, p += down) {
        const int left = row + i * kDown < rows ? bytes : 0;
        if constexpr (kWidth == @WIDTH@)
          asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to + i * kDown * (kInner + @PAD@) * @SIZE@), "l"(p), "r"(left) : "memory");
        else
          asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to + i * kDown * (kInner + @PAD@) * @SIZE@), "l"(p), "n"(kWidth * @SIZE@),
                       "r"(left) : "memory");
      }
    }
  }
  __device__ __forceinline__ void end(u32 to) const {
@END@
  }
};

__device__ __forceinline__ void load_matrices(u32 (&v)[4], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3]) : "r"(address) : "memory");
}
)";

// Elements of 16 bits are stored when the products of a stage have been started.
constexpr std::string_view kStoreHeld = R"(    if constexpr (kWidth == 1) {
      to = place(to);
#pragma unroll
      for (int i = 0; i < kPasses; ++i)
        asm volatile("st.shared.u16 [%0], %1;" ::"r"(to + i * kDown * (kInner + 8) * 2), "h"(held[i]) : "memory");
    })";

constexpr std::string_view kHalfStage = R"(__device__ __forceinline__ void load_transposed(u32 (&v)[4], u32 address) {
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

// A fragment has 8 of k: where k is contiguous, 8 rows of 4 of them lie as ldmatrix's 8 rows of 8 elements of 16 bits.
constexpr std::string_view kTf32Stage = R"(
__device__ __forceinline__ u32 load_word(u32 address) {
  u32 v;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(address) : "memory");
  return v;
}
__device__ __forceinline__ void mma(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
@ROUND@

// One stage of products: rows `row` and on, columns `column` and on of the tile.
__device__ __forceinline__ void multiply_stage(float (&sums)[kWarpM / 16][kWarpN / 8][4], u32 a, u32 b, int row, int column) {
  constexpr int kPitchA = kInnerA + @PAD_A@, kPitchB = kInnerB + @PAD_B@;
  const int lane = threadIdx.x % 32;
  u32 va[2][kWarpM / 16][4], vb[2][kWarpN / 16][4];
  auto load = [&](int k) {
    const int to = k / 8 % 2;
#pragma unroll
    for (int i = 0; i < kWarpM / 16; ++i) {
      const int m = row + i * 16;
      if (kContiguousKA) load_matrices(va[to][i], a + ((m + lane % 16) * kPitchA + k + lane / 16 * 4) * 4);
      else
#pragma unroll
        for (int e = 0; e < 4; ++e) va[to][i][e] = load_word(a + ((k + lane % 4 + e / 2 * 4) * kPitchA + m + lane / 4 + e % 2 * 8) * 4);
    }
#pragma unroll
    for (int j = 0; j < kWarpN / 16; ++j) {
      const int n = column + j * 16;
      if (kContiguousKB) load_matrices(vb[to][j], b + ((n + lane % 8 + lane / 16 * 8) * kPitchB + k + lane / 8 % 2 * 4) * 4);
      else
#pragma unroll
        for (int e = 0; e < 4; ++e) vb[to][j][e] = load_word(b + ((k + lane % 4 + e % 2 * 4) * kPitchB + n + lane / 4 + e / 2 * 8) * 4);
    }
  };
  load(0);
#pragma unroll
  for (int k = 0; k < kBlockK; k += 8) {
    const int at = k / 8 % 2;
    if (k + 8 < kBlockK) load(k + 8);
#pragma unroll
    for (int i = 0; i < kWarpM / 16; ++i) round_to_tf32(va[at][i]);
#pragma unroll
    for (int j = 0; j < kWarpN / 16; ++j) round_to_tf32(vb[at][j]);
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
  const @ELEMENT@* const a = @A_DATA@;
  const @ELEMENT@* const b = @B_DATA@;
  const i64 a_mn = @A_MN@, a_k = @A_STRIDE_K@, b_mn = @B_MN@, b_k = @B_STRIDE_K@;
  const @ELEMENT@ *const corner_a = a + first_m * a_mn, *const corner_b = b + first_n * b_mn;
  TileCopy<kRowsA, kInnerA, kWidthA@PAD_ARGUMENT_A@> copy_a(corner_a, kContiguousKA ? a_mn : a_k, kContiguousKA ? a_k : a_mn);
  TileCopy<kRowsB, kInnerB, kWidthB@PAD_ARGUMENT_B@> copy_b(corner_b, kContiguousKB ? b_mn : b_k, kContiguousKB ? b_k : b_mn);
  const int left_m = static_cast<int>(min(M - first_m, i64(kBlockM))), left_n = static_cast<int>(min(N - first_n, i64(kBlockN)));
  const i64 step_a = a_k * kBlockK, step_b = b_k * kBlockK;
  const int steps = static_cast<int>((K + kBlockK - 1) / kBlockK), last_k = static_cast<int>(K - i64(steps - 1) * kBlockK);
  auto begin = [&](int step, int stage) {
    const int left = step == steps - 1 ? last_k : kBlockK;
    copy_a.begin(shared_a + stage * kBytesA, kContiguousKA ? left_m : left, kContiguousKA ? left : left_m, step_a);
    copy_b.begin(shared_b + stage * kBytesB, kContiguousKB ? left_n : left, kContiguousKB ? left : left_n, step_b);
  };
  auto end = [&](int stage) {
    copy_a.end(shared_a + stage * kBytesA);
    copy_b.end(shared_b + stage * kBytesB);
  };
#pragma unroll 1
  for (int i = 0; i < kStages - 1; ++i) {
    if (i < steps) {
      begin(i, i);
      end(i);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int row = warp / (kBlockN / kWarpN) * kWarpM, column = warp % (kBlockN / kWarpN) * kWarpN;
  float sums[kWarpM / 16][kWarpN / 8][4] = {};
  int stage = 0, free = kStages - 1;  // what is multiplied, and what was before
#pragma unroll 1
  for (int i = 0; i < steps; ++i) {
    asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 2) : "memory");
    __syncthreads();
    const bool more = i + kStages - 1 < steps;
    if (more) begin(i + kStages - 1, free);
    asm volatile("cp.async.commit_group;" ::: "memory");
    multiply_stage(sums, shared_a + stage * kBytesA, shared_b + stage * kBytesB, row, column);
    if (more) end(free);
    free = stage;
    if (++stage == kStages) stage = 0;
  }
@CARRIED@#pragma unroll
  for (int u = 0; u < kWarpM / 8 * (kWarpN / 32); ++u) {
    const int p = u / 2 / (kWarpN / 32), @ORDER@;
    const i64 m = first_m + row + p * 16 + h * 8 + lane / 4, n = first_n + column + j * 32 + lane % 4 * 8;
    float acc[8];
#pragma unroll
    for (int e = 0; e < 8; ++e) acc[e] = sums[p][j * 4 + e / 2][h * 2 + e % 2];
    transpose_quad(acc);
    if (@INSIDE@) {
      @EPILOGUE@
    }
  }
)";

// Neighbours along a row follow each other, and all lanes take part.
constexpr std::string_view kOrder = "h = u % 2, j = u / 2 % (kWarpN / 32)", kRowOrder = "h = u / (kWarpN / 32) % 2, j = u % (kWarpN / 32)";
constexpr std::string_view kRowEnds = R"(const int left = m < M ? static_cast<int>(min(N - n, i64(8))) : -8;
const bool begins = j == 0 && lane % 4 == 0, ends = j == kWarpN / 32 - 1 && lane % 4 == 3;
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

// What cvt.rna.tf32.f32 does, in two instructions: half of the last bit that stays is added, away from zero, and tensor cores leave out the
// 13 bits below it. The power of two of infinities and NaN is infinite. Denormal numbers are cut.
constexpr std::string_view kRound = R"(
__device__ __forceinline__ void round_to_tf32(u32 (&v)[4]) {
#pragma unroll
  for (int e = 0; e < 4; ++e) v[e] = __float_as_uint(fmaf(__uint_as_float(v[e] & 0xff800000u), 0x1p-11f, __uint_as_float(v[e])));
})";

// Elements that a row of shared memory is longer.
int pad(DType type, const MmaOperand& o) { return is_half(type) || !o.k_contiguous ? 8 : 4; }

std::string truth(bool x) { return x ? "true" : "false"; }

}  // namespace

std::string_view transpose_quad_text() { return kTranspose; }

std::string_view round_to_tf32_text() { return kRound; }

GemmMmaText gemm_mma_text(const GemmMma& g) {
  const MmaTile& t = g.tile;
  const int warp_m = t.block_m / t.warps_m, warp_n = t.block_n / t.warps_n;
  const bool half = is_half(g.type);
  TOROID_CHECK((half || g.type == DType::F32) && warp_m % 16 == 0 && warp_n % 32 == 0 && t.block_k % 16 == 0);
  TOROID_CHECK(t.block_m * t.block_k % (8 * t.threads()) == 0 && t.block_n * t.block_k % (8 * t.threads()) == 0);
  const std::string pad_a = std::to_string(pad(g.type, g.a)), pad_b = std::to_string(pad(g.type, g.b));
  const std::string element = half ? "u16" : "f32";
  return {std::string(kTranspose) +
              expand(kDefinitions, {{"BLOCK_M", std::to_string(t.block_m)},
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
                                    {"ELEMENT", element},
                                    {"SIZE", half ? "2" : "4"},
                                    {"WIDTH", half ? "8" : "4"},
                                    {"PAD_A", pad_a},
                                    {"PAD_B", pad_b},
                                    {"PAD_PARAMETER", half ? "" : ", int kPad"},
                                    {"PAD", half ? "8" : "kPad"},
                                    {"HOLDS", half ? "kWidth == 1" : "false"},
                                    {"END", half ? std::string(kStoreHeld) : ""}}) +
              (half ? expand(kHalfStage, {{"T", g.type == DType::BF16 ? "bf16" : "f16"}})
                    : expand(kTf32Stage, {{"ROUND", std::string(kRound)}, {"PAD_A", pad_a}, {"PAD_B", pad_b}})),
          expand(kBody, {{"M", g.m},
                         {"N", g.n},
                         {"K", g.k},
                         {"ELEMENT", element},
                         {"PAD_ARGUMENT_A", half ? "" : ", " + pad_a},
                         {"PAD_ARGUMENT_B", half ? "" : ", " + pad_b},
                         {"A_DATA", g.a.data},
                         {"B_DATA", g.b.data},
                         {"A_MN", g.a.stride_mn},
                         {"A_STRIDE_K", g.a.stride_k},
                         {"B_MN", g.b.stride_mn},
                         {"B_STRIDE_K", g.b.stride_k},
                         {"CARRIED", g.carried},
                         {"ORDER", std::string(g.around ? kRowOrder : kOrder)},
                         {"INSIDE", g.around ? "true" : "m < M && n < N"},
                         {"EPILOGUE", (g.around ? std::string(kRowEnds) : "") + g.epilogue}})};
}

int mma_shared_bytes(const GemmMma& g) {
  const MmaTile& t = g.tile;
  auto bytes = [&](const MmaOperand& o, int mn) {
    const int rows = o.k_contiguous ? mn : t.block_k, inner = o.k_contiguous ? t.block_k : mn;
    return rows * (inner + pad(g.type, o)) * static_cast<int>(size_of(g.type));
  };
  return t.stages * (bytes(g.a, t.block_m) + bytes(g.b, t.block_n));
}

}  // namespace toroid::codegen
