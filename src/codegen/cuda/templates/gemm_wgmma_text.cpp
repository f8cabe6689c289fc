#include "codegen/cuda/templates/gemm_wgmma_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "base/check.h"
#include "codegen/cuda/templates/gemm_mma_text.h"
#include "codegen/expand.h"

namespace toroid::codegen {

namespace {

constexpr int kBlockK = 64;  // 128 bytes: one row of the swizzle
constexpr int kSharedLimit = 227 * 1024;
constexpr int kMostSplit = 8;  // clusters that every GPU takes

// What one warpgroup computes of a tile.
int warpgroup_m(const WgmmaTile& t) { return t.alternate || t.block_m == 64 ? t.block_m : t.block_m / t.consumers; }
int warpgroup_n(const WgmmaTile& t) { return t.alternate || t.block_m >= 128 ? t.block_n : t.block_n / t.consumers; }
int stage_bytes(const WgmmaTile& t) { return (t.block_m + t.block_n) * kBlockK * 2; }
// What the other blocks of a split leave for this one: a share of the tile from each.
int reduce_bytes(const WgmmaTile& t) {
  const int threads = t.consumers * 128, units = t.block_m * t.block_n / (threads * 8);
  return t.split == 1 ? 0 : int(ceil_div(units, t.split)) * (t.split - 1) * threads * 32;
}

// PTX of the pieces. TMA, mbarriers, clusters: PTX ISA 8.0, "Asynchronous copy", "Parallel synchronization".
constexpr std::string_view kDevice = R"(
__device__ __forceinline__ u32 shared_address(const void* p) { return static_cast<u32>(__cvta_generic_to_shared(p)); }
__device__ __forceinline__ u32 cluster_rank() {
  u32 r;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
  return r;
}
// Whole warps: says that the block runs, not that its memory can be read.
__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.aligned;" ::: "memory"); }
__device__ __forceinline__ u32 in_block(u32 address, u32 rank) {
  u32 r;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(address), "r"(rank));
  return r;
}
__device__ __forceinline__ void barrier_init(u32 bar, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory");
}
__device__ __forceinline__ void barrier_expect(u32 bar, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}
__device__ __forceinline__ void barrier_arrive(u32 bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}
__device__ __forceinline__ void barrier_arrive_in(u32 bar, u32 rank) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(in_block(bar, rank)) : "memory");
}
__device__ __forceinline__ void prefetch_map(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}
__device__ __forceinline__ bool barrier_test(u32 bar, u32 parity) {
  u32 done;
  asm volatile(
      "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
      : "=r"(done) : "r"(bar), "r"(parity) : "memory");
  return done != 0;
}
__device__ __forceinline__ void barrier_wait(u32 bar, u32 parity) {
  while (!barrier_test(bar, parity)) {}
}
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kLeft>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
}
// Matrix descriptor (PTX ISA, "Matrix descriptor format") of a tile with 128-byte swizzle: rows of 64 elements, 8 rows apart 1024
// bytes; where m or n is contiguous, 64 of it apart one box of 64 x 64.
__device__ __forceinline__ u64 matrix_descriptor(u32 address) {
  return static_cast<u64>((address & 0x3ffff) >> 4) | (512ull << 16) | (64ull << 32) | (1ull << 62);
}
)";

constexpr std::string_view kConstants = R"(
constexpr int kBlockM = @BLOCK_M@, kBlockN = @BLOCK_N@, kBlockK = 64, kStages = @STAGES@, kGroup = @GROUP@;
constexpr int kSplit = @SPLIT@, kSlices = @SLICES@, kShare = @SHARE@, kBeside = @BESIDE@, kCluster = kSplit * kShare * kBeside;
constexpr int kReaders = kShare + kBeside - 1;  // blocks that copy into a stage
constexpr int kConsumers = @CONSUMERS@, kTurns = @TURNS@, kPair = @PAIR@;  // turns: warpgroups that take tiles in turn
constexpr int kWarpgroupM = @WARPGROUP_M@, kWarpgroupN = @WARPGROUP_N@, kPerM = kWarpgroupM / 64;
constexpr int kBytesA = kBlockM * kBlockK * 2, kBytesB = kBlockN * kBlockK * 2, kStageBytes = kBytesA + kBytesB;
constexpr int kPartN = kWarpgroupN / kPair;  // columns of each right operand
constexpr int kUnits = kPerM * kPartN / 16, kOwned = (kUnits + kSplit - 1) / kSplit;
constexpr int kReduceBytes = kSplit == 1 ? 0 : kOwned * (kSplit - 1) * kConsumers * 128 * 32;
constexpr bool kContiguousKA = @A_K@, kContiguousKB = @B_K@;

