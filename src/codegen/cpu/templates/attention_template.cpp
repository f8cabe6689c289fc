#include "codegen/cpu/templates/attention_template.h"

#include <algorithm>

#include "base/check.h"
#include "codegen/cpu/templates/attention.c.h"
#include "codegen/cpu/templates/attention_parts.h"

namespace toroid::codegen {
namespace {

// The queries of all heads that share a key head are one list of rows; a task takes `vecs` vectors of them, one query a
// lane. Scores and outputs are kept transposed ([key][query], [column][query]), so that keys and values are only ever
// broadcast (any strides, no packing) and the softmax runs down the lanes without crossing them.

// Rows of a register tile that suit `vecs` vectors of queries.
int tile_rows(const AttentionConfig& c) {
  static constexpr int kWide[] = {12, 8, 8, 6}, kNarrow[] = {8, 4, 3, 2};
  return (c.lanes >= 16 ? kWide : kNarrow)[c.tile.vecs - 1];
}

std::string product_text(const AttentionConfig& c, int rows) {
  std::string accs, scaled, loads, fma, store;
  for (int r = 0; r < rows; ++r) {
    accs += "vf32";
    fma += fmt::format("{{ const vf32 x = t_splat(a[{} * row_step]);", r);
    for (int v = 0; v < c.tile.vecs; ++v) {
      const std::string at = fmt::format("out + {}", (r * c.tile.vecs + v) * c.lanes);
      const char* end = v + 1 < c.tile.vecs ? " " : "\n";
      accs += fmt::format("{} s{}_{} = {{0}}", v ? "," : "", r, v);
      scaled += fmt::format("s{}_{} += t_load({}) * t_load(scale + {});{}", r, v, at, v * c.lanes, end);
      fma += fmt::format(" s{}_{} += x * b{};", r, v, v);
      store += fmt::format("t_store({}, s{}_{});{}", at, r, v, end);
    }
    accs += ";\n";
    fma += " }\n";
  }
  for (int v = 0; v < c.tile.vecs; ++v) loads += fmt::format("const vf32 b{} = t_load(b + {});\n", v, v * c.lanes);
  for (std::string* s : {&accs, &scaled, &loads, &fma, &store}) s->pop_back();
  return expand(R"(
// out[r][*] = (scale ? out[r][*] * scale[*] : 0) + sum over k of a[r*row_step + k*step] * b[k][*].
T_KERNEL void @NAME@_product_@ROWS@(const float* restrict a, int64_t row_step, int64_t step, const float* restrict b, int64_t depth,
                               float* restrict out, const float* restrict scale) {
  @ACCS@
  for (int64_t k = 0; k < depth; ++k, a += step, b += @QUERIES@) {
    @LOADS@
    @FMA@
  }
  if (scale) {
    @SCALED@
  }
  @STORE@
}
)",
                {{"NAME", c.name},
                 {"ROWS", std::to_string(rows)},
                 {"QUERIES", std::to_string(c.tile.vecs * c.lanes)},
                 {"ACCS", accs},
                 {"SCALED", scaled},
                 {"LOADS", loads},
                 {"FMA", fma},
                 {"STORE", store}});
}

std::string products_text(const AttentionConfig& c) {
  std::string out, calls;
  const int full = tile_rows(c);
  for (int rows : {full, 4, 2, 1}) {
    if (rows > full || (rows == full && !calls.empty())) continue;
    out += product_text(c, rows);
    calls += fmt::format(
        "for (; rows - r >= {1}; r += {1}) {0}_product_{1}(a + r * row_step, row_step, step, b, depth, out + r * {2}, scale);\n", c.name,
        rows, c.tile.vecs * c.lanes);
  }
  calls.pop_back();
  return out + expand(R"(
static void @NAME@_product(int64_t rows, const float* a, int64_t row_step, int64_t step, const float* b, int64_t depth, float* out,
                           const float* scale) {
  int64_t r = 0;
  @CALLS@
}
)",
                      {{"NAME", c.name}, {"CALLS", calls}});
}

// Statements that make `name` (pointer), `name_row`, `name_column` (steps) for keys [n0, n0 + count) of K or V.
std::string block_text(const AttentionOperand& o, const std::string& name, int64_t columns) {
  const std::string type = storage_type(o.type);
  const std::string source = fmt::format("{} + n0 * ({})", address(o, type, "kv_head"), o.row_stride);
  if (o.type == DType::F32) {
    return fmt::format("const float* const {0} = {1};\nconst int64_t {0}_row = {2}, {0}_column = {3};", name, source, o.row_stride,
                       o.column_stride);
  }
  const std::string at = fmt::format("source + i * ({}) + d * ({})", o.row_stride, o.column_stride);
  const bool vector = o.column_stride == "1";
  return expand(R"(float* const @N@ = @N@_copy;
const int64_t @N@_row = @COLUMNS@, @N@_column = 1;
{
  const @TYPE@* const source = @SOURCE@;
  for (int64_t i = 0; i < count; ++i) {
    int64_t d = 0;
    @VECTOR@
    for (; d < @COLUMNS@; ++d) @N@[i * @COLUMNS@ + d] = @SCALAR@;
  }
})",
                {{"N", name},
                 {"COLUMNS", std::to_string(columns)},
                 {"TYPE", type},
                 {"SOURCE", source},
                 {"VECTOR", vector ? fmt::format("for (; d + T_LANES <= {0}; d += T_LANES) t_store({1} + i * {0} + d, {2});", columns, name,
                                                 load_vector(o.type, at))
                                   : ""},
                 {"SCALAR", load_scalar(o.type, at)}});
}

}  // namespace

