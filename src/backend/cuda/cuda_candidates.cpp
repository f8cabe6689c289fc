#include "backend/cuda/cuda_candidates.h"

#include "backend/cuda/cublaslt_problem.h"
#include "backend/cuda/cudnn_problem.h"
#include "codegen/cuda/generate.h"
#include "sched/split_epilogue.h"

namespace toroid::backend {
namespace {

using program::Candidate;
using program::Implementation;

constexpr const char* kNotTaken = "the template does not take this shape, dtype or layout";

}  // namespace

std::vector<Candidate> gpu_product_candidates(const program::Node& node, const CompileOptions& options) {
  return listed(options.get(options::kGemmBackends), [&](Implementation by) -> std::string {
    if (by == Implementation::OneDnn) return "it computes on CPUs only";
    return by == Implementation::CublasLt ? cublaslt_refusal(node) : "";
  });
}

std::vector<Candidate> gpu_candidates(const program::Convolution& c, bool constant_weight, const CompileOptions& options,
                                      const device::cuda::GpuInfo& gpu) {
  return listed(options.get(options::kConvBackends), [&](Implementation by) -> std::string {
    if (by == Implementation::OneDnn) return "it computes on CPUs only";
    if (by == Implementation::CuDnn) return cudnn_refusal(c, constant_weight);
    return codegen::cuda_supports(c, constant_weight, gpu) ? "" : kNotTaken;
  });
}

std::string gpu_library_refusal(const program::Node& node, const program::Program& p) {
  if (std::holds_alternative<program::Gemm>(node.problem)) return reason_of([&] { return cublaslt_refusal(node); });
  const auto* c = std::get_if<program::Convolution>(&node.problem);
  return c ? reason_of([&] { return cudnn_refusal(*c, is_constant(p, c->weight)); }) : "it is no product and no convolution";
}

bool choose_on_gpu(program::Program& p, target::PassContext& context, const device::cuda::GpuInfo& gpu) {
  const size_t before = p.nodes.size();
  bool any = false;
  for (size_t i = 0; i < p.nodes.size(); ++i) {
    program::Node& node = p.nodes[i];
    const auto* g = std::get_if<program::Gemm>(&node.problem);
    const auto* c = std::get_if<program::Convolution>(&node.problem);
    if (!g && !c) continue;
    const CompileOptions own = of_node(node, context.options);
    take_chosen(node, g ? Implementation::CublasLt : Implementation::CuDnn, [&] { return gpu_library_refusal(node, p); });
    decide(node, g ? gpu_product_candidates(node, own) : gpu_candidates(*c, is_constant(p, c->weight), own, gpu), context.report.choices);
    any = any || node.is_library();
    if (g && node.by == Implementation::CublasLt) sched::leave_sums(p, i);
    if (c && node.by == Implementation::CuDnn) fit_for_cudnn(p, i);
  }
  context.parted = context.parted || p.nodes.size() > before;
  return any;
}

}  // namespace toroid::backend
