#include "codegen/cuda/templates/attention_decode.h"

#include <algorithm>

#include "codegen/cuda/templates/attention_decode_text.h"

namespace toroid::codegen {
namespace {

using choice::Attention;

constexpr int kStepKeys = 16;
constexpr int kMaxSplits = 128;
constexpr int kFewRows = 64;        // queries of a key head that this form is always best for
constexpr int64_t kSmallTasks = 2;  // blocks of 128 queries a multiprocessor below which small tiles spread better
constexpr int64_t kMostStages = 4;
constexpr int64_t kRingBytes = 96 << 10;  // of a block
// More than half of a multiprocessor's shared memory, so that the blocks of a launch spread evenly; a block of a product fits beside it.
constexpr int64_t kAloneBytes = 115 << 10;

// How the work is divided.
struct Shape {
  int tiles = 1;       // of 8 queries in a block
  int warps = 8;       // of a block
  int stages = 1;      // steps of a warp that are under way
  int splits = 1;      // blocks that share the keys of a tile
  int blocks = 2;      // on a multiprocessor: what the registers allow
  bool alone = false;  // one block a multiprocessor, beside which the next kernel's blocks begin at once
  bool skips = false;  // steps that the mask leaves nothing of
  // The next kernel's blocks may come beside these. Where several share a multiprocessor they would not spread evenly.
  bool overlaps = false;
};

int64_t step_bytes(const Attention& a) { return kStepKeys * (a.head_dim + a.value_dim) * 2; }
int64_t shared_bytes(const Attention& a, const Shape& s) {
  const int64_t rows = s.tiles * 8, warp = std::max(s.stages * step_bytes(a), rows * a.value_dim * 4) + rows * 8;
  return std::max(s.alone ? kAloneBytes : 0, s.warps * warp + 128);
}

Shape shape_of(const Attention& a, const CudaAttentionTarget& target) {
  Shape s;
  const int64_t depth = std::max(a.head_dim, a.value_dim), processors = target.multiprocessors;
  const AttentionSizes sizes = typical_sizes(a);
  const int64_t rows = sizes.queries * heads_of_group(a);
  s.tiles = rows > 8 && depth <= 128 ? 2 : 1;
  s.skips = has_mask_vectors(a);
  const int64_t parts = std::max<int64_t>(1, sizes.batch * a.kv_heads.constant() * ceil_div(rows, s.tiles * 8));
  const int64_t steps = ceil_div(sizes.keys, kStepKeys);
  s.warps = steps < 16 || depth > 128 ? 4 : 8;
  const int64_t most = steps < 16 ? 1 : ceil_div(steps, s.warps);
  // Eight warps of a multiprocessor ask for enough to keep its share of memory busy; more would only make more parts.
  s.splits = static_cast<int>(std::clamp<int64_t>(processors / parts, 1, std::min<int64_t>(kMaxSplits, most)));
  const int64_t each = ceil_div(steps, s.splits * s.warps);  // steps of a warp
  s.stages = static_cast<int>(std::clamp<int64_t>(kRingBytes / (s.warps * step_bytes(a)), 1, std::min(each, kMostStages)));
  s.alone = target.tensor_copies && parts * s.splits <= processors && each >= 2;
  s.overlaps = target.tensor_copies && parts * s.splits <= 2 * processors;
  if (s.warps == 4) s.blocks = depth > 128 ? 1 : s.tiles == 2 && depth > 64 ? 2 : 3;
  return s;
}

std::string next_step_text(CudaArguments& arguments, const Attention& a, const Shape& s) {
  if (!s.skips) return std::string(kDecodeEveryStep);
  const bool shared = a.mask.strides[1] == Expr(0);  // by the heads
  return expand(kDecodeLiveSteps, {{"COUNT", shared ? "min(M, rows_used)" : "rows_used"},
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

std::string kernel_text(CudaArguments& arguments, const choice::Node& node, const Attention& a, const Shape& s) {
  const std::string at[] = {"batch", "head", "query", "d"};
  const std::string epilogue = cuda_epilogue(arguments, {node.domain, node.body}, at, "acc", 8).statements;
  const MaskTexts mask = mask_texts(arguments, a);
  const bool parts = s.splits > 1;
  return expand(kDecodeKernel, {{"SIZES", attention_sizes(arguments, a)},
                                {"K", attention_pointer(arguments, a.k, "batch", "kv_head", "0")},
                                {"V", attention_pointer(arguments, a.v, "batch", "kv_head", "0")},
                                {"Q", attention_pointer(arguments, a.q, "batch", "head", "query")},
                                {"K_ROW", cuda_size(arguments, a.k.strides[2])},
                                {"V_ROW", cuda_size(arguments, a.v.strides[2])},
                                {"NEXT_STEP", next_step_text(arguments, a, s)},
                                {"EARLY", s.alone ? "let_next_begin();" : ""},
                                {"LATE", s.alone ? "" : "let_next_begin();"},
                                {"LIMIT", a.causal ? "min(query + N - M, N - 1)" : "N - 1"},
                                {"MASK_ROWS", mask.rows},
                                {"MASK_ROW", mask.row},
                                {"LOAD_MASK", mask.load},
                                {"APPLY_MASK", mask.apply},
                                {"PARTS", parts ? std::string(kDecodeParts) : ""},
                                {"FINISH", parts ? std::string(kDecodeFinishPart) : expand(kDecodeFinish, {{"EPILOGUE", epilogue}})},
                                {"COMBINE", parts ? expand(kDecodeCombine, {{"EPILOGUE", epilogue}}) : ""}});
}

}  // namespace

std::string cuda_attention_decode_refusal(const choice::Node& node) { return cuda_attention_refusal(std::get<Attention>(node.problem)); }

bool prefers_attention_decode(const choice::Node& node, const CudaAttentionTarget& target) {
  const auto& a = std::get<Attention>(node.problem);
  const AttentionSizes sizes = typical_sizes(a);
  if (sizes.queries * heads_of_group(a) <= kFewRows) return true;
  const int64_t tasks = sizes.batch * a.heads.constant() * ceil_div(sizes.queries, 128);
  return tasks * kSmallTasks <= target.multiprocessors && sizes.keys <= 512;
}

KernelText generate_cuda_attention_decode(const choice::Node& node, const CudaAttentionTarget& target) {
  const auto& a = std::get<Attention>(node.problem);
  const Shape s = shape_of(a, target);
  const int64_t rows = s.tiles * 8;
  const Expr parts = a.batch * a.kv_heads * sym::ceil_div(a.queries * heads_of_group(a), rows);
  CudaArguments arguments;
  if (s.splits > 1) {
    arguments.use_scratch(parts * (s.splits * rows * (a.value_dim + 2) * 4));
    arguments.use_counters(parts);
  }
  const auto n = [](int64_t x) { return std::to_string(x); };
  arguments.define(attention_definitions(a) + expand(kDecodeDefinitions, {{"D", n(a.head_dim)},
                                                                          {"DV", n(a.value_dim)},
                                                                          {"TILES", n(s.tiles)},
                                                                          {"WARPS", n(s.warps)},
                                                                          {"SPLITS", n(s.splits)},
                                                                          {"STAGES", n(s.stages)}}));
  const std::string body = kernel_text(arguments, node, a, s);
  KernelText k = arguments.kernel(cuda_template_name("attention", node.body), body, s.warps * 32, true, s.blocks, s.overlaps);
  k.tasks = parts * s.splits;
  k.shared_bytes = static_cast<int>(shared_bytes(a, s));
  k.plan = fmt::format("attention of {} queries a block, keys in {} parts, {} warps, {} stages{}", rows, s.splits, s.warps, s.stages,
                       s.skips ? ", masked steps skipped" : "");
  return k;
}

}  // namespace toroid::codegen
