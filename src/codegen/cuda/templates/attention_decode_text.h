// The text of attention_decode.cpp.
#pragma once

#include <string_view>

namespace toroid::codegen {

// How lanes hold operands. Scores are computed as keys times queries, so that few queries waste least of a product (16 x 8 x 16). The
// order of the depth is free when it is the same for both, and that of value columns when the epilogue undoes it: each lane reads 16
// bytes in a row. Keys and values pass through a ring of each warp's own in shared memory: no warp waits for another, and how much is under
// way depends neither on registers nor on the size of the first-level cache. Lanes copy whole rows together (where four of them each
// had 64 bytes of a row, it took a third longer).
constexpr std::string_view kDecodeDefinitions = R"(
constexpr int kD = @D@, kDV = @DV@, kTiles = @TILES@, kWarps = @WARPS@, kSplits = @SPLITS@, kStages = @STAGES@, kThreads = kWarps * 32;
constexpr int kKeyRegisters = kD / 8, kValueRegisters = kDV / 16, kRows = kTiles * 8, kVectors = kDV / 8;
constexpr int kRing = kStages * 16 * (kD + kDV) * 2, kOut = kRows * kDV * 4;  // bytes of a warp
struct Shared {
  alignas(128) char warps[kWarps][kRing > kOut ? kRing : kOut];  // rings, then sums of values
  float peak[kWarps][kRows], sum[kWarps][kRows];
};
// 16 rows from `first` on; those behind the last one are it again.
template <int kColumns>
__device__ __forceinline__ void copy_rows(u16* to, const u16* from, i64 stride, int first, int last, int lane, u64 policy) {
  constexpr int kPieces = kColumns / 8;
#pragma unroll
  for (int i = 0; i < kColumns / 16; ++i) {
    const int piece = i * 32 + lane, row = min(first + piece / kPieces, last);
    asm volatile("cp.async.cg.shared.global.L2::cache_hint.L2::128B [%0], [%1], 16, %2;"
                 ::"r"((u32)__cvta_generic_to_shared(to + piece * 8)), "l"(from + row * stride + piece % kPieces * 8), "l"(policy)
                 : "memory");
  }
}
// Of 8 x 8 halves that the warp holds, row by row, the transposed.
__device__ __forceinline__ u32 transpose8(u32 x) {
  u32 r;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r) : "r"(x));
  return r;
}
__device__ __forceinline__ void read16(u32* r, const u16* p) {
  const uint4 x = *(const uint4*)p;
  r[0] = x.x, r[1] = x.y, r[2] = x.z, r[3] = x.w;
}
__device__ __forceinline__ void read8(u32* r, const u16* p) {
  const uint2 x = *(const uint2*)p;
  r[0] = x.x, r[1] = x.y;
}
// Lane t of the four that share a row of keys or queries.
__device__ __forceinline__ void read_row(u32* r, const u16* row, int t) {
#pragma unroll
  for (int c = 0; c < kD / 32; ++c) read16(r + c * 4, row + c * 32 + t * 8);
  if (kD % 32) read8(r + kD / 32 * 4, row + kD / 32 * 32 + t * 4);
}
// Lane g of the eight that share a row of values; register x holds two neighbouring columns, of which value_column is the first.
__device__ __forceinline__ void read_values(u32* r, const u16* row, int g) {
  constexpr int at = kDV / 64 * 64, done = kDV / 64 * 4;
#pragma unroll
  for (int c = 0; c < kDV / 64; ++c) read16(r + c * 4, row + c * 64 + g * 8);
  if (kDV % 64 >= 32) read8(r + done, row + at + g * 4);
  if (kDV % 32) r[done + (kDV % 64 >= 32 ? 2 : 0)] = *(const u32*)(row + at + kDV % 64 / 32 * 32 + g * 2);
}
__device__ __forceinline__ int value_column(int x, int g) {
  constexpr int at = kDV / 64 * 64, done = kDV / 64 * 4;
  if (x < done) return x / 4 * 64 + g * 8 + x % 4 * 2;
  if (kDV % 64 >= 32 && x < done + 2) return at + g * 4 + (x - done) * 2;
  return at + kDV % 64 / 32 * 32 + g * 2;
}
)";

// Steps are 16 keys. All warps of all blocks of a head take them in turn, so that what a mask leaves is spread evenly.
constexpr std::string_view kDecodeKernel = R"(
extern __shared__ __align__(128) char smem[];
Shared& sh = *(Shared*)smem;
@SIZES@
const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
constexpr int group = heads / kv_heads;
const int rows = group * M, tiles = (rows + kRows - 1) / kRows;
const int split = blockIdx.x % kSplits, part_of = blockIdx.x / kSplits, kv_head = part_of / tiles % kv_heads;
const idx batch = part_of / tiles / kv_heads;
const int row0 = part_of % tiles * kRows, rows_used = min(rows - row0, kRows);
const u16* const keys = @K@;
const u16* const values = @V@;
const int steps = (N + 15) / 16;
constexpr int stride = kSplits * kWarps;
int round = split * kWarps + warp;
@EARLY@
@PREFETCH@
wait_for_inputs();
@NEXT_STEP@

