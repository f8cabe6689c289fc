// Kernels of products by the templates of a CPU.
#include <algorithm>

#include "codegen/cpu/generate.h"
#include "codegen/cpu/packings.h"
#include "codegen/cpu/parts.h"
#include "codegen/cpu/template.h"
#include "codegen/cpu/templates/gemm_int8.h"
#include "codegen/cpu/templates/gemm_template.h"
#include "codegen/cpu/templates/gemv_template.h"

namespace toroid::codegen {

bool streams_weights(const program::Gemm& g) {
  size_t nb = g.batch.size();
  bool one = std::all_of(g.batch.begin(), g.batch.end(), [](const Expr& e) { return e == Expr(1); });
  return one && g.m.is_const() && g.m.constant() >= 1 && g.m.constant() <= 4 && g.a.dtype == DType::F32 &&
         (g.b.dtype == DType::F32 || is_half(g.b.dtype)) && g.a.strides[nb + 1] == Expr(1) && g.b.strides[nb] == Expr(1);
}

namespace {

int64_t typical(const Expr& e) { return e.maybe_constant().value_or(128); }

// C text that computes a row of a product's left operand.
RowProducer rows_of(const loop::Nest& producer, const program::Gemm& g, int lanes, Slots& slots, PreludeNeeds& needs) {
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

KernelText generate_gemv(const program::Node& node, const program::Gemm& g, device::Isa isa, const GemvTile& tile) {
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
std::vector<Tensor> packing_sources(const program::Gemm& g, const ConstantMemory& constants, int panel) {
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

// Whether a panel of the right operand in place is on more pages than the first level of their cache knows, for many tiles of rows: copied,
// its rows are neighbours. Not where the left operand is copied, which would be again for each panel.
bool is_on_many_pages(const program::Node& node, const program::Gemm& g, const GemmTile& tile) {
  constexpr int64_t kFloatsOfKnownPages = 64 * 1024, kManyTiles = 4;
  const size_t nb = g.batch.size();
  if (node.producer || g.a.dtype != DType::F32 || !(g.a.strides[nb + 1] == Expr(1))) return false;
  const auto rows = g.m.maybe_constant(), k = g.k.maybe_constant(), apart = g.b.strides[nb].maybe_constant();
  return rows && k && apart && *k * *apart > kFloatsOfKnownPages && *rows > kManyTiles * tile.rows;
}

KernelText generate_gemm(const program::Node& node, const program::Gemm& g, program::Program& program, device::Isa isa,
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
    // Half weights are kept half where they are streamed once a call, widened where they are reused.
    DType packed_type = g.m.is_const() && g.m.constant() <= 4 ? g.b.dtype : DType::F32;
    const GemmPacking how{.k = g.k.constant(),
                          .n = g.n.constant(),
                          .row = b_row.constant(),
                          .column = b_col.constant(),
                          .offset = g.b.offset.constant(),
                          .panel = c.tile.lanes * c.tile.vecs,
                          .type = g.b.dtype,
                          .packed_type = packed_type};
    int id = constants.add(program, g.b.buffer, packing_of(how), packing_sources(g, constants, how.panel));
    c.b_source = GemmB::Packed;
    c.b_type = packed_type;
    c.b_buffer = slots.buffer(id);
  } else {
    c.b_buffer = slots.buffer(g.b.buffer);
    c.b_type = g.b.dtype;
    c.b_row_stride = slots.text(b_row);
    c.b_col_stride = slots.text(b_col);
    c.b_batch_offset = batch_offset(g.b, g.batch, slots);
    c.b_source = g.b.dtype == DType::F32 && b_col == Expr(1) && !is_on_many_pages(node, g, tile) ? GemmB::InPlace : GemmB::Strided;
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
int add_packed_int8(const program::Gemm& g, program::Program& program, ConstantMemory& constants, int panel) {
  const size_t nb = g.batch.size();
  const Int8Packing how{.k = g.k.constant(),
                        .n = g.n.constant(),
                        .row = g.b.strides[nb].constant(),
                        .column = g.b.strides[nb + 1].constant(),
                        .offset = g.b.offset.constant(),
                        .panel = panel,
                        .more = g.a.dtype == DType::I8 ? 128 : 0};
  return constants.add(program, g.b.buffer, packing_of(how), {constants.tensors.at(g.b.buffer)});
}

KernelText generate_int8(const program::Node& node, const program::Gemm& g, program::Program& program, device::Isa isa,
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

constexpr const char* kFloats = "its sums are floats";
constexpr const char* kIntegers = "its sums are integers";

}  // namespace

Form cpu_gemm_int8_form(const CpuSite& site) {
  const auto& g = site.problem<program::Gemm>();
  const int lanes = std::max(lanes_of(site.isa), 8);
  Tiling<Int8Tile> how;
  how.rule = [=, &g] { return choose_int8_tile(typical(g.m), typical(g.n), typical(g.k), lanes); };
  how.others = [=, &g] { return other_int8_tiles(typical(g.m), typical(g.n), typical(g.k), lanes); };
  how.refusal = int8_tile_refusal;
  how.settle = settle_int8_tile;
  how.generate = [=, &g](const Int8Tile& t) { return generate_int8(site.node, g, *site.writable, site.isa, *site.constants, t); };
  return make_form("gemm_int8", g.accumulate == DType::I32 ? "" : kFloats, how);
}

Form cpu_gemv_form(const CpuSite& site) {
  const auto& g = site.problem<program::Gemm>();
  const int lanes = std::max(lanes_of(site.isa), 8);
  Tiling<GemvTile> how;
  how.rule = [=] { return GemvTile{.task_columns = lanes}; };
  how.others = [=, &g] {
    std::vector<GemvTile> tiles;
    for (int streams : {4, 8, 2})
      for (int64_t columns : {1, 2, 4, 8})
        if (columns == 1 || columns * lanes <= typical(g.n)) tiles.push_back({columns * lanes, streams});
    return tiles;
  };
  how.refusal = [=, &g](const GemvTile& t) { return gemv_tile_refusal(t, g.m.constant(), lanes); };
  how.generate = [=, &g](const GemvTile& t) { return generate_gemv(site.node, g, site.isa, t); };
  return make_form("gemv", streams_weights(g) ? "" : "not a few rows of f32 times rows of weights", how);
}

Form cpu_gemm_form(const CpuSite& site) {
  const auto& g = site.problem<program::Gemm>();
  const int lanes = std::max(lanes_of(site.isa), 8);
  const bool packed = site.program.buffers[static_cast<size_t>(g.b.buffer)].kind == loop::BufferKind::Constant;
  Tiling<GemmTile> how;
  how.rule = [=, &g] { return choose_gemm_tile(typical(g.m), typical(g.n), typical(g.k), lanes, packed); };
  how.others = [=, &g] { return other_gemm_tiles(typical(g.m), typical(g.n), typical(g.k), lanes, packed); };
  how.refusal = gemm_tile_refusal;
  how.settle = settle_gemm_tile;
  how.generate = [=, &g](const GemmTile& t) { return generate_gemm(site.node, g, *site.writable, site.isa, *site.constants, t); };
  return make_form("gemm", g.accumulate == DType::I32 ? kIntegers : "", how);
}

}  // namespace toroid::codegen