struct Work {
  int batch, m, n;
};

// Groups of rows of tiles, columns by columns: what runs at a time covers about a square, which reads the fewest different bytes. A row
// (column) of clusters that share is a tile for each of their blocks below (beside) each other.
__device__ __forceinline__ Work work_of(int i, int rows, int columns, u32 rank, int M, int N) {
  const int batch = i / (rows * columns);
  i -= batch * rows * columns;
  const int first = i / (kGroup * columns) * kGroup;
  const int height = min(rows - first, kGroup);
  i -= first * columns;
  const int m = ((first + i % height) * kShare + (kShare > 1 ? static_cast<int>(rank % kShare) : 0)) * kBlockM;
  const int n = (i / height * kBeside + (kBeside > 1 ? static_cast<int>(rank / kShare) : 0)) * (kBlockN / kPair);
  return {batch, @LAST_M@, @LAST_N@};
}

// Where a warpgroup's part of a tile begins.
__device__ __forceinline__ int row_in_tile(int group) { return kWarpgroupM < kBlockM ? group * kWarpgroupM : 0; }
__device__ __forceinline__ int column_in_tile(int group) { return kWarpgroupN < kBlockN ? group * kWarpgroupN : 0; }

// One stage of products. Rows of 16 k: 32 bytes on where k is contiguous, else 16 rows of 128 bytes.
__device__ __forceinline__ void multiply_stage(float (&sums)[kPerM][kWarpgroupN / 2], u32 stage, int group, bool keep) {
  const u32 row = row_in_tile(group), column = column_in_tile(group);
  // Where n is contiguous a box holds 64 of it: the rest of `column` is a place in the row.
  const u32 at_b = kContiguousKB ? column * 128 : column / 64 * 8192 + column % 64 * 2;
  const u64 a = matrix_descriptor(stage + row * 128), b = matrix_descriptor(stage + kBytesA + at_b);
  wgmma_fence();
#pragma unroll
  for (int k = 0; k < 4; ++k) {
#pragma unroll
    for (int i = 0; i < kPerM; ++i)
      wgmma(sums[i], a + ((i * 8192 + k * (kContiguousKA ? 32 : 2048)) >> 4), b + ((k * (kContiguousKB ? 32 : 2048)) >> 4), keep || k > 0);
  }
  wgmma_commit();
}

// A unit: the 8 sums of a thread in one of its rows and a pair of each of 4 times 8 columns of the tile in shared memory, which are 8
// neighbouring columns of the result if B was copied so. If not, they are transposed (`q`: lane of the 4); then there may be 16 columns that
// are left: in both of its rows and a pair of each of 2 times 8 columns.
constexpr int kQuads = kPartN / 32, kUnitsOfRows = kPartN / 16;
__device__ __forceinline__ bool is_rest(int u) { return u % kUnitsOfRows >= kQuads * 2; }
__device__ __forceinline__ int row_of(int row, int u, int q) {
  return row + u / kUnitsOfRows * 64 + (is_rest(u) ? q / 2 : u % kUnitsOfRows / kQuads) * 8;
}
__device__ __forceinline__ int column_of(int column, int u, int q) {
  return column + (is_rest(u) ? kQuads * 32 + q % 2 * 8 : u % kUnitsOfRows % kQuads * 32 + q * 8);
}
__device__ __forceinline__ void unit_of(const float (&sums)[kPerM][kWarpgroupN / 2], int u, float (&v)[8], int part = 0) {
  const int p = u / kUnitsOfRows, h = u % kUnitsOfRows / kQuads, j = u % kUnitsOfRows % kQuads, first = part * (kPartN / 2);
#pragma unroll
  for (int e = 0; e < 8; ++e)
    v[e] = sums[p][first + (is_rest(u) ? kQuads * 16 + e / 2 % 2 * 4 + e / 4 * 2 + e % 2 : j * 16 + e / 2 * 4 + h * 2 + e % 2)];
}
)";

