#include "codegen/cpu/templates/gemm_template.h"

#include <algorithm>
#include <charconv>

#include "base/check.h"
#include "codegen/cpu/templates/gemm.c.h"

namespace toroid::codegen {

void collect_row_counts(int64_t rows, int tile_rows, std::set<int>& counts) {
  while (rows > 0) {
    const int64_t tiles = ceil_div(rows, tile_rows);
    const int64_t r = ceil_div(rows, tiles);
    counts.insert(static_cast<int>(r));
    rows -= r;
  }
}

namespace {

struct Plan {
  const GemmConfig& c;
  int panel = 0, group = 1;
  bool copies_a = false, copies_b = false, splits_k = false;
  bool columns_of_a = false;  // A is read in place by its columns, which are contiguous
  std::set<int> row_counts, vec_counts;

  explicit Plan(const GemmConfig& config) : c(config) {
    const GemmTile& t = c.tile;
    TOROID_CHECK(t.lanes > 0 && t.rows > 0 && t.vecs > 0 && t.block_k > 0 && t.block_m > 0 && t.group > 0, "empty GEMM tile");
    panel = t.lanes * t.vecs;
    splits_k = !c.k.is_constant() || c.k.value() > t.block_k;
    if (splits_k && c.b_source == GemmB::Packed) group = t.group;
    columns_of_a = !produces_a() && has_few_panels() && c.a_type == DType::F32 && c.a_row_stride == "1" && is_near(c.a_col_stride);
    // Where panels of B are copied, rows pass by for each: what is copied of them would be copied again.
    const bool stays = c.b_source != GemmB::Strided || (c.m.is_constant() && c.m.value() <= t.block_m);
    copies_a = !produces_a() && !columns_of_a && ((t.copy_a && group == 1 && stays) || c.a_type != DType::F32 || c.a_col_stride != "1");
    copies_b = c.b_source == GemmB::Strided || (c.b_source == GemmB::InPlace && !(c.n.is_constant() && c.n.value() % panel == 0));
    if (c.m.is_constant()) {
      if (c.m.value() >= t.block_m) collect_row_counts(t.block_m, t.rows, row_counts);
      collect_row_counts(c.m.value() % t.block_m, t.rows, row_counts);
    } else {
      for (int r : {1, 2, 4, t.rows}) row_counts.insert(std::min(r, t.rows));
    }
    vec_counts.insert(t.vecs);
    if (c.n.is_constant()) {
      if (c.n.value() < panel) vec_counts.clear();
      if (const int64_t rest = c.n.value() % panel) vec_counts.insert(static_cast<int>(ceil_div(rest, t.lanes)));
    }
  }

  bool produces_a() const { return !c.rows_of_a.empty(); }
  // Columns of A are far apart, and each panel of B walks over all of them.
  bool has_few_panels() const { return c.n.is_constant() && c.n.value() <= panel; }
  // Whether places so far apart are on few pages.
  static bool is_near(const std::string& stride) {
    constexpr int kMostFloats = 1024;
    int value = 0;
    const auto [end, error] = std::from_chars(stride.data(), stride.data() + stride.size(), value);
    return error == std::errc() && end == stride.data() + stride.size() && value > 1 && value <= kMostFloats;
  }
  // Whether columns of B, which are contiguous, are copied to rows of panels.
  bool turns_b() const { return c.b_source == GemmB::Strided && c.b_row_stride == "1" && c.b_col_stride != "1"; }
  bool uses_scratch() const { return copies_a || copies_b || splits_k || produces_a(); }

