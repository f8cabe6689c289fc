#include "codegen/cpu/generate.h"

#include <algorithm>

#include "base/check.h"
#include "codegen/cpu/convolutions.h"
#include "codegen/cpu/parts.h"
#include "codegen/cpu/templates/attention_template.h"
#include "codegen/cpu/templates/gemm_int8.h"
#include "codegen/cpu/templates/gemm_pack.h"
#include "codegen/cpu/templates/gemm_template.h"
#include "codegen/cpu/templates/gemv_template.h"
#include "codegen/cpu/templates/sort_template.h"

namespace toroid::codegen {
namespace {

using choice::Operand;

// C text that computes a row of a product's left operand.
RowProducer rows_of(const loop::Nest& producer, const choice::Gemm& g, int lanes, Slots& slots, PreludeNeeds& needs) {
  size_t nb = g.batch.size();
  PointNames points;
  for (size_t d = 0; d <= nb; ++d) points[producer.domain.vars[d].symbol] = d < nb ? unflatten("batch", g.batch, d, slots) : "m";
  loop::Domain inside;
  inside.vars.assign(producer.domain.vars.begin() + static_cast<long>(nb) + 1, producer.domain.vars.end());
  TemplateNames names = names_in_template(slots, points);
  names.pointer = [operand = g.a.buffer, memory = names.pointer](int buffer, DType dtype) {
    return buffer == operand ? "row" : memory(buffer, dtype);
  };
  RowText t = emit_row(inside, producer.body, lanes, names);
  needs.add(t.needs);
  return {t.statements, t.scratch_bytes, slots.text(t.scratch_bytes)};
}

int64_t typical(const Expr& e) { return e.maybe_constant().value_or(128); }

// A few rows times weights whose rows are contiguous along K: streamed as they are, half ones kept half.
bool is_gemv(const choice::Gemm& g) {
  size_t nb = g.batch.size();
  bool one = std::all_of(g.batch.begin(), g.batch.end(), [](const Expr& e) { return e == Expr(1); });
  return one && g.m.is_const() && g.m.constant() >= 1 && g.m.constant() <= 4 && g.a.dtype == DType::F32 &&
         (g.b.dtype == DType::F32 || is_half(g.b.dtype)) && g.a.strides[nb + 1] == Expr(1) && g.b.strides[nb] == Expr(1);
}

KernelText generate_gemv(const choice::Node& node, const choice::Gemm& g, device::Isa isa, const GemvTile& tile) {
  KernelText kernel;
  Slots slots(kernel);
  size_t nb = g.batch.size();
  GemvConfig c;
  c.lanes = std::max(lanes_of(isa), 8);
  c.name = kernel.name = kernel_name("gemv", node);
  c.m = g.m.constant();
  c.n = slots.extent(g.n);
  c.k = slots.extent(g.k);
  if (!node.producer) {
    c.a_buffer = slots.buffer(g.a.buffer);
    c.a_row_stride = slots.text(g.a.strides[nb]);
    c.a_offset = slots.text(g.a.offset);
  }
  c.b_buffer = slots.buffer(g.b.buffer);
  c.b_type = g.b.dtype;
  c.b_row_stride = slots.text(g.b.strides[nb + 1]);
  c.b_offset = slots.text(g.b.offset);
  c.tile = tile;
  PointNames points;
  for (size_t d = 0; d < nb; ++d) points[node.domain.vars[d].symbol] = "0";
  points[node.domain.vars[nb].symbol] = "m";
  points[node.domain.vars[nb + 1].symbol] = "n";
  PreludeNeeds needs;
  c.epilogue = epilogue_of(node.domain, node.body, c.lanes, slots, points, needs);
  if (node.producer) c.rows_of_a = rows_of(*node.producer, g, c.lanes, slots, needs);
  c.scratch_buffer = static_cast<int>(kernel.buffers.size());
  kernel.scratch_bytes_per_thread = gemv_scratch_bytes(c, g.k);
  kernel.source = needs.text(c.lanes) + gemv_text(c);
  kernel.tasks = sym::ceil_div(g.n, Expr(tile.task_columns));
  kernel.plan = fmt::format("gemv {} rows, weights {} in place, {} columns a task, {} at once", c.m, name_of(c.b_type), tile.task_columns,
                            tile.streams);
  return kernel;
}

// What the panels of a constant right operand are packed from: the parts of a stack of weights [n, k], if none shares a panel with the
// next, else the weight as a whole.
std::vector<Tensor> packing_sources(const choice::Gemm& g, const ConstantMemory& constants, int panel) {
  size_t nb = g.batch.size();
  const std::vector<Tensor>& parts = constants.parts.at(g.b.buffer);
  bool apart = g.b.strides[nb] == Expr(1) && g.b.strides[nb + 1] == g.k && g.b.offset == Expr(0);
  int64_t rows = 0;
  for (auto& p : parts) {
    apart = apart && rows % panel == 0 && p.dim() == 2 && p.is_contiguous();
    rows += p.dim() == 2 ? p.sizes()[0] : 0;
  }
  return apart && g.n == Expr(rows) ? parts : std::vector<Tensor>{constants.tensors.at(g.b.buffer)};
}

KernelText generate_gemm(const choice::Node& node, const choice::Gemm& g, choice::Program& program, device::Isa isa,
                         ConstantMemory& constants, const GemmTile& tile) {
  KernelText kernel;
  Slots slots(kernel);
  int lanes = std::max(lanes_of(isa), 8);
  size_t nb = g.batch.size();
  Expr batch = 1;
  for (auto& b : g.batch) batch = batch * b;
  const Expr &a_row = g.a.strides[nb], &a_col = g.a.strides[nb + 1], &b_row = g.b.strides[nb], &b_col = g.b.strides[nb + 1];
  bool same_b = std::all_of(g.b.strides.begin(), g.b.strides.begin() + static_cast<long>(nb), [](const Expr& e) { return e == Expr(0); }) ||
                batch == Expr(1);
  auto weight = constants.tensors.find(g.b.buffer);
  bool constant_b = weight != constants.tensors.end() && same_b && g.n.is_const() && g.k.is_const() && b_row.is_const() &&
                    b_col.is_const() && g.b.offset.is_const();

  GemmConfig c;
  c.name = kernel.name = kernel_name("gemm", node);
  c.m = slots.extent(g.m);
  c.n = slots.extent(g.n);
  c.k = slots.extent(g.k);
  c.batch = slots.extent(batch);
  c.tile = tile;
  if (!node.producer) {
    c.a_buffer = slots.buffer(g.a.buffer);
    c.a_type = g.a.dtype;
    c.a_row_stride = slots.text(a_row);
    c.a_col_stride = slots.text(a_col);
    c.a_batch_offset = batch_offset(g.a, g.batch, slots);
  }
  if (constant_b) {
    const Tensor& w = weight->second;
    int panel = c.tile.lanes * c.tile.vecs;
    int64_t k = g.k.constant(), n = g.n.constant();
    // Half weights are kept half where they are streamed once a call, widened where they are reused.
    DType packed_type = g.m.is_const() && g.m.constant() <= 4 ? g.b.dtype : DType::F32;
    Tensor packed = Tensor::empty({packed_b_elements(k, n, panel)}, packed_type);
    // A few panels a job, so that one large weight is packed by all threads.
    constexpr int64_t kColumnsPerJob = 1024;
    int64_t columns = std::max<int64_t>(kColumnsPerJob / panel, 1) * panel, begin = 0;
    for (const Tensor& source : packing_sources(g, constants, panel)) {
      int64_t end = source.impl() == w.impl() ? n : begin + source.sizes()[0];
      for (int64_t first = begin; first < end; first += columns)
        constants.jobs.push_back([=, type = g.b.dtype, offset = g.b.offset.constant(), row = b_row.constant(), col = b_col.constant()] {
          const std::byte* from = source.raw_data() + (offset + (first - begin) * col) * static_cast<int64_t>(size_of(type));
          std::byte* to = packed.raw_data() + packed_b_elements(k, first, panel) * static_cast<int64_t>(size_of(packed_type));
          pack_b(from, type, k, std::min(columns, end - first), row, col, panel, to, packed_type);
        });
      begin = end;
    }
    int id = program.new_buffer("packed_" + program.buffers[static_cast<size_t>(g.b.buffer)].name, packed_type, packed.numel(),
                                loop::BufferKind::Constant);
    constants.packed[id] = packed;
    c.b_source = GemmB::Packed;
    c.b_type = packed_type;
    c.b_buffer = slots.buffer(id);
  } else {
    c.b_buffer = slots.buffer(g.b.buffer);
    c.b_type = g.b.dtype;
    c.b_row_stride = slots.text(b_row);
    c.b_col_stride = slots.text(b_col);
    c.b_batch_offset = batch_offset(g.b, g.batch, slots);
    c.b_source = g.b.dtype == DType::F32 && b_col == Expr(1) ? GemmB::InPlace : GemmB::Strided;
  }
  PointNames points;
  for (size_t d = 0; d < nb; ++d) points[node.domain.vars[d].symbol] = unflatten("batch", g.batch, d, slots);
  points[node.domain.vars[nb].symbol] = "m";
  points[node.domain.vars[nb + 1].symbol] = "n";
  PreludeNeeds needs;
  c.epilogue = epilogue_of(node.domain, node.body, lanes, slots, points, needs);
  if (node.producer) c.rows_of_a = rows_of(*node.producer, g, lanes, slots, needs);
  c.scratch_buffer = static_cast<int>(kernel.buffers.size());
  kernel.source = needs.text(lanes) + gemm_text(c);
  kernel.tasks = batch * sym::ceil_div(g.m, Expr(c.tile.block_m)) * sym::ceil_div(g.n, Expr(c.tile.lanes * c.tile.vecs));
  kernel.scratch_bytes_per_thread = gemm_scratch_bytes(c, g.k);
  kernel.plan =
      fmt::format("gemm tile {}x{} vectors, block_k {}, block_m {}, B {}", c.tile.rows, c.tile.vecs, c.tile.block_k, c.tile.block_m,
                  c.b_source == GemmB::Packed    ? "packed"
                  : c.b_source == GemmB::InPlace ? "in place"
                                                 : "copied");
  return kernel;
}

Expr product_of(const std::vector<Expr>& sizes) {
  Expr n = 1;
  for (auto& s : sizes) n = n * s;
  return n;
}

// The position of the constant that a product's right operand is packed into, added to the program.
int add_packed_int8(const choice::Gemm& g, choice::Program& program, ConstantMemory& constants, int panel) {
  const size_t nb = g.batch.size();
  const int64_t k = g.k.constant(), n = g.n.constant();
  const Tensor packed = Tensor::empty({packed_int8_bytes(k, n, panel)}, DType::I8);
  constexpr int64_t kColumnsPerJob = 1024;  // so that one large weight is packed by all threads
  const int64_t columns = std::max<int64_t>(kColumnsPerJob / panel, 1) * panel;
  for (int64_t first = 0; first < n; first += columns)
    constants.jobs.push_back([=, source = constants.tensors.at(g.b.buffer), offset = g.b.offset.constant(),
                              row = g.b.strides[nb].constant(), col = g.b.strides[nb + 1].constant(),
                              more = g.a.dtype == DType::I8 ? 128 : 0] {
      const auto* from = reinterpret_cast<const int8_t*>(source.raw_data()) + offset + first * col;
      pack_int8(from, k, std::min(columns, n - first), row, col, panel, more, packed.raw_data() + packed_int8_bytes(k, first, panel));
    });
  const int id = program.new_buffer("packed_" + program.buffers[static_cast<size_t>(g.b.buffer)].name, DType::I8, packed.numel(),
                                    loop::BufferKind::Constant);
  constants.packed[id] = packed;
  return id;
}

KernelText generate_int8(const choice::Node& node, const choice::Gemm& g, choice::Program& program, device::Isa isa,
                         ConstantMemory& constants, const Int8Tile& tile) {
  KernelText kernel;
  Slots slots(kernel);
  const int lanes = std::max(lanes_of(isa), 8);
  const size_t nb = g.batch.size();
  const Expr batch = product_of(g.batch);
  Int8Config c;
  c.name = kernel.name = kernel_name("gemm_int8", node);
  c.m = slots.extent(g.m);
  c.n = g.n.constant();
  c.k = g.k.constant();
  c.batch = slots.extent(batch);
  c.tile = tile;
  c.tile.lanes = lanes;
  c.a_buffer = slots.buffer(g.a.buffer);
  c.a_type = g.a.dtype;
  c.a_row_stride = slots.text(g.a.strides[nb]);
  c.a_col_stride = slots.text(g.a.strides[nb + 1]);
  c.a_batch_offset = batch_offset(g.a, g.batch, slots);
  c.b_buffer = slots.buffer(add_packed_int8(g, program, constants, lanes * tile.vecs));
  PointNames points;
  for (size_t d = 0; d < nb; ++d) points[node.domain.vars[d].symbol] = unflatten("batch", g.batch, d, slots);
  points[node.domain.vars[nb].symbol] = "m";
  points[node.domain.vars[nb + 1].symbol] = "n";
  PreludeNeeds needs;
  c.epilogue = epilogue_of(node.domain, node.body, lanes, slots, points, needs);
  c.scratch_buffer = static_cast<int>(kernel.buffers.size());
  kernel.source = needs.text(lanes) + int8_text(c);
  kernel.tasks = batch * sym::ceil_div(g.m, Expr(tile.block_m)) * sym::ceil_div(g.n, Expr(lanes * tile.vecs));
  kernel.scratch_bytes_per_thread = int8_scratch_bytes(c);
  kernel.plan = fmt::format("int8 gemm tile {}x{} vectors, block_m {}, B packed", tile.rows, tile.vecs, tile.block_m);
  return kernel;
}

AttentionOperand attention_operand(const Operand& o, Slots& slots) {
  return {slots.buffer(o.buffer),   o.dtype,
          slots.text(o.strides[0]), slots.text(o.strides[1]),
          slots.text(o.strides[2]), slots.text(o.strides[3]),
          slots.text(o.offset)};
}

// But for its tile, its name and its epilogue.
AttentionConfig attention_config(const choice::Attention& a, device::Isa isa, Slots& slots) {
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

KernelText generate_attention(const choice::Node& node, const choice::Attention& a, device::Isa isa, const AttentionTile& tile, bool few) {
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

KernelText generate_sort(const choice::Sort& s, device::Isa isa) {
  KernelText kernel;
  Slots slots(kernel);
  SortConfig c;
  c.name = kernel.name = s.count == s.length ? "sort" : "topk";
  c.dtype = s.keys.dtype;
  c.descending = s.descending;
  c.length = slots.extent(s.length);
  c.count = slots.extent(s.count);
  c.selects = !(s.count == s.length);
  c.long_rows = sym::bounds(s.length).hi >= int64_t{1} << 32;
  c.contiguous = s.keys.strides.back() == Expr(1);
  // Where a row's first element is.
  auto offset = [&](const Operand& o) {
    std::string text = slots.text(o.offset);
    for (size_t d = 0; d < s.rows.size(); ++d)
      text += fmt::format(" + {} * {}", unflatten("row", s.rows, d, slots), slots.text(o.strides[d]));
    return text;
  };
  c.key_buffer = slots.buffer(s.keys.buffer);
  c.key_offset = offset(s.keys);
  c.key_stride = slots.text(s.keys.strides.back());
  if (s.values.buffer >= 0) {
    c.value_buffer = slots.buffer(s.values.buffer);
    c.value_offset = offset(s.values);
    c.value_stride = slots.text(s.values.strides.back());
  }
  if (s.positions.buffer >= 0) {
    c.position_buffer = slots.buffer(s.positions.buffer);
    c.position_offset = offset(s.positions);
    c.position_stride = slots.text(s.positions.strides.back());
  }
  c.scratch_buffer = static_cast<int>(kernel.buffers.size());
  c.room = slots.extent(sort_room(s.length, s.count));
  kernel.source = PreludeNeeds{}.text(lanes_of(isa)) + sort_text(c);
  kernel.tasks = 1;
  for (auto& r : s.rows) kernel.tasks = kernel.tasks * r;
  kernel.scratch_bytes_per_thread = sort_scratch_bytes(c, s.length, s.count);
  kernel.plan = fmt::format("{} of rows of {}, a row a task, {} elements in scratch", c.name, sym::to_string(s.length),
                            sym::to_string(sort_room(s.length, s.count)));
  return kernel;
}

// --- the forms of a node --------------------------------------------------------------------------------------------------------------

constexpr size_t kMostConfigs = 20;

// program, constants: only code needs them, to which packed weights are added.
std::vector<Form> gemm_forms(const choice::Node& node, const choice::Gemm& g, device::Isa isa, bool packed, choice::Program* program,
                             ConstantMemory* constants) {
  const int lanes = std::max(lanes_of(isa), 8);
  if (g.accumulate == DType::I32) {
    Tiling<Int8Tile> int8;
    int8.rule = [=, &g] { return choose_int8_tile(typical(g.m), typical(g.n), typical(g.k), lanes); };
    int8.others = [=, &g] { return other_int8_tiles(typical(g.m), typical(g.n), typical(g.k), lanes); };
    int8.refusal = int8_tile_refusal;
    int8.settle = settle_int8_tile;
    int8.generate = [=, &node, &g](const Int8Tile& t) { return generate_int8(node, g, *program, isa, *constants, t); };
    return {make_form("gemm_int8", "", int8)};
  }
  Tiling<GemvTile> gemv;
  gemv.rule = [=] { return GemvTile{.task_columns = lanes}; };
  gemv.others = [=, &g] {
    std::vector<GemvTile> tiles;
    for (int streams : {4, 8, 2})
      for (int64_t columns : {1, 2, 4, 8})
        if (columns == 1 || columns * lanes <= typical(g.n)) tiles.push_back({columns * lanes, streams});
    return tiles;
  };
  gemv.refusal = [=, &g](const GemvTile& t) { return gemv_tile_refusal(t, g.m.constant(), lanes); };
  gemv.generate = [=, &node, &g](const GemvTile& t) { return generate_gemv(node, g, isa, t); };
  Tiling<GemmTile> gemm;
  gemm.rule = [=, &g] { return choose_gemm_tile(typical(g.m), typical(g.n), typical(g.k), lanes, packed); };
  gemm.others = [=, &g] { return other_gemm_tiles(typical(g.m), typical(g.n), typical(g.k), lanes, packed); };
  gemm.refusal = gemm_tile_refusal;
  gemm.settle = settle_gemm_tile;
  gemm.generate = [=, &node, &g](const GemmTile& t) { return generate_gemm(node, g, *program, isa, *constants, t); };
  return {make_form("gemv", is_gemv(g) ? "" : "not a few rows of f32 times rows of weights", gemv), make_form("gemm", "", gemm)};
}

std::vector<Form> convolution_forms(const choice::Node& node, const choice::Convolution& c, device::Isa isa, choice::Program* program,
                                    ConstantMemory* constants) {
  const int lanes = lanes_of(isa);
  if (c.accumulate == DType::I32 && !shape_of(c).depthwise()) {
    Tiling<ConvInt8Tile> int8;
    int8.rule = [=, &c] { return choose_conv_int8_tile(shape_of(c), lanes); };
    int8.others = [=, &c] { return other_conv_int8_tiles(shape_of(c), lanes); };
    int8.refusal = [=, &c](const ConvInt8Tile& t) { return conv_int8_tile_refusal(shape_of(c), t); };
    int8.generate = [=, &node, &c](const ConvInt8Tile& t) { return generate_conv_int8(node, c, *program, isa, *constants, t); };
    return {make_form("conv_int8", "", int8)};
  }
  Tiling<ConvTile> how;
  how.rule = [=, &c] { return choose_conv_tile(shape_of(c), input_of(c), lanes); };
  how.others = [=, &c] { return other_conv_tiles(shape_of(c), input_of(c), lanes); };
  how.refusal = [=, &c](const ConvTile& t) { return conv_tile_refusal(shape_of(c), input_of(c), t); };
  how.generate = [=, &node, &c](const ConvTile& t) { return generate_convolution(node, c, *program, isa, *constants, t); };
  Tiling<WinogradTile> squares;
  squares.rule = [=, &c] { return choose_winograd_tile(shape_of(c), lanes); };
  squares.others = [=, &c] { return other_winograd_tiles(shape_of(c), lanes); };
  squares.refusal = [=, &c](const WinogradTile& t) { return winograd_tile_refusal(shape_of(c), t); };
  squares.generate = [=, &node, &c](const WinogradTile& t) { return generate_winograd(node, c, *program, isa, *constants, t); };
  if (c.accumulate == DType::I32) return {make_form("conv_depthwise_int8", "", how)};
  Form winograd = make_form("winograd", winograd_refusal(shape_of(c), input_of(c), lanes), squares);
  winograd.reluctance = winograd_reluctance(shape_of(c));
  return {std::move(winograd), make_form(shape_of(c).depthwise() ? "conv_depthwise" : "convolution", "", how)};
}

std::vector<Form> attention_forms(const choice::Node& node, const choice::Attention& a, device::Isa isa) {
  const int lanes = lanes_of(isa);
  KernelText unused;
  Slots slots(unused);
  const bool few = has_few_queries(attention_config(a, isa, slots));
  Tiling<FewQueriesTile> decode;
  decode.rule = [] { return FewQueriesTile{}; };
  decode.others = [] { return std::vector<FewQueriesTile>{{32}, {128}, {256}, {512}, {16}, {1024}}; };
  decode.refusal = [=](const FewQueriesTile& t) { return attention_tile_refusal({.block_keys = t.block_keys}, lanes, true); };
  decode.generate = [=, &node, &a](const FewQueriesTile& t) {
    return generate_attention(node, a, isa, {.block_keys = t.block_keys}, true);
  };
  const int64_t group = a.heads.is_const() && a.kv_heads.is_const() ? a.heads.constant() / a.kv_heads.constant() : 1;
  const int vecs = choose_attention_vecs(typical(a.queries) * group, lanes);
  Tiling<AttentionTile> tiles;
  tiles.rule = [=] { return AttentionTile{.vecs = vecs}; };
  tiles.others = [=] {
    std::vector<AttentionTile> out;
    for (int64_t keys : {64, 128, 32, 256})
      for (int v : {vecs, 3, 4, 2, 1}) out.push_back({v, keys});
    return out;
  };
  tiles.refusal = [=](const AttentionTile& t) { return attention_tile_refusal(t, lanes, false); };
  tiles.generate = [=, &node, &a](const AttentionTile& t) { return generate_attention(node, a, isa, t, false); };
  return {make_form("attention_few", few ? "" : "more than a few queries, or rows that are no whole vectors", decode),
          make_form("attention", "", tiles)};
}

bool is_constant(const choice::Program& p, const Operand& o) {
  return p.buffers[static_cast<size_t>(o.buffer)].kind == loop::BufferKind::Constant;
}

// None for nodes that leave nothing open.
std::vector<Form> forms_of(const choice::Node& node, const choice::Program& p, device::Isa isa, choice::Program* program = nullptr,
                           ConstantMemory* constants = nullptr) {
  if (auto* g = std::get_if<choice::Gemm>(&node.problem)) return gemm_forms(node, *g, isa, is_constant(p, g->b), program, constants);
  if (auto* c = std::get_if<choice::Convolution>(&node.problem)) return convolution_forms(node, *c, isa, program, constants);
  if (auto* a = std::get_if<choice::Attention>(&node.problem)) return attention_forms(node, *a, isa);
  return {};
}

}  // namespace

bool supports(const choice::Gemm& g, bool constant_b) {
  const auto known = [](auto& e) { return e.is_const(); };
  return (g.a.dtype == DType::I8 || g.a.dtype == DType::U8) && g.b.dtype == DType::I8 && g.accumulate == DType::I32 && constant_b &&
         g.batch.empty() && known(g.n) && known(g.k) && known(g.b.offset) && std::all_of(g.b.strides.begin(), g.b.strides.end(), known);
}

bool supports(const choice::Convolution& c, bool constant_weight, device::Isa isa) {
  const bool whole =
      c.accumulate == DType::I32 && (c.input.dtype == DType::U8 || c.input.dtype == DType::I8) && c.weight.dtype == DType::I8;
  if (!constant_weight || isa == device::Isa::Scalar || !(whole || c.input.dtype == DType::F32) || !c.in_h.is_const() ||
      !c.in_w.is_const() || !(c.input.offset == Expr(0)))
    return false;
  ConvLayout layout = layout_of(c);
  if (layout == ConvLayout::Other) return false;
  ConvShape s = shape_of(c);
  int lanes = lanes_of(isa);
  if (s.depthwise()) return layout == ConvLayout::Nhwc && s.channels >= lanes;
  if (whole) return layout == ConvLayout::Nhwc && conv_int8_refusal(s).empty();
  return conv_direct_supported(s, input_of(c), lanes);
}

bool supports(const choice::Attention& a, device::Isa isa) {
  auto dtype = [](DType t) { return t == DType::F32 || is_half(t); };
  return isa != device::Isa::Scalar && dtype(a.q.dtype) && dtype(a.k.dtype) && dtype(a.v.dtype) &&
         (a.mask.buffer < 0 || a.mask.dtype == DType::Bool || dtype(a.mask.dtype));
}

bool supports(const choice::Sort& s) { return !is_complex(s.keys.dtype); }

KernelText generate(const choice::Node& node, choice::Program& program, device::Isa isa, ConstantMemory& constants) {
  if (const auto forms = forms_of(node, program, isa, &program, &constants); !forms.empty()) return generate_by(forms, node);
  TOROID_USER_CHECK(node.config.empty(), "{} is no configuration of {}, which leaves nothing open; tune it again",
                    choice::to_string(node.config), choice::label(node));
  if (auto* s = std::get_if<choice::Sort>(&node.problem)) return generate_sort(*s, isa);
  std::vector<loop::Nest> nests = {{node.domain, node.body}};
  nests.insert(nests.end(), node.beside.begin(), node.beside.end());
  return generate_loops(nests, program.buffers, isa);
}

std::vector<choice::Config> configs(const choice::Node& node, const choice::Program& program, device::Isa isa) {
  const auto forms = forms_of(node, program, isa);
  return forms.empty() ? std::vector<choice::Config>{} : configs_of(forms, kMostConfigs);
}

std::vector<choice::Config> neighbours(const choice::Config& c, const choice::Node& node, const choice::Program& program, device::Isa isa) {
  return neighbours_of(forms_of(node, program, isa), c);
}

}  // namespace toroid::codegen