constexpr std::string_view kBody = R"(
  extern __shared__ __align__(1024) unsigned char shared[];
  const u32 stages = shared_address(shared), reduce = stages + kStages * kStageBytes;
  const u32 full = reduce + kReduceBytes, empty = full + 8 * kStages, gather = empty + 8 * kStages, last_slice = gather + 8;
  const int group = threadIdx.x / 128;
  const u32 rank = kCluster > 1 ? cluster_rank() : 0;
  if (threadIdx.x == kConsumers * 128) {
    prefetch_map(@MAP_A@);
    prefetch_map(@MAP_B@);
    @PREFETCH_SECOND@
    for (int i = 0; i < kStages; ++i) {
      barrier_init(full + 8 * i, 1);
      barrier_init(empty + 8 * i, kConsumers / kTurns * kReaders);
    }
    if (kSplit > 1) {
      barrier_init(gather, 1);
      barrier_expect(gather, (kUnits - rank + kSplit - 1) / kSplit * (kSplit - 1) * kConsumers * 128 * 32);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncwarp();
  if (kCluster > 1) cluster_arrive();
@OVERLAP@
  const i64 M = @M@, N = @N@, K = @K@;
  constexpr int kRows = kBlockM * kShare, kColumns = kBlockN / kPair * kBeside;  // of a cluster
  const int rows = static_cast<int>((M + kRows - 1) / kRows), columns = static_cast<int>((N + kColumns - 1) / kColumns);
  const int all = rows * columns * static_cast<int>(@BATCHES@), step = gridDim.x / (kCluster * kSlices);
  const int begin = blockIdx.x / (kCluster * kSlices), slice = blockIdx.x / kCluster % kSlices;  // neighbours: slices of one tile
  const int steps = static_cast<int>((K + kBlockK - 1) / kBlockK);
  constexpr int kParts = kSplit * kSlices;
  const int part = slice * kSplit + (kSplit > 1 ? static_cast<int>(rank) : 0);
  const int first = kParts > 1 ? steps * part / kParts : 0, last = kParts > 1 ? steps * (part + 1) / kParts : steps;
  int stage = 0;
  u32 parity = 0;
  [[maybe_unused]] const u32 below = rank % kShare, aside = rank / kShare;  // of blocks that share
  if (group == kConsumers) {
    @FEW_REGISTERS@
@SHARE_BEGIN@
    if (threadIdx.x < kConsumers * 128 + 32) asm volatile("barrier.cta.arrive 1, %0;" ::"n"(kConsumers * 128 + 32) : "memory");
    if (threadIdx.x == kConsumers * 128) {
@MASKS@
      for (int i = begin; i < all; i += step) {
        const Work w = work_of(i, rows, columns, rank, static_cast<int>(M), static_cast<int>(N));
        const int batch = w.batch;
        for (int k = first; k < last; ++k) {
          const u32 to_a = stages + stage * kStageBytes, to_b = to_a + kBytesA, bar = full + 8 * stage;
          barrier_wait(empty + 8 * stage, parity ^ 1);
          barrier_expect(bar, kStageBytes);
          @LOAD_A@
          @LOAD_B@
          if (++stage == kStages) stage = 0, parity ^= 1;
        }
      }
    }
@SPLIT_PRODUCER@
  } else {
    @MANY_REGISTERS@
@SHARE_BEGIN@
    asm volatile("barrier.cta.sync 1, %0;" ::"n"(kConsumers * 128 + 32) : "memory");
    const int lane = threadIdx.x % 32, warp = threadIdx.x % 128 / 32, q = lane % 4;
    // A wgmma is done for all four warps at once: one of them says so, to each block that copies into the stage: those of the column and
    // the others of the row.
    const u32 reader = warp < kShare ? aside * kShare + warp : (warp - kShare + (warp - kShare >= aside)) * kShare + below;
    auto release = [&](int stage) {
      if (lane != 0 || warp >= kReaders) return;
      if (kReaders > 1) barrier_arrive_in(empty + 8 * stage, reader);
      else barrier_arrive(empty + 8 * stage);
    };
@TURNS_BEGIN@
    for (int i = begin + (kTurns > 1 ? group * step : 0); i < all; i += step * kTurns) {
      const Work w = work_of(i, rows, columns, rank, static_cast<int>(M), static_cast<int>(N));
      const int batch = w.batch;
      const int row = w.m + row_in_tile(group) + warp * 16 + lane / 4, column = w.n + column_in_tile(group);
@PREFETCH_UNITS@
      float sums[kPerM][kWarpgroupN / 2];
@CLEAR@
@TURN_BEGIN@
      int done = stage;
      for (int k = first; k < last; ++k) {
        barrier_wait(full + 8 * stage, parity);
        multiply_stage(sums, stages + stage * kStageBytes, group, @KEEP@);
        wgmma_wait<1>();
        if (k > first) release(done);
        done = stage;
        if (++stage == kStages) stage = 0, parity ^= 1;
      }
@TURN_END@
@EARLY@
      wgmma_wait<0>();
#pragma unroll
      for (int p = 0; p < kPerM; ++p)
#pragma unroll
        for (int j = 0; j < kWarpgroupN / 2; ++j) asm volatile("" : "+f"(sums[p][j])::"memory");
      if (last > first) release(done);
@SPLIT_REDUCE@
@SLICES_MEET@
      if (@WHOLE@) {
@UNITS@
      } else {
@GUARDED_UNITS@
      }
    }
  }
@SHARE_END@
)";

// What a unit reads is asked for kFar (kNear) units before it is used: the compiler moves no load above a store.
constexpr std::string_view kUnitsText = R"(#pragma unroll
        for (int u = 0; u < kUnits; ++u) {
          @SPLIT_SKIP@
          {
            const int m = row_of(row, u, q), n = column_of(column, u, q);
            float acc[8];
@SUM@
            @SECOND@
            if (@INSIDE@) {
              @HELD@
              @EPILOGUE@
            }
          }
@NEXT@
        })";
