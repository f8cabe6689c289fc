// Attention of many queries for Hopper GPUs, as in Shah et al., FlashAttention-3, 2024: one thread copies blocks of keys and values, each
// of the other warpgroups works on 64 queries. The products of one block of keys and the scores of the next are under way together, while
// warpgroups make powers of scores in turn. A block takes tile after tile, whichever comes next: queries and keys of the next one arrive
// during the last products and the stores of this one.
#pragma once

#include <string_view>

namespace toroid::codegen {

constexpr std::string_view kPrefillWgmmaDefinitions = R"(
constexpr int kD = @D@, kDV = @DV@, kGroups = @GROUPS@, kHeadGroup = @HEAD_GROUP@;
constexpr int kBM = kGroups * 64, kBN = 128, kThreads = (kGroups + 1) * 128;
constexpr int kStages = 2, kPitchO = kDV + 4, kQBytes = kBM * kD * 2, kKBytes = kBN * kD * 2, kVBytes = kBN * kDV * 2;
constexpr bool kPreScaled = @PRE_SCALED@;
@WGMMA@
__device__ __forceinline__ void barrier_init(u32 bar, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory");
}
__device__ __forceinline__ void barrier_expect(u32 bar, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}
__device__ __forceinline__ void barrier_arrive(u32 bar) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory"); }
__device__ __forceinline__ void barrier_wait(u32 bar, int phase) {
  u32 done = 0;
  while (!done)
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}\n"
                 : "=r"(done) : "r"(bar), "r"(phase) : "memory");
}
__device__ __forceinline__ void copy_box(u32 to, const TensorMap* map, u32 bar, int column, int row, int head, int batch) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6];"
               ::"r"(to), "l"(map), "r"(column), "r"(row), "r"(head), "r"(batch), "r"(bar) : "memory");
}
// Matrix descriptors of boxes of 64 columns in 128-byte swizzle. The products run along the columns of queries and keys ...
__device__ __forceinline__ u64 row_descriptor(u32 at) { return (u64)(at >> 4 & 0x3fff) | 1ull << 16 | 64ull << 32 | 1ull << 62; }
// ... and along the rows of values, whose next 64 columns are a box further on.
__device__ __forceinline__ u64 column_descriptor(u32 at) {
  return (u64)(at >> 4 & 0x3fff) | (u64)(kBN * 128 >> 4) << 16 | 64ull << 32 | 1ull << 62;
}
// Of four bytes, ones where they are not zero; and the same as four bits.
__device__ __forceinline__ u32 nonzero_bytes(u32 x) { return (((x & 0x7f7f7f7fu) + 0x7f7f7f7fu) | x) >> 7 & 0x01010101u; }
__device__ __forceinline__ u32 byte_bits(u32 x) { return nonzero_bytes(x) * 0x01020408u >> 24 & 15; }
)";

