#include "codegen/cpu/templates/gemm_int8.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <vector>

#include "base/check.h"
#include "codegen/cpu/templates/gemm_int8.c.h"
#include "codegen/cpu/templates/gemm_template.h"

namespace toroid::codegen {
namespace {

// Bytes of a copied row: whole vectors, and rows that are a multiple of 4 KiB apart would share cache sets.
int64_t copy_stride(int64_t k) { return ceil_div(k, 64) * 64 + 64; }

constexpr int64_t kHead = 64;  // bytes of a thread's scratch in front of the copied rows

class Text {
 public:
  explicit Text(const Int8Config& config) : c_(config), panel_(config.tile.lanes * config.tile.vecs) {
    const Int8Tile& t = c_.tile;
    TOROID_CHECK(t.lanes > 0 && t.rows > 0 && t.vecs > 0 && t.block_m > 0, "empty tile of an int8 product");
    TOROID_CHECK(c_.a_type == DType::I8 || c_.a_type == DType::U8, "an int8 product of {}", name_of(c_.a_type));
    if (c_.m.is_constant()) {
      if (c_.m.value() >= t.block_m) collect_row_counts(t.block_m, t.rows, row_counts_);
      collect_row_counts(c_.m.value() % t.block_m, t.rows, row_counts_);
    } else {
      for (int r : {1, 2, 4, t.rows}) row_counts_.insert(std::min(r, t.rows));
    }
    if (c_.n >= panel_) vec_counts_.insert(t.vecs);
    if (const int64_t rest = c_.n % panel_) vec_counts_.insert(static_cast<int>(ceil_div(rest, t.lanes)));
  }

  std::string all() const {
    return template_head(c_.tile.lanes) + int8_dot_text(c_.tile.lanes) + kernels() + copy() + epilogue() + entry();
  }

 private:
  std::string micro(int rows, int vecs) const {
    std::string accs, loadb, dot, store;
    for (int v = 0; v < vecs; ++v) {
      const int at = v * c_.tile.lanes;
      loadb += fmt::format("const t_quads b{} = t_quads_of_b(*(const t_vi32*)(b + {}));\n", v, at);
      for (int r = 0; r < rows; ++r) {
        accs += fmt::format("t_vi32 c{}_{} = *(const t_vi32*)(b + {});\n", r, v, at);
        store += fmt::format("*(t_vi32*)(tile + {}) = c{}_{};\n", r * panel_ + at, r, v);
      }
    }
    for (int r = 0; r < rows; ++r) {
      dot += fmt::format("{{ const t_quads x = t_quads_of_a((t_vi32){{0}} + *(const int*)(a + {} * LDA + k));", r);
      for (int v = 0; v < vecs; ++v) dot += fmt::format(" c{0}_{1} = t_dot4(c{0}_{1}, x, b{1});", r, v);
      dot += " }\n";
    }
    for (std::string* s : {&accs, &loadb, &dot, &store}) s->pop_back();
    return expand(gemm_int8_c::kMicro, {{"NAME", c_.name},
                                        {"ROWS", std::to_string(rows)},
                                        {"VECS", std::to_string(vecs)},
                                        {"LDA", std::to_string(copy_stride(c_.k))},
                                        {"PANEL", std::to_string(panel_)},
                                        {"K", std::to_string(c_.k)},
                                        {"ACCS", accs},
                                        {"LOADB", loadb},
                                        {"DOT", dot},
                                        {"STORE", store}});
  }

  // The kernels that this problem can reach, and what chooses among them.
  std::string kernels() const {
    std::string cases, text;
    for (int r : row_counts_) {
      for (int v : vec_counts_) {
        text += micro(r, v);
        cases += fmt::format("case {}: {}_micro_{}x{}(a, b, tile); break;\n", r * 16 + v, c_.name, r, v);
      }
    }
    cases.pop_back();
    return text + expand(R"(
static void @NAME@_micro(int64_t rows, int64_t vecs, const unsigned char* a, const int* b, int* tile) {
  switch (rows * 16 + vecs) {
    @CASES@
  }
}
)",
                         {{"NAME", c_.name}, {"CASES", cases}});
  }