constexpr std::string_view kLoadUnit = R"({
            const int at = @UNIT@, m = row_of(row, at, q), n = column_of(column, at, q);
            if (at < kUnits && @INSIDE@) {
              @STRUCT@& @NAME@ = @NAME@s[at % @AHEAD@];
              @LOADS@
            }
          })";
constexpr std::string_view kFirstUnits = R"(
      struct @STRUCT@ { @MEMBERS@ } @NAME@s[@AHEAD@];
#pragma unroll
      for (int u = 0; u < @AHEAD@; ++u) {
        @SPLIT_SKIP@
        @LOAD@
      })";
constexpr std::string_view kPrefetchUnits = R"(
#pragma unroll
      for (int u = 0; u < kUnits; ++u) {
        @SPLIT_SKIP@
        const int m = row_of(row, u, q), n = column_of(column, u, q);
        if (@INSIDE@) { @PREFETCHES@ }
      })";

// A split pushes each unit of 8 sums to the block that finishes it; the order of the additions is fixed.
constexpr std::string_view kSplitProducer = R"(    __syncwarp();
    cluster_wait();)";
constexpr std::string_view kSplitReduce = R"(      cluster_wait();
#pragma unroll
      for (int u = 0; u < kUnits; ++u) {
        const u32 owner = u % kSplit;
        if (owner == rank) continue;
        float v[8];
        unit_of(sums, u, v);
        const u32 from = rank < owner ? rank : rank - 1;
        const u32 to = in_block(reduce + ((from * kOwned + u / kSplit) * 2 * kConsumers * 128 + threadIdx.x) * 16, owner);
#pragma unroll
        for (int e = 0; e < 2; ++e)
          asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(
                           to + e * kConsumers * 128 * 16),
                       "f"(v[e * 4]), "f"(v[e * 4 + 1]), "f"(v[e * 4 + 2]), "f"(v[e * 4 + 3]), "r"(in_block(gather, owner)) : "memory");
      }
      barrier_wait(gather, 0);)";
// Warpgroups that take tiles in turn. One multiplies at a time: the other must not look for a stage before the first has seen it, since
// a barrier tells only whether the phase before has passed.
constexpr std::string_view kTurnsBegin = R"(    auto skip = [&](int count) {
      stage += count;
      parity ^= stage / kStages & 1;
      stage %= kStages;
    };
    skip(group * steps);
    if (group == 1) asm volatile("barrier.cta.arrive 2, 256;" ::: "memory");)";
constexpr std::string_view kTurnBegin = R"(      asm volatile("barrier.cta.sync %0, 256;" ::"r"(2 + group) : "memory");)";
constexpr std::string_view kTurnEnd = R"(      asm volatile("barrier.cta.arrive %0, 256;" ::"r"(3 - group) : "memory");
      skip(steps * (kTurns - 1));)";
// Of blocks in the same column (row) of the cluster.
constexpr std::string_view kMasks = R"(      [[maybe_unused]] const u32 column_mask = ((1u << kShare) - 1) << aside * kShare;
      [[maybe_unused]] u32 row_mask = 0;
      for (int x = 0; x < kBeside; ++x) row_mask |= 1u << x * kShare + below;)";
// Blocks that copy for each other: all run before the first copy, and none ends before the last.
constexpr std::string_view kShareBegin = "    cluster_wait();";
constexpr std::string_view kShareEnd = R"(  __syncwarp();
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  cluster_wait();)";
// Slices leave their sums in memory; the last one to come finds those of all there, and adds them in order.
constexpr std::string_view kSlicesMeet = R"(      float4* const places = reinterpret_cast<float4*>(scratch) +
                             (i64(i) * kCluster + rank) * kSlices * (kOwned * 2 * kConsumers * 128) + threadIdx.x;
