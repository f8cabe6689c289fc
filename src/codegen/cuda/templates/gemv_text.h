// CUDA of the template "gemv", with holes.
#pragma once

#include <string_view>

namespace toroid::codegen {

// L2::128B: the other half of a line, which the next warp asks for, comes along.
inline constexpr std::string_view kGemvDefinitions = R"(
static void gemv_copy(u32 to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
static f32 gemv_value_f32(f32 x) { return x; }
static f32 gemv_value_bf16(u16 x) { return __uint_as_float((u32)x << 16); }
static f32 gemv_value_f16(u16 x) { f32 r; asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(x)); return r; }
static u16 gemv_round_bf16(f32 x) { u16 r; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r) : "f"(x)); return r; }
static u16 gemv_round_f16(f32 x) { u16 r; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(x)); return r; }
// The elements of 16 bytes.
static void gemv_unpack_f32(const uint4& q, f32* f) {
  f[0] = __uint_as_float(q.x), f[1] = __uint_as_float(q.y), f[2] = __uint_as_float(q.z), f[3] = __uint_as_float(q.w);
}
static void gemv_unpack_bf16(const uint4& q, f32* f) {
  const u32 w[4] = {q.x, q.y, q.z, q.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) f[2 * i] = __uint_as_float(w[i] << 16), f[2 * i + 1] = __uint_as_float(w[i] & 0xffff0000u);
}
static void gemv_unpack_f16(const uint4& q, f32* f) {
  const u32 w[4] = {q.x, q.y, q.z, q.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) f[2 * i] = gemv_value_f16((u16)w[i]), f[2 * i + 1] = gemv_value_f16((u16)(w[i] >> 16));
}
)";

inline constexpr std::string_view kGemvMma = R"(
static void gemv_mma(f32* c, u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.@TYPE@.@TYPE@.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
)";

// Blocks are groups of S. A group owns a run of bundles, WN tiles each; its blocks take a slice of k each, and the warps of a block share
// the steps of that. Every lane copies pieces of 16 bytes into a ring of its own, D of them ahead of what it multiplies, so that no
// thread waits for another before sums are added up, those of KEPT bundles at once.
inline constexpr std::string_view kGemvKernel = R"(
  constexpr int M = @M@, S = @S@, WK = @WK@, WN = @WN@, D = @D@, E = @E@, T = @T@, KEPT = @KEPT@, THREADS = WK * WN * 32;
  constexpr int K = @K@, SLICE = @SLICE@, STEPS = @STEPS@, LANE_K = @LANEK@, STEP_K = LANE_K * WK;
  constexpr int X_LENGTH = STEPS * STEP_K, X_STRIDE = @XSTRIDE@, ROW_LENGTH = @ROWLENGTH@;
  extern __shared__ __align__(128) u8 shared[];
  f32* const sums = (f32*)(shared + D * THREADS * 16);
  @XTYPE@* const x = (@XTYPE@*)(sums + KEPT * WN * WK * M * T);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warp_k = warp % WK, warp_n = warp / WK;
  const int lane_k = @MYK@, lane_n = @MYN@;
  const i64 N = @N@;
  const int bundles = (int)((N + T * WN - 1) / (T * WN)), groups = gridDim.x / S, group = blockIdx.x / S, part = blockIdx.x % S;
  const int first = (int)((i64)group * bundles / groups), last = (int)((i64)(group + 1) * bundles / groups);
  const int k0 = part * SLICE, k1 = min(K, k0 + SLICE);
  const @BTYPE@* const weights = @B@ + (@BOFFSET@);
  const i64 ldb = @LDB@;
  const u32 slot0 = (u32)__cvta_generic_to_shared(shared) + threadIdx.x * 16;
  int load_bundle = first, load_step = 0, load_slot = 0;
  auto load = [&] {
    if (load_bundle < last) {
      const i64 n = (i64)(load_bundle * WN + warp_n) * T + lane_n;
      const int k = k0 + load_step * STEP_K + warp_k * LANE_K + lane_k;
      const int live = @LIVE@;
      gemv_copy(slot0 + load_slot * THREADS * 16, weights + (live > 0 ? @AT@ : 0), live * (16 / E));
      if (++load_step == STEPS) load_step = 0, ++load_bundle;
      load_slot = load_slot + 1 == D ? 0 : load_slot + 1;
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  auto wait_previous = [] {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  };
  @EARLY@
  @WAITFIRST@
#pragma unroll
  for (int d = 0; d < D; ++d) load();
  @WAITTHEN@
  @READX@
  __syncthreads();

  auto finish = [&](int i, int bundle, f32 total) {
    const int m = i / T % M;
    const i64 n = ((i64)bundle * WN + i / (M * T)) * T + i % T;
    if (n >= N) return;
    const f32 sum[1] = {total};
    @EPILOGUE@
  };
  int slot = 0, kept = 0;
  for (int bundle = first; bundle < last; ++bundle) {
    f32 acc[@ACCS@];
#pragma unroll
    for (int i = 0; i < @ACCS@; ++i) acc[i] = 0;
    for (int step = 0; step < STEPS; ++step) {
      asm volatile("cp.async.wait_group %0;" ::"n"(D - 1) : "memory");
      const uint4 w = *(const uint4*)(shared + (slot * THREADS + threadIdx.x) * 16);
      const @XTYPE@* const xk = x + @XBASE@ + step * STEP_K + warp_k * LANE_K + lane_k;
      @DOT@
      load();
      slot = slot + 1 == D ? 0 : slot + 1;
    }
    f32* const mine = sums + ((kept * WN + warp_n) * WK + warp_k) * M * T;
    @KEEP@
    if (++kept < KEPT && bundle + 1 < last) continue;
    __syncthreads();
    for (int i = threadIdx.x; i < kept * WN * M * T; i += THREADS) {
      f32 total = 0;
#pragma unroll
      for (int w = 0; w < WK; ++w) total += sums[(i / (M * T) * WK + w) * (M * T) + i % (M * T)];
      @DELIVER@
    }
    __syncthreads();
    kept = 0;
  }
)";

// Lane: a row of B, and a piece of each 4 pieces along it.
inline constexpr std::string_view kGemvDotRows = R"(f32 f[E];
gemv_unpack_@BNAME@(w, f);
#pragma unroll
for (int m = 0; m < M; ++m) {
#pragma unroll
  for (int e = 0; e < E; e += 4) {
    const float4 q = *(const float4*)(xk + m * X_STRIDE + e);
    acc[m] += f[e] * q.x;
    acc[m] += f[e + 1] * q.y;
    acc[m] += f[e + 2] * q.z;
    acc[m] += f[e + 3] * q.w;
  }
})";
inline constexpr std::string_view kGemvKeepRows = R"(#pragma unroll
for (int m = 0; m < M; ++m) {
  f32 s = acc[m];
  s += __shfl_xor_sync(~0u, s, 1);
  s += __shfl_xor_sync(~0u, s, 2);
  if (lane_k == 0) mine[m * T + lane_n] = s;
})";

