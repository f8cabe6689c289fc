#include "codegen/cuda/templates/conv_gemm_text.h"

#include <algorithm>

#include "base/check.h"
#include "codegen/cuda/templates/gemm_mma_text.h"
#include "codegen/expand.h"

namespace toroid::codegen {

namespace {

constexpr int kRowBytes = 128 + 16;  // of one pixel or channel in a stage: 8 of them begin in different banks
constexpr int kPixelBytes = 16, kTapBytes = 16, kGatheredK = 64;

int stage_bytes(const ConvGemmTile& t) { return (t.block_m + t.block_n) * kRowBytes; }
int sum_bytes(const ConvGemmTile& t) { return t.warps_k * t.block_m * (t.block_n + 8) * 4; }

constexpr std::string_view kDefinitions = R"(
typedef @ELEMENT@ element;
typedef @PLACE@ place;
constexpr int kBlockM = @BLOCK_M@, kBlockN = @BLOCK_N@, kBlockK = 128 / sizeof(element), kStages = @STAGES@, kThreads = @THREADS@;
constexpr int kSplit = @SPLIT@, kWarpsM = @WARPS_M@, kWarpsN = @WARPS_N@, kWarpsK = @WARPS_K@;
constexpr int kWarpM = kBlockM / kWarpsM, kWarpN = kBlockN / kWarpsN, kRowBytes = 128 + 16, kSumPitch = kBlockN + 8;
constexpr int kWidth = @WIDTH@, kUnit = 16 / sizeof(element);
constexpr int kBytesA = kBlockM * kRowBytes, kBytesB = kBlockN * kRowBytes;

// Where the window of a pixel of the result begins in the input, and a tap and channel in the window.
struct Pixel {
  i64 at;
  int h, w;
};
struct alignas(16) Tap {
  place at;
  int h, w;
};

template <int kBytes>
__device__ __forceinline__ void copy(u32 to, const element* from, bool inside) {
  if constexpr (kBytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(inside ? 16 : 0) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(kBytes), "r"(inside ? kBytes : 0) : "memory");
}
)";

// Sums of a warp's share of one stage of products: rows `row` and on, columns `column` and on of the tile, every kWarpsK-th piece of k from
// `first`; and where they go when the sum is done.
constexpr std::string_view kTensorCores = R"(
typedef float Sums[kWarpM / 16][kWarpN / 8][4];
__device__ __forceinline__ void load_matrices(u32 (&v)[4], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3]) : "r"(address) : "memory");
}
__device__ __forceinline__ void mma(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k@K@.row.col.f32.@T@.@T@.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}@ROUND@
__device__ __forceinline__ void multiply_stage(Sums& sums, u32 a, u32 b, int row, int column, int first) {
  const int lane = threadIdx.x % 32;
  constexpr int kSteps = kBlockK / @K@ / kWarpsK;
  u32 va[2][kWarpM / 16][4], vb[2][kWarpN / 16][4];
  auto load = [&](int step) {
    const int k = (step * kWarpsK + first) * @K@;
#pragma unroll
    for (int i = 0; i < kWarpM / 16; ++i)
      load_matrices(va[step % 2][i], a + (row + i * 16 + lane % 16) * kRowBytes + (k + lane / 16 * @HALF_K@) * @SIZE@);
#pragma unroll
    for (int j = 0; j < kWarpN / 16; ++j)
      load_matrices(vb[step % 2][j], b + (column + j * 16 + lane % 8 + lane / 16 * 8) * kRowBytes + (k + lane / 8 % 2 * @HALF_K@) * @SIZE@);
  };
  load(0);
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    const int at = step % 2;
    if (step + 1 < kSteps) load(step + 1);@ROUND_FRAGMENTS@
#pragma unroll
    for (int i = 0; i < kWarpM / 16; ++i)
#pragma unroll
      for (int j = 0; j < kWarpN / 8; ++j) mma(sums[i][j], va[at][i], vb[at][j / 2][j % 2 * 2], vb[at][j / 2][j % 2 * 2 + 1]);
  }
}
__device__ __forceinline__ void put_sums(const Sums& sums, float* to) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < kWarpM / 16; ++i)
#pragma unroll
    for (int j = 0; j < kWarpN / 8; ++j)