constexpr std::string_view kPrefillWgmmaKernel = R"(
extern __shared__ __align__(1024) char smem[];
@SIZES@
const int total = (int)(@TILES@);
const u32 base = (u32)__cvta_generic_to_shared(smem), q_at = base, k_at = q_at + kQBytes, v_at = k_at + kStages * kKBytes;
const u32 o_at = v_at + kStages * kVBytes, bars = o_at + kBM * kPitchO * 4, q_full = bars, k_full = bars + 8;
const u32 k_empty = k_full + 8 * kStages, v_full = k_empty + 8 * kStages, v_empty = v_full + 8 * kStages;
const u32 q_empty = v_empty + 8 * kStages;
volatile int& told = *(int*)(smem + (q_empty + 8 - base));  // the tile whose queries arrive
const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, warpgroup = threadIdx.x >> 7;
if (threadIdx.x == 0) {
  barrier_init(q_full, 1);
  barrier_init(q_empty, kGroups * 128);  // each thread that read `told` says so itself
  for (int s = 0; s < kStages; ++s) {
    barrier_init(k_full + 8 * s, 1);
    barrier_init(v_full + 8 * s, 1);
    barrier_init(k_empty + 8 * s, kGroups * 4);
    barrier_init(v_empty + 8 * s, kGroups * 4);
  }
  asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async;" ::: "memory");
}
wait_for_inputs();
@LIST@
__syncthreads();
if (warpgroup == 0) {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
  if (threadIdx.x == 0) {
    int done = 0;  // blocks of keys
    for (int work = blockIdx.x, round = 0;; ++round) {
      if (work >= total) let_next_begin();
      barrier_wait(q_empty, (round & 1) ^ 1);
      told = work;
      if (work >= total) {
        barrier_arrive(q_full);
        break;
      }
      @ORDER@
      @BLOCKS@
      barrier_expect(q_full, count > 0 ? kQBytes : 0);
      for (int c = 0; c < kD / 64 && count > 0; ++c)
        copy_box(q_at + c * kBM * 128, &@Q_MAP@, q_full, c * 64, tile * kBM, head, batch);
      for (int i = 0; i < count; ++i, ++done) {
        const int s = done % kStages, phase = (done / kStages & 1) ^ 1, row = block_at(i) * kBN;
        barrier_wait(k_empty + 8 * s, phase);
        barrier_expect(k_full + 8 * s, kKBytes);
        for (int c = 0; c < kD / 64; ++c)
          copy_box(k_at + s * kKBytes + c * kBN * 128, &@K_MAP@, k_full + 8 * s, c * 64, row, kv_head, batch);
        barrier_wait(v_empty + 8 * s, phase);
        barrier_expect(v_full + 8 * s, kVBytes);
        for (int c = 0; c < kDV / 64; ++c)
          copy_box(v_at + s * kVBytes + c * kBN * 128, &@V_MAP@, v_full + 8 * s, c * 64, row, kv_head, batch);
      }
      // The second tile of whoever had the longest is the shortest; later ones go to whoever comes first. There are `total` less the number
      // of blocks draws, the last of which leaves zero.
      work = 2 * gridDim.x + (round == 0 ? -1 - (int)blockIdx.x : (int)atomicInc(counters, total - gridDim.x - 1));
    }
  }
} else {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 @REGISTERS@;");
  const int g = lane >> 2, t = lane & 3, me = warpgroup - 1;
  for (int done = 0, round = 0;; ++round) {
  barrier_wait(q_full, round & 1);
  const int work = told;
  __syncwarp();
  if (work >= total) break;
  @ORDER@
  @BLOCKS@
  const int row0 = tile * kBM + me * 64 + (warp & 3) * 16;
  @SOFTMAX@
  u32 p[kBN / 16][4];
  const u64 q_descriptor = row_descriptor(q_at + me * 64 * 128);
  // Neither waits for its result.
  auto start_scores = [&](int stage) {
    const u64 k_descriptor = row_descriptor(k_at + stage * kKBytes);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int k = 0; k < kD / 16; ++k)
      wgmma_scores(s, q_descriptor + (k / 4 * kBM * 128 >> 4) + k % 4 * 2, k_descriptor + (k / 4 * kBN * 128 >> 4) + k % 4 * 2, k > 0);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  };
  auto start_products = [&](int stage) {
    const u64 v_descriptor = column_descriptor(v_at + stage * kVBytes);
#pragma unroll
    for (int k = 0; k < kBN / 16; ++k) wgmma_products(o, p[k], v_descriptor + k * (2048 >> 4));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  };
  auto release = [&](u32 bar) {
    if (lane == 0) barrier_arrive(bar);
  };
  auto convert = [&] {
#pragma unroll
    for (int k = 0; k < kBN / 16; ++k)
#pragma unroll
      for (int i = 0; i < 4; ++i) p[k][i] = pack_halves(s[k * 8 + i * 2], s[k * 8 + i * 2 + 1]);
  };
  if (count > 0) {
    const int first = done % kStages;
    barrier_wait(k_full + 8 * first, done / kStages & 1);
    start_scores(first);
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    release(k_empty + 8 * first);
    if (count == 1) barrier_arrive(q_empty);
    mask_scores(block_at(0), is_mixed(0));
    softmax();
    convert();
    for (int i = 1; i < count; ++i) {
      const int before = done % kStages, before_phase = done / kStages & 1;
      ++done;
      const int stage = done % kStages;
      barrier_wait(k_full + 8 * stage, done / kStages & 1);
      start_scores(stage);
      barrier_wait(v_full + 8 * before, before_phase);
      start_products(before);
      asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
      release(k_empty + 8 * stage);
      if (i == count - 1) barrier_arrive(q_empty);
      mask_scores(block_at(i), is_mixed(i));
      softmax();
      asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
      release(v_empty + 8 * before);
      rescale();
      convert();
    }
    const int last = done % kStages;
    barrier_wait(v_full + 8 * last, done / kStages & 1);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    start_products(last);
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    release(v_empty + 8 * last);
    ++done;
  } else {
    barrier_arrive(q_empty);
  }
  float* const mine = (float*)(smem + (o_at - base)) + (me * 64 + (warp & 3) * 16) * kPitchO;
  @STORE@
  __syncwarp();
  }
}
)";