  // Floats of the scratch areas of a thread behind the first kHead, as C expressions and as values: one formula, two readers.
  static constexpr int64_t kHead = 16;
  int64_t copy_stride() const { return ceil_div(c.tile.block_k, 16) * 16 + 16; }
  Expr a_floats(const Expr& k) const {
    return copies_a ? (group > 1 ? Expr(1) : sym::ceil_div(k, c.tile.block_k)) * (c.tile.block_m * copy_stride()) : Expr(0);
  }
  Expr b_floats(const Expr& k) const { return copies_b ? sym::ceil_div(k * panel, 16) * 16 : Expr(0); }
  int64_t partial_floats() const { return splits_k ? c.tile.block_m * panel * group : 0; }
  Expr row_floats(const Expr& k) const {
    if (!produces_a()) return 0;
    return (sym::ceil_div(k, 16) * 16 + 16) * c.tile.block_m + sym::ceil_div(c.rows_of_a.scratch_bytes, 64) * 16;
  }
};

std::string micro_text(const Plan& p, int rows, int vecs) {
  const int lanes = p.c.tile.lanes;
  std::string accs, loadb, fma, add, store;
  const DType b_type = p.copies_b && p.c.b_source == GemmB::Strided ? DType::F32 : p.c.b_type;
  for (int v = 0; v < vecs; ++v) {
    loadb += fmt::format("const vf32 b{} = {};\n", v, load_vector(b_type, fmt::format("b + {}", v * lanes)));
  }
  for (int r = 0; r < rows; ++r) {
    accs += "vf32";
    fma +=
        fmt::format("{{ const vf32 x = t_splat(a[{}]);", p.columns_of_a ? fmt::format("k * lda + {}", r) : fmt::format("{} * lda + k", r));
    for (int v = 0; v < vecs; ++v) {
      const std::string acc = fmt::format("c{}_{}", r, v);
      accs += fmt::format("{} {} = {{0}}", v ? "," : "", acc);
      const int at = r * p.panel + v * lanes;
      add += fmt::format("{} += t_load(tile + {});{}", acc, at, v + 1 < vecs ? " " : "\n");
      fma += fmt::format(" {} += x * b{};", acc, v);
      store += fmt::format("t_store(tile + {}, {});{}", at, acc, v + 1 < vecs ? " " : "\n");
    }
    accs += ";\n";
    fma += " }\n";
  }
  const std::string rows_text = std::to_string(rows), vecs_text = std::to_string(vecs);
  for (std::string* s : {&accs, &loadb, &fma, &add, &store}) s->pop_back();
  return expand(gemm_c::kMicro, {{"NAME", p.c.name},
                                 {"ROWS", rows_text},
                                 {"VECS", vecs_text},
                                 {"BTYPE", storage_type(b_type)},
                                 {"ACCS", accs},
                                 {"LOADB", loadb},
                                 {"FMA", fma},
                                 {"ADD", add},
                                 {"STORE", store}});
}

// Chooses among the kernels above; only the pairs that this problem can reach exist.
std::string dispatch_text(const Plan& p) {
  const DType b_type = p.c.b_source == GemmB::Strided ? DType::F32 : p.c.b_type;
  std::string cases, kernels;
  for (int r : p.row_counts) {
    for (int v : p.vec_counts) {
      kernels += micro_text(p, r, v);
      cases += fmt::format("case {}: {}_micro_{}x{}(a, lda, b, ldb, depth, tile, accumulate, ahead); break;\n", r * 16 + v, p.c.name, r, v);
    }
  }
  cases.pop_back();
  return kernels + expand(R"(
static void @NAME@_micro(int64_t rows, int64_t vecs, const float* a, int64_t lda, const @BTYPE@* b, int64_t ldb, int64_t depth,
                         float* tile, int accumulate, const char* ahead) {
  switch (rows * 16 + vecs) {
    @CASES@
  }
}
)",
                          {{"NAME", p.c.name}, {"BTYPE", storage_type(b_type)}, {"CASES", cases}});
}

std::string handing_on_text(const Plan& p) {
  const bool ragged = !(p.c.n.is_constant() && p.c.n.value() % p.c.tile.lanes == 0);
  return epilogue_text({.name = p.c.name, .row = "m", .column = "n", .around = "batch", .pitch = p.panel, .ragged = ragged}, p.c.epilogue);
}

std::string copy_a_text(const Plan& p) {
  if (!p.copies_a) return "";
  const std::string at = fmt::format("source + m * ({}) + k * ({})", p.c.a_row_stride, p.c.a_col_stride);
  std::string vector_loop;
  if (p.c.a_col_stride == "1")
    vector_loop = fmt::format("for (; k + T_LANES <= k1; k += T_LANES) t_store(row + k, {});", load_vector(p.c.a_type, at));
  return expand(R"(
// Rows [m0, m1), columns [k0, k1) of A as f32: dst[(m - m0) * @STRIDE@ + k - k0].
static void @NAME@_copy_a(float* restrict dst, int64_t m0, int64_t m1, int64_t k0, int64_t k1, int64_t batch, void* const* bufs,
                          const int64_t* params) {
  const @TYPE@* restrict source = (const @TYPE@*)bufs[@BUFFER@] + (@OFFSET@);
  for (int64_t m = m0; m < m1; ++m) {
    float* restrict row = dst + (m - m0) * @STRIDE@ - k0;
    int64_t k = k0;
    @VECTORLOOP@
#pragma clang loop vectorize(disable) unroll(disable)
    for (; k < k1; ++k) row[k] = @SCALAR@;
  }
}
)",
                {{"NAME", p.c.name},
                 {"STRIDE", std::to_string(p.copy_stride())},
                 {"TYPE", storage_type(p.c.a_type)},
                 {"BUFFER", std::to_string(p.c.a_buffer)},
                 {"OFFSET", p.c.a_batch_offset},
                 {"VECTORLOOP", vector_loop},
                 {"SCALAR", load_scalar(p.c.a_type, at)}});
}