int limit[kTiles][2];  // the last key that this lane's queries see
@MASK_ROWS@
#pragma unroll
for (int n = 0; n < kTiles; ++n) {
#pragma unroll
  for (int e = 0; e < 2; ++e) {
    const int row = min(row0 + n * 8 + 2 * t + e, rows - 1), query = row % M;
    limit[n][e] = @LIMIT@;
    @MASK_ROW@
  }
}
u64 policy;  // of the second-level cache: what nobody reads again is the first to go
asm volatile("createpolicy.fractional.L2::@EVICT@.b64 %0, 1.0;" : "=l"(policy));
u16* const k_ring = (u16*)sh.warps[warp];
u16* const v_ring = k_ring + kStages * 16 * kD;
auto copy_keys = [&](int s, int stage) {
  __syncwarp();
  if (s >= 0) copy_rows<kD>(k_ring + stage * 16 * kD, keys, @K_ROW@, s * 16, N - 1, lane, policy);
  asm volatile("cp.async.commit_group;" ::: "memory");
};
auto copy_values = [&](int s, int stage) {
  __syncwarp();
  if (s >= 0) copy_rows<kDV>(v_ring + stage * 16 * kDV, values, @V_ROW@, s * 16, N - 1, lane, policy);
  asm volatile("cp.async.commit_group;" ::: "memory");
};
auto wait_for_oldest = [] {
  asm volatile("cp.async.wait_group %0;" ::"n"(2 * kStages - 1) : "memory");
  __syncwarp();
};
auto load_mask = [&](int s) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int key = min(s * 16 + g + r * 8, N - 1);
    @LOAD_MASK@
  }
};
int ahead[kStages];  // steps under way, in order
#pragma unroll
for (int i = 0; i < kStages; ++i) {
  ahead[i] = next_step();
  copy_keys(ahead[i], i);
  copy_values(ahead[i], i);
}
if (ahead[0] >= 0) load_mask(ahead[0]);
u32 qr[kTiles][kKeyRegisters];
#pragma unroll
for (int n = 0; n < kTiles; ++n) {
  const int row = min(row0 + n * 8 + g, rows - 1), head = kv_head * group + row / M, query = row % M;
  read_row(qr[n], @Q@, t);
}
float o[kTiles][kValueRegisters][4], peak[kTiles][2], sum[kTiles][2];
#pragma unroll
for (int n = 0; n < kTiles; ++n) {
  peak[n][0] = peak[n][1] = NEGATIVE_INFINITY;
  sum[n][0] = sum[n][1] = 0;
#pragma unroll
  for (int x = 0; x < kValueRegisters; ++x) o[n][x][0] = o[n][x][1] = o[n][x][2] = o[n][x][3] = 0;
}
// The place of keys is filled again as soon as their scores are made, that of values as soon as they are added.
for (int stage = 0, step; (step = ahead[0]) >= 0; stage = stage + 1 == kStages ? 0 : stage + 1) {
  u32 kr[2][kKeyRegisters], vr[4][kValueRegisters];
  wait_for_oldest();
#pragma unroll
  for (int r = 0; r < 2; ++r) read_row(kr[r], k_ring + (stage * 16 + g + r * 8) * kD, t);
  float s[kTiles][4];
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    float odd[4] = {0, 0, 0, 0};
    s[n][0] = s[n][1] = s[n][2] = s[n][3] = 0;
#pragma unroll
    for (int k = 0; k < kD / 16; ++k)
      mma(k & 1 ? odd : s[n], kr[0][2 * k], kr[1][2 * k], kr[0][2 * k + 1], kr[1][2 * k + 1], qr[n][2 * k], qr[n][2 * k + 1]);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      s[n][e] = (s[n][e] + odd[e]) * kFactor;
      @APPLY_MASK@
      if (step * 16 + g + (e >> 1) * 8 > limit[n][e & 1]) s[n][e] = NEGATIVE_INFINITY;
    }
  }
#pragma unroll
  for (int i = 0; i + 1 < kStages; ++i) ahead[i] = ahead[i + 1];
  const int next = ahead[kStages - 1] = next_step();
  copy_keys(next, stage);
  if (ahead[0] >= 0) load_mask(ahead[0]);
  u32 pr[kTiles][2];
  bool grown = false;
  float decay[kTiles][2];
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    float p[4];
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      float high = fmaxf(s[n][e], s[n][e + 2]);
#pragma unroll
      for (int m = 4; m < 32; m *= 2) high = fmaxf(high, __shfl_xor_sync(~0u, high, m));
      high = fmaxf(high, peak[n][e]);
      const float base = fmaxf(high, -3.0e38f);  // finite even when everything so far is masked out
      decay[n][e] = power_of_two(peak[n][e] - base);
      grown |= high > peak[n][e];
      peak[n][e] = high;
      p[e] = power_of_two(s[n][e] - base);
      p[e + 2] = power_of_two(s[n][e + 2] - base);
      sum[n][e] = sum[n][e] * decay[n][e] + p[e] + p[e + 2];
    }
    pr[n][0] = transpose8(pack_halves(p[0], p[1]));
    pr[n][1] = transpose8(pack_halves(p[2], p[3]));
  }
  if (__any_sync(~0u, grown)) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
