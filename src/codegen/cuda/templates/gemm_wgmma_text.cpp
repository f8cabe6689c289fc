#include "codegen/cuda/templates/gemm_wgmma_text.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/check.h"
#include "codegen/cuda/templates/gemm_mma_text.h"
#include "codegen/expand.h"

namespace toroid::codegen {

namespace {

constexpr int kBlockK = 64;  // 128 bytes: one row of the swizzle
constexpr int kSharedLimit = 227 * 1024;
constexpr int kMostSplit = 8;  // clusters that every GPU takes

int warpgroup_n(const WgmmaTile& t) { return t.block_m >= 128 ? t.block_n : t.block_n / t.consumers; }
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
constexpr int kSplit = @SPLIT@, kConsumers = @CONSUMERS@, kPerM = kBlockM >= 128 ? kBlockM / 128 : 1;
constexpr int kWarpgroupN = kBlockM >= 128 ? kBlockN : kBlockN / kConsumers;
constexpr int kBytesA = kBlockM * kBlockK * 2, kBytesB = kBlockN * kBlockK * 2, kStageBytes = kBytesA + kBytesB;
constexpr int kUnits = kPerM * kWarpgroupN / 16, kOwned = (kUnits + kSplit - 1) / kSplit;
constexpr int kReduceBytes = kSplit == 1 ? 0 : kOwned * (kSplit - 1) * kConsumers * 128 * 32;
constexpr bool kContiguousKA = @A_K@, kContiguousKB = @B_K@;

struct Work {
  int batch, m, n;
};

// Groups of rows of tiles, columns by columns: what runs at a time covers about a square, which reads the fewest different bytes.
__device__ __forceinline__ Work work_of(int i, int rows, int columns) {
  const int batch = i / (rows * columns);
  i -= batch * rows * columns;
  const int first = i / (kGroup * columns) * kGroup;
  const int height = min(rows - first, kGroup);
  i -= first * columns;
  return {batch, (first + i % height) * kBlockM, i / height * kBlockN};
}

// One stage of products. Rows of 16 k: 32 bytes on where k is contiguous, else 16 rows of 128 bytes.
__device__ __forceinline__ void multiply_stage(float (&sums)[kPerM][kWarpgroupN / 2], u32 stage, int group, bool keep) {
  const u32 row = kBlockM >= 128 ? group * kPerM * 64 : 0, column = kBlockM >= 128 ? 0 : group * kWarpgroupN;
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

// A unit: the 8 sums of a thread in one of its rows and a pair of each of 4 times 8 columns.
__device__ __forceinline__ int row_of(int row, int u) { return row + u / (kWarpgroupN / 16) * 64 + u / (kWarpgroupN / 32) % 2 * 8; }
__device__ __forceinline__ int column_of(int column, int u) { return column + u % (kWarpgroupN / 32) * 32; }
__device__ __forceinline__ void unit_of(const float (&sums)[kPerM][kWarpgroupN / 2], int u, float (&v)[8]) {
  const int p = u / (kWarpgroupN / 16), h = u / (kWarpgroupN / 32) % 2, j = u % (kWarpgroupN / 32);
#pragma unroll
  for (int e = 0; e < 8; ++e) v[e] = sums[p][j * 16 + e / 2 * 4 + h * 2 + e % 2];
}
)";

constexpr std::string_view kBody = R"(
  extern __shared__ __align__(1024) unsigned char shared[];
  const u32 stages = shared_address(shared), reduce = stages + kStages * kStageBytes;
  const u32 full = reduce + kReduceBytes, empty = full + 8 * kStages, gather = empty + 8 * kStages;
  const int group = threadIdx.x / 128;
  const u32 rank = kSplit > 1 ? cluster_rank() : 0;
  if (threadIdx.x == kConsumers * 128) {
    prefetch_map(@MAP_A@);
    prefetch_map(@MAP_B@);
    for (int i = 0; i < kStages; ++i) {
      barrier_init(full + 8 * i, 1);
      barrier_init(empty + 8 * i, kConsumers * 4);
    }
    if (kSplit > 1) {
      barrier_init(gather, 1);
      barrier_expect(gather, (kUnits - rank + kSplit - 1) / kSplit * (kSplit - 1) * kConsumers * 128 * 32);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncwarp();
  if (kSplit > 1) cluster_arrive();
@OVERLAP@
  const i64 M = @M@, N = @N@, K = @K@;
  const int rows = static_cast<int>((M + kBlockM - 1) / kBlockM), columns = static_cast<int>((N + kBlockN - 1) / kBlockN);
  const int all = rows * columns * static_cast<int>(@BATCHES@), step = gridDim.x / kSplit;
  const int steps = static_cast<int>((K + kBlockK - 1) / kBlockK);
  const int first = kSplit > 1 ? static_cast<int>(steps * rank / kSplit) : 0;
  const int last = kSplit > 1 ? static_cast<int>(steps * (rank + 1) / kSplit) : steps;
  int stage = 0;
  u32 parity = 0;
  if (group == kConsumers) {
    @FEW_REGISTERS@
    if (threadIdx.x < kConsumers * 128 + 32) asm volatile("barrier.cta.arrive 1, %0;" ::"n"(kConsumers * 128 + 32) : "memory");
    if (threadIdx.x == kConsumers * 128) {
      for (int i = blockIdx.x / kSplit; i < all; i += step) {
        const Work w = work_of(i, rows, columns);
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
    asm volatile("barrier.cta.sync 1, %0;" ::"n"(kConsumers * 128 + 32) : "memory");
    const int lane = threadIdx.x % 32;
    auto release = [&](int stage) {
      if (lane == 0) barrier_arrive(empty + 8 * stage);
    };
    for (int i = blockIdx.x / kSplit; i < all; i += step) {
      const Work w = work_of(i, rows, columns);
      const int batch = w.batch;
      float sums[kPerM][kWarpgroupN / 2];
@CLEAR@
      int done = stage;
      for (int k = first; k < last; ++k) {
        barrier_wait(full + 8 * stage, parity);
        multiply_stage(sums, stages + stage * kStageBytes, group, @KEEP@);
        wgmma_wait<1>();
        if (k > first) release(done);
        done = stage;
        if (++stage == kStages) stage = 0, parity ^= 1;
      }
      wgmma_wait<0>();
#pragma unroll
      for (int p = 0; p < kPerM; ++p)
#pragma unroll
        for (int j = 0; j < kWarpgroupN / 2; ++j) asm volatile("" : "+f"(sums[p][j])::"memory");
      if (last > first) release(done);
@SPLIT_REDUCE@
      const int row = w.m + (kBlockM >= 128 ? group * kPerM * 64 : 0) + (threadIdx.x % 128) / 32 * 16 + lane / 4;
      const int column = w.n + (kBlockM >= 128 ? 0 : group * kWarpgroupN) + lane % 4 * 8;
      // Without conditions the loads of many units can be in flight together.
      if (@WHOLE@) {
#pragma unroll
        for (int u = 0; u < kUnits; ++u) {
          @SPLIT_SKIP@
          const int m = row_of(row, u), n = column_of(column, u);
          float acc[8];
          unit_of(sums, u, acc);
@SPLIT_ADD@
          transpose_quad(acc);
          @EPILOGUE@
        }
      } else {
#pragma unroll
        for (int u = 0; u < kUnits; ++u) {
          @SPLIT_SKIP@
          const int m = row_of(row, u), n = column_of(column, u);
          float acc[8];
          unit_of(sums, u, acc);
@SPLIT_ADD@
          transpose_quad(acc);
          if (m < M && n < N) {
            @EPILOGUE@
          }
        }
      }
    }
  }
)";

// A split pushes each unit of 8 sums to the block that finishes it; the order of the additions is fixed.
constexpr std::string_view kSplitProducer = R"(    __syncwarp();
    cluster_wait();)";
constexpr std::string_view kSplitReduce = R"(      cluster_wait();
#pragma unroll
      for (int u = 0; u < kUnits; ++u) {
        const u32 owner = u % kSplit;
        if (owner == rank) continue;
        const int p = u / (kWarpgroupN / 16), h = u / (kWarpgroupN / 32) % 2, j = u % (kWarpgroupN / 32);
        const u32 from = rank < owner ? rank : rank - 1;
        const u32 to = in_block(reduce + ((from * kOwned + u / kSplit) * 2 * kConsumers * 128 + threadIdx.x) * 16, owner);
#pragma unroll
        for (int e = 0; e < 2; ++e)
          asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(
                           to + e * kConsumers * 128 * 16),
                       "f"(sums[p][j * 16 + e * 8 + h * 2]), "f"(sums[p][j * 16 + e * 8 + h * 2 + 1]),
                       "f"(sums[p][j * 16 + e * 8 + 4 + h * 2]), "f"(sums[p][j * 16 + e * 8 + 4 + h * 2 + 1]),
                       "r"(in_block(gather, owner)) : "memory");
      }
      barrier_wait(gather, 0);)";
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

// cp.async.bulk.tensor for maps of `rank` dimensions.
std::string load_function(int rank) {
  std::string places, values, parameters;
  for (int i = 0; i < rank; ++i) {
    places += fmt::format("{}%{}", i == 0 ? "" : ", ", i + 3);
    values += fmt::format(", \"r\"(x{})", i);
    parameters += fmt::format(", int x{}", i);
  }
  return expand(R"(
__device__ __forceinline__ void load_box(u32 to, const TensorMap& map, u32 bar@PARAMETERS@) {
  asm volatile("cp.async.bulk.tensor.@RANK@d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {@PLACES@}], [%2];" ::"r"(to),
               "l"(&map), "r"(bar)@VALUES@ : "memory");
}
)",
                {{"PARAMETERS", parameters}, {"RANK", std::to_string(rank)}, {"PLACES", places}, {"VALUES", values}});
}

// `row`: of the matrix, that the tile begins at.
std::string load_text(const WgmmaOperand& o, const char* to, const char* row, const char* rows) {
  if (!o.load.empty()) return o.load;
  if (o.k_contiguous) return fmt::format("load_box({}, {}, bar, k * kBlockK, {}{});", to, o.map, row, o.batch);
  return fmt::format("for (int x = 0; x < {}; x += 64) load_box({} + x * 128, {}, bar, {} + x, k * kBlockK{});", rows, to, o.map, row,
                     o.batch);
}

std::string truth(bool x) { return x ? "true" : "false"; }

}  // namespace