std::string copy_b_text(const Plan& p) {
  if (!p.copies_b) return "";
  const std::string at = fmt::format("source + k * ({}) + (n0 + j) * ({})", p.c.b_row_stride, p.c.b_col_stride);
  // Columns of other strides walk blocks of 16 x panel, so that whole lines are used.
  const std::string_view body = p.turns_b()               ? "@NAME@_turn(source + n0 * (@STRIDE@), @STRIDE@, columns, depth, dst);"
                                : p.c.b_col_stride == "1" ? R"(for (int64_t k = 0; k < depth; ++k) {
  float* restrict row = dst + k * @PANEL@;
  const @TYPE@* const ahead = source + (k + 16) * (@ROW_STRIDE@) + n0;
  for (int64_t line = 0; line < @PANEL@; line += 16) __builtin_prefetch(ahead + line, 0, 3);
  int64_t j = 0;
  for (; j + T_LANES <= columns; j += T_LANES) t_store(row + j, @VECTOR@);
  for (; j < @PANEL@; ++j) row[j] = j < columns ? @SCALAR@ : 0.0f;
})"
                                                          : R"(for (int64_t k0 = 0; k0 < depth; k0 += 16) {
  const int64_t k1 = k0 + 16 < depth ? k0 + 16 : depth;
  for (int64_t j = 0; j < @PANEL@; ++j) {
    for (int64_t k = k0; k < k1; ++k) dst[k * @PANEL@ + j] = j < columns ? @SCALAR@ : 0.0f;
  }
})";
  const std::string turn = p.turns_b() ? turn_text(p.c.name, p.c.b_type, p.c.tile.lanes, p.panel, "i") : "";
  return turn + expand(R"(
// One panel of B as f32: dst[k * @PANEL@ + j]. The sums past the last column are read by nobody.
static void @NAME@_copy_b(float* restrict dst, int64_t n0, int64_t columns, int64_t depth, int64_t batch, void* const* bufs,
                          const int64_t* params) {
  const @TYPE@* restrict source = (const @TYPE@*)bufs[@BUFFER@] + (@OFFSET@);
  @BODY@
}
)",
                       {{"NAME", p.c.name},
                        {"PANEL", std::to_string(p.panel)},
                        {"TYPE", storage_type(p.c.b_type)},
                        {"BUFFER", std::to_string(p.c.b_buffer)},
                        {"OFFSET", p.c.b_batch_offset},
                        {"BODY", expand(body, {{"NAME", p.c.name},
                                               {"PANEL", std::to_string(p.panel)},
                                               {"TYPE", storage_type(p.c.b_type)},
                                               {"ROW_STRIDE", p.c.b_row_stride},
                                               {"STRIDE", p.c.b_col_stride},
                                               {"VECTOR", load_vector(p.c.b_type, at)},
                                               {"SCALAR", load_scalar(p.c.b_type, at)}})}});
}

