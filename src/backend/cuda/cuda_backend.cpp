#include "backend/cuda/cuda_backend.h"

#include <fmt/core.h>

#include "backend/cuda/cuda_candidates.h"
#include "backend/cuda/pieces_problem.h"
#include "backend/proposals.h"
#include "base/log.h"
#include "codegen/cuda/foreach.h"
#include "codegen/cuda/generate.h"
#include "device/cuda/architecture.h"
#include "exec/nccl.h"
#include "sched/call_nccl.h"
#include "sched/passes.h"
#include "sched/rewrites.h"

namespace toroid::backend {
namespace {

constexpr const char* kNotTaken = "the template does not take this shape, dtype or layout";
constexpr int64_t kLibraryChoices = 3;  // of a library's heuristics

target::Facts facts_of(int index, const device::cuda::GpuInfo& gpu) {
  return {.device = Device::cuda(index),
          .isa = gpu.architecture,
          .key = device::cuda::tuning_key(gpu),
          .workers = gpu.multiprocessors,
          .tf32 = true,
          .copies_pieces = true,
          .gradients = true,
          .spare_operations = 40};
}

class CudaBackend : public Backend {
 public:
  CudaBackend(int index, device::cuda::GpuInfo gpu, const CompileOptions& options)
      : Backend(facts_of(index, gpu)), options_(options), gpu_(std::move(gpu)) {}

  std::string refusal(const program::Problem& problem, const target::Question& question) const override {
    if (auto* g = std::get_if<program::Gemm>(&problem)) return is_int(g->accumulate) ? "the templates take floats alone" : "";
    if (auto* c = std::get_if<program::Convolution>(&problem))
      return refusal_of(gpu_candidates(*c, question.constant, question.options, gpu_));
    if (auto* a = std::get_if<program::Attention>(&problem)) return codegen::cuda_supports(*a) ? "" : kNotTaken;
    return codegen::cuda_whole_refusal(problem, gpu_);
  }

  std::span<const target::ProgramPass> passes(program::Stage to) const override { return cuda_passes(to); }
  std::string producer_refusal(const program::Node& product) const override { return codegen::cuda_producer_refusal(product, gpu_); }
  std::string pair_refusal(const program::Node& product) const override { return codegen::cuda_pair_refusal(product, gpu_); }
  std::string sums_refusal(const program::Node& node, const program::Program& p) const override {
    return codegen::cuda_sums_refusal(node, p, gpu_);
  }

  std::string bringing_refusal(const program::Node& meeting) const override {
    if (program::in_pieces(std::get<program::Meeting>(meeting.problem))) return pieces_refusal(meeting, facts().device, options_);
    return codegen::cuda_bringing_refusal(meeting, gpu_);
  }

  std::string foreach_key(const program::Node& node) const override { return codegen::cuda_foreach_key(node); }
  bool foreach_takes(const program::Node& node, size_t count) const override { return codegen::cuda_foreach_takes(node, count); }

  std::vector<program::Config> proposals(const program::Program& p, size_t node) const override {
    const program::Node& n = p.nodes[node];
    std::vector<program::Config> out = without_default(n, codegen::cuda_configs(n, p, gpu_));
    const std::string refusal = gpu_library_refusal(n, p);
    const std::string library(name_of(std::holds_alternative<program::Convolution>(n.problem) ? program::Implementation::CuDnn
                                                                                              : program::Implementation::CublasLt));
    for (int64_t algo = 0; algo < kLibraryChoices; ++algo) add_library(out, n, {library, {{"algo", algo}}}, refusal);
    for (auto& way : sched::proposed_rewrites(p, node, facts(), options_))
      if (way.form != sched::kNccl || has_nccl(std::get<program::Meeting>(n.problem))) out.push_back(std::move(way));
    return out;
  }
  std::vector<program::Config> neighbours(const program::Program& p, size_t node, const program::Config& way) const override {
    const program::Node& n = p.nodes[node];
    const auto from = way.empty() ? first_of(codegen::cuda_configs(n, p, gpu_)) : way;
    return from.empty() ? std::vector<program::Config>{} : codegen::cuda_neighbours(from, n, p, gpu_);
  }

  codegen::KernelText generate(const program::Node& node, program::Program& p, codegen::ConstantMemory& constants) const override {
    return codegen::generate_cuda(node, p, gpu_, constants);
  }
  std::string file_ending() const override { return ".cu"; }
  std::string code_for() const override { return gpu_.architecture; }

  const device::cuda::GpuInfo& gpu() const { return gpu_; }

 private:
  // All ranks of the group ask alike. One that NCCL cannot join, which is an error on all of them, does without.
  bool has_nccl(const program::Meeting& m) const try {
    return exec::nccl_refusal({.kind = m.kind, .dtype = m.input.dtype, .op = m.op}, m.group, facts().device).empty();
  } catch (const EnvironmentError& e) {
    log(Artifact::Perf, fmt::format("NCCL is no choice for the group \"{}\": {}", m.group, e.what()));
    return false;
  }

  const CompileOptions options_;
  const device::cuda::GpuInfo gpu_;
};

const device::cuda::GpuInfo& gpu_of(const target::PassContext& context) { return dynamic_cast<const CudaBackend&>(context.target).gpu(); }

bool run_choose(program::Program& p, target::PassContext& context) { return choose_on_gpu(p, context, gpu_of(context)); }

bool name_templates(program::Program& p, target::PassContext& context) {
  const device::cuda::GpuInfo& gpu = gpu_of(context);
  for (auto& n : p.nodes)
    if (std::string line = n.is_library() ? "" : codegen::cuda_choice(n, p, gpu); !line.empty())
      context.report.choices.push_back(std::move(line));
  return false;
}

constexpr target::ProgramPass kPrepare[] = {sched::kPadProducts};
constexpr target::ProgramPass kSchedule[] = {
    sched::kInlineDefaults,
    sched::kFuse,
    {"choose", "Decides who computes each product and convolution: templates, cuBLASLt or cuDNN.", run_choose, target::kEachFusion, true},
    sched::kFuseRests,
    sched::kFactorSums,
    sched::kRecompute,
    sched::kAbsorbProducers,
    sched::kPairProducts,
    sched::kSumColumns,
    sched::kRowsAndColumns,
    sched::kJoinColumns,
    sched::kBringProducts,
    sched::kOverlapProducts,
    sched::kWriteBack,
    sched::kReuse,
    sched::kOldContents,
    sched::kForeach,
    sched::kMarkMeetings,
    {"name_templates", "Reports which template computes each product, and why not those before it.", name_templates},
};

}  // namespace

std::unique_ptr<Backend> make_cuda_backend(int index, device::cuda::GpuInfo gpu, const CompileOptions& options) {
  return std::make_unique<CudaBackend>(index, std::move(gpu), options);
}

std::span<const target::ProgramPass> cuda_passes(program::Stage to) {
  if (to == program::Stage::Lowered) return kPrepare;
  return kSchedule;
}

}  // namespace toroid::backend