#pragma unroll
      for (int h = 0; h < 2; ++h)
        *reinterpret_cast<float2*>(to + (i * 16 + h * 8 + lane / 4) * kSumPitch + j * 8 + lane % 4 * 2) =
            make_float2(sums[i][j][h * 2], sums[i][j][h * 2 + 1]);
}
)";

constexpr std::string_view kRoundFragments = R"(
#pragma unroll
    for (int i = 0; i < kWarpM / 16; ++i) round_to_tf32(va[at][i]);
#pragma unroll
    for (int j = 0; j < kWarpN / 16; ++j) round_to_tf32(vb[at][j]);)";

// A lane has every 8th row and every 4th column.
constexpr std::string_view kPlain = R"(
typedef float Sums[kWarpM / 8][kWarpN / 4];
__device__ __forceinline__ void load_four(float (&v)[4], u32 address) {
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3]) : "r"(address) : "memory");
}
__device__ __forceinline__ void multiply_stage(Sums& sums, u32 a, u32 b, int row, int column, int first) {
  const int lane = threadIdx.x % 32;
#pragma unroll 2
  for (int k = first * 4; k < kBlockK; k += kWarpsK * 4) {
    float va[kWarpM / 8][4], vb[kWarpN / 4][4];
#pragma unroll
    for (int i = 0; i < kWarpM / 8; ++i) load_four(va[i], a + (row + i * 8 + lane / 4) * kRowBytes + k * 4);
#pragma unroll
    for (int j = 0; j < kWarpN / 4; ++j) load_four(vb[j], b + (column + j * 4 + lane % 4) * kRowBytes + k * 4);
#pragma unroll
    for (int e = 0; e < 4; ++e)
#pragma unroll
      for (int i = 0; i < kWarpM / 8; ++i)
#pragma unroll
        for (int j = 0; j < kWarpN / 4; ++j) sums[i][j] = fmaf(va[i][e], vb[j][e], sums[i][j]);
  }
}
__device__ __forceinline__ void put_sums(const Sums& sums, float* to) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < kWarpM / 8; ++i)
#pragma unroll
    for (int j = 0; j < kWarpN / 4; ++j) to[(i * 8 + lane / 4) * kSumPitch + j * 4 + lane % 4] = sums[i][j];
}
)";

constexpr std::string_view kBody = R"(
  extern __shared__ __align__(128) unsigned char shared[];
  const u32 shared_a = static_cast<u32>(__cvta_generic_to_shared(shared)), shared_b = shared_a + kStages * kBytesA;
  Pixel* const pixels = reinterpret_cast<Pixel*>(shared + kStages * (kBytesA + kBytesB));
  const i64 M = @M@;
  const int N = @N@, K = @K@, columns = (N + kBlockN - 1) / kBlockN;
  const int rows = static_cast<int>((M + kBlockM - 1) / kBlockM), steps = (K + kBlockK - 1) / kBlockK;
  @RANK@
  const int tile = blockIdx.x / kSplit, group = tile / columns / rows;
  const int first_n = tile % columns * kBlockN;
  const i64 first_m = i64(tile / columns % rows) * kBlockM;
  const int first = kSplit > 1 ? steps * rank / kSplit : 0, last = kSplit > 1 ? steps * (rank + 1) / kSplit : steps;
  const element* const input = @INPUT@ + group * @GROUP_STRIDE@;
  const element* const weight = @WEIGHT@ + (i64(group) * N + first_n) * @PITCH@;

  auto load_weights = [&](int step) {
    const u32 to = shared_b + (step - first) % kStages * kBytesB;
#pragma unroll
    for (int i = 0; i < (kBlockN * 8 + kThreads - 1) / kThreads; ++i) {
      const int at = threadIdx.x + i * kThreads, n = at / 8, k = step * kBlockK + at % 8 * kUnit;
      if (kBlockN * 8 % kThreads && at >= kBlockN * 8) break;
      const bool inside = first_n + n < N && k < @PITCH@;
      copy<16>(to + n * kRowBytes + at % 8 * 16, weight + (inside ? i64(n) * @PITCH@ + k : 0), inside);
    }
  };
  auto tap_of = [&](int k) {
    const int tap = k / @CHANNELS@, c = k - tap * @CHANNELS@, h = @TAP_H@, w = @TAP_W@;
    return Tap{place(h) * @DILATION_H@ * place(@STRIDE_H@) + place(w) * @DILATION_W@ * place(@STRIDE_W@) + place(c) * place(@STRIDE_C@),
               h * @DILATION_H@, w * @DILATION_W@};
  };
  auto is_inside = [&](const Pixel& p, const Tap& t) {
    return static_cast<u32>(p.h + t.h) < static_cast<u32>(@IN_H@) && static_cast<u32>(p.w + t.w) < static_cast<u32>(@IN_W@);
  };
