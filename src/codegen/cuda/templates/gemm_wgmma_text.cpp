#include "codegen/cuda/templates/gemm_wgmma_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/check.h"
#include "codegen/cuda/templates/gemm_mma_text.h"
#include "codegen/cuda/templates/gemm_wgmma.cu.h"
#include "codegen/expand.h"

namespace toroid::codegen {

namespace {

constexpr int kBoxK = 64;  // of 16-bit elements, where k is not contiguous
constexpr int kSharedLimit = 227 * 1024;
constexpr int kMostSplit = 8;  // clusters that every GPU takes

// What one warpgroup computes of a tile.
int warpgroup_m(const WgmmaTile& t) { return t.alternate || t.block_m == 64 ? t.block_m : t.block_m / t.consumers; }
int warpgroup_n(const WgmmaTile& t) { return t.alternate || t.block_m >= 128 ? t.block_n : t.block_n / t.consumers; }
int stage_bytes(const WgmmaTile& t) { return (t.block_m + t.block_n) * 128; }
// What the other blocks of a split leave for this one: a share of the tile from each.
int reduce_bytes(const WgmmaTile& t) {
  const int threads = t.consumers * 128, units = t.block_m * t.block_n / (threads * 8);
  return t.split == 1 ? 0 : int(ceil_div(units, t.split)) * (t.split - 1) * threads * 32;
}

// wgmma m64nN of 32 bytes along k: N / 2 sums of a thread, both factors in shared memory.
std::string wgmma_function(const GemmWgmma& g) {
  const int n = warpgroup_n(g.tile), count = n / 2;
  std::string places, sums;
  for (int i = 0; i < count; ++i) {
    places += fmt::format("{}%{}", i == 0 ? "" : i % 16 == 0 ? ", \"\n      \"" : ", ", i);
    sums += fmt::format("{}\"+f\"(d[{}])", i == 0 ? "" : i % 8 == 0 ? ",\n      " : ", ", i);
  }
  const bool half = is_half(g.type);
  const char* type = !half ? "tf32" : g.type == DType::BF16 ? "bf16" : "f16";
  const std::string order = half ? fmt::format(", {}, {}", g.a.k_contiguous ? "0" : "1", g.b.k_contiguous ? "0" : "1") : "";
  return expand(R"(
__device__ __forceinline__ void wgmma(float (&d)[@COUNT@], u64 a, u64 b, bool keep) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %@P@, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n@N@k@K@.f32.@T@.@T@ {"
      "@PLACES@}, %@A@, %@B@, p, 1, 1@ORDER@;\n}"
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
                 {"K", half ? "16" : "8"},
                 {"ORDER", order}});
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
  if (g.neighbours == 1) return fmt::format("{}, k * kBlockK, {}, 0, 0, 0);", load, n);
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

// What cuda_epilogue_around() sees of a unit that `inside` says to be inside of the result.
std::string left_text(const GemmWgmma& g, const std::string& inside) {
  if (!g.around) return "";
  return inside == "true" ? "constexpr int left = 8;\n" : "const LeftOfFew left = {m < M ? static_cast<int>(min(N - n, i64(8))) : -8};\n";
}

// The epilogue of a piece of a tile whose sums are in memory.
std::string piece_text(const GemmWgmma& g, const std::string& inside) {
  std::string held, ends;
  if (g.around) {
    held = left_text(g, inside);
    ends = R"(const bool begins = begins_row(u, q) || (q == 0 && owned == piece * kOwned / kPieces),
           ends = ends_row(u, q) || (q == 3 && owned + 1 == (piece + 1) * kOwned / kPieces);
)";
  }
  for (auto& [early, name] : {std::pair{&g.near, "near"}, std::pair{&g.far, "far"}})
    if (!early->loads.empty()) held += fmt::format("struct {{ {} }} {};\nif ({}) {}", early->members, name, inside, early->loads);
  return g.carried + expand(gemm_wgmma_cu::kPieceText,
                            {{"HELD", held},
                             {"SUM", std::string(gemm_wgmma_cu::kSlicesSum) + (g.neighbours ? "" : "\ntranspose_quad(acc);")},
                             {"INSIDE", g.around ? "true" : inside},
                             {"EPILOGUE", ends + g.epilogue}});
}

// Of a unit among those of its rows: which of the lane's two rows it is in, and which 32 columns. The order of sums has both rows of the
// same columns one after the other.
std::pair<std::string, std::string> order_of_units(const GemmWgmma& g) {
  if (!g.sums.empty()) return {"u % 2", "u % kUnitsOfRows / 2"};
  return {"u % kUnitsOfRows / kQuads", "u % kUnitsOfRows % kQuads"};
}

std::string truth(bool x) { return x ? "true" : "false"; }

std::string split_add(const GemmWgmma& g) { return g.tile.split > 1 ? std::string(gemm_wgmma_cu::kSplitAdd) : ""; }

void check(const GemmWgmma& g) {
  const WgmmaTile& t = g.tile;
  TOROID_CHECK(is_half(g.type) || (g.type == DType::F32 && g.a.k_contiguous && g.b.k_contiguous));
  TOROID_CHECK((t.block_m == 64 || t.block_m % 128 == 0) && warpgroup_n(t) % 16 == 0 && warpgroup_n(t) <= 256);
  constexpr int kMostSums = 160;  // of a thread
  TOROID_CHECK(warpgroup_m(t) * warpgroup_n(t) <= 128 * kMostSums && (!t.alternate || (t.consumers == 2 && t.split == 1)));
  TOROID_CHECK(t.split <= kMostSplit && wgmma_shared_bytes(t) <= kSharedLimit);
  TOROID_CHECK(t.consumers == 2 || (t.consumers == 1 && t.block_m == 64));
  TOROID_CHECK(g.b.k_contiguous || takes_boxes(t));
  TOROID_CHECK(t.share == 1 || (t.split == 1 && t.share <= 4 && t.block_n % (8 * t.share) == 0));
  TOROID_CHECK(!g.b2 || takes_pair(t));
  TOROID_CHECK(!g.neighbours || (g.b.k_contiguous && takes_neighbours(t, g.b2.has_value())));
  TOROID_CHECK(t.beside == 1 || (g.a.load.empty() && t.split == 1 && t.share + t.beside <= 5 && t.block_m % (64 * t.beside) == 0));
  TOROID_CHECK(t.slices == 1 || (!t.alternate && !g.b2));
  TOROID_CHECK(g.sums.empty() || (takes_sums(t) && !g.b2 && !g.around && !g.last_row_early));
  TOROID_CHECK(wgmma_shared_bytes(t) + wgmma_sums_bytes(t, g.sums.size()) <= kSharedLimit);
}

std::string definitions_text(const GemmWgmma& g) {
  const WgmmaTile& t = g.tile;
  const auto [half, quad] = order_of_units(g);
  std::string out = std::string(gemm_wgmma_cu::kDevice) + (g.neighbours ? "" : std::string(transpose_quad_text()));
  std::set<std::pair<int, bool>> loads = {{g.a.rank, t.beside > 1}, {g.b.rank, t.share > 1}};
  for (auto& [rank, shared] : loads) out += load_function(rank, shared);
  out += wgmma_function(g) + expand(gemm_wgmma_cu::kConstants, {{"BLOCK_M", std::to_string(t.block_m)},
                                                                {"BLOCK_N", std::to_string(t.block_n)},
                                                                {"BLOCK_K", std::to_string(wgmma_block_k(g.type))},
                                                                {"SIZE", std::to_string(size_of(g.type))},
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
                                                                {"HALF", half},
                                                                {"QUAD", quad},
                                                                {"LAST_M", g.last_row_early ? "min(m, M - kBlockM)" : "m"},
                                                                {"LAST_N", g.last_column_early ? "min(n, N - kBlockN / kPair)" : "n"},
                                                                {"A_K", truth(g.a.k_contiguous)},
                                                                {"B_K", truth(g.b.k_contiguous)}});
  if (g.around) out += gemm_wgmma_cu::kRowEnds;
  if (!g.sums.empty()) out += expand(gemm_wgmma_cu::kSums, {{"COUNT", std::to_string(g.sums.size())}});
  return out;
}

// What is done with the sums of a tile, in units of eight that a thread stores at once. What it reads for a unit is fetched some units
// before.
class UnitsText {
 public:
  explicit UnitsText(const GemmWgmma& g)
      : g_(g), skip_(g.tile.split > 1 ? "if (u % kSplit != rank) continue;" : ""), inside_(g.whole_tiles ? "true" : "m < M && n < N") {
    // A multiple of every split, so that a block owns all of what shares a place. f32 takes twice the registers.
    const int few = std::max(kMostSplit / 2, g.tile.split);
    const int near = few, far = is_half(g.type) && !g.around ? kMostSplit : few;
    helds_ = {Held{&g.near, "near", "Near", near}, Held{&g.far, "far", "Far", far}};
    if (!g.sums.empty()) leave_registers();
    if (!g.around) return;
    constexpr int kRegisters = 184;  // vectors around others take more
    const int sums = warpgroup_m(g.tile) * warpgroup_n(g.tile) / 128;
    for (Held& h : helds_)
      if (sums + helds_[0].ahead * g.near.registers + helds_[1].ahead * g.far.registers > kRegisters)
        h.ahead = std::max(few / 2, g.tile.split);
  }

