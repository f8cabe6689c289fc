#include "codegen/cuda/templates/gemm_mma.h"

#include <fmt/core.h>

#include <algorithm>
#include <span>

#include "codegen/cuda/template.h"
#include "codegen/cuda/templates/gemm_wgmma.h"
#include "codegen/cuda/templates/parts.h"

namespace toroid::codegen {
namespace {

// How many neighbours along the contiguous dimension one copy moves: rows and batches must begin at multiples of that.
int copy_width(const program::Operand& o, const Expr& contiguous, const Expr& row, size_t batch_dims) {
  if (!(contiguous == Expr(1))) return 1;
  for (int width = static_cast<int>(16 / size_of(o.dtype)); width > 1; width /= 2) {
    bool aligned = sym::known_multiple(o.offset, width) && sym::known_multiple(row, width);
    for (size_t d = 0; d < batch_dims; ++d) aligned = aligned && sym::known_multiple(o.strides[d], width);
    if (aligned) return width;
  }
  return 1;
}

// `outer`, `k`: strides along m (of A) or n (of B) and along k.
MmaOperand operand_of(CudaArguments& arguments, const program::Operand& o, const Expr& outer, const Expr& k,
                      const std::vector<std::string>& at) {
  const std::span<const Expr> batch = std::span<const Expr>(o.strides).first(at.size());
  MmaOperand x;
  x.k_contiguous = k == Expr(1) || !(outer == Expr(1));
  x.width = copy_width(o, x.k_contiguous ? k : outer, x.k_contiguous ? outer : k, at.size());
  x.data = arguments.pointer(o.buffer, o.dtype) + " + " + cuda_address(arguments, o.offset, batch, at);
  x.stride_mn = cuda_size(arguments, outer);
  x.stride_k = cuda_size(arguments, k);
  return x;
}

// Whether an operand can only be copied one by one. Elements wait in registers between global and shared memory: of short slices and for
// many threads they are few.
bool copies_elements(const program::Gemm& g) {
  if (!is_half(g.a.dtype)) return false;  // 4 bytes can be copied asynchronously
  const size_t nb = g.batch.size();
  auto one_by_one = [&](const program::Operand& o, const Expr& outer, const Expr& k) {
    return copy_width(o, k == Expr(1) ? k : outer, k == Expr(1) ? outer : k, nb) == 1;
  };
  return one_by_one(g.a, g.a.strides[nb], g.a.strides[nb + 1]) || one_by_one(g.b, g.b.strides[nb + 1], g.b.strides[nb]);
}

// Whether the place of a batch needs 64 bits.
bool is_far(const program::Operand& o, const std::vector<Expr>& batch) {
  Expr end = o.offset;
  for (size_t d = 0; d < batch.size(); ++d) end += o.strides[d] * batch[d];
  return !sym::known_lt(end, int64_t{1} << 31);
}

}  // namespace

std::string tensor_core_refusal(DType a, DType b, bool tf32) {
  if (a != b) return "operands of two types";
  if (a == DType::F32) return tf32 ? "" : "f32 is not to be rounded to tf32 (option allow_tf32)";
  return is_half(a) ? "" : "operands are not bf16, f16 or f32";
}

std::string gemm_mma_refusal(const program::Node& node, const program::Gemm& g) {
  if (g.b2) return "it has two right operands";
  if (node.producer) return "rows of A are computed";
  if (g.accumulate != DType::F32) return "sums are not f32";
  return tensor_core_refusal(g.a.dtype, g.b.dtype, g.tf32);
}

KernelText generate_gemm_mma(const program::Node& node, const program::Gemm& g, const MmaTile& tile) {
  CudaArguments arguments;
  const size_t nb = g.batch.size();
  std::vector<std::string> at = cuda_unflatten(arguments, "batch", g.batch);
  GemmMma x;
  x.type = g.a.dtype;
  x.tile = tile;
  x.a = operand_of(arguments, g.a, g.a.strides[nb], g.a.strides[nb + 1], at);
  x.b = operand_of(arguments, g.b, g.b.strides[nb + 1], g.b.strides[nb], at);
  x.m = cuda_size(arguments, g.m);
  x.n = cuda_size(arguments, g.n);
  x.k = cuda_size(arguments, g.k);
  at.insert(at.end(), {"m", "n"});
  const loop::Nest points{node.domain, node.body};
  constexpr int kColumns = 8;  // that a thread stores at once
  x.around = begins_anywhere(points, kColumns);
  if (x.around) at[at.size() - 2] = "(m < M ? m : M - 1)";
  const CudaPoints epilogue =
      x.around ? cuda_epilogue_around(arguments, points, at, "acc", kColumns, {}) : cuda_epilogue(arguments, points, at, "acc", kColumns);
  x.epilogue = epilogue.statements, x.carried = epilogue.carried;
  const GemmMmaText text = gemm_mma_text(x);
  arguments.define(text.definitions);
  const bool wide = epilogue.wide || is_far(g.a, g.batch) || is_far(g.b, g.batch);
  KernelText k = arguments.kernel(cuda_template_name("gemm_mma", node.body), text.body, tile.threads(), wide);
  k.shared_bytes = mma_shared_bytes(x);
  k.tasks = sym::ceil_div(g.m, tile.block_m) * sym::ceil_div(g.n, tile.block_n);
  for (auto& e : g.batch) k.tasks = k.tasks * e;
  k.plan = fmt::format("gemm_mma: tiles of {} x {} x {}, {} stages, {} x {} warps\n", tile.block_m, tile.block_n, tile.block_k, tile.stages,
                       tile.warps_m, tile.warps_n) +
           loop::to_string(node.domain, node.body);
  return k;
}

std::vector<MmaTile> mma_tiles(const program::Gemm& g) {
  if (g.tf32)
    return {{128, 128, 32, 3, 2, 2}, {128, 128, 16, 5, 2, 2}, {128, 256, 16, 4, 2, 4}, {256, 128, 16, 4, 4, 2}, {128, 256, 32, 3, 2, 4},
            {256, 128, 32, 3, 4, 2}, {128, 128, 32, 3, 2, 4}, {128, 128, 32, 4, 2, 2}, {128, 64, 32, 4, 2, 2},  {64, 128, 32, 4, 2, 2},
            {64, 64, 32, 4, 2, 2},   {64, 64, 32, 6, 2, 2},   {32, 64, 32, 6, 2, 2}};
  if (copies_elements(g)) return {{128, 128, 32, 4, 2, 4}, {64, 64, 32, 4, 2, 2}};
  return {{128, 256, 32, 3, 2, 4}, {256, 128, 32, 3, 4, 2}, {128, 128, 32, 4, 2, 2}, {128, 128, 64, 3, 2, 2}, {128, 128, 32, 4, 2, 4},
          {128, 64, 64, 3, 2, 2},  {64, 128, 64, 3, 2, 2},  {64, 64, 64, 3, 2, 2},   {64, 64, 64, 4, 2, 2},   {32, 64, 64, 5, 2, 2}};
}

std::string mma_tile_refusal(const program::Gemm& g, const MmaTile& t, int64_t shared_bytes) {
  constexpr int kMostStages = 8;
  if (t.stages < 2 || t.stages > kMostStages) return fmt::format("stages is not from 2 to {}", kMostStages);
  const auto tiles = mma_tiles(g);
  const bool known = std::any_of(tiles.begin(), tiles.end(), [&](MmaTile x) { return x.stages = t.stages, x == t; });
  if (!known) return "there is no such tile";
  const size_t nb = g.batch.size();
  GemmMma x;
  x.type = g.a.dtype;
  x.tile = t;
  x.a.k_contiguous = g.a.strides[nb + 1] == Expr(1) || !(g.a.strides[nb] == Expr(1));
  x.b.k_contiguous = g.b.strides[nb] == Expr(1) || !(g.b.strides[nb + 1] == Expr(1));
  return mma_shared_bytes(x) > shared_bytes ? "its stages do not fit shared memory" : "";
}

MmaTile choose_mma_tile(const program::Gemm& g, int64_t m, int64_t n, int64_t batch, int processors) {
  const bool many = ceil_div(m, 128) * ceil_div(n, 128) * batch >= processors;
  if (copies_elements(g)) return many ? MmaTile{128, 128, 32, 4, 2, 4} : MmaTile{64, 64, 32, 4, 2, 2};
  if (g.tf32) {
    auto fill = [&](int block) { return 4 * ceil_div(m, block) * ceil_div(n, block) * batch >= 3 * processors; };
    return fill(128) ? MmaTile{128, 128, 32, 3, 2, 2} : fill(64) ? MmaTile{64, 64, 32, 4, 2, 2} : MmaTile{32, 64, 32, 6, 2, 2};
  }
  if (many) return {128, 128, 64, 3, 2, 2};
  return ceil_div(m, 64) * ceil_div(n, 64) * batch >= processors ? MmaTile{64, 64, 64, 3, 2, 2} : MmaTile{32, 64, 64, 5, 2, 2};
}

Form cuda_gemm_mma_form(const CudaSite& site) {
  const program::Node& node = site.node;
  const auto& g = site.problem<program::Gemm>();
  const auto shared_bytes = static_cast<int64_t>(site.gpu.shared_bytes);
  const int processors = site.gpu.multiprocessors;
  const WgmmaSizes sizes = wgmma_sizes(g, processors);
  Tiling<MmaTile> how;
  how.rule = [=, &g] { return choose_mma_tile(g, sizes.m, sizes.n, sizes.batch, processors); };
  how.others = [&g] { return mma_tiles(g); };
  how.refusal = [=, &g](const MmaTile& t) { return mma_tile_refusal(g, t, shared_bytes); };
  how.generate = [&node, &g](const MmaTile& t) { return generate_gemm_mma(node, g, t); };
  return make_form("gemm_mma", gemm_mma_refusal(node, g), how);
}

}  // namespace toroid::codegen