#pragma unroll
      for (int x = 0; x < kValueRegisters; ++x)
#pragma unroll
        for (int e = 0; e < 4; ++e) o[n][x][e] *= decay[n][e & 1];
  }
  wait_for_oldest();
#pragma unroll
  for (int i = 0; i < 4; ++i) read_values(vr[i], v_ring + (stage * 16 + 2 * t + (i & 1) + (i >> 1) * 8) * kDV, g);
#pragma unroll
  for (int x = 0; x < kValueRegisters; ++x) {
    const u32 a0 = __byte_perm(vr[0][x], vr[1][x], 0x5410), a1 = __byte_perm(vr[0][x], vr[1][x], 0x7632);
    const u32 a2 = __byte_perm(vr[2][x], vr[3][x], 0x5410), a3 = __byte_perm(vr[2][x], vr[3][x], 0x7632);
#pragma unroll
    for (int n = 0; n < kTiles; ++n) mma(o[n][x], a0, a1, a2, a3, pr[n][0], pr[n][1]);
  }
  copy_values(next, stage);
}
@LATE@

// The warps' parts come together in shared memory.
__syncwarp();
#pragma unroll
for (int n = 0; n < kTiles; ++n) {
#pragma unroll
  for (int e = 0; e < 2; ++e) {
    float total = sum[n][e];
#pragma unroll
    for (int m = 4; m < 32; m *= 2) total += __shfl_xor_sync(~0u, total, m);
    const int row = n * 8 + 2 * t + e;
    if (g == 0) sh.peak[warp][row] = peak[n][e], sh.sum[warp][row] = total;
    float* const out = (float*)sh.warps[warp] + row * kDV;
    if (row < rows_used) {
#pragma unroll
      for (int x = 0; x < kValueRegisters; ++x) *(float2*)(out + value_column(x, g)) = make_float2(o[n][x][e], o[n][x][e + 2]);
    }
  }
}
__syncthreads();
@PARTS@
for (int item = threadIdx.x; item < rows_used * kVectors; item += kThreads) {
  const int r = item / kVectors, d = item % kVectors * 8;
  float high = NEGATIVE_INFINITY, total = 0, acc[8] = {0, 0, 0, 0, 0, 0, 0, 0};
#pragma unroll
  for (int w = 0; w < kWarps; ++w) high = fmaxf(high, sh.peak[w][r]);
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    const float f = power_of_two(sh.peak[w][r] - fmaxf(high, -3.0e38f));
    total += f * sh.sum[w][r];
#pragma unroll
    for (int i = 0; i < 8; ++i) acc[i] += f * ((const float*)sh.warps[w])[r * kDV + d + i];
  }
  @FINISH@
}
@COMBINE@
)";

// The first steps are brought to the second-level cache while the kernel before comes to an end. Should that write some of them, then it
// does so in the same cache. (Prefetches by lines, prefetch.global.L2, gain nothing.)
constexpr std::string_view kDecodePrefetch = R"(if (lane == 0) {
#pragma unroll
  for (int i = 0; i < @STEPS@; ++i) {
    const int s = round + i * stride, count = min(N - s * 16, 16);
    if (count <= 0) break;
    const char *const k = (const char*)(keys + (idx)s * (16 * kD)), *const v = (const char*)(values + (idx)s * (16 * kDV));
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(k), "r"(count * (kD * 2)) : "memory");
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(v), "r"(count * (kDV * 2)) : "memory");
  }
})";

// Without a mask of bytes in a row: every step.
constexpr std::string_view kDecodeEveryStep = R"(auto next_step = [&]() -> int {
  const int s = round;
  round += stride;
  return s < steps ? s : -1;
};)";

// Lanes look at the mask of a step each; steps that no query sees are neither read nor computed.
constexpr std::string_view kDecodeLiveSteps = R"(int first = 0;
u32 live = 0;
auto next_step = [&]() -> int {
  while (live == 0) {
    if (round >= steps) return -1;
    first = round;
    const int s = first + lane * stride;
    bool any = false;
    if (s < steps) {
      for (int r = 0; r < @COUNT@; ++r) {
        const int row = row0 + r, head = kv_head * group + row / M, query = row % M;
        const uint4 x = *(const uint4*)(@MASK@ + s * 16);
        any |= (x.x | x.y | x.z | x.w) != 0;
      }
    }
    live = __ballot_sync(~0u, any);
    round = first + 32 * stride;
  }
  const int s = first + (__ffs(live) - 1) * stride;
  live &= live - 1;
  return s;
};)";

constexpr std::string_view kDecodeFinish = R"(const float inverse = total > 0 ? 1.0f / total : 0.0f;  // nothing seen: zero
#pragma unroll
for (int i = 0; i < 8; ++i) acc[i] *= inverse;
const int head = kv_head * group + (row0 + r) / M, query = (row0 + r) % M;
@EPILOGUE@)";

}  // namespace toroid::codegen
