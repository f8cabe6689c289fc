#include "codegen/cuda/templates/attention_prefill.h"

#include <algorithm>

#include "codegen/cuda/template.h"
#include "codegen/cuda/templates/attention_hopper.h"
#include "codegen/cuda/templates/attention_mma.cu.h"
#include "codegen/cuda/templates/attention_prefill.cu.h"
#include "codegen/cuda/templates/attention_wgmma.cu.h"

namespace toroid::codegen {
namespace {

using program::Attention;

constexpr int kBlockKeys = 128;                              // of the wgmma form
constexpr int kMaxListed = 400;                              // blocks of keys that the list of live ones has room for
constexpr int64_t kCachedBytes = 16 << 20;                   // of keys and values that blocks at work share: part of the second-level cache
constexpr int64_t kBalancedBytes = 100 << 20;                // of all keys and values, below which an even end is worth more than the cache
constexpr const char* kRegisters[] = {"232", "240", "160"};  // of a thread that computes, with 1 to 3 warpgroups of them
constexpr int64_t kManyKeys = 1024;

std::string number(int64_t x) { return std::to_string(x); }

// How the work is divided.
struct Shape {
  bool wgmma = false;
  int groups = 2;      // warpgroups that compute
  int warps = 4;       // mma: of a block
  int keys = 64;       // mma: of a stage
  bool lists = false;  // blocks of keys that the mask leaves anything of
  int queries() const { return wgmma ? groups * 64 : warps * 16; }
  int blocks() const { return wgmma && groups == 1 ? 2 : 1; }  // on a multiprocessor
  int threads() const { return wgmma ? (groups + 1) * 128 : warps * 32; }
};

int64_t shared_bytes(const Attention& a, const Shape& s) {
  const int64_t d = a.head_dim, dv = a.value_dim, rows = s.queries(), outputs = rows * (dv + 4) * 4;
  if (s.wgmma) return rows * d * 2 + 2 * kBlockKeys * (d + dv) * 2 + outputs + 128 + (s.lists ? kMaxListed * 2 : 0);
  return std::max(int64_t{2} * s.keys * (d + 8 + dv + 8) * 2, outputs);
}

Expr tiles_of(const Attention& a, const Shape& s) { return a.batch * a.heads * sym::ceil_div(a.queries, s.queries()); }

// Whether tiles see different numbers of keys.
bool is_uneven(const Attention& a, const Shape& s) { return a.causal || s.lists; }

bool lists_blocks(const Attention& a) { return has_mask_vectors(a) && sym::bounds(a.keys).hi <= int64_t{kMaxListed} * kBlockKeys; }
Shape shape_of(const Attention& a, const CudaPrefillTile& t) { return {.wgmma = true, .groups = t.groups, .lists = lists_blocks(a)}; }
Shape shape_of(const CudaAttentionMmaTile& t) { return {.warps = t.warps, .keys = t.keys}; }

// Heads of a turn. Of uneven tiles, many heads leave small ones for the end.
int64_t head_group(const Attention& a, const Shape& s) {
  const int64_t bytes = std::max<int64_t>(1, typical_sizes(a).keys * (a.head_dim + a.value_dim) * 2);
  const bool uneven = is_uneven(a, s);
  if (uneven && bytes * a.kv_heads.constant() <= kBalancedBytes) return a.heads.constant();
  return std::clamp<int64_t>((uneven ? 2 : 1) * kCachedBytes / bytes * heads_of_group(a), 1, a.heads.constant());
}

std::string mask_text(CudaArguments& arguments, const Attention& a, const Shape& s) {
  if (a.mask.buffer < 0) return "";
  const std::string row = attention_pointer(arguments, a.mask, "batch", "head", "min(row0 + g + e * 8, M - 1)");
  if (s.lists) return expand(attention_prefill_cu::kPrefillMaskBits, {{"ROW", row}});
  bool twos = a.mask.strides[3] == Expr(1) && sym::known_multiple(a.keys, 2) && sym::known_multiple(a.mask.offset, 2);
  for (size_t d = 0; d < 3; ++d) twos = twos && sym::known_multiple(a.mask.strides[d], 2);
  const std::string load = twos
                               ? "const Pack<mask_type, 2> x = load_pack<mask_type, 2>(m + min(key, N - 2));"
                               : fmt::format("const mask_type x[2] = {{m[(idx)min(key, N - 1) * {0}], m[(idx)min(key + 1, N - 1) * {0}]}};",
                                             cuda_size(arguments, a.mask.strides[3]));
  return expand(attention_prefill_cu::kPrefillMaskElements,
                {{"ROW", row}, {"LOAD", load}, {"APPLY", apply_mask_text(a, "score", twos ? "x.x[c]" : "x[c]")}});
}

std::string softmax_text(CudaArguments& arguments, const Attention& a, const Shape& s) {
  const char* limit = a.causal ? "min(min(row0 + g + e * 8, M - 1) + N - M, N - 1)" : "N - 1";
  return expand(attention_prefill_cu::kPrefillSoftmax,
                {{"LIMIT", limit}, {"ALL_SEE", a.causal ? "min(row0 + N - M, N - 1)" : "N - 1"}, {"MASK", mask_text(arguments, a, s)}});
}

std::string definitions_text(const Attention& a, const Shape& s) {
  // Adding to scores, and scales that would turn their order around, need them scaled first.
  const bool pre_scaled = (a.mask.buffer >= 0 && !is_bool(a.mask.dtype)) || a.scale <= 0;
  const std::string wgmma =
      wgmma_text(a.q.dtype, {.name = "wgmma_scores", .columns = kBlockKeys, .may_begin = true}) +
      wgmma_text(a.q.dtype, {.name = "wgmma_products", .columns = a.value_dim, .a_in_registers = true, .b_by_depth = true});
  const Substitutions values = {{"D", number(a.head_dim)},
                                {"DV", number(a.value_dim)},
                                {"GROUPS", number(s.groups)},
                                {"WARPS", number(s.warps)},
                                {"KEYS", number(s.keys)},
                                {"HEAD_GROUP", number(head_group(a, s))},
                                {"PRE_SCALED", pre_scaled ? "true" : "false"},
                                {"WGMMA", wgmma},
                                {"COPIES", std::string(attention_copies())},
                                {"READS", std::string(attention_mma_cu::kReads)}};
  return attention_definitions(a) +
         expand(s.wgmma ? attention_wgmma_cu::kPrefillWgmmaDefinitions : attention_mma_cu::kPrefillMmaDefinitions, values);
}

// What follows the stores of the results: those of logarithms of sums, where they are wanted.
std::string logsumexp_text(CudaArguments& arguments, const Attention& a) {
  if (!a.logsumexp) return "";
  const std::string at[] = {"batch", "head", "query"};
  arguments.mark_written(a.logsumexp->buffer);
  const std::string place =
      arguments.pointer(a.logsumexp->buffer, DType::F32) + " + " + cuda_address(arguments, a.logsumexp->offset, a.logsumexp->strides, at);
  return expand(attention_prefill_cu::kPrefillLogsumexp, {{"PLACE", place}});
}

std::string kernel_text(CudaArguments& arguments, const program::Node& node, const Attention& a, const Shape& s) {
  const std::string at[] = {"batch", "head", "query", "d"};
  const std::string epilogue = cuda_epilogue(arguments, {node.domain, node.body}, at, "acc", 8).statements;
  const std::string order =
      expand(attention_prefill_cu::kPrefillOrder, {{"VISIBLE", a.causal ? "max(min(N, min(M, (tile + 1) * kBM) + N - M), 0)" : "N"}});
  Substitutions values = {{"SIZES", attention_sizes(arguments, a)},
                          {"ORDER", order},
                          {"SOFTMAX", softmax_text(arguments, a, s)},
                          {"STORE", expand(attention_prefill_cu::kPrefillStore, {{"EPILOGUE", epilogue}}) + logsumexp_text(arguments, a)}};
  if (!s.wgmma) {
    values.insert(values.end(), {{"K", attention_pointer(arguments, a.k, "batch", "kv_head", "0")},
                                 {"V", attention_pointer(arguments, a.v, "batch", "kv_head", "0")},
                                 {"Q", attention_pointer(arguments, a.q, "batch", "head", "query")},
                                 {"K_ROW", cuda_size(arguments, a.k.strides[2])},
                                 {"V_ROW", cuda_size(arguments, a.v.strides[2])}});
    return expand(attention_mma_cu::kPrefillMmaKernel, values);
  }
  const std::string row = s.lists ? attention_pointer(arguments, a.mask, "batch", "head", "query") : "";
  values.insert(values.end(), {{"Q_MAP", arguments.tensor_map(attention_boxes(a.batch, a.q, a.heads, a.queries, a.head_dim, s.queries()))},
                               {"K_MAP", arguments.tensor_map(attention_boxes(a.batch, a.k, a.kv_heads, a.keys, a.head_dim, kBlockKeys))},
                               {"V_MAP", arguments.tensor_map(attention_boxes(a.batch, a.v, a.kv_heads, a.keys, a.value_dim, kBlockKeys))},
                               {"LIST", s.lists ? expand(attention_wgmma_cu::kPrefillLiveBlocks, {{"ORDER", order}, {"ROW", row}}) : ""},
                               {"BLOCKS", s.lists ? "" : std::string(attention_wgmma_cu::kPrefillEveryBlock)},
                               {"TILES", cuda_size(arguments, tiles_of(a, s))},
                               {"REGISTERS", kRegisters[s.groups - 1]}});
  return expand(attention_wgmma_cu::kPrefillWgmmaKernel, values);
}

KernelText generate_prefill(const program::Node& node, const CudaAttentionTarget& target, const Shape& s) {
  const auto& a = std::get<Attention>(node.problem);
  CudaArguments arguments;
  arguments.define(definitions_text(a, s));
  if (s.wgmma) arguments.use_counters(1);
  const std::string body = kernel_text(arguments, node, a, s);
  KernelText k = arguments.kernel(cuda_template_name("attention", node.body), body, s.threads(), true, s.blocks(), target.tensor_copies);
  k.tasks = tiles_of(a, s);
  if (s.wgmma && !s.lists) k.tasks = sym::min(k.tasks, Expr(int64_t{target.multiprocessors} * s.blocks()));
  k.shared_bytes = static_cast<int>(shared_bytes(a, s));
  k.plan = fmt::format("attention of {} queries a block, {}{}", s.queries(), s.wgmma ? "wgmma" : "mma",
                       s.lists ? ", masked blocks skipped" : "");
  return k;
}

}  // namespace

CudaPrefillTile choose_cuda_prefill_tile(const program::Node& node) {
  const auto& a = std::get<Attention>(node.problem);
  const AttentionSizes sizes = typical_sizes(a);
  // With heads of 64 columns, three warpgroups hide more of the powers, but are uneven where tiles see different numbers of keys. Keys of
  // one block are gone before it has got going: then two small blocks of a multiprocessor are better.
  const bool narrow = a.head_dim == 64 && a.value_dim == 64;
  if (narrow && sizes.keys <= kBlockKeys) return {1};
  const bool uneven = is_uneven(a, shape_of(a, CudaPrefillTile{}));
  return {narrow && sizes.keys >= kManyKeys && sizes.queries >= kManyKeys && !uneven ? 3 : 2};
}

std::string cuda_attention_wgmma_refusal(const program::Node& node, const CudaAttentionTarget& target) {
  const auto& a = std::get<Attention>(node.problem);
  if (!target.tensor_copies) return "the GPU has no wgmma";
  for (int64_t d : {a.head_dim, a.value_dim})
    if (d != 64 && d != 128) return fmt::format("heads of {} columns", d);
  if (!has_attention_boxes(a.batch, a.q, a.heads, a.queries) || !has_attention_boxes(a.batch, a.k, a.kv_heads, a.keys) ||
      !has_attention_boxes(a.batch, a.v, a.kv_heads, a.keys))
    return "rows or heads lie in each other's place";
  return cuda_prefill_tile_refusal(node, target, choose_cuda_prefill_tile(node));
}

std::string cuda_prefill_tile_refusal(const program::Node& node, const CudaAttentionTarget& target, const CudaPrefillTile& t) {
  const auto& a = std::get<Attention>(node.problem);
  const bool narrow = a.head_dim == 64 && a.value_dim == 64;
  if (t.groups > 3 || (t.groups == 3 && !narrow)) return "groups are more than registers have room for";
  const Shape s = shape_of(a, t);
  return shared_bytes(a, s) * s.blocks() > target.shared_bytes ? "queries, keys and values do not fit shared memory" : "";
}

CudaAttentionMmaTile choose_cuda_attention_mma_tile(const program::Node& node, const CudaAttentionTarget& target) {
  const auto& a = std::get<Attention>(node.problem);
  CudaAttentionMmaTile t;
  t.keys = std::max(a.head_dim, a.value_dim) > 128 ? 32 : 64;
  while (t.keys > 16 && shared_bytes(a, shape_of(t)) > target.shared_bytes) t.keys /= 2;
  return t;
}

std::string cuda_attention_mma_tile_refusal(const program::Node& node, const CudaAttentionTarget& target, const CudaAttentionMmaTile& t) {
  const auto& a = std::get<Attention>(node.problem);
  if (t.warps != 2 && t.warps != 4 && t.warps != 8) return "warps is not 2, 4 or 8";
  if (t.keys != 16 && t.keys != 32 && t.keys != 64 && t.keys != 128) return "keys is not 16, 32, 64 or 128";
  if (t.keys == 128 && std::max(a.head_dim, a.value_dim) > 64) return "keys are more than registers have room for";
  return shared_bytes(a, shape_of(t)) > target.shared_bytes ? "keys and values do not fit shared memory" : "";
}

KernelText generate_cuda_attention_wgmma(const program::Node& node, const CudaAttentionTarget& target, const CudaPrefillTile& tile) {
  return generate_prefill(node, target, shape_of(std::get<Attention>(node.problem), tile));
}

KernelText generate_cuda_attention_mma(const program::Node& node, const CudaAttentionTarget& target, const CudaAttentionMmaTile& tile) {
  return generate_prefill(node, target, shape_of(tile));
}

Form cuda_attention_prefill_form(const CudaSite& site) {
  const CudaAttentionTarget target = cuda_attention_target(site.gpu);
  const program::Node& node = site.node;
  Tiling<CudaPrefillTile> how;
  how.rule = [&node] { return choose_cuda_prefill_tile(node); };
  how.others = [] { return std::vector<CudaPrefillTile>{{2}, {1}, {3}}; };
  how.refusal = [=, &node](const CudaPrefillTile& t) { return cuda_prefill_tile_refusal(node, target, t); };
  how.generate = [=, &node](const CudaPrefillTile& t) { return generate_cuda_attention_wgmma(node, target, t); };
  std::string refusal = cuda_attention_refusal(site.problem<program::Attention>());
  if (refusal.empty()) refusal = cuda_attention_wgmma_refusal(node, target);
  return make_form("attention_prefill", std::move(refusal), how);
}

Form cuda_attention_mma_form(const CudaSite& site) {
  const CudaAttentionTarget target = cuda_attention_target(site.gpu);
  const program::Node& node = site.node;
  Tiling<CudaAttentionMmaTile> how;
  how.rule = [=, &node] { return choose_cuda_attention_mma_tile(node, target); };
  how.others = [] { return std::vector<CudaAttentionMmaTile>{{4, 64}, {8, 64}, {4, 32}, {8, 32}, {4, 128}, {2, 64}, {2, 32}}; };
  how.refusal = [=, &node](const CudaAttentionMmaTile& t) { return cuda_attention_mma_tile_refusal(node, target, t); };
  how.generate = [=, &node](const CudaAttentionMmaTile& t) { return generate_cuda_attention_mma(node, target, t); };
  return make_form("attention_mma", cuda_attention_refusal(site.problem<program::Attention>()), how);
}

}  // namespace toroid::codegen