// Statements that set `b` and `ldb` for panel columns [n0, n0 + columns).
std::string select_b_text(const Plan& p) {
  const std::string type = storage_type(p.c.b_type);
  const std::string copy = expand(R"(if (*held_panel != batch * panels + panel) {
  @NAME@_copy_b(b_copy, n0, columns, K, batch, bufs, params);
  *held_panel = batch * panels + panel;
}
const float* b = b_copy;
const int64_t ldb = PANEL;)",
                                  {{"NAME", p.c.name}});
  switch (p.c.b_source) {
    case GemmB::Packed:
      return fmt::format("const {0}* b = (const {0}*)bufs[{1}] + ({2}) + panel * K * PANEL;\nconst int64_t ldb = PANEL;", type,
                         p.c.b_buffer, p.c.b_batch_offset);
    case GemmB::InPlace: {
      const std::string direct = fmt::format("(const float*)bufs[{}] + ({}) + n0", p.c.b_buffer, p.c.b_batch_offset);
      if (!p.copies_b) return fmt::format("const float* b = {};\nconst int64_t ldb = {};", direct, p.c.b_row_stride);
      return expand(R"(const float* b = @DIRECT@;
int64_t ldb = @STRIDE@;
if (columns < PANEL) {
  if (*held_panel != batch) @NAME@_copy_b(b_copy, n0, columns, K, batch, bufs, params);
  *held_panel = batch;
  b = b_copy;
  ldb = PANEL;
})",
                    {{"NAME", p.c.name}, {"DIRECT", direct}, {"STRIDE", p.c.b_row_stride}});
    }
    case GemmB::Strided:
      return copy;
  }
  fail<InternalError>("unknown source of B");
}

std::string entry_text(const Plan& p) {
  const GemmConfig& c = p.c;
  std::string scratch;
  if (p.uses_scratch()) {
    scratch = expand(
        R"(const int64_t a_floats = @A@, b_floats = @B@, partial_floats = @P@, row_floats = @R@;
float* const state = (float*)bufs[@BUFFER@] + thread * (@HEAD@ + a_floats + b_floats + partial_floats + row_floats);
float* const scratch = state + @HEAD@;
// What the copies hold, kept for the later calls of a launch.
int64_t *const held_rows = (int64_t*)state + 1, *const held_panel = (int64_t*)state + 2;
if (*(int64_t*)state) *(int64_t*)state = 0, *held_rows = *held_panel = -1;
)",
        {{"A", !p.copies_a ? "0" : fmt::format("{}BLOCK_M * {}", p.group == 1 ? "(K + BLOCK_K - 1) / BLOCK_K * " : "", p.copy_stride())},
         {"B", p.copies_b ? "(K * PANEL + 15) / 16 * 16" : "0"},
         {"P", p.splits_k ? "GROUP * BLOCK_M * PANEL" : "0"},
         {"R", !p.produces_a() ? "0" : fmt::format("BLOCK_M * ((K + 15) / 16 * 16 + 16) + ({} + 63) / 64 * 16", c.rows_of_a.scratch_text)},
         {"HEAD", std::to_string(Plan::kHead)},
         {"BUFFER", std::to_string(c.scratch_buffer)}});
    if (p.copies_a) scratch += "float* a_copy = scratch;\n";
    if (p.copies_b) scratch += "float* b_copy = scratch + a_floats;\n";
    if (p.splits_k) scratch += "float* partial = scratch + a_floats + b_floats;\n";
    if (p.produces_a())
      // Rows that are a multiple of 4 KiB apart would share cache sets.
      scratch +=
          "const int64_t row_stride = (K + 15) / 16 * 16 + 16;\nfloat* a_rows = scratch + a_floats + b_floats + partial_floats;\n"
          "char* row_scratch = (char*)(a_rows + BLOCK_M * row_stride);\n";
  }
  if (!p.splits_k) scratch += "float small_tile[ROWS * PANEL] __attribute__((aligned(64)));\n";
  scratch.pop_back();
  // The copied operand stays while the other one advances; computed rows are dearest.
  std::string decode = c.b_source == GemmB::Strided && !p.produces_a()
                           ? "const int64_t block = task % blocks, first_panel = task / blocks % panels, batch = task / blocks / panels;"
                           : "const int64_t first_panel = task % panels, block = task / panels % blocks, batch = task / panels / blocks;";
  // A copy is made tile by tile just before its first use, when the rows have to come into the cache anyway. A group keeps
  // one block of K, a lone panel all of K for the panels that follow.
  std::string select_a = !p.copies_a ? fmt::format("const int64_t lda = {0};\nconst float* const rows_a = (const float*)bufs[{1}] + ({2});",
                                                   p.columns_of_a ? c.a_col_stride : c.a_row_stride, c.a_buffer, c.a_batch_offset)
                                     : fmt::format("const int64_t lda = {};", p.copy_stride());
  if (p.copies_a && p.group == 1)
    select_a += "\nconst int copy_a = *held_rows != batch * blocks + block;\n*held_rows = batch * blocks + block;";
  if (p.produces_a()) {
    select_a = expand(R"(const int64_t lda = row_stride;
if (*held_rows != batch * blocks + block) {
  for (int64_t m = m_begin; m < m_end; ++m) @NAME@_row(a_rows + (m - m_begin) * lda, m, batch, row_scratch, bufs, params);
  *held_rows = batch * blocks + block;
})",
                      {{"NAME", c.name}});
  }
  const std::string tile_a = p.produces_a()   ? "const float* a = a_rows + (m - m_begin) * lda + k0;"
                             : p.columns_of_a ? "const float* a = rows_a + m + k0 * lda;"
                             : !p.copies_a    ? "const float* a = rows_a + m * lda + k0;"
                                              : expand(R"(float* a = a_copy + (@BLOCK@m - m_begin) * lda;
if (@WHEN@) @NAME@_copy_a(a, m, m + rows, k0, k0 + depth, batch, bufs, params);)",
                                                       {{"NAME", c.name},
                                                        {"BLOCK", p.group == 1 ? "k0 / BLOCK_K * BLOCK_M + " : ""},
                                                        {"WHEN", p.group == 1 ? "copy_a" : "panel == first_panel"}});
  // The last group of a call is not a sliver: what is left is dealt out evenly.
  if (p.group > 1)
    decode += R"(
