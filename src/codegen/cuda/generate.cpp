#include "codegen/cuda/generate.h"

#include <functional>

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

// A way to compute a product or convolution, and why it does not take this one; empty when it does.
struct Form {
  const char* name;
  std::string refusal;
  std::function<KernelText()> generate;
};

// The fastest first; the last takes every product.
std::vector<Form> gemm_forms(const choice::Node& node, const choice::Gemm& g, const choice::Program& p, const device::cuda::GpuInfo& gpu) {
  const CudaGemvTarget target = gemv_target(gpu);
  const int64_t m = typical(g.m), n = typical(g.n), k = typical(g.k);
  int64_t batch = 1;
  for (auto& e : g.batch) batch *= typical(e);
  const int processors = gpu.multiprocessors;
  const std::string wgmma = gpu.is_hopper() ? gemm_wgmma_refusal(node, g) : "the GPU has no wgmma";
  // With more rows the sums that warps exchange cost more than what tiles of 64 rows copy for nothing.
  constexpr int64_t kFewRows = 8;
  const std::string gemv = wgmma.empty() && m > kFewRows ? "tiles of gemm_wgmma are faster" : cuda_gemv_refusal(node, target);
  return {{"gemv", gemv, [&node, &p, target] { return generate_cuda_gemv(node, p.buffers, target); }},
          {"gemm_wgmma", wgmma,
           [=, &node, &g] { return generate_gemm_wgmma(node, g, choose_wgmma_tile(g, m, n, k, batch, processors), processors, true); }},
          {"gemm_mma", gemm_mma_refusal(node, g),
           [=, &node, &g] { return generate_gemm_mma(node, g, choose_mma_tile(g, m, n, batch, processors)); }},
          {"gemm_simt", "", [&node, &g] { return generate_gemm_simt(node, g); }}};
}

bool is_constant(const choice::Program& p, const choice::Operand& o) {
  return p.buffers[static_cast<size_t>(o.buffer)].kind == loop::BufferKind::Constant;
}

std::string product_refusal(const choice::Node& node, const choice::Convolution& c) {
  return is_half(c.input.dtype) ? conv_product_refusal(node, c) : "conv_simt divides few pixels among more blocks";
}

// p, constants: only code needs them, to which packed weights are added.
std::vector<Form> convolution_forms(const choice::Node& node, const choice::Convolution& c, bool constant_weight,
                                    const device::cuda::GpuInfo& gpu, choice::Program* p = nullptr, ConstantMemory* constants = nullptr) {
  const int64_t pixels = typical(conv_pixels(c));
  const int processors = gpu.multiprocessors;
  return {
      {"conv_depthwise", constant_weight ? conv_depthwise_refusal(c) : "the weight is no constant",
       [=, &node, &c, &gpu] { return generate_conv_depthwise(node, c, conv_weight_by_taps(c, *p, *constants), pixels, gpu.is_hopper()); }},
      {"a product", product_refusal(node, c),
       [=, &node, &c, &gpu] { return generate_cuda(conv_as_product(node, c), *p, gpu, *constants); }},
      {"conv_wgmma", gpu.is_hopper() ? conv_wgmma_refusal(c) : "the GPU has no wgmma",
       [=, &node, &c] {
         const WgmmaTile tile = choose_wgmma_tile(conv_implicit_product(c), pixels, c.out_channels, conv_k(c), 1, processors, true);
         return generate_conv_wgmma(node, c, conv_packed_weight(c, *p, *constants), tile, processors);
       }},
      {conv_gemm_name(c), conv_gemm_refusal(c), [=, &node, &c, &gpu] {
         const ConvGemmTile tile = choose_conv_gemm_tile(c, pixels, processors, gpu.is_hopper());
         return generate_conv_gemm(node, c, conv_packed_weight(c, *p, *constants), tile, gpu.is_hopper());
       }}};
}

size_t first_taker(const std::vector<Form>& forms) {
  size_t i = 0;
  while (!forms[i].refusal.empty()) ++i;
  return i;
}

KernelText generate_attention(const choice::Node& node, const device::cuda::GpuInfo& gpu) {
  const CudaAttentionTarget target = {gpu.multiprocessors, static_cast<int64_t>(gpu.shared_bytes), gpu.is_hopper()};
  if (cuda_attention_decode_refusal(node).empty() && prefers_attention_decode(node, target))
    return generate_cuda_attention_decode(node, target);
  return generate_cuda_attention_prefill(node, target);
}

}  // namespace

KernelText generate_cuda(const choice::Node& node, choice::Program& p, const device::cuda::GpuInfo& gpu, ConstantMemory& constants) {
  if (node.is_loop()) {
    std::set<int> constant;
    for (int b : loop::buffers_read(node.body))
      if (p.buffers[static_cast<size_t>(b)].kind == loop::BufferKind::Constant) constant.insert(b);
    return generate_cuda_loop(node.domain, node.body, gpu, constant);
  }
  if (auto* g = std::get_if<choice::Gemm>(&node.problem)) {
    const auto forms = gemm_forms(node, *g, p, gpu);
    return forms[first_taker(forms)].generate();
  }
  if (auto* c = std::get_if<choice::Convolution>(&node.problem)) {
    const auto forms = convolution_forms(node, *c, is_constant(p, c->weight), gpu, &p, &constants);
    return forms[first_taker(forms)].generate();
  }
  if (std::holds_alternative<choice::Attention>(node.problem)) return generate_attention(node, gpu);
  if (auto* s = std::get_if<choice::Sort>(&node.problem)) return generate_cuda_sort(*s);
  fail<InternalError>("no CUDA template computes {}", choice::label(node));
}

std::string cuda_choice(const choice::Node& node, const choice::Program& p, const device::cuda::GpuInfo& gpu) {
  const auto* g = std::get_if<choice::Gemm>(&node.problem);
  const auto* c = std::get_if<choice::Convolution>(&node.problem);
  if (!g && !c) return "";
  const auto forms = g ? gemm_forms(node, *g, p, gpu) : convolution_forms(node, *c, is_constant(p, c->weight), gpu);
  const size_t taker = first_taker(forms);
  std::string line = fmt::format("{}: {}", choice::label(node), forms[taker].name);
  for (size_t i = 0; i < taker; ++i) line += fmt::format("; not {}: {}", forms[i].name, forms[i].refusal);
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
