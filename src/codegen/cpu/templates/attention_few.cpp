#include "base/check.h"
#include "codegen/cpu/templates/attention_few.c.h"
#include "codegen/cpu/templates/attention_parts.h"

namespace toroid::codegen {
namespace {

constexpr int64_t kMaxRows = 4;
constexpr int kKeysAtOnce = 4;  // key rows read side by side: four streams keep the memory busy
constexpr int kChunkVecs = 4;   // vectors of value columns held in registers for each row

int64_t rows_of(const AttentionConfig& c) { return c.heads.value() / c.kv_heads.value() * c.queries.value(); }

// scores[j * KEYS + i] = dot product of query row j and key row i, for `keys` rows of k.
std::string dots_text(const AttentionConfig& c, int keys) {
  std::string accs, loads, fma, store;
  for (int64_t j = 0; j < rows_of(c); ++j) {
    fma += fmt::format("{{ const vf32 x = t_load(q + {} + d);", j * c.depth);
    for (int i = 0; i < keys; ++i) {
      accs += fmt::format("{}s{}_{} = {{0}}", accs.empty() ? "vf32 " : ", ", j, i);
      fma += fmt::format(" s{}_{} += x * k{};", j, i, i);
      store += fmt::format("scores[{} + {}] = t_sum(s{}_{});\n", j * c.tile.block_keys, i, j, i);
    }
    fma += " }\n";
  }
  for (int i = 0; i < keys; ++i) {
    loads += fmt::format("const vf32 k{} = {};\n", i, load_vector(c.k.type, fmt::format("k + {} * stride + d", i)));
  }
  for (std::string* s : {&loads, &fma, &store}) s->pop_back();
  return expand(R"(
static void @NAME@_dots_@KEYS@(const float* restrict q, const @TYPE@* restrict k, int64_t stride, float* restrict scores) {
  @ACCS@;
#pragma clang loop unroll(disable)
  for (int64_t d = 0; d < @D@; d += T_LANES) {
    @LOADS@
    @FMA@
  }
  @STORE@
}
)",
                {{"NAME", c.name},
                 {"KEYS", std::to_string(keys)},
                 {"TYPE", storage_type(c.k.type)},
                 {"D", std::to_string(c.depth)},
                 {"ACCS", accs},
                 {"LOADS", loads},
                 {"FMA", fma},
                 {"STORE", store}});
}

// out[j][columns of a chunk] = out * decay[j] + sum over keys of scores[j][i] * v[i], for `vecs` vectors of columns.
std::string values_text(const AttentionConfig& c, int vecs) {
  std::string accs, loads, fma, store;
  for (int64_t j = 0; j < rows_of(c); ++j) {
    fma += fmt::format("{{ const vf32 p = t_splat(scores[{} + i]);", j * c.tile.block_keys);
    for (int x = 0; x < vecs; ++x) {
      const std::string at = fmt::format("out + {} + {} * T_LANES", j * c.value_depth, x);
      accs += fmt::format("{}o{}_{} = {{0}}", accs.empty() ? "vf32 " : ", ", j, x);
      fma += fmt::format(" o{}_{} += p * v{};", j, x, x);
      store += fmt::format("t_store({2}, o{0}_{1} + t_load({2}) * t_splat(decay[{0}]));\n", j, x, at);
    }
    fma += " }\n";
  }
  for (int x = 0; x < vecs; ++x) {
    loads += fmt::format("const vf32 v{} = {};\n", x, load_vector(c.v.type, fmt::format("v + i * stride + {} * T_LANES", x)));
  }
  for (std::string* s : {&loads, &fma, &store}) s->pop_back();
  return expand(R"(
static void @NAME@_values_@VECS@(const float* restrict scores, const @TYPE@* restrict v, int64_t stride, int64_t count,
                                float* restrict out, const float* restrict decay) {
  @ACCS@;
  for (int64_t i = 0; i < count; ++i) {
    @LOADS@
    @FMA@
  }
  @STORE@
}
)",
                {{"NAME", c.name},
                 {"VECS", std::to_string(vecs)},
                 {"TYPE", storage_type(c.v.type)},
                 {"ACCS", accs},
                 {"LOADS", loads},
                 {"FMA", fma},
                 {"STORE", store}});
}

}  // namespace

bool has_few_queries(const AttentionConfig& c) {
  return c.queries.is_constant() && c.heads.is_constant() && c.kv_heads.is_constant() && c.queries.value() >= 1 &&
         c.kv_heads.value() >= 1 && rows_of(c) <= kMaxRows && c.k.column_stride == "1" && c.v.column_stride == "1" &&
         c.depth % c.lanes == 0 && c.value_depth % c.lanes == 0;
}

std::string few_queries_text(const AttentionConfig& c) {
  const auto n = [](int64_t x) { return std::to_string(x); };
  std::string kernels = dots_text(c, kKeysAtOnce) + dots_text(c, 1), values;
  const int64_t vecs = c.value_depth / c.lanes, rest = vecs % kChunkVecs, whole = vecs - rest;
  const auto call = [&](int64_t width, const std::string& column) {
    return fmt::format("{}_values_{}(scores, v + {}, {}, count, rows + {}, decay);", c.name, width, column, c.v.row_stride, column);
  };
  if (whole > 0) {
    kernels += values_text(c, kChunkVecs);
    values += fmt::format("for (int64_t d = 0; d < {}; d += {}) {}", whole * c.lanes, kChunkVecs * c.lanes, call(kChunkVecs, "d"));
  }
  if (rest > 0) {
    kernels += values_text(c, static_cast<int>(rest));
    values += (values.empty() ? "" : "\n") + call(rest, n(whole * c.lanes));
  }
  const std::string q_type = storage_type(c.q.type), k_type = storage_type(c.k.type), v_type = storage_type(c.v.type);
  return template_head(c.lanes) + expand(attention_few_c::kSoftmax, {{"NAME", c.name}}) + kernels +
         expand(attention_few_c::kEntry, {{"NAME", c.name},
                                          {"ROWS", n(rows_of(c))},
                                          {"KV_HEADS", c.kv_heads.text()},
                                          {"M", c.queries.text()},
                                          {"N", c.keys.text()},
                                          {"D", n(c.depth)},
                                          {"DV", n(c.value_depth)},
                                          {"KEYS", n(c.tile.block_keys)},
                                          {"KEYS_AT_ONCE", n(kKeysAtOnce)},
                                          {"QTYPE", q_type},
                                          {"QROW", address(c.q, q_type, "head[j]")},
                                          {"Q_STRIDE", c.q.row_stride},
                                          {"QVALUE", load_scalar(c.q.type, fmt::format("q + d * ({})", c.q.column_stride))},
                                          {"SCALE", c.scale},
                                          {"KTYPE", k_type},
                                          {"KROW", address(c.k, k_type, "kv_head")},
                                          {"K_STRIDE", c.k.row_stride},
                                          {"VTYPE", v_type},
                                          {"VROW", address(c.v, v_type, "kv_head")},
                                          {"V_STRIDE", c.v.row_stride},
                                          {"MASK", mask_text(c, "scores[j * KEYS + i]")},
                                          {"SEEN", c.causal ? "query[j] + N - M + 1 - n0" : "count"},
                                          {"VALUES", values},
                                          {"DECLARATIONS", c.epilogue.declarations},
                                          {"VECTOR", c.epilogue.vector.all()}});
}

}  // namespace toroid::codegen
