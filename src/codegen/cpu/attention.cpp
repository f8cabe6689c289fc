// Kernels of attention by the templates of a CPU.
#include "codegen/cpu/parts.h"
#include "codegen/cpu/template.h"
#include "codegen/cpu/templates/attention_template.h"

namespace toroid::codegen {
namespace {

using program::Operand;

int64_t typical(const Expr& e) { return e.maybe_constant().value_or(128); }

AttentionOperand attention_operand(const Operand& o, Slots& slots) {
  return {slots.buffer(o.buffer),   o.dtype,
          slots.text(o.strides[0]), slots.text(o.strides[1]),
          slots.text(o.strides[2]), slots.text(o.strides[3]),
          slots.text(o.offset)};
}

// But for its tile, its name and its epilogue.
AttentionConfig attention_config(const program::Attention& a, device::Isa isa, Slots& slots) {
  AttentionConfig c;
  c.lanes = lanes_of(isa);
  c.batch = slots.extent(a.batch);
  c.heads = slots.extent(a.heads);
  c.kv_heads = slots.extent(a.kv_heads);
  c.queries = slots.extent(a.queries);
  c.keys = slots.extent(a.keys);
  c.depth = a.head_dim;
  c.value_depth = a.value_dim;
  c.scale = fmt::format("{:.9e}f", a.scale);
  c.causal = a.causal;
  c.q = attention_operand(a.q, slots);
  c.k = attention_operand(a.k, slots);
  c.v = attention_operand(a.v, slots);
  if (a.mask.buffer >= 0) {
    c.mask_kind = a.mask.dtype == DType::Bool ? AttentionMask::Boolean : AttentionMask::Additive;
    c.mask = attention_operand(a.mask, slots);
  }
  return c;
}

KernelText generate_attention(const program::Node& node, const program::Attention& a, device::Isa isa, const AttentionTile& tile,
                              bool few) {
  KernelText kernel;
  Slots slots(kernel);
  AttentionConfig c = attention_config(a, isa, slots);
  c.name = kernel.name = kernel_name("attention", node);
  c.tile = tile;
  c.few = few;
  PointNames points;
  const char* names[] = {"batch", "head", "m", "d"};
  for (size_t i = 0; i < 4; ++i) points[node.domain.vars[i].symbol] = names[i];
  PreludeNeeds needs{{"v_exp_f32", "s_exp_f32"}, {}};
  c.epilogue = epilogue_of(node.domain, node.body, c.lanes, slots, points, needs);
  c.scratch_buffer = static_cast<int>(kernel.buffers.size());
  kernel.source = needs.text(c.lanes) + attention_text(c);
  kernel.scratch_bytes_per_thread = few ? Expr(0) : Expr(attention_scratch_bytes(c));
  // One task a key/value head and block of queries, the heads of a group counted as further queries.
  kernel.tasks = a.batch * a.kv_heads;
  if (!few) kernel.tasks = kernel.tasks * sym::ceil_div(sym::floor_div(a.heads, a.kv_heads) * a.queries, Expr(tile.vecs * c.lanes));
  kernel.plan = few ? fmt::format("attention of few queries, {} keys a block", tile.block_keys)
                    : fmt::format("attention {} query vectors a task, {} keys a block", tile.vecs, tile.block_keys);
  return kernel;
}

}  // namespace

Form cpu_attention_few_form(const CpuSite& site) {
  const auto& a = site.problem<program::Attention>();
  const int lanes = lanes_of(site.isa);
  KernelText unused;
  Slots slots(unused);
  const bool few = has_few_queries(attention_config(a, site.isa, slots));
  Tiling<FewQueriesTile> how;
  how.rule = [] { return FewQueriesTile{}; };
  how.others = [] { return std::vector<FewQueriesTile>{{32}, {128}, {256}, {512}, {16}, {1024}}; };
  how.refusal = [=](const FewQueriesTile& t) { return attention_tile_refusal({.block_keys = t.block_keys}, lanes, true); };
  how.generate = [=, &a](const FewQueriesTile& t) {
    return generate_attention(site.node, a, site.isa, {.block_keys = t.block_keys}, true);
  };
  return make_form("attention_few", few ? "" : "more than a few queries, or rows that are no whole vectors", how);
}

Form cpu_attention_form(const CpuSite& site) {
  const auto& a = site.problem<program::Attention>();
  const int lanes = lanes_of(site.isa);
  const int64_t group = a.heads.is_const() && a.kv_heads.is_const() ? a.heads.constant() / a.kv_heads.constant() : 1;
  const int vecs = choose_attention_vecs(typical(a.queries) * group, lanes);
  Tiling<AttentionTile> how;
  how.rule = [=] { return AttentionTile{.vecs = vecs}; };
  how.others = [=] {
    std::vector<AttentionTile> out;
    for (int64_t keys : {64, 128, 32, 256})
      for (int v : {vecs, 3, 4, 2, 1}) out.push_back({v, keys});
    return out;
  };
  how.refusal = [=](const AttentionTile& t) { return attention_tile_refusal(t, lanes, false); };
  how.generate = [=, &a](const AttentionTile& t) { return generate_attention(site.node, a, site.isa, t, false); };
  return make_form("attention", "", how);
}

}  // namespace toroid::codegen