const int64_t same_rows = end - task < panels - first_panel ? end - task : panels - first_panel;
const int64_t groups = (same_rows + GROUP - 1) / GROUP;)";
  const std::string ahead = p.group == 1 ? "b + (k0 + depth) * ldb"
                                         : "panel + 1 < first_panel + count ? b + (K + k0) * PANEL"
                                           " : b - (panel - first_panel) * K * PANEL + (k0 + depth) * PANEL";
  const std::string partial =
      p.group == 1 ? "partial + (m - m_begin) * PANEL" : "partial + ((panel - first_panel) * BLOCK_M + m - m_begin) * PANEL";
  const std::string height =
      c.m.is_constant() ? "const int64_t tiles = (left + ROWS - 1) / ROWS;\nrows = (left + tiles - 1) / tiles;"
                        : fmt::format("rows = left >= ROWS ? ROWS : {}left >= 2 ? 2 : 1;", c.tile.rows > 4 ? "left >= 4 ? 4 : " : "");
  return expand(gemm_c::kEntry, {{"NAME", c.name},
                                 {"M", c.m.text()},
                                 {"N", c.n.text()},
                                 {"K", c.k.text()},
                                 {"BATCH", c.batch.text()},
                                 {"PANEL", std::to_string(p.panel)},
                                 {"BLOCKM", std::to_string(c.tile.block_m)},
                                 {"BLOCKK", std::to_string(c.tile.block_k)},
                                 {"ROWS", std::to_string(c.tile.rows)},
                                 {"GROUP", std::to_string(p.group)},
                                 {"MORE", c.k.is_constant() ? "k0 < K" : "k0 < K || k0 == 0"},  // a product over nothing is 0
                                 {"COUNT", p.group == 1 ? "1" : "(same_rows + groups - 1) / groups"},
                                 {"AHEAD", ahead},
                                 {"VECS", c.n.is_constant() ? "(columns + T_LANES - 1) / T_LANES" : std::to_string(c.tile.vecs)},
                                 {"SCRATCH", scratch},
                                 {"DECODE", decode},
                                 {"SELECTA", select_a},
                                 {"TILEA", tile_a},
                                 {"SELECTB", select_b_text(p)},
                                 {"HEIGHT", height},
                                 {"TILE", p.splits_k ? partial : "small_tile"}});
}

}  // namespace