GemmWgmmaText gemm_wgmma_text(const GemmWgmma& g) {
  const WgmmaTile& t = g.tile;
  TOROID_CHECK(is_half(g.type) && (t.block_m == 64 || t.block_m % 128 == 0) && warpgroup_n(t) % 32 == 0 && warpgroup_n(t) <= 256);
  TOROID_CHECK(t.split <= kMostSplit && wgmma_shared_bytes(t) <= kSharedLimit);
  TOROID_CHECK(t.consumers == 2 || (t.consumers == 1 && t.block_m == 64));
  TOROID_CHECK(g.b.k_contiguous || t.block_n % 64 == 0);
  const bool moves_registers = t.consumers > 1, split = t.split > 1;
  GemmWgmmaText out;
  out.definitions = std::string(kDevice) + std::string(transpose_quad_text()) + load_function(g.a.rank);
  if (g.b.rank != g.a.rank) out.definitions += load_function(g.b.rank);
  out.definitions += wgmma_function(g) + expand(kConstants, {{"BLOCK_M", std::to_string(t.block_m)},
                                                             {"BLOCK_N", std::to_string(t.block_n)},
                                                             {"STAGES", std::to_string(t.stages)},
                                                             {"GROUP", std::to_string(std::max(1, 2048 / t.block_m))},
                                                             {"SPLIT", std::to_string(t.split)},
                                                             {"CONSUMERS", std::to_string(t.consumers)},
                                                             {"A_K", truth(g.a.k_contiguous)},
                                                             {"B_K", truth(g.b.k_contiguous)}});
  out.body = expand(kBody, {{"MAP_A", g.a.map},
                            {"MAP_B", g.b.map},
                            {"OVERLAP", g.overlaps ? std::string(kOverlap) : ""},
                            {"M", g.m},
                            {"N", g.n},
                            {"K", g.k},
                            {"BATCHES", g.batches},
                            {"FEW_REGISTERS", moves_registers ? "asm volatile(\"setmaxnreg.dec.sync.aligned.u32 40;\");" : ""},
                            {"MANY_REGISTERS", moves_registers ? "asm volatile(\"setmaxnreg.inc.sync.aligned.u32 232;\");" : ""},
                            {"LOAD_A", load_text(g.a, "to_a", "w.m", "kBlockM")},
                            {"LOAD_B", load_text(g.b, "to_b", "w.n", "kBlockN")},
                            {"SPLIT_PRODUCER", split ? std::string(kSplitProducer) : ""},
                            {"SPLIT_REDUCE", split ? std::string(kSplitReduce) : ""},
                            {"SPLIT_ADD", split ? std::string(kSplitAdd) : ""},
                            {"SPLIT_SKIP", split ? "if (u % kSplit != rank) continue;" : ""},
                            {"CLEAR", split ? std::string(kClear) : ""},
                            {"KEEP", split ? "true" : "k > first"},
                            {"WHOLE", g.whole_tiles ? "true" : "w.m + kBlockM <= M && w.n + kBlockN <= N"},
                            {"EPILOGUE", g.epilogue}});
  return out;
}

int wgmma_threads(const WgmmaTile& t) { return (t.consumers + 1) * 128; }

int wgmma_shared_bytes(const WgmmaTile& t) { return t.stages * stage_bytes(t) + reduce_bytes(t) + 16 * t.stages + 8; }

int wgmma_box_rows_a(const GemmWgmma& g) { return g.a.k_contiguous ? g.tile.block_m : kBlockK; }

int wgmma_box_rows_b(const GemmWgmma& g) { return g.b.k_contiguous ? g.tile.block_n : kBlockK; }

}  // namespace toroid::codegen