  // Before the sums are there: what the first units read.
  std::string first() const {
    std::string out;
    for (auto& h : helds_)
      if (!h.from->loads.empty())
        out += expand(gemm_wgmma_cu::kFirstUnits, {{"STRUCT", h.type},
                                                   {"MEMBERS", h.from->members},
                                                   {"NAME", h.name},
                                                   {"AHEAD", std::to_string(h.ahead)},
                                                   {"SPLIT_SKIP", skip_},
                                                   {"LOAD", load(h, "u", inside_)}});
    if (!g_.sums.empty()) out += expand(gemm_wgmma_cu::kFirstSums, {{"PLACE", std::to_string(wgmma_shared_bytes(g_.tile))}});
    return out + g_.carried;
  }

  std::string prefetch() const {
    if (g_.far.loads.empty()) return "";
    return expand(gemm_wgmma_cu::kPrefetchUnits, {{"SPLIT_SKIP", skip_}, {"INSIDE", inside_}, {"PREFETCHES", g_.far.prefetches}});
  }

  std::string units(const std::string& where) const {
    if (g_.tile.slices > 1) return piece_text(g_, where);
    std::string held, next;
    for (auto& h : helds_) {
      if (h.from->loads.empty()) continue;
      held += fmt::format("const {0}& {1} = {1}s[u % {2}];\n", h.type, h.name, h.ahead);
      next += load(h, fmt::format("u + {}", h.ahead), where) + "\n";
    }
    const std::string ends = g_.around ? "const bool begins = begins_row(u, q), ends = ends_row(u, q);\n" : "";
    const std::string order = g_.neighbours ? "" : "transpose_quad(acc);";
    return expand(gemm_wgmma_cu::kUnitsText,
                  {{"SPLIT_SKIP", skip_},
                   {"TERMS", g_.sums.empty() ? "" : std::string(gemm_wgmma_cu::kTerms)},
                   {"ADD_TERMS", g_.sums.empty() ? "" : add_terms()},
                   {"SUM", "unit_of(sums, u, acc);\n" + split_add(g_) + order},
                   {"SECOND", !g_.b2          ? ""
                              : g_.neighbours ? "float acc2[8];\nunit_of(sums, u, acc2, 1);"
                                              : "float acc2[8];\nunit_of(sums, u, acc2, 1);\ntranspose_quad(acc2);"},
                   {"INSIDE", g_.around ? "true" : where},
                   {"HELD", held},
                   {"EPILOGUE", ends + left_text(g_, where) + g_.epilogue},
                   {"NEXT", next}});
  }