std::string address(const AttentionOperand& o, const std::string& type, const std::string& head) {
  return fmt::format("(const {}*)bufs[{}] + ({}) + batch * ({}) + {} * ({})", type, o.buffer, o.offset, o.batch_stride, head,
                     o.head_stride);
}

std::string mask_text(const AttentionConfig& c, const std::string& score) {
  if (c.mask_kind == AttentionMask::None) return "";
  const bool additive = c.mask_kind == AttentionMask::Additive;
  const std::string type = additive ? storage_type(c.mask.type) : "unsigned char";
  const std::string at = fmt::format("row + (n0 + i) * ({})", c.mask.column_stride);
  return expand(R"(// The mask is read once per lane: its strides are arbitrary.
for (int64_t j = 0; j < lanes_used; ++j) {
  const @TYPE@* row = @ROW@ + query[j] * (@ROW_STRIDE@);
  for (int64_t i = 0; i < count; ++i) @APPLY@
})",
                {{"TYPE", type},
                 {"ROW", address(c.mask, type, "head[j]")},
                 {"ROW_STRIDE", c.mask.row_stride},
                 {"APPLY", additive ? fmt::format("{} += {};", score, load_scalar(c.mask.type, at))
                                    : fmt::format("if (!*({})) {} = -__builtin_inff();", at, score)}});
}

int choose_attention_vecs(int64_t queries, int lanes) {
  // Full tiles are best at three vectors; shorter lists of queries take what covers them.
  const int64_t vecs = ceil_div(std::max<int64_t>(queries, 1), lanes);
  if (vecs <= 4) return static_cast<int>(vecs);
  return vecs % 3 == 0 || vecs % 4 != 0 ? 3 : 4;
}

std::string attention_tile_refusal(const AttentionTile& t, int lanes, bool few) {
  constexpr int64_t kMostKeys = 1024;
  if (t.vecs < 1 || t.vecs > 4) return "vecs is not from 1 to 4";
  if (t.block_keys < 1 || t.block_keys > kMostKeys) return fmt::format("block_keys is not from 1 to {}", kMostKeys);
  return few && t.block_keys % lanes != 0 ? fmt::format("block_keys is no multiple of {}", lanes) : "";
}

std::string attention_text(const AttentionConfig& c) {
  const std::string why = attention_tile_refusal(c.tile, c.lanes, c.few);
  TOROID_CHECK(c.depth > 0 && c.value_depth > 0 && why.empty() && (!c.few || has_few_queries(c)), "attention: {}", why);
  if (c.few) return few_queries_text(c);
  const auto n = [](int64_t x) { return std::to_string(x); };
  const int64_t queries = static_cast<int64_t>(c.tile.vecs) * c.lanes;
  const std::string tail = c.value_depth % c.lanes == 0 ? ""
                                                        : expand(R"(for (; d < @DV@; ++d) {
  const float acc = row[d];
  @SCALAR@
})",
                                                                 {{"DV", n(c.value_depth)}, {"SCALAR", c.epilogue.scalar.all()}});
  const std::string q_type = storage_type(c.q.type);
  return template_head(c.lanes) + products_text(c) + expand(attention_c::kSoftmax, {{"NAME", c.name}, {"QUERIES", n(queries)}}) +
         expand(attention_c::kEntry, {{"NAME", c.name},
                                      {"DECLARATIONS", c.epilogue.declarations},
                                      {"VECTOR", c.epilogue.vector.all()},
                                      {"TAIL", tail},
                                      {"HEADS", c.heads.text()},
                                      {"KV_HEADS", c.kv_heads.text()},
                                      {"M", c.queries.text()},
                                      {"N", c.keys.text()},
                                      {"D", n(c.depth)},
                                      {"DV", n(c.value_depth)},
                                      {"QUERIES", n(queries)},
                                      {"KEYS", n(c.tile.block_keys)},
                                      {"SCRATCH", n(c.scratch_buffer)},
                                      {"FLOATS", n(attention_scratch_bytes(c) / 4)},
                                      {"QTYPE", q_type},
                                      {"QROW", address(c.q, q_type, "head[j]")},
                                      {"Q_STRIDE", c.q.row_stride},
                                      {"QVALUE", load_scalar(c.q.type, fmt::format("q + d * ({})", c.q.column_stride))},
                                      {"SCALE", c.scale},
                                      {"VISIBLE", c.causal ? "last_query + N - M + 1 < N ? last_query + N - M + 1 : N" : "N"},
                                      {"K_BLOCK", block_text(c.k, "k", c.depth)},
                                      {"V_BLOCK", block_text(c.v, "v", c.value_depth)},
                                      {"MASK", mask_text(c, "scores[i * QUERIES + j]")},
                                      {"CAUSAL", c.causal ? std::string(attention_c::kCausal) : ""}});
}

int64_t attention_task_count(const AttentionConfig& c, const int64_t* params) {
  const int64_t kv = c.kv_heads.value(params), rows = c.heads.value(params) / kv * c.queries.value(params);
  return c.batch.value(params) * kv * ceil_div(rows, static_cast<int64_t>(c.tile.vecs) * c.lanes);
}

int64_t attention_scratch_bytes(const AttentionConfig& c) {
  const int64_t queries = static_cast<int64_t>(c.tile.vecs) * c.lanes;
  int64_t floats = (c.depth + 2 * c.value_depth + c.tile.block_keys) * queries;
  floats += c.tile.block_keys * (c.depth + c.value_depth);  // copies of half keys and values
  return ceil_div(floats, 16) * 64;
}

}  // namespace toroid::codegen