@LOAD_INPUT@

  @EARLY@
#pragma unroll 1
  for (int i = first; i < min(last, first + kStages - 1); ++i) load_weights(i);
  for (int r = threadIdx.x; r < kBlockM; r += kThreads) {
    const i64 m = first_m + r;
    const int w = static_cast<int>(m % @OUT_W@), h = static_cast<int>(m / @OUT_W@ % @OUT_H@);
    Pixel p{0, -(1 << 30), 0};
    if (m < M) {
      p.h = h * @STEP_H@ - @PAD_H@;
      p.w = w * @STEP_W@ - @PAD_W@;
      p.at = m / @OUT_W@ / @OUT_H@ * @STRIDE_N@ + i64(p.h) * @STRIDE_H@ + i64(p.w) * @STRIDE_W@;
    }
    pixels[r] = p;
  }
  for (int i = 0; i < kStages; ++i) find_taps(first + i);
  __syncthreads();
  @WAIT@
#pragma unroll 1
  for (int i = 0; i < kStages - 1; ++i) {
    if (first + i < last) {
      load_input(first + i);
      store_input(first + i);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
  const int warp = threadIdx.x / 32;
  const int row = warp / kWarpsN % kWarpsM * kWarpM, column = warp % kWarpsN * kWarpN, warp_k = warp / kWarpsN / kWarpsM;
  Sums sums = {};
#pragma unroll 1
  for (int i = first; i < last; ++i) {
    asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 2) : "memory");
    __syncthreads();
    const int next = i + kStages - 1, stage = (i - first) % kStages;
    if (next < last) {
      load_weights(next);
      load_input(next);
      find_taps(next + 1);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
    multiply_stage(sums, shared_a + stage * kBytesA, shared_b + stage * kBytesB, row, column, warp_k);
    if (next < last) store_input(next);
  }
  asm volatile("cp.async.wait_group 0;" ::: "memory");
  __syncthreads();
  // The sums of all warps and blocks meet in shared memory; a unit is what one access writes of a pixel.
  float* const tile_sums = reinterpret_cast<float*>(shared);
  put_sums(sums, tile_sums + (warp_k * kBlockM + row) * kSumPitch + column);
  @MEET@
  constexpr int kUnits = kBlockM * kBlockN / kUnit / kSplit;
@CARRIED@#pragma unroll
  for (int i = 0; i < (kUnits + kThreads - 1) / kThreads; ++i) {
    const int unit = threadIdx.x + i * kThreads;
    if (kUnits % kThreads && unit >= kUnits) break;
    const int at = unit + @FIRST_UNIT@;
    const int r = at / (kBlockN / kUnit), c = at % (kBlockN / kUnit) * kUnit;
    const i64 m = first_m + r;
    const int n = first_n + c;
    @OUTSIDE@
    float acc[kUnit] = {};
@ADD@
    @EPILOGUE@
  }
  @PART@
)";

constexpr std::string_view kOutside = "if (m >= M || n >= N) continue;";
// Rows that begin anywhere: all lanes take part, and a pixel's are in one warp.
constexpr std::string_view kLeft = R"(static_assert(32 % (kBlockN / kUnit) == 0 && kUnits % 32 == 0);
const int left = m < M ? min(N - n, kUnit) : -kUnit;
const bool begins = c == 0, ends = c == kBlockN - kUnit;)";