  std::string copy() const {
    const std::string at = fmt::format("source + m * ({}) + k * ({})", c_.a_row_stride, c_.a_col_stride);
    const std::string flip = c_.a_type == DType::I8 ? " ^ 0x80" : "";
    const bool contiguous = c_.a_col_stride == "1";
    std::string vectors;
    if (contiguous) vectors = fmt::format("for (; k + 64 <= k1; k += 64) *(t_vu8*)(row + k) = *(const t_vu8*)({}){};", at, flip);
    // Columns that are apart in memory are read some at a time, so that the next rows find their lines in the cache.
    return expand(R"(
// Rows [m0, m1) of A as numbers without sign: dst[(m - m0) * @STRIDE@ + k], zeros up to whole fours.
static void @NAME@_copy_a(unsigned char* restrict dst, int64_t m0, int64_t m1, int64_t batch, void* const* bufs, const int64_t* params) {
  enum { K = @K@, STEP = @STEP@ };
  const unsigned char* restrict source = (const unsigned char*)bufs[@BUFFER@] + (@OFFSET@);
  for (int64_t k0 = 0; k0 < K; k0 += STEP) {
    const int64_t k1 = k0 + STEP < K ? k0 + STEP : K;
    for (int64_t m = m0; m < m1; ++m) {
      unsigned char* restrict row = dst + (m - m0) * @STRIDE@;
      int64_t k = k0;
      @VECTORS@
      for (; k < k1; ++k) row[k] = *(@AT@)@FLIP@;
      for (; k % 4 != 0; ++k) row[k] = 0;
    }
  }
}
)",
                  {{"NAME", c_.name},
                   {"STRIDE", std::to_string(copy_stride(c_.k))},
                   {"BUFFER", std::to_string(c_.a_buffer)},
                   {"OFFSET", c_.a_batch_offset},
                   {"VECTORS", vectors},
                   {"K", std::to_string(c_.k)},
                   {"STEP", contiguous ? std::to_string(c_.k) : "64"},
                   {"AT", at},
                   {"FLIP", flip}});
  }

  std::string epilogue() const {
    return epilogue_text({.name = c_.name,
                          .row = "m",
                          .column = "n",
                          .around = "batch",
                          .integers = true,
                          .pitch = panel_,
                          .ragged = c_.n % c_.tile.lanes != 0},
                         c_.epilogue);
  }

  std::string entry() const {
    const int rows = c_.tile.rows;
    const std::string height = c_.m.is_constant() ? "const int64_t tiles = (left + ROWS - 1) / ROWS;\nrows = (left + tiles - 1) / tiles;"
                                                  : fmt::format("rows = left >= ROWS ? ROWS : {}{}1;", rows > 4 ? "left >= 4 ? 4 : " : "",
                                                                rows > 2 ? "left >= 2 ? 2 : " : "");
    return expand(R"(
// C[@M@, @N@] = A x B over K = @K@, batch @BATCH@. A task is @BLOCKM@ rows of one panel of @PANEL@ columns.
void @NAME@(void* const* bufs, const int64_t* params, int64_t begin, int64_t end, int thread) {
  enum { PANEL = @PANEL@, BLOCK_M = @BLOCKM@, ROWS = @ROWS@, LDA = @LDA@ };
  const int64_t M = @M@, N = @N@;
  const int64_t blocks = (M + BLOCK_M - 1) / BLOCK_M, panels = (N + PANEL - 1) / PANEL;
  char* const state = (char*)bufs[@BUFFER@] + thread * (int64_t)@SCRATCH@;
  unsigned char* const a_copy = (unsigned char*)state + @HEAD@;
  // Which rows the copy holds, kept for the later calls of a launch.
  int64_t* const held_rows = (int64_t*)state + 1;
  if (*(int64_t*)state) *(int64_t*)state = 0, *held_rows = -1;
  int tile[ROWS * PANEL] __attribute__((aligned(64)));
  for (int64_t task = begin; task < end; ++task) {
    const int64_t panel = task % panels, block = task / panels % blocks, batch = task / panels / blocks;
    const int64_t m_begin = block * BLOCK_M, m_end = m_begin + BLOCK_M < M ? m_begin + BLOCK_M : M;
    const int64_t n0 = panel * PANEL, columns = N - n0 < PANEL ? N - n0 : PANEL;
    if (*held_rows != batch * blocks + block) @NAME@_copy_a(a_copy, m_begin, m_end, batch, bufs, params);
    *held_rows = batch * blocks + block;
    const int* b = (const int*)((const char*)bufs[@B@] + panel * (int64_t)@PANELBYTES@);
    for (int64_t m = m_begin, rows; m < m_end; m += rows) {
      const int64_t left = m_end - m;
      @HEIGHT@
      @NAME@_micro(rows, (columns + T_LANES - 1) / T_LANES, a_copy + (m - m_begin) * LDA, b, tile);
      @NAME@_epilogue(tile, m, rows, n0, columns, batch, bufs, params);
    }
  }
}
)",
                  {{"NAME", c_.name},
                   {"M", c_.m.text()},
                   {"N", std::to_string(c_.n)},
                   {"K", std::to_string(c_.k)},
                   {"BATCH", c_.batch.text()},
                   {"PANEL", std::to_string(panel_)},
                   {"BLOCKM", std::to_string(c_.tile.block_m)},
                   {"ROWS", std::to_string(rows)},
                   {"LDA", std::to_string(copy_stride(c_.k))},
                   {"BUFFER", std::to_string(c_.scratch_buffer)},
                   {"SCRATCH", std::to_string(int8_scratch_bytes(c_))},
                   {"HEAD", std::to_string(kHead)},
                   {"B", std::to_string(c_.b_buffer)},
                   {"PANELBYTES", std::to_string(packed_int8_bytes(c_.k, panel_, panel_))},
                   {"HEIGHT", height}});
  }

  const Int8Config& c_;
  int panel_;
  std::set<int> row_counts_, vec_counts_;
};