// B's 8 rows are the instruction's 8 columns, so up to 16 rows of A cost the same. A sum over k has any order: the k that a lane has
// in its piece are taken for those that the instruction's layout gives it.
inline constexpr std::string_view kGemvDotMma = R"(const int g = lane / 4;
const uint4 lo = *(const uint4*)(xk + min(g, M - 1) * X_STRIDE);
uint4 hi = {0, 0, 0, 0};
if constexpr (M > 8) hi = *(const uint4*)(xk + min(g + 8, M - 1) * X_STRIDE);
gemv_mma(acc, lo.x, hi.x, lo.y, hi.y, w.x, w.y);
gemv_mma(acc, lo.z, hi.z, lo.w, hi.w, w.z, w.w);)";
inline constexpr std::string_view kGemvKeepMma = R"(const int g = lane / 4, c = lane % 4 * 2;
if (g < M) mine[g * T + c] = acc[0], mine[g * T + c + 1] = acc[1];
if (g + 8 < M) mine[(g + 8) * T + c] = acc[2], mine[(g + 8) * T + c + 1] = acc[3];)";

// Lane: a row of 4 of B (one k), and a piece of each 8 pieces along it.
inline constexpr std::string_view kGemvDotColumns = R"(f32 f[E];
gemv_unpack_@BNAME@(w, f);
#pragma unroll
for (int m = 0; m < M; ++m) {
  const f32 q = xk[m * X_STRIDE];
#pragma unroll
  for (int e = 0; e < E; ++e) acc[m * E + e] += f[e] * q;
})";
inline constexpr std::string_view kGemvKeepColumns = R"(#pragma unroll
for (int i = 0; i < M * E; ++i) {
  f32 s = acc[i];
  s += __shfl_xor_sync(~0u, s, 8);
  s += __shfl_xor_sync(~0u, s, 16);
  if (lane_k == 0) mine[i / E * T + lane_n + i % E] = s;
})";