// Neighbours at one tap, asynchronously.
constexpr std::string_view kLoadInput = R"(  auto load_input = [&](int step) {
    constexpr int kLanes = kBlockK / kWidth;  // threads of a row
    const int c = threadIdx.x % kLanes * kWidth, k = step * kBlockK + c;
    const Tap tap = tap_of(k);
    const u32 to = shared_a + (step - first) % kStages * kBytesA + c * sizeof(element);
#pragma unroll
    for (int i = 0; i < kBlockM * kLanes / kThreads; ++i) {
      const int r = threadIdx.x / kLanes + i * (kThreads / kLanes);
      const Pixel p = pixels[r];
      const bool inside = k < K && is_inside(p, tap);
      copy<kWidth * sizeof(element)>(to + r * kRowBytes, inside ? input + p.at + tap.at : input, inside);
    }
  };
  auto store_input = [](int) {};
  auto find_taps = [](int) {};)";

// Elements wait in registers between global and shared memory; the threads of a warp read one place of k for neighbouring pixels. Where
// that is in the window is found out once for all of them, a step before.
constexpr std::string_view kGatherInput = R"(  constexpr int kHeld = kBlockM * 8 / kThreads;
  Tap* const taps = reinterpret_cast<Tap*>(pixels + kBlockM);
  auto find_taps = [&](int step) {
    for (int i = threadIdx.x; i < kBlockK; i += kThreads) {
      const int k = step * kBlockK + i;
      Tap tap = tap_of(k);
      if (k >= K) tap.h = 1 << 29;  // never inside
      taps[step % kStages * kBlockK + i] = tap;
    }
  };
  u32 held[kHeld][4];
  auto load_input = [&](int step) {
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      const int at = threadIdx.x + i * kThreads;
      const Pixel p = pixels[at % kBlockM];
      u16 x[8];
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const Tap tap = taps[step % kStages * kBlockK + at / kBlockM * 8 + e];
        x[e] = is_inside(p, tap) ? input[p.at + tap.at] : u16(0);
      }
#pragma unroll
      for (int e = 0; e < 4; ++e) held[i][e] = x[2 * e] | static_cast<u32>(x[2 * e + 1]) << 16;
    }
  };
  auto store_input = [&](int step) {
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      const int at = threadIdx.x + i * kThreads;
      const u32 to = shared_a + (step - first) % kStages * kBytesA + at % kBlockM * kRowBytes + at / kBlockM * 16;
      asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(held[i][0]), "r"(held[i][1]), "r"(held[i][2]),
                   "r"(held[i][3]) : "memory");
    }
  };)";

constexpr std::string_view kAdd = R"(#pragma unroll
    for (int part = 0; part < kWarpsK; ++part)
#pragma unroll
      for (int e = 0; e < kUnit; e += 4) {
        const float4 x = *reinterpret_cast<const float4*>(tile_sums + (part * kBlockM + r) * kSumPitch + c + e);
        acc[e] += x.x, acc[e + 1] += x.y, acc[e + 2] += x.z, acc[e + 3] += x.w;
      })";
// The order of the additions is fixed.
constexpr std::string_view kAddBlocks = R"(#pragma unroll
    for (int block = 0; block < kSplit; ++block) {
      u32 from;
      asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(from) : "r"(shared_a), "r"(block));
#pragma unroll
      for (int part = 0; part < kWarpsK; ++part)
#pragma unroll
        for (int e = 0; e < kUnit; e += 4) {
          float x[4];
          asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                       : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3])
                       : "r"(from + ((part * kBlockM + r) * kSumPitch + c + e) * 4) : "memory");
#pragma unroll
          for (int q = 0; q < 4; ++q) acc[e + q] += x[q];
        }
    })";
constexpr std::string_view kMeet = R"(asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");)";
// A block's memory stays until the others have read it.
constexpr std::string_view kPart = R"(__syncwarp();
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.aligned;" ::: "memory");)";
constexpr std::string_view kRank = R"(int rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));)";

}  // namespace