constexpr std::string_view kPrefillEveryBlock = R"(const int count = blocks;
auto block_at = [&](int i) { return i; };
auto is_mixed = [&](int) { return true; };)";

// Which blocks of keys the mask leaves anything of (bit 0), and of which not all (bit 1).
constexpr std::string_view kPrefillLiveBlocks = R"(const int work = blockIdx.x;
@ORDER@
u16* const list = (u16*)(smem + (bars + 128 - base));
u32* const flags = (u32*)(smem + (k_at - base));
int& listed = *(int*)(smem + (bars + 120 - base));
for (int j = threadIdx.x; j < blocks; j += kThreads) flags[j] = 0;
__syncthreads();
constexpr int kUnits = kBM / 16, kWarps = kThreads / 32, kBatch = 4;
for (int first = warp; first < blocks * kUnits; first += kWarps * kBatch) {
  uint4 x[kBatch][4];  // all asked for before the first is looked at
  int block[kBatch];
#pragma unroll
  for (int b = 0; b < kBatch; ++b) {
    const int unit = min(first + b * kWarps, blocks * kUnits - 1);
    block[b] = unit / kUnits;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int query = min(tile * kBM + unit % kUnits * 16 + i * 4 + lane / 8, M - 1);
      x[b][i] = *(const uint4*)(@ROW@ + min(block[b] * kBN + lane % 8 * 16, N - 16));
    }
  }
#pragma unroll
  for (int b = 0; b < kBatch; ++b) {
    u32 any = 0, all = 0x01010101u;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint4 y = x[b][i];
      any |= y.x | y.y | y.z | y.w;
      all &= nonzero_bytes(y.x) & nonzero_bytes(y.y) & nonzero_bytes(y.z) & nonzero_bytes(y.w);
    }
    const bool some = __any_sync(~0u, any != 0), whole = __all_sync(~0u, all == 0x01010101u);
    if (lane == 0) atomicOr(flags + block[b], (some ? 1 : 0) | (whole ? 0 : 2));
  }
}
__syncthreads();
if (warp == 0) {
  int n = 0;
  for (int j0 = 0; j0 < blocks; j0 += 32) {
    const u32 flag = j0 + lane < blocks ? flags[j0 + lane] : 0, live = __ballot_sync(~0u, flag & 1);
    if (flag & 1) list[n + __popc(live & ((1u << lane) - 1))] = (u16)((j0 + lane) * 2 + (flag >> 1));
    n += __popc(live);
  }
  if (lane == 0) listed = n;
}
asm volatile("fence.proxy.async;" ::: "memory");
__syncthreads();
const int count = listed;
auto block_at = [&](int i) { return list[i] >> 1; };
auto is_mixed = [&](int i) { return (list[i] & 1) != 0; };)";

}  // namespace toroid::codegen