namespace {

// Tiles that keep two FMA ports busy: enough independent sums, and loads (rows broadcasts + vecs) well below the FMAs. The first two are
// those that the rule takes.
std::vector<std::pair<int, int>> register_tiles(int lanes) {
  if (lanes >= 16) return {{8, 3}, {6, 4}, {12, 2}, {9, 3}, {14, 2}, {5, 5}, {4, 6}};  // 32 registers
  return {{6, 2}, {4, 3}, {5, 2}, {3, 3}, {12, 1}, {2, 4}};                            // 16 registers
}

// Cycles of one step of k over the whole product: FMAs on two ports, loads on two, latency 4 with few sums.
double step_cycles(int64_t m, int64_t n, int lanes, int rows, int vecs) {
  const auto cost_of = [&](int64_t r, int64_t v) { return std::max({r * v / 2.0, (r + v) / 2.0, 4.0}); };
  const int64_t all_vecs = ceil_div(n, lanes), tiles = ceil_div(m, rows), low = m / tiles;
  const auto column_cost = [&](int64_t v) { return (m % tiles) * cost_of(low + 1, v) + (tiles - m % tiles) * cost_of(low, v); };
  return all_vecs / vecs * column_cost(vecs) + (all_vecs % vecs ? column_cost(all_vecs % vecs) : 0.0);
}

// Fills what the register tile leaves open.
GemmTile with_blocks(GemmTile t, int64_t m, int64_t k, bool packed) {
  t.rows = static_cast<int>(std::min<int64_t>(t.rows, std::max<int64_t>(m, 1)));
  // Measured at M = 128: up to short_k one pass over K wins; above it blocks whose panel of packed B stays in the first-level cache are 2
  // to 5 % faster than blocks twice as deep, and where B is read in place or copied those are (M of 16 to 128, 1 to 4 %). From kLongK on A
  // no longer fits the second-level cache whole, and blocks of it are used for a group of panels, whose partial sums stay there instead.
  constexpr int64_t kLongK = 1024, kCacheFloats = 160 * 1024, kMaxRows = 128, kMinRows = 64;
  const int64_t short_k = packed ? 384 : 640, most_k = packed ? 128 : 256;
  constexpr int kGroup = 12;
  const int64_t depth = std::max<int64_t>(k, 1), height = std::max<int64_t>(m, 1);
  t.block_k = depth <= short_k ? depth : ceil_div(ceil_div(depth, ceil_div(depth, most_k)), 16) * 16;
  t.group = depth >= kLongK && height >= kMinRows / 2 ? kGroup : 1;
  const int64_t fit = t.group > 1 ? kMaxRows : std::clamp(kCacheFloats / depth, kMinRows, kMaxRows);
  t.block_m = ceil_div(height, ceil_div(height, fit));
  t.copy_a = depth % 1024 == 0;  // rows 4 KiB apart fall into the same cache sets
  settle_gemm_tile(t);
  return t;
}

GemmTile register_tile(int lanes, std::pair<int, int> size) {
  GemmTile t;
  t.lanes = lanes, t.rows = size.first, t.vecs = size.second;
  return t;
}

}  // namespace

void settle_gemm_tile(GemmTile& t) { t.block_m = ceil_div(t.block_m, t.rows) * t.rows; }

GemmTile choose_gemm_tile(int64_t m, int64_t n, int64_t k, int lanes, bool packed) {
  const auto sizes = register_tiles(lanes);
  const auto cycles = [&](size_t i) { return step_cycles(std::max<int64_t>(m, 1), n, lanes, sizes[i].first, sizes[i].second); };
  GemmTile tile = register_tile(lanes, sizes[cycles(1) < cycles(0) * 0.98 ? 1 : 0]);
  // What few rows take is the reading of B, which lies in rows of its own where it is not packed: 4 % (N = 768) to 18 % (4096) faster so.
  constexpr int64_t kFewRows = 4;
  if (!packed && m <= kFewRows && lanes >= 16) tile.vecs = 4;
  return with_blocks(tile, m, k, packed);
}

