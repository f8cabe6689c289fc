#include "codegen/cuda/generate.h"

#include <functional>

#include "base/check.h"
#include "codegen/cuda/kernel.h"
#include "codegen/cuda/templates/attention_decode.h"
#include "codegen/cuda/templates/attention_prefill.h"
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

// A way to compute a product, and why it does not take this one; empty when it does.
struct GemmForm {
  const char* name;
  std::string refusal;
  std::function<KernelText()> generate;
};

// The fastest first; the last takes every product.
std::vector<GemmForm> gemm_forms(const choice::Node& node, const choice::Gemm& g, const choice::Program& p,
                                 const device::cuda::GpuInfo& gpu) {
  const CudaGemvTarget target = gemv_target(gpu);
  const int64_t m = typical(g.m), n = typical(g.n), k = typical(g.k);
  int64_t batch = 1;
  for (auto& e : g.batch) batch *= typical(e);
  const int processors = gpu.multiprocessors;
  return {{"gemv", cuda_gemv_refusal(node, target), [&node, &p, target] { return generate_cuda_gemv(node, p.buffers, target); }},
          {"gemm_wgmma", gpu.is_hopper() ? gemm_wgmma_refusal(node, g) : "the GPU has no wgmma",
           [=, &node, &g] { return generate_gemm_wgmma(node, g, choose_wgmma_tile(g, m, n, k, batch, processors), processors, true); }},
          {"gemm_mma", gemm_mma_refusal(node, g),
           [=, &node, &g] { return generate_gemm_mma(node, g, choose_mma_tile(g, m, n, batch, processors)); }},
          {"gemm_simt", "", [&node, &g] { return generate_gemm_simt(node, g); }}};
}

size_t first_taker(const std::vector<GemmForm>& forms) {
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

KernelText generate_cuda(const choice::Node& node, const choice::Program& p, const device::cuda::GpuInfo& gpu) {
  if (node.is_loop()) return generate_cuda_loop(node.domain, node.body);
  if (auto* g = std::get_if<choice::Gemm>(&node.problem)) {
    const auto forms = gemm_forms(node, *g, p, gpu);
    return forms[first_taker(forms)].generate();
  }
  if (std::holds_alternative<choice::Attention>(node.problem)) return generate_attention(node, gpu);
  if (auto* s = std::get_if<choice::Sort>(&node.problem)) return generate_cuda_sort(*s);
  fail<InternalError>("no CUDA template computes {}", choice::label(node));
}

std::string cuda_choice(const choice::Node& node, const choice::Program& p, const device::cuda::GpuInfo& gpu) {
  const auto* g = std::get_if<choice::Gemm>(&node.problem);
  if (!g) return "";
  const auto forms = gemm_forms(node, *g, p, gpu);
  const size_t taker = first_taker(forms);
  std::string line = fmt::format("{}: {}", choice::label(node), forms[taker].name);
  for (size_t i = 0; i < taker; ++i) line += fmt::format("; not {}: {}", forms[i].name, forms[i].refusal);
  return line;
}

bool cuda_supports(const choice::Attention& a) { return cuda_attention_refusal(a).empty(); }

std::string cuda_producer_refusal(const choice::Node& product, const device::cuda::GpuInfo& gpu) {
  return cuda_gemv_refusal(product, gemv_target(gpu));
}

}  // namespace toroid::codegen
