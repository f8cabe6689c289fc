#include "codegen/cuda/generate.h"

#include <algorithm>
#include <memory>

#include "base/check.h"
#include "codegen/cuda/foreach.h"
#include "codegen/cuda/kernel.h"
#include "codegen/cuda/template.h"
#include "codegen/cuda/templates/attention_common.h"
#include "codegen/cuda/templates/conv_gemm.h"
#include "codegen/cuda/templates/conv_wgrad.h"
#include "codegen/cuda/templates/gemm_wgmma.h"
#include "codegen/cuda/templates/gemv.h"

namespace toroid::codegen {
namespace {

constexpr size_t kMostConfigs = 16;
void add_product_forms(std::vector<Form>& forms, const CudaSite& site);

// Those of a problem's templates.
void add_forms(std::vector<Form>& forms, const CudaSite& site) {
  for (auto& row : kCudaTemplates) {
    if (!row.takes(site.node.problem)) continue;
    if (row.form)
      forms.push_back(row.form(site));
    else
      add_product_forms(forms, site);
  }
}

// Those of the plain product that a convolution is.
void add_product_forms(std::vector<Form>& forms, const CudaSite& site) {
  const auto& c = site.problem<program::Convolution>();
  if (!conv_product_refusal(site.node, c).empty()) return;
  auto product = std::make_shared<const program::Node>(conv_as_product(site.node, c));
  std::vector<Form> plain;
  add_forms(plain, {*product, site.program, site.gpu});
  for (Form& f : plain) {
    // They refer to it.
    f.generate = [product, made = f.generate](const program::Config& config) { return made(config); };
    f.configs = [product, made = f.configs] { return made(); };
    f.neighbours = [product, made = f.neighbours](const program::Config& config) { return made(config); };
    if (f.sums_refusal) f.sums_refusal = [product, made = f.sums_refusal](const program::Config& config) { return made(config); };
    if (!is_half(c.input.dtype) && !c.tf32) f.reluctance = "conv_simt divides few pixels among more blocks";
    forms.push_back(std::move(f));
  }
}

std::set<int> constants_read(const program::Node& node, const program::Program& p) {
  std::set<int> out;
  for (int b : loop::buffers_read(node.body))
    if (p.buffers[static_cast<size_t>(b)].kind == loop::BufferKind::Constant) out.insert(b);
  return out;
}

// The record of checks for loops that write inputs in place: those must keep their contents where an index is out of range. -1: none. What
// a loop writes where values say is a cache, whose other elements stay.
int faults_of(const program::Node& node, const program::Program& p) {
  const auto record = std::find_if(p.buffers.begin(), p.buffers.end(), [](auto& b) { return b.kind == loop::BufferKind::Faults; });
  const bool updates = std::any_of(node.body.steps.begin(), node.body.steps.end(), [&](auto& s) {
    return s.step == loop::Step::Store && p.buffers[static_cast<size_t>(s.buffer)].kind == loop::BufferKind::Input &&
           !loop::uses_values(s.index);
  });
  return record != p.buffers.end() && updates ? record->id : -1;
}

// None for nodes that leave nothing open.
std::vector<Form> forms_of(const CudaSite& site) {
  std::vector<Form> forms;
  add_forms(forms, site);
  if (leaves_sums(site.node.body))
    for (Form& f : forms)
      if (f.refusal.empty() && !f.sums_refusal) f.refusal = "it leaves no sums of columns";
  if (!site.node.is_loop()) return forms;
  return cuda_loop_forms(site.node.domain, site.node.body, site.gpu, constants_read(site.node, site.program),
                         faults_of(site.node, site.program));
}

}  // namespace

KernelText generate_cuda(const program::Node& node, program::Program& p, const device::cuda::GpuInfo& gpu, ConstantMemory& constants) {
  if (!node.beside.empty()) return generate_cuda_foreach(node, faults_of(node, p));
  if (node.is_loop() && node.config.empty())
    return generate_cuda_loop(node.domain, node.body, gpu, constants_read(node, p), faults_of(node, p));
  if (const auto forms = forms_of({node, p, gpu, &p, &constants}); !forms.empty()) return generate_by(forms, node);
  TOROID_USER_CHECK(node.config.empty(), "{} is no configuration of {}, which leaves nothing open; tune it again",
                    program::to_string(node.config), program::label(node));
  fail<InternalError>("no CUDA template computes {}", program::label(node));
}

std::vector<program::Config> cuda_configs(const program::Node& node, const program::Program& p, const device::cuda::GpuInfo& gpu) {
  const auto forms = forms_of({node, p, gpu});
  return forms.empty() ? std::vector<program::Config>{} : configs_of(forms, kMostConfigs);
}

std::vector<program::Config> cuda_neighbours(const program::Config& c, const program::Node& node, const program::Program& p,
                                             const device::cuda::GpuInfo& gpu) {
  return neighbours_of(forms_of({node, p, gpu}), c);
}

std::string cuda_choice(const program::Node& node, const program::Program& p, const device::cuda::GpuInfo& gpu) {
  if (!std::holds_alternative<program::Gemm>(node.problem) && !std::holds_alternative<program::Convolution>(node.problem)) return "";
  const auto forms = forms_of({node, p, gpu});
  if (!node.config.empty()) return fmt::format("{}: {}", program::label(node), program::to_string(node.config));
  const Form& taker = first_taker(forms);
  std::string line = fmt::format("{}: {}", program::label(node), taker.name);
  for (const Form* f = forms.data(); f != &taker; ++f)
    line += fmt::format("; not {}: {}", f->name, f->refusal.empty() ? f->reluctance : f->refusal);
  return line;
}

bool cuda_supports(const program::Convolution& c, bool constant_weight, const device::cuda::GpuInfo& gpu) {
  if (program::is_weight_gradient(c)) return gpu.is_hopper() && conv_wgrad_refusal(c).empty();
  return (constant_weight || conv_weight_is_packed(c)) && conv_gemm_refusal(c).empty();
}

bool cuda_supports(const program::Attention& a) { return cuda_attention_refusal(a).empty(); }

std::string cuda_whole_refusal(const program::Problem& problem, const device::cuda::GpuInfo& gpu) {
  const program::Program none;
  program::Node node;
  node.problem = problem;
  return refusal_by(forms_of({node, none, gpu}));
}

std::string cuda_producer_refusal(const program::Node& product, const device::cuda::GpuInfo& gpu) {
  return cuda_gemv_refusal(product, cuda_gemv_target(gpu));
}

std::string cuda_bringing_refusal(const program::Node& meeting, const device::cuda::GpuInfo& gpu) {
  const program::Program none;
  return cuda_gemv_all_reduce_form({meeting, none, gpu}).refusal;
}

std::string cuda_pair_refusal(const program::Node& product, const device::cuda::GpuInfo& gpu) {
  const auto& pair = std::get<program::Gemm>(product.problem);
  if (std::string why = gemm_wgmma_refusal(product, pair, gpu); !why.empty()) return why;
  program::Node single = product;
  std::get<program::Gemm>(single.problem).b2.reset();
  return cuda_gemv_refusal(single, cuda_gemv_target(gpu)).empty() ? "gemv is faster for so few rows, and has one right operand" : "";
}

std::string cuda_sums_refusal(const program::Node& node, const program::Program& p, const device::cuda::GpuInfo& gpu) {
  if (node.is_library()) return "a library computes it";
  if (node.is_loop())
    return cuda_row_sums_refusal(node.domain, node.body,
                                 {.overlaps = gpu.is_hopper(), .constants = constants_read(node, p), .faults = faults_of(node, p)});
  program::Node alone = node;
  for (auto& s : alone.body.steps)
    if (loop::stores_sum(s)) s = {};
  loop::eliminate_dead(alone.body);
  const auto forms = forms_of({alone, p, gpu});
  const auto named = [&](const Form& f) { return f.name == node.config.form; };
  const auto at = node.config.empty() ? forms.end() : std::find_if(forms.begin(), forms.end(), named);
  if (!node.config.empty() && at == forms.end()) return "its configuration is none of a template";
  const Form& taker = node.config.empty() ? first_taker(forms) : *at;
  return taker.sums_refusal ? taker.sums_refusal(node.config) : taker.name + " leaves no sums of columns";
}

}  // namespace toroid::codegen
