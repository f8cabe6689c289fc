// The text of gemm_wgmma in pieces, with holes for what gemm_wgmma_text() knows.
#pragma once

#include <string_view>

namespace toroid::codegen::wgmma {

// PTX of the pieces. TMA, mbarriers, clusters: PTX ISA 8.0, "Asynchronous copy", "Parallel synchronization".
inline constexpr std::string_view kDevice = R"(
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

inline constexpr std::string_view kConstants = R"(
constexpr int kBlockM = @BLOCK_M@, kBlockN = @BLOCK_N@, kBlockK = @BLOCK_K@, kStages = @STAGES@, kGroup = @GROUP@;
constexpr int kSplit = @SPLIT@, kSlices = @SLICES@, kShare = @SHARE@, kBeside = @BESIDE@, kCluster = kSplit * kShare * kBeside;
constexpr int kReaders = kShare + kBeside - 1;  // blocks that copy into a stage
constexpr int kConsumers = @CONSUMERS@, kTurns = @TURNS@, kPair = @PAIR@;  // turns: warpgroups that take tiles in turn
constexpr int kWarpgroupM = @WARPGROUP_M@, kWarpgroupN = @WARPGROUP_N@, kPerM = kWarpgroupM / 64;
constexpr int kBytesA = kBlockM * kBlockK * @SIZE@, kBytesB = kBlockN * kBlockK * @SIZE@, kStageBytes = kBytesA + kBytesB;
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

inline constexpr std::string_view kBody = R"(
  extern __shared__ __align__(1024) unsigned char shared[];
  const u32 stages = shared_address(shared), reduce = stages + kStages * kStageBytes;
  const u32 full = reduce + kReduceBytes, empty = full + 8 * kStages, gather = empty + 8 * kStages, taken = gather + 8;
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
@SLICES_END@
    }
  }
@SHARE_END@
)";

// What a unit reads is asked for kFar (kNear) units before it is used: the compiler moves no load above a store.
inline constexpr std::string_view kUnitsText = R"(#pragma unroll
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
inline constexpr std::string_view kLoadUnit = R"({
            const int at = @UNIT@, m = row_of(row, at, q), n = column_of(column, at, q);
            if (at < kUnits && @INSIDE@) {
              @STRUCT@& @NAME@ = @NAME@s[at % @AHEAD@];
              @LOADS@
            }
          })";
inline constexpr std::string_view kFirstUnits = R"(
      struct @STRUCT@ { @MEMBERS@ } @NAME@s[@AHEAD@];
#pragma unroll
      for (int u = 0; u < @AHEAD@; ++u) {
        @SPLIT_SKIP@
        @LOAD@
      })";
inline constexpr std::string_view kPrefetchUnits = R"(
#pragma unroll
      for (int u = 0; u < kUnits; ++u) {
        @SPLIT_SKIP@
        const int m = row_of(row, u, q), n = column_of(column, u, q);
        if (@INSIDE@) { @PREFETCHES@ }
      })";

// A split pushes each unit of 8 sums to the block that finishes it; the order of the additions is fixed.
inline constexpr std::string_view kSplitProducer = R"(    __syncwarp();
    cluster_wait();)";
inline constexpr std::string_view kSplitReduce = R"(      cluster_wait();
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
inline constexpr std::string_view kTurnsBegin = R"(    auto skip = [&](int count) {
      stage += count;
      parity ^= stage / kStages & 1;
      stage %= kStages;
    };
    skip(group * steps);
    if (group == 1) asm volatile("barrier.cta.arrive 2, 256;" ::: "memory");)";
inline constexpr std::string_view kTurnBegin = R"(      asm volatile("barrier.cta.sync %0, 256;" ::"r"(2 + group) : "memory");)";
inline constexpr std::string_view kTurnEnd = R"(      asm volatile("barrier.cta.arrive %0, 256;" ::"r"(3 - group) : "memory");
      skip(steps * (kTurns - 1));)";
