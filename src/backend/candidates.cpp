#include "backend/candidates.h"

#include <algorithm>

#include "backend/cpu/onednn_problem.h"
#include "backend/cuda/cublaslt_problem.h"
#include "backend/cuda/cudnn_problem.h"
#include "base/check.h"
#include "base/text.h"
#include "codegen/cpu/generate.h"
#include "codegen/cuda/generate.h"

namespace toroid::compiler {
namespace {

using choice::Candidate;
using choice::Implementation;

constexpr Implementation kAll[] = {Implementation::Template, Implementation::OneDnn, Implementation::CublasLt, Implementation::CuDnn};

std::vector<Candidate> listed(const std::string& option, const std::function<std::string(Implementation)>& refusal) {
  std::vector<Implementation> order;
  for (auto name : split_list(option))
    for (auto by : kAll)
      if (name == name_of(by)) order.push_back(by);
  const bool alone = order.size() == 1;
  if (std::find(order.begin(), order.end(), Implementation::Template) == order.end()) order.push_back(Implementation::Template);
  std::vector<Candidate> out;
  for (auto by : order) {
    try {
      out.push_back({by, refusal(by)});
    } catch (const EnvironmentError& e) {
      if (alone) throw;
      out.push_back({by, e.what()});
    }
  }
  return out;
}

// What a configuration says about who computes a node; nullopt where it is one of the template.
std::optional<Implementation> library_of(const choice::Config& c) {
  for (auto by : kAll)
    if (by != Implementation::Template && c.form == name_of(by)) return by;
  return std::nullopt;
}

std::string reason_of(const std::function<std::string()>& refusal) {
  try {
    return refusal();
  } catch (const EnvironmentError& e) {
    return e.what();
  }
}

// The first taker gets the node; a line where there was an alternative.
void decide(choice::Node& node, const std::vector<Candidate>& list, std::vector<std::string>& decisions) {
  if (list.empty() || !node.config.empty()) return;
  const Candidate* taker = first_taker(list);
  TOROID_CHECK(taker, "nothing computes {}", choice::label(node));
  if (list.size() > 1) {
    std::string line = fmt::format("{}: {}", choice::label(node), name_of(taker->by));
    for (auto* c = list.data(); c != taker; ++c) line += fmt::format("; not {}: {}", name_of(c->by), c->refusal);
    decisions.push_back(std::move(line));
  }
  node.by = taker->by;
}

// A node that was told which library computes it; here only `library` can be that.
void take_chosen(choice::Node& node, Implementation library, const std::function<std::string()>& refusal) {
  const auto by = library_of(node.config);
  if (!by) return;
  TOROID_USER_CHECK(*by == library, "{} was chosen to compute {}, where of the libraries {} alone can; tune it again",
                    choice::to_string(node.config), choice::label(node), name_of(library));
  const std::string why = refusal();
  TOROID_USER_CHECK(why.empty(), "{} was chosen to compute {}, which it does not: {}", choice::to_string(node.config), choice::label(node),
                    why);
  node.by = *by;
}

CompileOptions of_node(const choice::Node& node, const CompileOptions& options) {
  return node.options ? options.with(*node.options) : options;
}

bool is_constant(const choice::Program& p, const choice::Operand& o) {
  return p.buffers[static_cast<size_t>(o.buffer)].kind == loop::BufferKind::Constant;
}

}  // namespace

std::vector<Candidate> candidates(const choice::Gemm& g, bool constant_b, const CompileOptions& options) {
  return listed(options.get(options::kGemmBackends), [&](Implementation by) -> std::string {
    if (by == Implementation::CublasLt) return "it computes on GPUs only";
    return by == Implementation::OneDnn ? onednn_refusal(g, constant_b) : "";
  });
}

std::vector<Candidate> gpu_product_candidates(const choice::Node& node, const CompileOptions& options) {
  return listed(options.get(options::kGemmBackends), [&](Implementation by) -> std::string {
    if (by == Implementation::OneDnn) return "it computes on CPUs only";
    return by == Implementation::CublasLt ? cublaslt_refusal(node) : "";
  });
}

std::vector<Candidate> gpu_candidates(const choice::Convolution& c, bool constant_weight, const CompileOptions& options) {
  return listed(options.get(options::kConvBackends), [&](Implementation by) -> std::string {
    if (by == Implementation::OneDnn) return "it computes on CPUs only";
    if (by == Implementation::CuDnn) return cudnn_refusal(c, constant_weight);
    return codegen::cuda_supports(c, constant_weight) ? "" : "the template does not take this shape, dtype or layout";
  });
}

std::vector<Candidate> candidates(const choice::Convolution& c, bool constant_weight, device::Isa isa, const CompileOptions& options) {
  return listed(options.get(options::kConvBackends), [&](Implementation by) -> std::string {
    if (by == Implementation::CuDnn) return "it computes on GPUs only";
    if (by == Implementation::OneDnn) return onednn_refusal(c, constant_weight);
    return codegen::supports(c, constant_weight, isa) ? "" : "the template does not take this shape, dtype or layout";
  });
}

std::vector<Candidate> candidates(const choice::Node& node, const choice::Program& p, device::Isa isa, const CompileOptions& options) {
  if (auto* g = std::get_if<choice::Gemm>(&node.problem)) return candidates(*g, is_constant(p, g->b), options);
  if (auto* c = std::get_if<choice::Convolution>(&node.problem)) return candidates(*c, is_constant(p, c->weight), isa, options);
  return {};
}

const Candidate* first_taker(const std::vector<Candidate>& list) {
  auto it = std::find_if(list.begin(), list.end(), [](auto& c) { return c.refusal.empty(); });
  return it == list.end() ? nullptr : &*it;
}

std::string library_refusal(const choice::Node& node, const choice::Program& p) {
  const auto* g = std::get_if<choice::Gemm>(&node.problem);
  const auto* c = std::get_if<choice::Convolution>(&node.problem);
  if (!g && !c) return "it is no product and no convolution";
  if (node.producer) return "rows of its left operand are computed";
  return reason_of([&] { return g ? onednn_refusal(*g, is_constant(p, g->b)) : onednn_refusal(*c, is_constant(p, c->weight)); });
}

std::string gpu_library_refusal(const choice::Node& node, const choice::Program& p) {
  if (std::holds_alternative<choice::Gemm>(node.problem)) return reason_of([&] { return cublaslt_refusal(node); });
  const auto* c = std::get_if<choice::Convolution>(&node.problem);
  return c ? reason_of([&] { return cudnn_refusal(*c, is_constant(p, c->weight)); }) : "it is no product and no convolution";
}

std::vector<std::string> choose(choice::Program& p, device::Isa isa, const CompileOptions& options) {
  std::vector<std::string> decisions;
  for (size_t i = 0; i < p.nodes.size(); ++i) {
    take_chosen(p.nodes[i], Implementation::OneDnn, [&] { return library_refusal(p.nodes[i], p); });
    decide(p.nodes[i], candidates(p.nodes[i], p, isa, of_node(p.nodes[i], options)), decisions);
    if (p.nodes[i].by == Implementation::OneDnn) fit_epilogue(p, i);
  }
  return decisions;
}

std::vector<std::string> choose_on_gpu(choice::Program& p, const CompileOptions& options) {
  std::vector<std::string> decisions;
  for (size_t i = 0; i < p.nodes.size(); ++i) {
    choice::Node& node = p.nodes[i];
    const auto* g = std::get_if<choice::Gemm>(&node.problem);
    const auto* c = std::get_if<choice::Convolution>(&node.problem);
    if (!g && !c) continue;
    const CompileOptions own = of_node(node, options);
    take_chosen(node, g ? Implementation::CublasLt : Implementation::CuDnn, [&] { return gpu_library_refusal(node, p); });
    decide(node, g ? gpu_product_candidates(node, own) : gpu_candidates(*c, is_constant(p, c->weight), own), decisions);
    if (g && node.by == Implementation::CublasLt) split_for_cublaslt(p, i);
    if (c && node.by == Implementation::CuDnn) fit_for_cudnn(p, i);
  }
  return decisions;
}

}  // namespace toroid::compiler