#pragma unroll
      for (int u = 0; u < kUnits; ++u) {
        if (kSplit > 1 && u % kSplit != rank) continue;
        float acc[8];
        unit_of(sums, u, acc);
@SPLIT_ADD@
        float4* const to = places + (slice * kOwned + u / kSplit) * (2 * kConsumers * 128);
        to[0] = make_float4(acc[0], acc[1], acc[2], acc[3]);
        to[kConsumers * 128] = make_float4(acc[4], acc[5], acc[6], acc[7]);
      }
      __threadfence();
      asm volatile("barrier.cta.sync 2, %0;" ::"n"(kConsumers * 128) : "memory");
      if (threadIdx.x == 0) {
        u32* const counter = counters + i * kCluster + rank;
        const u32 is_last = atomicAdd(counter, 1u) == kSlices - 1;
        if (is_last) *counter = 0;
        asm volatile("st.shared.u32 [%0], %1;" ::"r"(last_slice), "r"(is_last) : "memory");
      }
      asm volatile("barrier.cta.sync 2, %0;" ::"n"(kConsumers * 128) : "memory");
      u32 is_last;
      asm volatile("ld.shared.u32 %0, [%1];" : "=r"(is_last) : "r"(last_slice) : "memory");
      if (!is_last) break;
      __threadfence();)";
constexpr std::string_view kSlicesSum = R"(#pragma unroll
          for (int e = 0; e < 8; ++e) acc[e] = 0;
#pragma unroll 4
          for (int s = 0; s < kSlices; ++s) {
            const float4* const from = places + (s * kOwned + u / kSplit) * (2 * kConsumers * 128);
            const float4 x = __ldcg(from), y = __ldcg(from + kConsumers * 128);
            acc[0] += x.x, acc[1] += x.y, acc[2] += x.z, acc[3] += x.w, acc[4] += y.x, acc[5] += y.y, acc[6] += y.z, acc[7] += y.w;
          })";
// Programmatic dependent launch: what is above runs while the kernel before this one ends.
constexpr std::string_view kOverlap = R"(  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  asm volatile("griddepcontrol.wait;" ::: "memory");)";
constexpr std::string_view kClear = R"(#pragma unroll
      for (int p = 0; p < kPerM; ++p)
#pragma unroll
        for (int j = 0; j < kWarpgroupN / 2; ++j) sums[p][j] = 0;)";
constexpr std::string_view kSplitAdd = R"(#pragma unroll
        for (int from = 0; from < kSplit - 1; ++from) {
          const u32 at = reduce + ((from * kOwned + u / kSplit) * 2 * kConsumers * 128 + threadIdx.x) * 16;
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            float x[4];
            asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                         : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3]) : "r"(at + e * kConsumers * 128 * 16) : "memory");
#pragma unroll
            for (int q = 0; q < 4; ++q) acc[e * 4 + q] += x[q];
          }
        })";

// wgmma m64nNk16: N / 2 sums of a thread, both factors in shared memory.
std::string wgmma_function(const GemmWgmma& g) {
  const int n = warpgroup_n(g.tile), count = n / 2;
  std::string places, sums;
  for (int i = 0; i < count; ++i) {
    places += fmt::format("{}%{}", i == 0 ? "" : i % 16 == 0 ? ", \"\n      \"" : ", ", i);
    sums += fmt::format("{}\"+f\"(d[{}])", i == 0 ? "" : i % 8 == 0 ? ",\n      " : ", ", i);
  }
  const char* type = g.type == DType::BF16 ? "bf16" : "f16";
  return expand(R"(
__device__ __forceinline__ void wgmma(float (&d)[@COUNT@], u64 a, u64 b, bool keep) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %@P@, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n@N@k16.f32.@T@.@T@ {"
      "@PLACES@}, %@A@, %@B@, p, 1, 1, @TA@, @TB@;\n}"
      : @SUMS@
      : "l"(a), "l"(b), "r"(static_cast<int>(keep)));
}
)",
                {{"COUNT", std::to_string(count)},
                 {"N", std::to_string(n)},
                 {"T", type},
                 {"PLACES", places},
                 {"SUMS", sums},
                 {"A", std::to_string(count)},
                 {"B", std::to_string(count + 1)},
                 {"P", std::to_string(count + 2)},
                 {"TA", g.a.k_contiguous ? "0" : "1"},
                 {"TB", g.b.k_contiguous ? "0" : "1"}});
}