// The block of a group that comes last adds the slices.
inline constexpr std::string_view kGemvAddSlices = R"(
  __threadfence();
  __syncthreads();
  __shared__ bool comes_last;
  if (threadIdx.x == 0) {
    comes_last = atomicAdd(counters + group, 1) == S - 1;
    if (comes_last) counters[group] = 0;
    __threadfence();
  }
  __syncthreads();
  if (!comes_last) return;
  for (int j = threadIdx.x; j < (last - first) * WN * M * T; j += THREADS) {
    const int bundle = first + j / (WN * M * T), i = j % (WN * M * T);
    f32 total = 0;
#pragma unroll
    for (int s = 0; s < S; ++s) total += __ldcg((const f32*)scratch + ((i64)s * bundles + bundle) * (WN * M * T) + i);
    finish(i, bundle, total);
  }
)";

// Rows of A that are in memory. Loads go out together.
inline constexpr std::string_view kGemvReadPieces = R"(constexpr int A_PIECE = 16 / sizeof(@ATYPE@), PER_ROW = X_LENGTH / A_PIECE;
for (int i0 = threadIdx.x; i0 < M * PER_ROW; i0 += THREADS * 4) {
  uint4 q[4];
#pragma unroll
  for (int u = 0; u < 4; ++u) {
    const int i = i0 + u * THREADS, m = i / PER_ROW, c = k0 + i % PER_ROW * A_PIECE;
    q[u] = i < M * PER_ROW && c < k1 ? *(const uint4*)(@A@ + @AAT@) : uint4{0, 0, 0, 0};
  }
#pragma unroll
  for (int u = 0; u < 4; ++u) {
    const int i = i0 + u * THREADS;
    if (i >= M * PER_ROW) break;
    f32* const to = x + i / PER_ROW * X_STRIDE + i % PER_ROW * A_PIECE;
    f32 f[A_PIECE];
    gemv_unpack_@ANAME@(q[u], f);
#pragma unroll
    for (int e = 0; e < A_PIECE; e += 4) *(float4*)(to + e) = float4{f[e], f[e + 1], f[e + 2], f[e + 3]};
  }
})";
// The same bits as they are; eight loads of a thread at once, as each batch waits for L2. (By cp.async many rows take longer.)
inline constexpr std::string_view kGemvCopyPieces = R"(constexpr int PER_ROW = X_LENGTH / E;
for (int i0 = threadIdx.x; i0 < M * PER_ROW; i0 += THREADS * 8) {
  uint4 q[8];
#pragma unroll
  for (int u = 0; u < 8; ++u) {
    const int i = i0 + u * THREADS, m = i / PER_ROW, c = k0 + i % PER_ROW * E;
    q[u] = i < M * PER_ROW && c < k1 ? *(const uint4*)(@A@ + @AAT@) : uint4{0, 0, 0, 0};
  }
#pragma unroll
  for (int u = 0; u < 8; ++u) {
    const int i = i0 + u * THREADS;
    if (i < M * PER_ROW) *(uint4*)(x + i / PER_ROW * X_STRIDE + i % PER_ROW * E) = q[u];
  }
})";
inline constexpr std::string_view kGemvReadElements = R"(for (int i0 = threadIdx.x; i0 < M * X_LENGTH; i0 += THREADS * 8) {
  @ATYPE@ q[8];
#pragma unroll
  for (int u = 0; u < 8; ++u) {
    const int i = i0 + u * THREADS, m = i / X_LENGTH, c = k0 + i % X_LENGTH;
    q[u] = i < M * X_LENGTH && c < k1 ? @A@[@AAT@] : (@ATYPE@)0;
  }
#pragma unroll
  for (int u = 0; u < 8; ++u) {
    const int i = i0 + u * THREADS;
    if (i < M * X_LENGTH) x[i / X_LENGTH * X_STRIDE + i % X_LENGTH] = @PUT@;
  }
})";
// Rows that are computed here.
inline constexpr std::string_view kGemvProduce = R"(for (int m = 0; m < M; ++m) {
  f32* const row = x + m * X_STRIDE;
  for (int i = K + threadIdx.x; i < ROW_LENGTH; i += THREADS) row[i] = 0;
  @ROW@
})";
inline constexpr std::string_view kGemvProduceHalves = R"(f32* const row = (f32*)(x + M * X_STRIDE);
for (int i = K + threadIdx.x; i < ROW_LENGTH; i += THREADS) row[i] = 0;
for (int m = 0; m < M; ++m) {
  @ROW@
  __syncthreads();
  for (int i = threadIdx.x; i < X_LENGTH; i += THREADS) x[m * X_STRIDE + i] = gemv_round_@BNAME@(row[k0 + i]);
  __syncthreads();
})";

}  // namespace toroid::codegen
