#include "codegen/cuda/generate.h"

#include <functional>
#include <memory>

#include "base/check.h"
#include "codegen/cuda/kernel.h"
#include "codegen/cuda/templates/attention_decode.h"
#include "codegen/cuda/templates/attention_prefill.h"
#include "codegen/cuda/templates/conv_depthwise.h"
#include "codegen/cuda/templates/conv_gemm.h"
#include "codegen/cuda/templates/conv_wgmma.h"
#include "codegen/cuda/templates/gemm_mma.h"
#include "codegen/cuda/templates/gemm_simt.h"
#include "codegen/cuda/templates/gemm_wgmma.h"
#include "codegen/cuda/templates/gemv.h"
#include "codegen/cuda/templates/sort.h"

namespace toroid::codegen {
namespace {

CudaGemvTarget gemv_target(const device::cuda::GpuInfo& gpu) {
  return {.multiprocessors = gpu.multiprocessors, .shared_bytes = static_cast<int64_t>(gpu.shared_bytes)};
}

// A guess where the run tells the size.
int64_t typical(const Expr& e) { return e.maybe_constant().value_or(512); }

constexpr size_t kMostConfigs = 16;

WgmmaSizes wgmma_sizes(const choice::Gemm& g, int processors) {
  WgmmaSizes s{.m = typical(g.m), .n = typical(g.n), .k = typical(g.k), .processors = processors};
  for (auto& e : g.batch) s.batch *= typical(e);
  return s;
}

// `g` is copied: it may be made up.
Tiling<WgmmaTile> wgmma_tiling(const choice::Gemm& g, const WgmmaSizes& sizes, std::function<KernelText(const WgmmaTile&)> generate) {
  Tiling<WgmmaTile> how;
  how.rule = [=] { return choose_wgmma_tile(g, sizes); };
  how.others = [=] { return ranked_wgmma_tiles(g, sizes); };
  how.refusal = [=](const WgmmaTile& t) { return wgmma_tile_refusal(g, sizes, t); };
  how.generate = std::move(generate);
  how.settle = settle_wgmma_tile;
  how.settled = "stages";
  return how;
}

// The fastest first; the last takes every product.
std::vector<Form> gemm_forms(const choice::Node& node, const choice::Gemm& g, const choice::Program& p, const device::cuda::GpuInfo& gpu) {
  const CudaGemvTarget target = gemv_target(gpu);
  const int processors = gpu.multiprocessors;
  const std::string wgmma = gpu.is_hopper() ? gemm_wgmma_refusal(node, g) : "the GPU has no wgmma", mma = gemm_mma_refusal(node, g);
  Tiling<CudaGemvTile> gemv;
  gemv.rule = [=, &node] { return choose_cuda_gemv_tile(node, target); };
  gemv.others = [=, &node] { return other_cuda_gemv_tiles(node, target); };
  gemv.refusal = [=, &node](const CudaGemvTile& t) { return cuda_gemv_tile_refusal(node, target, t); };
  gemv.generate = [=, &node, &p](const CudaGemvTile& t) { return generate_cuda_gemv(node, p.buffers, target, t); };
  gemv.settle = [=, &node](CudaGemvTile& t) { settle_cuda_gemv_tile(node, target, t); };
  gemv.settled = "kept";
  Tiling<MmaTile> tiles;
  const WgmmaSizes sizes = wgmma_sizes(g, processors);
  tiles.rule = [=, &g] { return choose_mma_tile(g, sizes.m, sizes.n, sizes.batch, processors); };
  tiles.others = [&g] { return mma_tiles(g); };
  tiles.refusal = [&g, &gpu](const MmaTile& t) { return mma_tile_refusal(g, t, static_cast<int64_t>(gpu.shared_bytes)); };
  tiles.generate = [&node, &g](const MmaTile& t) { return generate_gemm_mma(node, g, t); };
  std::vector<Form> forms = {
      make_form("gemv", cuda_gemv_refusal(node, target), gemv),
      make_form("gemm_wgmma", wgmma,
                wgmma_tiling(g, sizes, [=, &node, &g](auto& t) { return generate_gemm_wgmma(node, g, t, processors, true); })),
      make_form("gemm_mma", mma, tiles),
      make_form("gemm_simt", gemm_simt_refusal(node, g), [&node, &g] { return generate_gemm_simt(node, g); })};
  // With more rows the sums that warps exchange cost more than what tiles of 64 rows copy for nothing.
  constexpr int64_t kFewRows = 8;
  if (wgmma.empty() && sizes.m > kFewRows) forms[0].reluctance = "tiles of gemm_wgmma are faster";
  if (mma.empty()) forms[3].configs = [] { return std::vector<choice::Config>{}; };  // far behind tensor cores
  return forms;
}

bool is_constant(const choice::Program& p, const choice::Operand& o) {
  return p.buffers[static_cast<size_t>(o.buffer)].kind == loop::BufferKind::Constant;
}

// Those of the plain product that a convolution is.
std::vector<Form> product_forms(const choice::Node& node, const choice::Convolution& c, const choice::Program& p,
                                const device::cuda::GpuInfo& gpu) {
  if (!conv_product_refusal(node, c).empty()) return {};
  auto product = std::make_shared<const choice::Node>(conv_as_product(node, c));
  std::vector<Form> forms = gemm_forms(*product, std::get<choice::Gemm>(product->problem), p, gpu);
  for (Form& f : forms) {
    // They refer to it.
    f.generate = [product, made = f.generate](const choice::Config& config) { return made(config); };
    f.configs = [product, made = f.configs] { return made(); };
    f.neighbours = [product, made = f.neighbours](const choice::Config& config) { return made(config); };
    if (!is_half(c.input.dtype) && !c.tf32) f.reluctance = "conv_simt divides few pixels among more blocks";
  }
  return forms;
}

// p, constants: only code needs them, to which packed weights are added.
std::vector<Form> convolution_forms(const choice::Node& node, const choice::Convolution& c, const choice::Program& program,
                                    const device::cuda::GpuInfo& gpu, choice::Program* p, ConstantMemory* constants) {
  const int64_t pixels = typical(conv_pixels(c));
  const int processors = gpu.multiprocessors;
  const bool hopper = gpu.is_hopper();
  Tiling<ConvDepthwiseTile> depthwise;
  depthwise.rule = [=, &c] { return choose_conv_depthwise_tile(c, pixels); };
  depthwise.others = [] { return std::vector<ConvDepthwiseTile>{{1}, {2}, {4}, {8}}; };
  depthwise.refusal = [](const ConvDepthwiseTile& t) { return t.pixels > 8 ? "pixels is more than 8" : ""; };
  depthwise.generate = [=, &node, &c](const ConvDepthwiseTile& t) {
    return generate_conv_depthwise(node, c, conv_weight_by_taps(c, *p, *constants), t, hopper);
  };
  const WgmmaSizes sizes{.m = pixels, .n = c.out_channels, .k = conv_k(c), .processors = processors, .window = true};
  Tiling<ConvGemmTile> gemm;
  gemm.rule = [=, &c] { return choose_conv_gemm_tile(c, pixels, processors, hopper); };
  gemm.others = [=, &c] { return ranked_conv_gemm_tiles(c, pixels, processors, hopper); };
  gemm.refusal = [=, &c](const ConvGemmTile& t) { return conv_gemm_tile_refusal(c, t, hopper); };
  gemm.generate = [=, &node, &c](const ConvGemmTile& t) {
    return generate_conv_gemm(node, c, conv_packed_weight(c, *p, *constants), t, hopper);
  };
  std::vector<Form> forms = {
      make_form("conv_depthwise", is_constant(program, c.weight) ? conv_depthwise_refusal(c) : "the weight is no constant", depthwise)};
  for (Form& f : product_forms(node, c, program, gpu)) forms.push_back(std::move(f));
  forms.push_back(make_form("conv_wgmma", hopper ? conv_wgmma_refusal(c) : "the GPU has no wgmma",
                            wgmma_tiling(conv_implicit_product(c), sizes, [=, &node, &c](const WgmmaTile& t) {
                              return generate_conv_wgmma(node, c, conv_packed_weight(c, *p, *constants), t, processors);
                            })));
  forms.push_back(make_form(conv_gemm_name(c), conv_gemm_refusal(c), gemm));
  return forms;
}

std::vector<Form> attention_forms(const choice::Node& node, const device::cuda::GpuInfo& gpu) {
  const CudaAttentionTarget target = {gpu.multiprocessors, static_cast<int64_t>(gpu.shared_bytes), gpu.is_hopper()};
  const std::string any = cuda_attention_refusal(std::get<choice::Attention>(node.problem));
  Tiling<CudaDecodeTile> decode;
  decode.rule = [=, &node] { return choose_cuda_decode_tile(node, target); };
  decode.others = [=, &node] { return other_cuda_decode_tiles(node, target); };
  decode.refusal = [=, &node](const CudaDecodeTile& t) { return cuda_decode_tile_refusal(node, target, t); };
  decode.generate = [=, &node](const CudaDecodeTile& t) { return generate_cuda_attention_decode(node, target, t); };
  Tiling<CudaPrefillTile> prefill;
  prefill.rule = [&node] { return choose_cuda_prefill_tile(node); };
  prefill.others = [] { return std::vector<CudaPrefillTile>{{2}, {1}, {3}}; };
  prefill.refusal = [=, &node](const CudaPrefillTile& t) { return cuda_prefill_tile_refusal(node, target, t); };
  prefill.generate = [=, &node](const CudaPrefillTile& t) { return generate_cuda_attention_wgmma(node, target, t); };
  Tiling<CudaAttentionMmaTile> mma;
  mma.rule = [=, &node] { return choose_cuda_attention_mma_tile(node, target); };
  mma.others = [] { return std::vector<CudaAttentionMmaTile>{{4, 64}, {8, 64}, {4, 32}, {8, 32}, {4, 128}, {2, 64}, {2, 32}}; };
  mma.refusal = [=, &node](const CudaAttentionMmaTile& t) { return cuda_attention_mma_tile_refusal(node, target, t); };
  mma.generate = [=, &node](const CudaAttentionMmaTile& t) { return generate_cuda_attention_mma(node, target, t); };
  std::vector<Form> forms = {make_form("attention_decode", any, decode),
                             make_form("attention_prefill", any.empty() ? cuda_attention_wgmma_refusal(node, target) : any, prefill),
                             make_form("attention_mma", any, mma)};
  if (any.empty() && !prefers_attention_decode(node, target)) forms[0].reluctance = "keys are read once for many queries";
  return forms;
}

std::set<int> constants_read(const choice::Node& node, const choice::Program& p) {
  std::set<int> out;
  for (int b : loop::buffers_read(node.body))
    if (p.buffers[static_cast<size_t>(b)].kind == loop::BufferKind::Constant) out.insert(b);
  return out;
}

// None for nodes that leave nothing open.
std::vector<Form> forms_of(const choice::Node& node, const choice::Program& program, const device::cuda::GpuInfo& gpu,
                           choice::Program* p = nullptr, ConstantMemory* constants = nullptr) {
  if (auto* g = std::get_if<choice::Gemm>(&node.problem)) return gemm_forms(node, *g, program, gpu);
  if (auto* c = std::get_if<choice::Convolution>(&node.problem)) return convolution_forms(node, *c, program, gpu, p, constants);
  if (std::holds_alternative<choice::Attention>(node.problem)) return attention_forms(node, gpu);
  return node.is_loop() ? cuda_loop_forms(node.domain, node.body, gpu, constants_read(node, program)) : std::vector<Form>{};
}

}  // namespace

KernelText generate_cuda(const choice::Node& node, choice::Program& p, const device::cuda::GpuInfo& gpu, ConstantMemory& constants) {
  if (node.is_loop() && node.config.empty()) return generate_cuda_loop(node.domain, node.body, gpu, constants_read(node, p));
  if (const auto forms = forms_of(node, p, gpu, &p, &constants); !forms.empty()) return generate_by(forms, node);
  TOROID_USER_CHECK(node.config.empty(), "{} is no configuration of {}, which leaves nothing open; tune it again",
                    choice::to_string(node.config), choice::label(node));
  if (auto* s = std::get_if<choice::Sort>(&node.problem)) return generate_cuda_sort(*s);
  fail<InternalError>("no CUDA template computes {}", choice::label(node));
}

std::vector<choice::Config> cuda_configs(const choice::Node& node, const choice::Program& p, const device::cuda::GpuInfo& gpu) {
  const auto forms = forms_of(node, p, gpu);
  return forms.empty() ? std::vector<choice::Config>{} : configs_of(forms, kMostConfigs);
}

std::vector<choice::Config> cuda_neighbours(const choice::Config& c, const choice::Node& node, const choice::Program& p,
                                            const device::cuda::GpuInfo& gpu) {
  return neighbours_of(forms_of(node, p, gpu), c);
}

std::string cuda_choice(const choice::Node& node, const choice::Program& p, const device::cuda::GpuInfo& gpu) {
  if (!std::holds_alternative<choice::Gemm>(node.problem) && !std::holds_alternative<choice::Convolution>(node.problem)) return "";
  const auto forms = forms_of(node, p, gpu);
  if (!node.config.empty()) return fmt::format("{}: {}", choice::label(node), choice::to_string(node.config));
  const Form& taker = first_taker(forms);
  std::string line = fmt::format("{}: {}", choice::label(node), taker.name);
  for (const Form* f = forms.data(); f != &taker; ++f)
    line += fmt::format("; not {}: {}", f->name, f->refusal.empty() ? f->reluctance : f->refusal);
  return line;
}

bool cuda_supports(const choice::Convolution& c, bool constant_weight) {
  return (constant_weight || conv_weight_is_packed(c)) && conv_gemm_refusal(c).empty();
}

bool cuda_supports(const choice::Attention& a) { return cuda_attention_refusal(a).empty(); }

std::string cuda_producer_refusal(const choice::Node& product, const device::cuda::GpuInfo& gpu) {
  return cuda_gemv_refusal(product, gemv_target(gpu));
}

std::string cuda_pair_refusal(const choice::Node& product, const device::cuda::GpuInfo& gpu) {
  if (!gpu.is_hopper()) return "the GPU has no wgmma";
  const auto& pair = std::get<choice::Gemm>(product.problem);
  if (std::string why = gemm_wgmma_refusal(product, pair); !why.empty()) return why;
  choice::Node single = product;
  std::get<choice::Gemm>(single.problem).b2.reset();
  return cuda_gemv_refusal(single, gemv_target(gpu)).empty() ? "gemv is faster for so few rows, and has one right operand" : "";
}

}  // namespace toroid::codegen