// cp.async.bulk.tensor for maps of `rank` dimensions; `shared`: to the blocks of the cluster in `mask` at once.
std::string load_function(int rank, bool shared) {
  std::string places, values, parameters;
  for (int i = 0; i < rank; ++i) {
    places += fmt::format("{}%{}", i == 0 ? "" : ", ", i + 3);
    values += fmt::format(", \"r\"(x{})", i);
    parameters += fmt::format(", int x{}", i);
  }
  return expand(R"(
__device__ __forceinline__ void @NAME@(u32 to, const TensorMap& map, u32 bar@PARAMETERS@) {
  asm volatile("cp.async.bulk.tensor.@RANK@d.shared::cluster.global.mbarrier::complete_tx::bytes@CAST@ [%0], [%1, {@PLACES@}], [%2]@MASK@;" ::"r"(to),
               "l"(&map), "r"(bar)@VALUES@ : "memory");
}
)",
                {{"NAME", shared ? "load_shared_box" : "load_box"},
                 {"PARAMETERS", (shared ? ", u32 mask" : "") + parameters},
                 {"RANK", std::to_string(rank)},
                 {"CAST", shared ? ".multicast::cluster" : ""},
                 {"MASK", shared ? fmt::format(", %{}", rank + 3) : ""},
                 {"PLACES", places},
                 {"VALUES", values + (shared ? ", \"h\"(static_cast<u16>(mask))" : "")}});
}

std::string load_call(const std::string& mask, const std::string& to, const std::string& map) {
  return mask.empty() ? fmt::format("load_box({}, {}, bar", to, map) : fmt::format("load_shared_box({}, {}, bar, {}", to, map, mask);
}
// The copy of a box of A whose first row is `m` to `to`; of B whose first column is `n`.
std::string load_rows(const GemmWgmma& g, const std::string& to, const std::string& m) {
  const std::string load = load_call(g.tile.beside > 1 ? "row_mask" : "", to, g.a.map);
  return g.a.k_contiguous ? fmt::format("{}, k * kBlockK, {}{});", load, m, g.a.batch)
                          : fmt::format("{}, {}, k * kBlockK{});", load, m, g.a.batch);
}
std::string load_columns(const GemmWgmma& g, const WgmmaOperand& o, const std::string& to, const std::string& n) {
  const std::string load = load_call(g.tile.share > 1 ? "column_mask" : "", to, o.map);
  if (!o.k_contiguous) return fmt::format("{}, {}, k * kBlockK{});", load, n, o.batch);
  if (g.neighbours == kQuadColumns) return fmt::format("{}, k * kBlockK, 0, 0, 0, ({}) / 32);", load, n);
  if (g.neighbours) return fmt::format("{}, k * kBlockK, 0, ({}) / 8, 0, 0);", load, n);
  return fmt::format("{}, k * kBlockK, {}{});", load, n, o.batch);
}
std::string load_a_text(const GemmWgmma& g) {
  if (!g.a.load.empty()) return g.a.load;
  const bool shared = g.tile.beside > 1;
  if (!g.a.k_contiguous)
    return fmt::format("for (int x = {}; x < kBlockM; x += kBeside * 64) ", shared ? "aside * 64" : "0") +
           load_rows(g, "to_a + x * 128", "w.m + x");
  return shared ? load_rows(g, "to_a + aside * (kBytesA / kBeside)", "w.m + aside * (kBlockM / kBeside)") : load_rows(g, "to_a", "w.m");
}
// Of blocks that share, each copies a part. Of two right operands each fills a half.
std::string load_pair_text(const GemmWgmma& g) {
  auto half = [&](const WgmmaOperand& o, int part) {
    const std::string to = part == 0 ? "to_b" : "to_b + kBytesB / 2";
    if (o.k_contiguous) return load_columns(g, o, to, "w.n");
    return "for (int x = 0; x < kBlockN / 2; x += 64) " + load_columns(g, o, to + " + x * 128", "w.n + x");
  };
  if (g.tile.share == 1) return half(g.b, 0) + "\n          " + half(*g.b2, 1);
  return fmt::format("if (below == 0) {{ {} }} else {{ {} }}", half(g.b, 0), half(*g.b2, 1));
}
std::string load_b_text(const GemmWgmma& g) {
  if (g.b.k_contiguous)
    return g.tile.share == 1 ? load_columns(g, g.b, "to_b", "w.n")
                             : load_columns(g, g.b, "to_b + below * (kBytesB / kShare)", "w.n + below * (kBlockN / kShare)");
  return fmt::format("for (int x = {}; x < kBlockN; x += kShare * 64) ", g.tile.share > 1 ? "below * 64" : "0") +
         load_columns(g, g.b, "to_b + x * 128", "w.n + x");
}

std::string truth(bool x) { return x ? "true" : "false"; }

}  // namespace

