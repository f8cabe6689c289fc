#include "codegen/cuda/templates/gemm_simt.h"

#include <algorithm>

#include "base/check.h"
#include "codegen/cuda/template.h"
#include "codegen/cuda/templates/gemm_mma.h"
#include "codegen/cuda/templates/gemm_simt.cu.h"
#include "codegen/cuda/templates/parts.h"

namespace toroid::codegen {
namespace {

// Neighbouring threads read neighbours in memory: along k, or along the other dimension.
struct Walk {
  std::string k, r;
};
Walk walk(const Expr& k_stride) { return k_stride == Expr(1) ? Walk{"e % DEPTH", "e / DEPTH"} : Walk{"e / TILE", "e % TILE"}; }

constexpr int kSimtThreads = 256;
constexpr int kSimtTiles[] = {64, 32, 16};

Expr simt_blocks(const program::Gemm& g, int tile) {
  Expr out = sym::ceil_div(g.m, tile) * sym::ceil_div(g.n, tile);
  for (auto& e : g.batch) out = out * e;
  return out;
}

}  // namespace

template <class Visit>
void fields(SimtTile& t, const Visit& visit) {
  visit("tile", t.tile, kDoubles);
}

std::string gemm_simt_refusal(const program::Node& node, const program::Gemm& g) {
  return node.producer ? "rows of A are computed" : g.b2 ? "it has two right operands" : "";
}

SimtTile choose_simt_tile(const program::Gemm& g, int processors) {
  // The largest one that gives each multiprocessor a block: small ones read their operands more often.
  for (const int tile : kSimtTiles)
    if (typical_size(simt_blocks(g, tile)) >= processors) return {tile};
  return {kSimtTiles[2]};
}

KernelText generate_gemm_simt(const program::Node& node, const program::Gemm& g, const SimtTile& tile) {
  TOROID_CHECK(!node.producer && !g.b2, "gemm_simt reads its rows from memory, and multiplies by one matrix");
  CudaArguments arguments;
  const size_t nb = g.batch.size();
  std::vector<std::string> at = cuda_unflatten(arguments, "batch", g.batch);
  auto element = [&](const program::Operand& o, const char* first, const char* second) {
    std::vector<std::string> place = at;
    place.insert(place.end(), {first, second});
    return cuda_load(arguments, o.dtype,
                     fmt::format("{} + {}", arguments.pointer(o.buffer, o.dtype), cuda_address(arguments, o.offset, o.strides, place)));
  };
  std::vector<std::string> point = at;
  point.insert(point.end(), {"m", "n"});
  const CudaPoints epilogue = cuda_epilogue(arguments, {node.domain, node.body}, point, "acc[i]", 4);
  const Walk a = walk(g.a.strides[nb + 1]), b = walk(g.b.strides[nb]);
  const std::string body = expand(gemm_simt_cu::kText, {{"TILE", std::to_string(tile.tile)},
                                                        {"M", cuda_size(arguments, g.m)},
                                                        {"N", cuda_size(arguments, g.n)},
                                                        {"K", cuda_size(arguments, g.k)},
                                                        {"A_K", a.k},
                                                        {"A_R", a.r},
                                                        {"B_K", b.k},
                                                        {"B_R", b.r},
                                                        {"A_VALUE", element(g.a, "m", "at")},
                                                        {"B_VALUE", element(g.b, "at", "n")},
                                                        {"EPILOGUE", epilogue.statements}});
  KernelText k = arguments.kernel(cuda_template_name("gemm_simt", node.body), body, kSimtThreads, true);
  k.tasks = simt_blocks(g, tile.tile);
  k.plan =
      fmt::format("gemm_simt: tiles of {0} x {0}, {1} slices of 16 at once\n", tile.tile, 16 * kSimtThreads / (tile.tile * tile.tile)) +
      loop::to_string(node.domain, node.body);
  return k;
}

Form cuda_gemm_simt_form(const CudaSite& site) {
  const program::Node& node = site.node;
  const auto& g = site.problem<program::Gemm>();
  Tiling<SimtTile> how;
  how.rule = [&g, processors = site.gpu.multiprocessors] { return choose_simt_tile(g, processors); };
  how.others = [] { return std::vector<SimtTile>{{64}, {32}, {16}}; };
  how.refusal = [](const SimtTile& t) {
    return std::find(std::begin(kSimtTiles), std::end(kSimtTiles), t.tile) == std::end(kSimtTiles) ? "a tile is 16, 32 or 64" : "";
  };
  how.generate = [&node, &g](const SimtTile& t) { return generate_gemm_simt(node, g, t); };
  Form form = make_form("gemm_simt", gemm_simt_refusal(node, g), how);
  if (gemm_mma_refusal(node, g).empty()) form.configs = [] { return std::vector<program::Config>{}; };  // far behind tensor cores
  return form;
}

}  // namespace toroid::codegen