std::vector<GemmTile> other_gemm_tiles(int64_t m, int64_t n, int64_t k, int lanes, bool packed) {
  const GemmTile rule = choose_gemm_tile(m, n, k, lanes, packed);
  std::vector<GemmTile> out;
  auto sizes = register_tiles(lanes);
  std::stable_sort(sizes.begin(), sizes.end(), [&, rows = std::max<int64_t>(m, 1)](auto& x, auto& y) {
    return step_cycles(rows, n, lanes, x.first, x.second) < step_cycles(rows, n, lanes, y.first, y.second);
  });
  // Each number by itself, the register tile first; then what goes with other blocks of K.
  constexpr size_t kMostSizes = 5;
  sizes.resize(std::min(sizes.size(), kMostSizes));
  for (auto& size : sizes) out.push_back(with_blocks(register_tile(lanes, size), m, k, packed));
  const auto add = [&](auto&& change) {
    GemmTile t = rule;
    change(t);
    settle_gemm_tile(t);
    out.push_back(t);
  };
  constexpr int64_t kMostFloats = 64 * 1024;  // of a block of a panel of B: part of the second-level cache
  std::vector<int64_t> blocks;
  for (int64_t block : {rule.block_k * 2, rule.block_k / 2, rule.block_k * 4, k})
    if (block >= 32 && block <= k && block * rule.vecs * lanes <= kMostFloats) blocks.push_back(block);
  for (int64_t block : blocks) add([&](GemmTile& t) { t.block_k = block; });
  if (m > rule.block_m) add([](GemmTile& t) { t.block_m *= 2; });
  if (rule.block_m >= 2 * rule.rows) add([](GemmTile& t) { t.block_m /= 2; });
  if (rule.group == 1) add([](GemmTile& t) { t.copy_a = !t.copy_a; });
  if (packed && k > rule.block_k)
    for (int group : {1, 4, 12, 24}) add([&](GemmTile& t) { t.group = group; });
  for (int64_t block : blocks)
    if (packed && block < k) add([&](GemmTile& t) { t.block_k = block, t.group = rule.group == 1 ? 6 : 1; });
  return out;
}

std::string gemm_tile_refusal(const GemmTile& t) {
  const int registers = t.lanes >= 16 ? 32 : 16;
  if (t.rows * t.vecs + t.vecs + 1 > registers || t.vecs > 8) return fmt::format("rows x vecs do not fit {} registers", registers);
  if (t.block_m % t.rows != 0) return "block_m is no multiple of rows";
  constexpr int64_t kMostPartial = 2 << 20, kMostBlock = 1 << 16;
  if (t.block_m > kMostBlock || t.group > 64 || t.block_m * t.group * t.vecs * t.lanes * 4 > kMostPartial)
    return "the sums of a task do not fit the second-level cache";
  return "";
}

std::string gemm_text(const GemmConfig& config) {
  const Plan p(config);
  TOROID_CHECK(config.b_source != GemmB::InPlace || (config.b_type == DType::F32 && config.b_col_stride == "1"),
               "B can be read in place only when it is f32 with contiguous columns");
  return template_head(config.tile.lanes) + dispatch_text(p) + row_function_text(config.name, config.rows_of_a) + copy_a_text(p) +
         copy_b_text(p) + handing_on_text(p) + entry_text(p);
}

int64_t gemm_task_count(const GemmConfig& c, const int64_t* params) {
  return c.batch.value(params) * ceil_div(c.m.value(params), c.tile.block_m) *
         ceil_div(c.n.value(params), static_cast<int64_t>(c.tile.vecs) * c.tile.lanes);
}

Expr gemm_scratch_bytes(const GemmConfig& config, const Expr& k) {
  const Plan p(config);
  if (!p.uses_scratch()) return 0;
  return (p.a_floats(k) + p.b_floats(k) + p.row_floats(k) + (Plan::kHead + p.partial_floats())) * 4;
}

}  // namespace toroid::codegen