GemmWgmmaText gemm_wgmma_text(const GemmWgmma& g) {
  const WgmmaTile& t = g.tile;
  TOROID_CHECK(is_half(g.type) && (t.block_m == 64 || t.block_m % 128 == 0) && warpgroup_n(t) % 16 == 0 && warpgroup_n(t) <= 256);
  constexpr int kMostSums = 160;  // of a thread
  TOROID_CHECK(warpgroup_m(t) * warpgroup_n(t) <= 128 * kMostSums && (!t.alternate || (t.consumers == 2 && t.split == 1)));
  TOROID_CHECK(t.split <= kMostSplit && wgmma_shared_bytes(t) <= kSharedLimit);
  TOROID_CHECK(t.consumers == 2 || (t.consumers == 1 && t.block_m == 64));
  TOROID_CHECK(g.b.k_contiguous || takes_boxes(t));
  TOROID_CHECK(t.share == 1 || (t.split == 1 && t.share <= 4 && t.block_n % (8 * t.share) == 0));
  TOROID_CHECK(!g.b2 || takes_pair(t));
  TOROID_CHECK(!g.neighbours || (g.b.k_contiguous && takes_neighbours(t, g.b2.has_value())));
  const bool moves_registers = t.consumers > 1, split = t.split > 1, slices = t.slices > 1, shares = t.share * t.beside > 1;
  TOROID_CHECK(t.beside == 1 || (g.a.load.empty() && t.split == 1 && t.share + t.beside <= 5 && t.block_m % (64 * t.beside) == 0));
  TOROID_CHECK(!slices || (!t.alternate && !g.b2));
  GemmWgmmaText out;
  out.definitions = std::string(kDevice) + (g.neighbours ? "" : std::string(transpose_quad_text()));
  std::set<std::pair<int, bool>> loads = {{g.a.rank, t.beside > 1}, {g.b.rank, t.share > 1}};
  for (auto& [rank, shared] : loads) out.definitions += load_function(rank, shared);
  out.definitions += wgmma_function(g) + expand(kConstants, {{"BLOCK_M", std::to_string(t.block_m)},
                                                             {"BLOCK_N", std::to_string(t.block_n)},
                                                             {"STAGES", std::to_string(t.stages)},
                                                             {"GROUP", std::to_string(std::max(1, 2048 / t.block_m / t.share))},
                                                             {"SPLIT", std::to_string(t.split)},
                                                             {"SLICES", std::to_string(t.slices)},
                                                             {"SHARE", std::to_string(t.share)},
                                                             {"BESIDE", std::to_string(t.beside)},
                                                             {"PAIR", g.b2 ? "2" : "1"},
                                                             {"CONSUMERS", std::to_string(t.consumers)},
                                                             {"TURNS", t.alternate ? "2" : "1"},
                                                             {"WARPGROUP_M", std::to_string(warpgroup_m(t))},
                                                             {"WARPGROUP_N", std::to_string(warpgroup_n(t))},
                                                             {"LAST_M", g.last_row_early ? "min(m, M - kBlockM)" : "m"},
                                                             {"LAST_N", g.last_column_early ? "min(n, N - kBlockN / kPair)" : "n"},
                                                             {"A_K", truth(g.a.k_contiguous)},
                                                             {"B_K", truth(g.b.k_contiguous)}});
  const std::string add = split ? std::string(kSplitAdd) : "";
  const std::string skip = split ? "if (u % kSplit != rank) continue;" : "", inside = g.whole_tiles ? "true" : "m < M && n < N";
  struct Held {
    const CudaEarly& from;
    const char *name, *type;
    int ahead;
  };
  // A multiple of every split, so that a block owns all of what shares a place.
  const Held helds[] = {{g.near, "near", "Near", std::max(kMostSplit / 2, t.split)}, {g.far, "far", "Far", kMostSplit}};
  std::string first, held, prefetch;
  auto load_unit = [&](const Held& h, const std::string& unit, const std::string& where) {
    return expand(kLoadUnit, {{"UNIT", unit},
                              {"INSIDE", where},
                              {"STRUCT", h.type},
                              {"NAME", h.name},
                              {"AHEAD", std::to_string(h.ahead)},
                              {"LOADS", h.from.loads}});
  };
  for (auto& h : helds) {
    if (h.from.loads.empty()) continue;
    first += expand(kFirstUnits, {{"STRUCT", h.type},
                                  {"MEMBERS", h.from.members},
                                  {"NAME", h.name},
                                  {"AHEAD", std::to_string(h.ahead)},
                                  {"SPLIT_SKIP", skip},
                                  {"LOAD", load_unit(h, "u", inside)}});
    held += fmt::format("const {0}& {1} = {1}s[u % {2}];\n", h.type, h.name, h.ahead);
  }
  if (!g.far.loads.empty()) prefetch = expand(kPrefetchUnits, {{"SPLIT_SKIP", skip}, {"INSIDE", inside}, {"PREFETCHES", g.far.prefetches}});
  const auto units = [&](const std::string& where) {
    std::string next;
    for (auto& h : helds)
      if (!h.from.loads.empty()) next += load_unit(h, fmt::format("u + {}", h.ahead), where) + "\n";
    const std::string order = g.neighbours ? "" : "transpose_quad(acc);";
    return expand(kUnitsText, {{"SPLIT_SKIP", skip},
                               {"SUM", (slices ? std::string(kSlicesSum) : "unit_of(sums, u, acc);\n" + add) + order},
                               {"SECOND", !g.b2          ? ""
                                          : g.neighbours ? "float acc2[8];\nunit_of(sums, u, acc2, 1);"
                                                         : "float acc2[8];\nunit_of(sums, u, acc2, 1);\ntranspose_quad(acc2);"},
                               {"INSIDE", where},
                               {"HELD", held},
                               {"EPILOGUE", g.epilogue},
                               {"NEXT", next}});
  };
  out.body = expand(kBody, {{"MAP_A", g.a.map},
                            {"MAP_B", g.b.map},
                            {"TURNS_BEGIN", t.alternate ? std::string(kTurnsBegin) : ""},
                            {"TURN_BEGIN", t.alternate ? std::string(kTurnBegin) : ""},
                            {"TURN_END", t.alternate ? std::string(kTurnEnd) : ""},
                            {"OVERLAP", g.overlaps ? std::string(kOverlap) : ""},
                            {"M", g.m},
                            {"N", g.n},
                            {"K", g.k},
                            {"BATCHES", g.batches},
                            {"FEW_REGISTERS", moves_registers ? "asm volatile(\"setmaxnreg.dec.sync.aligned.u32 40;\");" : ""},
                            {"MANY_REGISTERS", moves_registers ? "asm volatile(\"setmaxnreg.inc.sync.aligned.u32 232;\");" : ""},
                            {"LOAD_A", load_a_text(g)},
                            {"LOAD_B", g.b2 ? load_pair_text(g) : load_b_text(g)},
                            {"PREFETCH_SECOND", g.b2 ? fmt::format("prefetch_map({});", g.b2->map) : ""},
                            {"MASKS", shares ? std::string(kMasks) : ""},
                            {"SHARE_BEGIN", shares ? std::string(kShareBegin) : ""},
                            {"SHARE_END", shares ? std::string(kShareEnd) : ""},
                            {"SPLIT_PRODUCER", split ? std::string(kSplitProducer) : ""},
                            {"SPLIT_REDUCE", split ? std::string(kSplitReduce) : ""},
                            {"PREFETCH_UNITS", slices ? "" : prefetch},
                            {"EARLY", slices ? "" : first},
                            {"SLICES_MEET", slices ? expand(kSlicesMeet, {{"SPLIT_ADD", add}}) + first : ""},
                            {"CLEAR", split || slices ? std::string(kClear) : ""},
                            {"KEEP", split || slices ? "true" : "k > first"},
                            {"WHOLE", g.whole_tiles ? "true" : "w.m + kBlockM <= M && w.n + kBlockN <= N"},
                            {"UNITS", units("true")},
                            {"GUARDED_UNITS", units("m < M && n < N")}});
  return out;
}