// Of blocks in the same column (row) of the cluster.
inline constexpr std::string_view kMasks = R"(      [[maybe_unused]] const u32 column_mask = ((1u << kShare) - 1) << aside * kShare;
      [[maybe_unused]] u32 row_mask = 0;
      for (int x = 0; x < kBeside; ++x) row_mask |= 1u << x * kShare + below;)";
// Blocks that copy for each other: all run before the first copy, and none ends before the last.
inline constexpr std::string_view kShareBegin = "    cluster_wait();";
inline constexpr std::string_view kShareEnd = R"(  __syncwarp();
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  cluster_wait();)";
// Slices leave their sums in memory, which are added in order when all are there: by the last one to come if they are few (kTogether), else
// by all that still run, each taking pieces of the tile. Nobody has to wait for the others, which may not run at the same time: a slice
// gives up after a while, the last one to come never does.
inline constexpr std::string_view kSlicesMeet = R"(      float4* const places = reinterpret_cast<float4*>(scratch) +
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
      constexpr bool kTogether = @TOGETHER@;
      constexpr int kPieces = !kTogether ? 1 : kSlices < kOwned ? kSlices : kOwned, kTries = kTogether ? 12 : 0;
      u32* const meeting = counters + (i * kCluster + rank) * 4;  // slices that came, pieces taken, slices that left
      bool all_came = false;
      if (threadIdx.x == 0) {
        u32 came = atomicAdd(meeting, 1u) + 1;
        for (int tries = 0; came < kSlices && tries < kTries; ++tries) {
          __nanosleep(40);
          asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(came) : "l"(meeting) : "memory");
        }
        all_came = came == kSlices;
      }
      for (int turn = 0;; ++turn) {
        if (threadIdx.x == 0)
          asm volatile("st.shared.u32 [%0], %1;" ::"r"(taken + turn % 2 * 4),
                       "r"(!all_came ? kPieces : kTogether ? atomicAdd(meeting + 1, 1u) : turn) : "memory");
        asm volatile("barrier.cta.sync 2, %0;" ::"n"(kConsumers * 128) : "memory");
        int piece;
        asm volatile("ld.shared.u32 %0, [%1];" : "=r"(piece) : "r"(taken + turn % 2 * 4) : "memory");
        if (piece >= kPieces) break;
        __threadfence();)";
inline constexpr std::string_view kSlicesEnd = R"(      }
      if (threadIdx.x == 0 && (kTogether ? atomicAdd(meeting + 2, 1u) == kSlices - 1 : all_came)) meeting[0] = meeting[1] = meeting[2] = 0;)";
inline constexpr std::string_view kPieceText =
    R"(for (int owned = piece * kOwned / kPieces; owned < (piece + 1) * kOwned / kPieces; ++owned) {
          const int u = owned * kSplit + (kSplit > 1 ? static_cast<int>(rank) : 0);
          if (u >= kUnits) break;
          const int m = row_of(row, u, q), n = column_of(column, u, q);
@HELD@
          float acc[8];
@SUM@
          if (@INSIDE@) {
            @EPILOGUE@
          }
        })";
inline constexpr std::string_view kSlicesSum = R"(#pragma unroll
          for (int e = 0; e < 8; ++e) acc[e] = 0;
#pragma unroll 4
          for (int s = 0; s < kSlices; ++s) {
            const float4* const from = places + (s * kOwned + owned) * (2 * kConsumers * 128);
            const float4 x = __ldcg(from), y = __ldcg(from + kConsumers * 128);
            acc[0] += x.x, acc[1] += x.y, acc[2] += x.z, acc[3] += x.w, acc[4] += y.x, acc[5] += y.y, acc[6] += y.z, acc[7] += y.w;
          })";
// Programmatic dependent launch: what is above runs while the kernel before this one ends.
inline constexpr std::string_view kOverlap = R"(  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  asm volatile("griddepcontrol.wait;" ::: "memory");)";
inline constexpr std::string_view kClear = R"(#pragma unroll
      for (int p = 0; p < kPerM; ++p)
#pragma unroll
        for (int j = 0; j < kWarpgroupN / 2; ++j) sums[p][j] = 0;)";
inline constexpr std::string_view kSplitAdd = R"(#pragma unroll
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

}  // namespace toroid::codegen::wgmma
