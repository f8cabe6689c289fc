// The gradient of attention on Hopper's tensor cores.
#include "codegen/cuda/templates/attention_backward.h"

#include <algorithm>

#include "codegen/cuda/template.h"
#include "codegen/cuda/templates/attention_backward.cu.h"
#include "codegen/cuda/templates/attention_hopper.h"

namespace toroid::codegen {
namespace {

using program::AttentionBackward;

constexpr int kStages = 2;                           // of queries
constexpr int kGroups = 2;                           // warpgroups that compute, of 64 keys each
constexpr int64_t kCachedBytes = int64_t{16} << 20;  // of what heads at work read and add to: part of the second-level cache

struct BackwardTile {
  int queries = 64;  // that pass by at once
  int heads = 1;     // key heads of a turn
};
template <class Visit>
void fields(BackwardTile& t, const Visit& visit) {
  visit("queries", t.queries, kDoubles);
  visit("heads", t.heads, kDoubles);
}

int64_t shared_bytes(const AttentionBackward& a, const BackwardTile& t) {
  const int64_t d = a.head_dim, keys = kGroups * 64, queries = t.queries, barriers = 128;
  return 2 * keys * d * 2 + 2 * kStages * queries * d * 2 + 2 * keys * queries * 2 + queries * d * 4 + kStages * queries * 8 + barriers;
}

std::string tile_refusal(const AttentionBackward& a, const BackwardTile& t, const CudaAttentionTarget& target) {
  if (t.queries != 64 && t.queries != 128) return "queries is not 64 or 128";
  if (t.queries == 128 && a.head_dim != 64) return "queries are more than registers have room for";
  if (t.heads > a.kv_heads.constant()) return "heads is more than there are";
  return shared_bytes(a, t) > target.shared_bytes ? "keys, values and queries do not fit shared memory" : "";
}

std::string refusal_of(const AttentionBackward& a, const CudaAttentionTarget& target) {
  if (!target.tensor_copies) return "the GPU has no wgmma";
  if (std::string why = attention_backward_refusal(a); !why.empty()) return why;
  if (a.head_dim != a.value_dim || (a.head_dim != 64 && a.head_dim != 128)) return fmt::format("heads of {} columns", a.head_dim);
  for (const program::Operand* o : {&a.q, &a.grad_out, &a.grad_query})
    if (!has_attention_boxes(a.batch, *o, a.heads, a.queries)) return "rows or heads lie in each other's place";
  for (const program::Operand* o : {&a.k, &a.v, &a.grad_key, &a.grad_value})
    if (!has_attention_boxes(a.batch, *o, a.kv_heads, a.keys)) return "rows or heads lie in each other's place";
  return "";
}

// The value of one of two packed halves.
std::string half_text(DType type, int which) {
  if (type == DType::BF16) return which == 0 ? "return __uint_as_float(x << 16);" : "return __uint_as_float(x & 0xffff0000u);";
  return fmt::format("float r; asm(\"{{.reg .b16 l, h; mov.b32 {{l, h}}, %1; cvt.f32.f16 %0, {};}}\" : \"=f\"(r) : \"r\"(x)); return r;",
                     which == 0 ? "l" : "h");
}

std::string definitions_text(const AttentionBackward& a, const BackwardTile& t) {
  const DType type = a.q.dtype;
  const int64_t sum_columns = t.queries == kGroups * 64 ? a.head_dim : a.head_dim / kGroups;
  const std::string wgmma =
      wgmma_text(type, {.name = "wgmma_scores", .columns = t.queries, .may_begin = true}) +
      wgmma_text(type, {.name = "wgmma_gradients", .columns = a.head_dim, .a_in_registers = true, .b_by_depth = true}) +
      wgmma_text(type, {.name = "wgmma_sums", .columns = sum_columns, .a_by_depth = true, .b_by_depth = true, .may_begin = true});
  return attention_definitions(attention_of(a)) +
         expand(attention_backward_cu::kDefinitions, {{"D", std::to_string(a.head_dim)},
                                                      {"GROUPS", std::to_string(kGroups)},
                                                      {"QUERIES", std::to_string(t.queries)},
                                                      {"HEAD_GROUP", std::to_string(t.heads)},
                                                      {"SCALE", fmt::format("{:.9e}f", a.scale)},
                                                      {"WGMMA", wgmma},
                                                      {"LOW_HALF", half_text(type, 0)},
                                                      {"HIGH_HALF", half_text(type, 1)},
                                                      {"COPIES", std::string(attention_copies())},
                                                      {"STORES", std::string(attention_stores())}});
}

std::string kernel_text(CudaArguments& arguments, const AttentionBackward& a, const BackwardTile& t) {
  const auto boxes = [&](const program::Operand& o, const Expr& heads, const Expr& rows, int box_rows) {
    return arguments.tensor_map(attention_boxes(a.batch, o, heads, rows, a.head_dim, box_rows));
  };
  const int keys = kGroups * 64;
  const std::string turn = !a.ordered
                               ? ""
                               : expand(attention_backward_cu::kWaitForTurn,
                                        {{"LAST_BLOCK", a.causal ? "min((row + kBM - 1 + N - M) / kBN, key_blocks - 1)" : "key_blocks - 1"},
                                         {"PLACE", a.causal ? "last_block - key_block" : "key_block"}});
  return expand(attention_backward_cu::kKernel,
                {{"SIZES", attention_sizes(arguments, attention_of(a))},
                 {"TASKS", attention_backward_tasks(a)},
                 {"SOME_HIDDEN", some_hidden_text(a)},
                 {"ORDER", std::string(a.ordered ? attention_backward_cu::kOrder : "")},
                 {"BEFORE_SUMS", std::string(a.ordered ? attention_backward_cu::kPassTurn : attention_backward_cu::kWaitForMemory)},
                 {"TURN", turn},
                 {"AFTER_SUMS", a.ordered ? "if (leads) {\n  " + std::string(attention_backward_cu::kPassTurn) + "\n}" : ""},
                 {"HIDDEN", hidden_text(a)},
                 {"LOGSUMEXP", row_value_text(arguments, a.logsumexp)},
                 {"ROW_SUMS", row_value_text(arguments, a.row_sums)},
                 {"Q_MAP", boxes(a.q, a.heads, a.queries, t.queries)},
                 {"G_MAP", boxes(a.grad_out, a.heads, a.queries, t.queries)},
                 {"K_MAP", boxes(a.k, a.kv_heads, a.keys, keys)},
                 {"V_MAP", boxes(a.v, a.kv_heads, a.keys, keys)},
                 {"DQ_MAP", boxes(a.grad_query, a.heads, a.queries, 64)},
                 {"DK_MAP", boxes(a.grad_key, a.kv_heads, a.keys, 64)},
                 {"DV_MAP", boxes(a.grad_value, a.kv_heads, a.keys, 64)}});
}

KernelText generate(const AttentionBackward& a, const BackwardTile& t) {
  CudaArguments arguments;
  arguments.define(definitions_text(a, t));
  const std::string body = kernel_text(arguments, a, t);
  for (const program::Operand* o : {&a.grad_query, &a.grad_key, &a.grad_value}) arguments.mark_written(o->buffer);
  if (a.ordered) {
    arguments.define(std::string(attention_backward_cu::kTurns) + "\n");
    arguments.use_counters(a.batch * a.heads * sym::ceil_div(a.queries, t.queries) * Expr(kGroups));
  }
  KernelText k = arguments.kernel("attention_backward", body, (kGroups + 1) * 128, true, 1, true);
  k.tasks = a.batch * a.kv_heads * sym::ceil_div(a.keys, kGroups * 64);
  k.shared_bytes = static_cast<int>(shared_bytes(a, t));
  k.plan = fmt::format("attention backward of {} keys a block, {} queries a step, wgmma", kGroups * 64, t.queries);
  return k;
}

}  // namespace

program::Attention attention_of(const AttentionBackward& a) {
  program::Attention out;
  out.batch = a.batch, out.heads = a.heads, out.kv_heads = a.kv_heads, out.queries = a.queries, out.keys = a.keys;
  out.head_dim = a.head_dim, out.value_dim = a.value_dim;
  out.q = a.q, out.k = a.k, out.v = a.v;
  out.causal = a.causal, out.scale = a.scale;
  return out;
}

std::string attention_backward_refusal(const AttentionBackward& a) {
  if (std::string why = cuda_attention_refusal(attention_of(a)); !why.empty()) return why;
  if (a.grad_out.dtype != a.q.dtype || a.grad_key.dtype != a.q.dtype || a.grad_value.dtype != a.q.dtype) return "dtypes differ";
  program::Attention gradients = attention_of(a);
  gradients.q = a.grad_out, gradients.k = a.grad_key, gradients.v = a.grad_value;
  const std::string why = cuda_attention_refusal(gradients);
  return why.empty() ? "" : "of a gradient, " + why;
}

int64_t attention_backward_heads(const AttentionBackward& a, int64_t block_keys, const CudaAttentionTarget& target) {
  const AttentionSizes sizes = typical_sizes(attention_of(a));
  const int64_t share = a.heads.constant() / a.kv_heads.constant(), row_bytes = a.head_dim * (2 + 2 + 4);
  const int64_t cached = kCachedBytes / std::max<int64_t>(1, sizes.queries * share * row_bytes);
  return std::clamp<int64_t>(std::max(cached, target.multiprocessors / ceil_div(std::max<int64_t>(1, sizes.keys), block_keys)), 1,
                             a.kv_heads.constant());
}

std::string attention_backward_tasks(const AttentionBackward& a) {
  return expand(attention_backward_cu::kTasks,
                {{"KEY_BLOCK", a.ordered && a.causal ? "key_blocks - 1 - in_turn / sharing" : "in_turn / sharing"},
                 {"FIRST", a.causal ? "max(key0 - (N - M), 0) / kBM" : "0"}});
}

std::string some_hidden_text(const AttentionBackward& a) {
  return a.causal ? "key0 + kBN > N || key0 + my_row + 15 > row + N - M" : "key0 + kBN > N";
}

std::string hidden_text(const AttentionBackward& a) { return a.causal ? "key >= N || key > query + N - M" : "key >= N"; }

std::string row_value_text(CudaArguments& arguments, const program::Operand& o) {
  const std::string at[] = {"batch", "head", "query"};
  return arguments.pointer(o.buffer, o.dtype) + " + " + cuda_address(arguments, o.offset, o.strides, at);
}

Form cuda_attention_backward_form(const CudaSite& site) {
  const auto& a = site.problem<AttentionBackward>();
  const CudaAttentionTarget target = cuda_attention_target(site.gpu);
  std::string refusal = refusal_of(a, target);
  Tiling<BackwardTile> how;
  const auto heads = static_cast<int>(refusal.empty() ? attention_backward_heads(a, kGroups * 64, target) : 1);
  how.rule = [&a, heads] { return BackwardTile{a.head_dim == 64 ? 128 : 64, heads}; };
  how.others = [heads] {
    std::vector<BackwardTile> out;
    for (int h : {heads, 2 * heads, heads / 2, heads / 4})
      for (int queries : {64, 128}) out.push_back({queries, h});
    std::erase_if(out, [](const BackwardTile& t) { return t.heads < 1; });
    return out;
  };
  how.refusal = [=, &a](const BackwardTile& t) { return tile_refusal(a, t, target); };
  how.generate = [&a](const BackwardTile& t) { return generate(a, t); };
  return make_form("attention_backward", std::move(refusal), how);
}

}  // namespace toroid::codegen