// Enough independent sums for two ports, and loads well below the products. The first is what the rule takes.
std::vector<std::pair<int, int>> register_tiles(int lanes) {
  if (lanes >= 16) return {{8, 3}, {6, 4}, {12, 2}, {5, 5}, {4, 4}};
  return {{4, 2}, {6, 1}, {3, 2}, {2, 3}};
}

Int8Tile with_block(int lanes, std::pair<int, int> size, int64_t m, int64_t k) {
  // The copied rows stay in the second-level cache beside a panel of B.
  constexpr int64_t kCacheBytes = 384 * 1024, kMaxRows = 128, kMinRows = 32;
  const int64_t height = std::max<int64_t>(m, 1), fit = std::clamp(kCacheBytes / std::max<int64_t>(k, 1), kMinRows, kMaxRows);
  Int8Tile t;
  t.lanes = lanes, t.rows = size.first, t.vecs = size.second;
  t.rows = static_cast<int>(std::min<int64_t>(t.rows, height));
  t.block_m = ceil_div(height, ceil_div(height, fit));
  settle_int8_tile(t);
  return t;
}

}  // namespace

void settle_int8_tile(Int8Tile& t) { t.block_m = ceil_div(t.block_m, t.rows) * t.rows; }

Int8Tile choose_int8_tile(int64_t m, int64_t, int64_t k, int lanes) { return with_block(lanes, register_tiles(lanes)[0], m, k); }

std::vector<Int8Tile> other_int8_tiles(int64_t m, int64_t n, int64_t k, int lanes) {
  std::vector<Int8Tile> out;
  for (auto& size : register_tiles(lanes)) out.push_back(with_block(lanes, size, m, k));
  for (int64_t more : {2, 4}) {
    Int8Tile t = choose_int8_tile(m, n, k, lanes);
    t.block_m /= more;
    if (t.block_m == 0) continue;
    settle_int8_tile(t);
    out.push_back(t);
  }
  return out;
}

std::string int8_tile_refusal(const Int8Tile& t) {
  if (t.rows * t.vecs + t.vecs + 1 > (t.lanes >= 16 ? 32 : 16) || t.vecs > 8) return "rows x vecs do not fit the registers";
  if (t.block_m % t.rows != 0) return "block_m is no multiple of rows";
  constexpr int64_t kMostBlock = 1 << 12;
  return t.block_m > kMostBlock ? "the rows of a task do not fit the second-level cache" : "";
}

std::string int8_dot_text(int lanes) { return expand(gemm_int8_c::kDot, {{"LANES", std::to_string(lanes)}}); }

std::string int8_text(const Int8Config& config) { return Text(config).all(); }

int64_t int8_task_count(const Int8Config& c, const int64_t* params) {
  return c.batch.value(params) * ceil_div(c.m.value(params), c.tile.block_m) * ceil_div(c.n, int64_t{c.tile.vecs} * c.tile.lanes);
}

int64_t int8_scratch_bytes(const Int8Config& c) { return kHead + c.tile.block_m * copy_stride(c.k); }

}  // namespace toroid::codegen