ConvGemmText conv_gemm_text(const ConvGemm& c) {
  const ConvGemmTile& t = c.tile;
  const bool half = is_half(c.type);
  TOROID_CHECK((half || c.type == DType::F32) && t.block_m % (16 * t.warps_m) == 0 && t.block_n % (16 * t.warps_n) == 0);
  TOROID_CHECK(4 % t.warps_k == 0 && t.block_m * 8 % t.threads() == 0 && t.block_m * t.block_n / 8 % t.split == 0);
  const auto n = [](int64_t x) { return std::to_string(x); };
  const bool split = t.split > 1;
  ConvGemmText out;
  out.definitions = expand(kDefinitions, {{"BLOCK_M", n(t.block_m)},
                                          {"BLOCK_N", n(t.block_n)},
                                          {"STAGES", n(t.stages)},
                                          {"THREADS", n(t.threads())},
                                          {"SPLIT", n(t.split)},
                                          {"WARPS_M", n(t.warps_m)},
                                          {"WARPS_N", n(t.warps_n)},
                                          {"WARPS_K", n(t.warps_k)},
                                          {"WIDTH", n(c.width)},
                                          {"ELEMENT", half ? "u16" : "f32"},
                                          {"PLACE", c.far ? "i64" : "i32"}});
  if (half || c.tf32)
    out.definitions += expand(kTensorCores, {{"T", half ? c.type == DType::BF16 ? "bf16" : "f16" : "tf32"},
                                             {"K", half ? "16" : "8"},
                                             {"HALF_K", half ? "8" : "4"},
                                             {"SIZE", half ? "2" : "4"},
                                             {"ROUND", half ? "" : std::string(round_to_tf32_text())},
                                             {"ROUND_FRAGMENTS", half ? "" : std::string(kRoundFragments)}});
  else
    out.definitions += kPlain;
  const bool one_tap = c.kernel_h * c.kernel_w == 1;
  out.body = expand(kBody, {{"M", c.m},
                            {"N", c.n},
                            {"K", c.k},
                            {"PITCH", c.pitch},
                            {"RANK", split ? std::string(kRank) : "constexpr int rank = 0;"},
                            {"INPUT", c.input},
                            {"WEIGHT", c.weight},
                            {"GROUP_STRIDE", c.group_stride},
                            {"CHANNELS", one_tap ? c.k : c.channels},
                            {"TAP_H", one_tap ? "0" : "tap / " + n(c.kernel_w)},
                            {"TAP_W", one_tap ? "0" : "tap % " + n(c.kernel_w)},
                            {"DILATION_H", n(c.dilation_h)},
                            {"DILATION_W", n(c.dilation_w)},
                            {"STEP_H", n(c.step_h)},
                            {"STEP_W", n(c.step_w)},
                            {"PAD_H", n(c.pad_h)},
                            {"PAD_W", n(c.pad_w)},
                            {"IN_H", c.in_h},
                            {"IN_W", c.in_w},
                            {"OUT_H", c.out_h},
                            {"OUT_W", c.out_w},
                            {"STRIDE_N", c.stride_n},
                            {"STRIDE_C", c.stride_c},
                            {"STRIDE_H", c.stride_h},
                            {"STRIDE_W", c.stride_w},
                            {"LOAD_INPUT", std::string(half && c.width == 1 ? kGatherInput : kLoadInput)},
                            {"EARLY", c.overlaps ? "asm volatile(\"griddepcontrol.launch_dependents;\" ::: \"memory\");" : ""},
                            {"WAIT", c.overlaps ? "asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");" : ""},
                            {"MEET", split ? std::string(kMeet) : "__syncthreads();"},
                            {"FIRST_UNIT", split ? "rank * kUnits" : "0"},
                            {"ADD", std::string(split ? kAddBlocks : kAdd)},
                            {"CARRIED", c.carried},
                            {"OUTSIDE", std::string(c.around ? kLeft : kOutside)},
                            {"EPILOGUE", c.epilogue},
                            {"PART", split ? std::string(kPart) : ""}});
  return out;
}

int conv_gemm_shared_bytes(const ConvGemmTile& t, bool gathers) {
  return std::max(t.stages * stage_bytes(t), sum_bytes(t)) + t.block_m * kPixelBytes + (gathers ? t.stages * kGatheredK * kTapBytes : 0);
}

}  // namespace toroid::codegen