 private:
  struct Held {
    const CudaEarly* from;
    const char *name, *type;
    int ahead;  // units
  };

  // Terms take registers in which other units could be held.
  void leave_registers() {
    constexpr int kRegisters = 160;
    const auto count = static_cast<int>(g_.sums.size());
    const int own = warpgroup_m(g_.tile) * warpgroup_n(g_.tile) / 128 + 8 * count + 8;
    auto taken = [](const Held& h) { return h.ahead * h.from->registers; };
    while (own + taken(helds_[0]) + taken(helds_[1]) > kRegisters) {
      Held& h = taken(helds_[0]) > taken(helds_[1]) ? helds_[0] : helds_[1];
      if (h.ahead <= 2) break;
      h.ahead /= 2;
    }
  }

  std::string add_terms() const {
    const auto [half, quad] = order_of_units(g_);
    std::string stores;
    for (size_t s = 0; s < g_.sums.size(); ++s) stores += fmt::format("{}[to] = of_warps(of_columns + {} * kPartN + x);\n", g_.sums[s], s);
    return expand(gemm_wgmma_cu::kAddTerms, {{"HALF", half}, {"QUAD", quad}, {"STORES", stores}});
  }

  std::string load(const Held& h, const std::string& unit, const std::string& where) const {
    return expand(gemm_wgmma_cu::kLoadUnit, {{"UNIT", unit},
                                             {"INSIDE", where},
                                             {"STRUCT", h.type},
                                             {"NAME", h.name},
                                             {"AHEAD", std::to_string(h.ahead)},
                                             {"LOADS", left_text(g_, where) + h.from->loads}});
  }