int wgmma_threads(const WgmmaTile& t) { return (t.consumers + 1) * 128; }

int wgmma_shared_bytes(const WgmmaTile& t) { return t.stages * stage_bytes(t) + reduce_bytes(t) + 16 * t.stages + 16; }

int64_t wgmma_scratch_bytes(const WgmmaTile& t) {
  const int threads = t.consumers * 128, units = t.block_m * t.block_n / (threads * 8);
  return t.slices == 1 ? 0 : ceil_div(units, t.split) * t.cluster() * t.slices * threads * 32;
}

int wgmma_box_rows_a(const GemmWgmma& g) { return g.a.k_contiguous ? g.tile.block_m / g.tile.beside : kBlockK; }

int wgmma_box_rows_b(const GemmWgmma& g) {
  const int part = g.b2 ? g.tile.block_n / 2 : g.tile.block_n / g.tile.share;
  return g.b.k_contiguous ? part : kBlockK;
}

bool takes_boxes(const WgmmaTile& t) { return warpgroup_n(t) % 64 == 0; }

bool takes_neighbours(const WgmmaTile& t, bool pair) {
  return warpgroup_n(t) / (pair ? 2 : 1) % kQuadColumns == 0 && (pair || t.block_n / t.share % kQuadColumns == 0);
}

bool takes_pair(const WgmmaTile& t) { return t.split == 1 && t.share <= 2 && t.block_n % 32 == 0 && warpgroup_n(t) == t.block_n; }

}  // namespace toroid::codegen
