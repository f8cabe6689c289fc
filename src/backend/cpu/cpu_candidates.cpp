#include "backend/cpu/cpu_candidates.h"

#include "backend/cpu/onednn_problem.h"
#include "codegen/cpu/generate.h"

namespace toroid::backend {
namespace {

using program::Candidate;
using program::Implementation;

constexpr const char* kNotTaken = "the template does not take this shape, dtype or layout";

}  // namespace

std::vector<Candidate> candidates(const program::Gemm& g, bool constant_b, const CompileOptions& options) {
  return listed(options.get(options::kGemmBackends), [&](Implementation by) -> std::string {
    if (by == Implementation::CublasLt) return "it computes on GPUs only";
    return by == Implementation::OneDnn ? onednn_refusal(g, constant_b) : "";
  });
}

std::vector<Candidate> candidates(const program::Convolution& c, bool constant_weight, device::Isa isa, const CompileOptions& options) {
  return listed(options.get(options::kConvBackends), [&](Implementation by) -> std::string {
    if (by == Implementation::CuDnn) return "it computes on GPUs only";
    if (by == Implementation::OneDnn) return onednn_refusal(c, constant_weight);
    return codegen::supports(c, constant_weight, isa) ? "" : kNotTaken;
  });
}

std::vector<Candidate> candidates(const program::Node& node, const program::Program& p, device::Isa isa, const CompileOptions& options) {
  if (auto* g = std::get_if<program::Gemm>(&node.problem)) return candidates(*g, is_constant(p, g->b), options);
  if (auto* c = std::get_if<program::Convolution>(&node.problem)) return candidates(*c, is_constant(p, c->weight), isa, options);
  return {};
}

std::string library_refusal(const program::Node& node, const program::Program& p) {
  const auto* g = std::get_if<program::Gemm>(&node.problem);
  const auto* c = std::get_if<program::Convolution>(&node.problem);
  if (!g && !c) return "it is no product and no convolution";
  if (node.producer) return "rows of its left operand are computed";
  return reason_of([&] { return g ? onednn_refusal(*g, is_constant(p, g->b)) : onednn_refusal(*c, is_constant(p, c->weight)); });
}

bool choose(program::Program& p, device::Isa isa, target::PassContext& context) {
  const size_t before = p.nodes.size();
  bool any = false;
  for (size_t i = 0; i < p.nodes.size(); ++i) {
    take_chosen(p.nodes[i], Implementation::OneDnn, [&] { return library_refusal(p.nodes[i], p); });
    decide(p.nodes[i], candidates(p.nodes[i], p, isa, of_node(p.nodes[i], context.options)), context.report.choices);
    if (p.nodes[i].by != Implementation::OneDnn) continue;
    any = true;
    fit_epilogue(p, i);
  }
  context.parted = context.parted || p.nodes.size() > before;
  return any;
}

}  // namespace toroid::backend