  const GemmWgmma& g_;
  const std::string skip_, inside_;
  std::array<Held, 2> helds_;
};

}  // namespace

GemmWgmmaText gemm_wgmma_text(const GemmWgmma& g) {
  check(g);
  const WgmmaTile& t = g.tile;
  const bool moves_registers = t.consumers > 1, split = t.split > 1, slices = t.slices > 1, shares = t.share * t.beside > 1;
  const UnitsText units(g);
  GemmWgmmaText out;
  out.definitions = definitions_text(g);
  out.body = expand(
      gemm_wgmma_cu::kBody,
      {{"MAP_A", g.a.map},
       {"MAP_B", g.b.map},
       {"TURNS_BEGIN", t.alternate ? std::string(gemm_wgmma_cu::kTurnsBegin) : ""},
       {"TURN_BEGIN", t.alternate ? std::string(gemm_wgmma_cu::kTurnBegin) : ""},
       {"TURN_END", t.alternate ? std::string(gemm_wgmma_cu::kTurnEnd) : ""},
       {"OVERLAP", g.overlaps ? std::string(gemm_wgmma_cu::kOverlap) : ""},
       {"M", g.m},
       {"N", g.n},
       {"K", g.k},
       {"BATCHES", g.batches},
       {"FEW_REGISTERS", moves_registers ? "asm volatile(\"setmaxnreg.dec.sync.aligned.u32 40;\");" : ""},
       {"MANY_REGISTERS", moves_registers ? "asm volatile(\"setmaxnreg.inc.sync.aligned.u32 232;\");" : ""},
       {"LOAD_A", load_a_text(g)},
       {"LOAD_B", g.b2 ? load_pair_text(g) : load_b_text(g)},
       {"PREFETCH_SECOND", g.b2 ? fmt::format("prefetch_map({});", g.b2->map) : ""},
       {"MASKS", shares ? std::string(gemm_wgmma_cu::kMasks) : ""},
       {"SHARE_BEGIN", shares ? std::string(gemm_wgmma_cu::kShareBegin) : ""},
       {"SHARE_END", shares ? std::string(gemm_wgmma_cu::kShareEnd) : ""},
       {"SPLIT_PRODUCER", split ? std::string(gemm_wgmma_cu::kSplitProducer) : ""},
       {"SPLIT_REDUCE", split ? std::string(gemm_wgmma_cu::kSplitReduce) : ""},
       {"PREFETCH_UNITS", slices ? "" : units.prefetch()},
       {"EARLY", slices ? "" : units.first()},
       {"SLICES_MEET",
        slices ? expand(gemm_wgmma_cu::kSlicesMeet, {{"SPLIT_ADD", split_add(g)}, {"TOGETHER", truth(wgmma_adds_together(t))}}) : ""},
       {"SLICES_END", slices ? std::string(gemm_wgmma_cu::kSlicesEnd) : ""},
       {"CLEAR", split || slices ? std::string(gemm_wgmma_cu::kClear) : ""},
       {"KEEP", split || slices ? "true" : "k > first"},
       {"WHOLE", g.whole_tiles ? "true" : "w.m + kBlockM <= M && w.n + kBlockN <= N"},
       {"UNITS", units.units("true")},
       {"GUARDED_UNITS", units.units("m < M && n < N")}});
  return out;
}

int wgmma_threads(const WgmmaTile& t) { return (t.consumers + 1) * 128; }

int wgmma_shared_bytes(const WgmmaTile& t) { return t.stages * stage_bytes(t) + reduce_bytes(t) + 16 * t.stages + 16; }

int64_t wgmma_scratch_bytes(const WgmmaTile& t) {
  const int threads = t.consumers * 128, units = t.block_m * t.block_n / (threads * 8);
  return t.slices == 1 ? 0 : ceil_div(units, t.split) * t.cluster() * t.slices * threads * 32;
}

bool wgmma_adds_together(const WgmmaTile& t) {
  constexpr int64_t kFew = 128 * 1024;  // bytes that one block reads faster than blocks agree
  return wgmma_scratch_bytes(t) / t.cluster() > kFew;
}

int wgmma_box_rows_a(const GemmWgmma& g) { return g.a.k_contiguous ? g.tile.block_m / g.tile.beside : kBoxK; }

int wgmma_box_rows_b(const GemmWgmma& g) {
  const int part = g.b2 ? g.tile.block_n / 2 : g.tile.block_n / g.tile.share;
  return g.b.k_contiguous ? part : kBoxK;
}

bool takes_boxes(const WgmmaTile& t) { return warpgroup_n(t) % 64 == 0; }

bool takes_neighbours(const WgmmaTile& t, bool pair) {
  return warpgroup_n(t) / (pair ? 2 : 1) % kQuadColumns == 0 && (pair || t.block_n / t.share % kQuadColumns == 0);
}

bool takes_sums(const WgmmaTile& t) { return t.split == 1 && t.slices == 1 && warpgroup_n(t) % kQuadColumns == 0; }

int wgmma_sums_bytes(const WgmmaTile& t, size_t sums) {
  constexpr int kWarps = 4;  // of a warpgroup
  return static_cast<int>(sums) * t.consumers * kWarps * warpgroup_n(t) * 4;
}

WgmmaTile with_room_for_sums(WgmmaTile t, size_t sums) {
  while (t.stages > 1 && wgmma_shared_bytes(t) + wgmma_sums_bytes(t, sums) > kSharedLimit) --t.stages;
  return t;
}

bool takes_pair(const WgmmaTile& t) { return t.split == 1 && t.share <= 2 && t.block_n % 32 == 0 && warpgroup_n(t) == t.block_n; }

}  // namespace toroid::codegen
