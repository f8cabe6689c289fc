#include "codegen/cuda/templates/attention_decode.h"

#include <algorithm>

#include "codegen/cuda/template.h"
#include "codegen/cuda/templates/attention_decode.cu.h"
#include "codegen/cuda/templates/attention_decode_parts.cu.h"

namespace toroid::codegen {
namespace {

using program::Attention;

constexpr int kStepKeys = 16;
constexpr int kMaxSplits = 128;
constexpr int kFewRows = 64;        // queries of a key head that this form is always best for
constexpr int64_t kSmallTasks = 2;  // blocks of 128 queries a multiprocessor below which small tiles spread better
constexpr int64_t kMostStages = 4;
constexpr int64_t kRingBytes = 96 << 10;  // of a block
// More than half of a multiprocessor's shared memory, so that the blocks of a launch spread evenly; a block of a product fits beside it.
constexpr int64_t kAloneBytes = 115 << 10;

// How the work is divided.
struct Shape : CudaDecodeTile {
  int blocks = 2;      // on a multiprocessor: what the registers allow
  bool alone = false;  // one block a multiprocessor, beside which the next kernel's blocks begin at once
  bool skips = false;  // steps that the mask leaves nothing of
  // The next kernel's blocks may come beside these. Where several share a multiprocessor they would not spread evenly.
  bool overlaps = false;
  int early = 0;  // steps of a warp that are brought to the second-level cache before the kernel's inputs are there
};

int64_t step_bytes(const Attention& a) { return kStepKeys * (a.head_dim + a.value_dim) * 2; }
int64_t shared_bytes(const Attention& a, const Shape& s) {
  const int64_t rows = s.tiles * 8, warp = std::max(s.stages * step_bytes(a), rows * a.value_dim * 4) + rows * 8;
  return std::max(s.alone ? kAloneBytes : 0, s.warps * warp + 128);
}

// Tiles of queries of all heads, and steps over the keys of each.
struct Work {
  int64_t parts, steps;
};
Work work_of(const Attention& a, int tiles) {
  const AttentionSizes sizes = typical_sizes(a);
  const int64_t rows = sizes.queries * heads_of_group(a);
  return {std::max<int64_t>(1, sizes.batch * a.kv_heads.constant() * ceil_div(rows, tiles * 8)), ceil_div(sizes.keys, kStepKeys)};
}

// What follows from the tile.
Shape shape_of(const Attention& a, const CudaAttentionTarget& target, const CudaDecodeTile& tile) {
  Shape s{tile};
  const auto [parts, steps] = work_of(a, s.tiles);
  const int64_t depth = std::max(a.head_dim, a.value_dim), processors = target.multiprocessors;
  s.skips = has_mask_vectors(a);
  s.alone = target.tensor_copies && parts * s.splits <= processors && ceil_div(steps, s.splits * s.warps) >= 2;
  s.overlaps = target.tensor_copies && parts * s.splits <= 2 * processors;
  // A mask says only later which steps are read at all. Of few steps not all, or what is loaded stands behind what is brought.
  const int64_t each = ceil_div(steps, s.splits * s.warps);
  const bool in_one_piece = a.k.strides[2] == Expr(a.head_dim) && a.v.strides[2] == Expr(a.value_dim);
  if (s.overlaps && !s.skips && in_one_piece) s.early = each >= 8 ? 2 : each >= 2 ? 1 : 0;
  if (s.warps == 4) s.blocks = s.tiles == 2 && depth > 64 ? 2 : 3;
  if (depth > 128) s.blocks = 1;
  return s;
}

// As many steps under way as the ring of a block has room for.
int stages_of(const Attention& a, const Work& w, const CudaDecodeTile& t) {
  const int64_t each = ceil_div(w.steps, t.splits * t.warps);  // steps of a warp
  return static_cast<int>(std::clamp<int64_t>(kRingBytes / (t.warps * step_bytes(a)), 1, std::min(each, kMostStages)));
}

std::string next_step_text(CudaArguments& arguments, const Attention& a, const Shape& s) {
  if (!s.skips) return std::string(attention_decode_cu::kDecodeEveryStep);
  const bool shared = a.mask.strides[1] == Expr(0);  // by the heads
  return expand(attention_decode_cu::kDecodeLiveSteps, {{"COUNT", shared ? "min(M, rows_used)" : "rows_used"},
                                                        {"MASK", attention_pointer(arguments, a.mask, "batch", "head", "query")}});
}

struct MaskTexts {
  std::string rows, row, load, apply;
};
MaskTexts mask_texts(CudaArguments& arguments, const Attention& a) {
  if (a.mask.buffer < 0) return {};
  return {
      "const mask_type* mask_row[kTiles][2];\nmask_type mask[kTiles][4];",
      fmt::format("const int head = kv_head * group + row / M;\nmask_row[n][e] = {};",
                  attention_pointer(arguments, a.mask, "batch", "head", "query")),
      fmt::format("#pragma unroll\nfor (int n = 0; n < kTiles; ++n)\n#pragma unroll\n  for (int e = 0; e < 2; ++e) mask[n][r * 2 + e] = "
                  "mask_row[n][e][(idx)key * {}];",
                  cuda_size(arguments, a.mask.strides[3])),
      apply_mask_text(a, "s[n][e]", "mask[n][e]")};
}

std::string kernel_text(CudaArguments& arguments, const program::Node& node, const Attention& a, const Shape& s) {
  const std::string at[] = {"batch", "head", "query", "d"};
  const std::string epilogue = cuda_epilogue(arguments, {node.domain, node.body}, at, "acc", 8).statements;
  const MaskTexts mask = mask_texts(arguments, a);
  const bool parts = s.splits > 1;
  const Expr rows = a.queries * heads_of_group(a);
  const bool one_tile = rows.is_const() && rows.constant() <= s.tiles * 8;
  return expand(attention_decode_cu::kDecodeKernel,
                {{"SIZES", attention_sizes(arguments, a)},
                 {"K", attention_pointer(arguments, a.k, "batch", "kv_head", "0")},
                 {"V", attention_pointer(arguments, a.v, "batch", "kv_head", "0")},
                 {"Q", attention_pointer(arguments, a.q, "batch", "head", "query")},
                 {"K_ROW", cuda_size(arguments, a.k.strides[2])},
                 {"V_ROW", cuda_size(arguments, a.v.strides[2])},
                 {"EVICT", one_tile ? "evict_first" : "evict_normal"},
                 {"NEXT_STEP", next_step_text(arguments, a, s)},
                 {"EARLY", s.alone ? "let_next_begin();" : ""},
                 {"PREFETCH", s.early > 0 ? expand(attention_decode_cu::kDecodePrefetch, {{"STEPS", std::to_string(s.early)}}) : ""},
                 {"LATE", s.alone ? "" : "let_next_begin();"},
                 {"LIMIT", a.causal ? "min(query + N - M, N - 1)" : "N - 1"},
                 {"MASK_ROWS", mask.rows},
                 {"MASK_ROW", mask.row},
                 {"LOAD_MASK", mask.load},
                 {"APPLY_MASK", mask.apply},
                 {"PARTS", parts ? std::string(attention_decode_parts_cu::kDecodeParts) : ""},
                 {"FINISH", parts ? std::string(attention_decode_parts_cu::kDecodeFinishPart)
                                  : expand(attention_decode_cu::kDecodeFinish, {{"EPILOGUE", epilogue}})},
                 {"COMBINE", parts ? expand(attention_decode_parts_cu::kDecodeCombine, {{"EPILOGUE", epilogue}}) : ""}});
}

}  // namespace

bool prefers_attention_decode(const program::Node& node, const CudaAttentionTarget& target) {
  const auto& a = std::get<Attention>(node.problem);
  const AttentionSizes sizes = typical_sizes(a);
  if (sizes.queries * heads_of_group(a) <= kFewRows) return true;
  const int64_t tasks = sizes.batch * a.heads.constant() * ceil_div(sizes.queries, 128);
  return tasks * kSmallTasks <= target.multiprocessors && sizes.keys <= 512;
}

CudaDecodeTile choose_cuda_decode_tile(const program::Node& node, const CudaAttentionTarget& target) {
  const auto& a = std::get<Attention>(node.problem);
  const int64_t depth = std::max(a.head_dim, a.value_dim);
  CudaDecodeTile t;
  t.tiles = typical_sizes(a).queries * heads_of_group(a) > 8 && depth <= 128 ? 2 : 1;
  const Work w = work_of(a, t.tiles);
  t.warps = w.steps < 16 || depth > 128 ? 4 : 8;
  const int64_t most = w.steps < 16 ? 1 : ceil_div(w.steps, t.warps);
  // Eight warps of a multiprocessor ask for enough to keep its share of memory busy; more would only make more parts.
  t.splits = static_cast<int>(std::clamp<int64_t>(target.multiprocessors / w.parts, 1, std::min<int64_t>(kMaxSplits, most)));
  t.stages = stages_of(a, w, t);
  return t;
}

std::vector<CudaDecodeTile> other_cuda_decode_tiles(const program::Node& node, const CudaAttentionTarget& target) {
  const auto& a = std::get<Attention>(node.problem);
  const CudaDecodeTile rule = choose_cuda_decode_tile(node, target);
  const Work w = work_of(a, rule.tiles);
  // Blocks for each multiprocessor once, twice, and so on; those that leave none without work.
  std::vector<int> splits = {rule.splits};
  for (int64_t blocks : {1, 2, 3, 4, 8})
    for (int64_t count : {blocks * target.multiprocessors / w.parts, ceil_div(blocks * target.multiprocessors, w.parts)})
      splits.push_back(static_cast<int>(std::clamp<int64_t>(count, 1, w.steps)));
  std::vector<CudaDecodeTile> tiles;
  for (int warps : {rule.warps, 12 - rule.warps})
    for (int split : splits) {
      CudaDecodeTile t{rule.tiles, warps, split, 1};
      t.stages = stages_of(a, w, t);
      tiles.push_back(t);
      if (t.stages > 1) --t.stages, tiles.push_back(t);
    }
  tiles.push_back(rule), ++tiles.back().stages;
  tiles.push_back(rule), tiles.back().tiles = 3 - rule.tiles;
  return tiles;
}

std::string cuda_decode_tile_refusal(const program::Node& node, const CudaAttentionTarget& target, const CudaDecodeTile& t) {
  const auto& a = std::get<Attention>(node.problem);
  constexpr int kMostTileStages = 8;
  if (t.tiles > 2 || (t.tiles == 2 && std::max(a.head_dim, a.value_dim) > 128)) return "tiles is more than registers have room for";
  if (t.warps != 4 && t.warps != 8) return "warps is not 4 or 8";
  if (t.splits > kMaxSplits) return fmt::format("splits is more than {}", kMaxSplits);
  if (t.stages > kMostTileStages) return fmt::format("stages is more than {}", kMostTileStages);
  return shared_bytes(a, shape_of(a, target, t)) > target.shared_bytes ? "its rings do not fit shared memory" : "";
}

KernelText generate_cuda_attention_decode(const program::Node& node, const CudaAttentionTarget& target, const CudaDecodeTile& tile) {
  const auto& a = std::get<Attention>(node.problem);
  const Shape s = shape_of(a, target, tile);
  const int64_t rows = s.tiles * 8;
  const Expr queries = a.queries * heads_of_group(a), parts = a.batch * a.kv_heads * sym::ceil_div(queries, rows);
  const int64_t part_rows = queries.is_const() ? std::min(queries.constant(), rows) : rows;
  CudaArguments arguments;
  if (s.splits > 1) arguments.use_counters(parts * ((s.splits - 1) * part_rows * (a.value_dim + a.value_dim / 8 * 2)));
  const auto n = [](int64_t x) { return std::to_string(x); };
  arguments.define(attention_definitions(a) +
                   expand(attention_decode_cu::kDecodeDefinitions, {{"D", n(a.head_dim)},
                                                                    {"DV", n(a.value_dim)},
                                                                    {"TILES", n(s.tiles)},
                                                                    {"WARPS", n(s.warps)},
                                                                    {"SPLITS", n(s.splits)},
                                                                    {"STAGES", n(s.stages)}}) +
                   (s.splits > 1 ? expand(attention_decode_parts_cu::kDecodePartDefinitions, {{"ROWS", n(part_rows)}}) : ""));
  const std::string body = kernel_text(arguments, node, a, s);
  KernelText k = arguments.kernel(cuda_template_name("attention", node.body), body, s.warps * 32, true, s.blocks, s.overlaps);
  k.tasks = parts * s.splits;
  k.shared_bytes = static_cast<int>(shared_bytes(a, s));
  k.plan = fmt::format("attention of {} queries a block, keys in {} parts, {} warps, {} stages{}", rows, s.splits, s.warps, s.stages,
                       s.skips ? ", masked steps skipped" : "");
  return k;
}

Form cuda_attention_decode_form(const CudaSite& site) {
  const CudaAttentionTarget target = cuda_attention_target(site.gpu);
  const program::Node& node = site.node;
  Tiling<CudaDecodeTile> how;
  how.rule = [=, &node] { return choose_cuda_decode_tile(node, target); };
  how.others = [=, &node] { return other_cuda_decode_tiles(node, target); };
  how.refusal = [=, &node](const CudaDecodeTile& t) { return cuda_decode_tile_refusal(node, target, t); };
  how.generate = [=, &node](const CudaDecodeTile& t) { return generate_cuda_attention_decode(node, target, t); };
  const auto& a = site.problem<program::Attention>();
  Form form = make_form("attention_decode", a.logsumexp ? "it gives no logarithms of sums" : cuda_attention_refusal(a), how);
  if (form.refusal.empty() && !prefers_attention_decode(node, target)) form.reluctance = "keys are read once for many queries";
  return form;
}

}  // namespace toroid::codegen
