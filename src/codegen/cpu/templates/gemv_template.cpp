#include "codegen/cpu/templates/gemv_template.h"

#include "base/check.h"
#include "codegen/cpu/templates/gemv.c.h"

namespace toroid::codegen {
namespace {

// sums[m][r] = dot product of row m of A and row r of b, for `rows` weight rows.
std::string dots_text(const GemvConfig& c, int rows) {
  std::string accs, loads, fma, sum, tail;
  for (int m = 0; m < c.m; ++m) {
    fma += fmt::format("{{ const vf32 x = t_load(a + {} * lda + k);", m);
    for (int r = 0; r < rows; ++r) {
      accs += fmt::format("{}s{}_{} = {{0}}", accs.empty() ? "vf32 " : ", ", m, r);
      fma += fmt::format(" s{}_{} += x * b{};", m, r, r);
      sum += fmt::format("float d{0}_{1} = t_sum(s{0}_{1});\n", m, r);
      tail += fmt::format("d{0}_{1} += a[{0} * lda + k] * {2};\n", m, r, load_scalar(c.b_type, fmt::format("b + {} * ldb + k", r)));
    }
    fma += " }\n";
  }
  std::string store;
  for (int m = 0; m < c.m; ++m) {
    for (int r = 0; r < rows; ++r) store += fmt::format("sums[{} * T_LANES + {}] = d{}_{};\n", m, r, m, r);
  }
  for (int r = 0; r < rows; ++r) {
    loads += fmt::format("__builtin_prefetch(b + {0} * ldb + k + {1}, 0, 3);\nconst vf32 b{0} = {2};\n", r, 2048 / size_of(c.b_type),
                         load_vector(c.b_type, fmt::format("b + {} * ldb + k", r)));
  }
  for (std::string* s : {&loads, &fma, &sum, &tail, &store}) s->pop_back();
  return expand(R"(
static void @NAME@_dots_@ROWS@(const float* restrict a, int64_t lda, const @TYPE@* restrict b, int64_t ldb, int64_t depth,
                            float* restrict sums) {
  @ACCS@;
  int64_t k = 0;
  for (; k + T_LANES <= depth; k += T_LANES) {
    @LOADS@
    @FMA@
  }
  @SUM@
#pragma clang loop vectorize(disable) unroll(disable)
  for (; k < depth; ++k) {
    @TAIL@
  }
  @STORE@
}
)",
                {{"NAME", c.name},
                 {"ROWS", std::to_string(rows)},
                 {"TYPE", storage_type(c.b_type)},
                 {"ACCS", accs},
                 {"LOADS", loads},
                 {"FMA", fma},
                 {"SUM", sum},
                 {"TAIL", tail},
                 {"STORE", store}});
}

// Statements that set `a` and `lda`.
std::string rows_of_a_text(const GemvConfig& c) {
  if (c.rows_of_a.empty())
    return fmt::format("const int64_t lda = {};\nconst float* const a = (const float*)bufs[{}] + ({});", c.a_row_stride, c.a_buffer,
                       c.a_offset);
  return expand(
      R"(const int64_t lda = (K + 15) / 16 * 16;
float* const state = (float*)bufs[@BUFFER@] + thread * (16 + @M@ * lda + (@SCRATCH@ + 63) / 64 * 16);
float* const a = state + 16;
if (*(int64_t*)state) {
  *(int64_t*)state = 0;
  for (int64_t m = 0; m < @M@; ++m) @NAME@_row(a + m * lda, m, batch, (char*)(a + @M@ * lda), bufs, params);
})",
      {{"NAME", c.name}, {"M", std::to_string(c.m)}, {"BUFFER", std::to_string(c.scratch_buffer)}, {"SCRATCH", c.rows_of_a.scratch_text}});
}

}  // namespace

std::string gemv_tile_refusal(const GemvTile& t, int64_t m, int lanes) {
  constexpr int64_t kMostColumns = 1 << 16;
  if (t.task_columns % lanes != 0 || t.task_columns > kMostColumns) return fmt::format("task_columns is no multiple of {}", lanes);
  if (t.streams < 2 || t.streams > lanes) return fmt::format("streams is not from 2 to {}", lanes);
  constexpr int64_t kRegisters = 32;
  return (m + 1) * t.streams + 1 > kRegisters ? "the sums do not fit the registers" : "";
}

std::string gemv_text(const GemvConfig& c) {
  const std::string why = gemv_tile_refusal(c.tile, c.m, c.lanes);
  TOROID_CHECK(c.m >= 1 && c.m <= 4 && why.empty(), "GEMV of {} rows, {} columns a task: {}", c.m, c.tile.task_columns, why);
  const auto n = [](int64_t x) { return std::to_string(x); };
  return template_head(c.lanes) + dots_text(c, c.tile.streams) + dots_text(c, 1) + row_function_text(c.name, c.rows_of_a) +
         expand(gemv_c::kEntry, {{"NAME", c.name},
                                 {"M", n(c.m)},
                                 {"N", c.n.text()},
                                 {"K", c.k.text()},
                                 {"TASK", n(c.tile.task_columns)},
                                 {"LDB", c.b_row_stride},
                                 {"ROWSOFA", rows_of_a_text(c)},
                                 {"BOFFSET", c.b_offset},
                                 {"B", n(c.b_buffer)},
                                 {"TYPE", storage_type(c.b_type)},
                                 {"ROWS", n(c.tile.streams)},
                                 {"DECLARATIONS", c.epilogue.declarations},
                                 {"VECTOR", c.epilogue.vector.all()},
                                 {"SCALAR", c.epilogue.scalar.all()}});
}

Expr gemv_scratch_bytes(const GemvConfig& c, const Expr& k) {
  if (c.rows_of_a.empty()) return 0;
  return sym::ceil_div(k, 16) * (64 * c.m) + sym::ceil_div(c.rows_of_a.scratch_bytes, 64) * 64 + 64;
}

int64_t gemv_task_count(const GemvConfig& c, const int64_t* params) { return ceil_div(c.n.value(params), c.tile.task_columns); }

}  // namespace toroid::codegen
