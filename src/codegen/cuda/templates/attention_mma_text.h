// Attention of many queries for any GPU with bf16 tensor cores, as in Dao, FlashAttention-2, 2023: a warp keeps 16 queries in registers,
// blocks of keys and values pass through two stages of shared memory.
#pragma once

#include <string_view>

namespace toroid::codegen {

constexpr std::string_view kPrefillMmaDefinitions = R"(
constexpr int kD = @D@, kDV = @DV@, kWarps = @WARPS@, kBM = kWarps * 16, kBN = @KEYS@, kThreads = kWarps * 32, kHeadGroup = @HEAD_GROUP@;
constexpr int kPitchK = kD + 8, kPitchV = kDV + 8, kPitchO = kDV + 4, kStage = kBN * (kPitchK + kPitchV);
constexpr bool kPreScaled = @PRE_SCALED@;
__device__ __forceinline__ u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void copy16(u32 to, const u16* from, bool live) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(live ? 16 : 0) : "memory");
}
__device__ __forceinline__ void read4(u32* r, u32 at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}
__device__ __forceinline__ void read4_transposed(u32* r, u32 at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}
// A block of rows from `first` on; rows from `end` on are zeros.
template <int kColumns, int kPitch> __device__ __forceinline__ void copy_rows(u16* to, const u16* from, i64 stride, int first, int end) {
  constexpr int kVectors = kColumns / 8;
#pragma unroll
  for (int i = 0; i < (kBN * kVectors + kThreads - 1) / kThreads; ++i) {
    const int at = i * kThreads + threadIdx.x, r = at / kVectors, c = at % kVectors * 8, row = first + r;
    if (kBN * kVectors % kThreads && at >= kBN * kVectors) break;
    copy16(shared_address(to + r * kPitch + c), from + (row < end ? row : 0) * stride + c, row < end);
  }
}
)";

constexpr std::string_view kPrefillMmaKernel = R"(
extern __shared__ __align__(128) char smem[];
u16* const stages = (u16*)smem;
@SIZES@
const int work = blockIdx.x;
@ORDER@
const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3, row0 = tile * kBM + warp * 16;
const u16* const keys = @K@;
const u16* const values = @V@;
auto copy_block = [&](int j) {
  u16* const k = stages + j % 2 * kStage;
  copy_rows<kD, kPitchK>(k, keys, @K_ROW@, j * kBN, N);
  copy_rows<kDV, kPitchV>(k + kBN * kPitchK, values, @V_ROW@, j * kBN, N);
  asm volatile("cp.async.commit_group;" ::: "memory");
};
wait_for_inputs();
if (blocks > 0) copy_block(0);
u32 q[kD / 16][4];
#pragma unroll
for (int e = 0; e < 2; ++e) {
  const int query = min(row0 + g + e * 8, M - 1);
  const u16* const p = @Q@ + 2 * t;
#pragma unroll
  for (int k = 0; k < kD / 16; ++k) q[k][e] = *(const u32*)(p + k * 16), q[k][e + 2] = *(const u32*)(p + k * 16 + 8);
}
@SOFTMAX@
for (int j = 0; j < blocks; ++j) {
  asm volatile("cp.async.wait_group 0;" ::: "memory");
  __syncthreads();
  if (j + 1 < blocks) copy_block(j + 1);
  const u16* const k_block = stages + j % 2 * kStage;
  const u16* const v_block = k_block + kBN * kPitchK;
#pragma unroll
  for (int i = 0; i < kBN / 2; ++i) s[i] = 0;
  const u32 k_at = shared_address(k_block + ((lane & 7) + (lane >> 4) * 8) * kPitchK + (lane >> 3 & 1) * 8);
#pragma unroll
  for (int k = 0; k < kD / 16; ++k)
#pragma unroll
    for (int n = 0; n < kBN / 16; ++n) {
      u32 b[4];
      read4(b, k_at + (n * 16 * kPitchK + k * 16) * 2);
      mma(s + n * 8, q[k][0], q[k][1], q[k][2], q[k][3], b[0], b[1]);
      mma(s + n * 8 + 4, q[k][0], q[k][1], q[k][2], q[k][3], b[2], b[3]);
    }
  mask_scores(j, true);
  softmax();
  rescale();
  const u32 v_at = shared_address(v_block + ((lane & 7) + (lane >> 3 & 1) * 8) * kPitchV + (lane >> 4) * 8);
#pragma unroll
  for (int k = 0; k < kBN / 16; ++k) {
    u32 p[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) p[i] = pack_halves(s[k * 8 + i * 2], s[k * 8 + i * 2 + 1]);
#pragma unroll
    for (int n = 0; n < kDV / 16; ++n) {
      u32 b[4];
      read4_transposed(b, v_at + (k * 16 * kPitchV + n * 16) * 2);
      mma(o + n * 8, p[0], p[1], p[2], p[3], b[0], b[1]);
      mma(o + n * 8 + 4, p[0], p[1], p[2], p[3], b[2], b[3]);
    }
  }
}
let_next_begin();
__syncthreads();
float* const mine = (float*)smem + warp * 16 * kPitchO;
@STORE@
)";

}  // namespace toroid::codegen
