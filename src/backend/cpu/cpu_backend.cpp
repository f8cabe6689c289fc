#include "backend/cpu/cpu_backend.h"

#include <fmt/core.h>
#include <strings.h>

#include <cstdlib>

#include "backend/cpu/cpu_candidates.h"
#include "backend/proposals.h"
#include "base/log.h"
#include "base/thread_pool.h"
#include "codegen/cpu/generate.h"
#include "device/cpu/isa.h"
#include "exec/load.h"
#include "exec/run/bound.h"
#include "sched/absorb.h"
#include "sched/passes.h"
#include "sched/rewrites.h"

namespace toroid::backend {
namespace {

constexpr std::string_view kNative = "native";  // see jit::CompileRequest
constexpr const char* kNotTaken = "the template does not take this shape, dtype or layout";

// Threads of OpenMP look for more work in a loop when a library's call has ended, on the cores that the next kernels need: MiniLM-L6 with
// one product of oneDNN took twice as long, as did what was timed beside it.
std::string spinning_refusal() {
  const auto says = [](const char* name, const char* value) {
    const char* given = std::getenv(name);
    return given && ::strcasecmp(given, value) == 0;
  };
  if (ThreadPool::global().size() == 1 || says("OMP_WAIT_POLICY", "passive") || says("GOMP_SPINCOUNT", "0")) return "";
  return "its OpenMP threads would hold up other kernels (not where OMP_WAIT_POLICY is passive in the environment)";
}

target::Facts facts_of(const CompileOptions& options, device::Isa isa) {
  const int threads = exec::threads_of(options);
  // Where the instructions are named, code has no features beyond them, so that it is the same on every machine.
  return {.isa = std::string(options.get(options::kIsa) == "auto" ? kNative : device::name_of(isa)),
          .key = fmt::format("{}, {}, {} threads", device::host().model, device::name_of(isa), threads),
          .workers = threads,
          .int8 = isa != device::Isa::Scalar};
}

class CpuBackend : public Backend {
 public:
  CpuBackend(const CompileOptions& options, device::Isa isa) : Backend(facts_of(options, isa)), options_(options), isa_(isa) {}

  std::string refusal(const program::Problem& problem, const target::Question& question) const override {
    if (auto* g = std::get_if<program::Gemm>(&problem)) return codegen::supports(*g, question.constant) ? "" : kNotTaken;
    if (auto* c = std::get_if<program::Convolution>(&problem)) return refusal_of(candidates(*c, question.constant, isa_, question.options));
    if (auto* a = std::get_if<program::Attention>(&problem)) return codegen::supports(*a, isa_) ? "" : kNotTaken;
    return codegen::whole_refusal(problem, isa_);
  }

  std::span<const target::ProgramPass> passes(program::Stage to) const override { return cpu_passes(to); }
  std::string producer_refusal(const program::Node& product) const override { return sched::recompute_refusal(product, facts().workers); }

  std::vector<program::Config> proposals(const program::Program& p, size_t node) const override {
    const program::Node& n = p.nodes[node];
    std::vector<program::Config> out = without_default(n, codegen::configs(n, p, isa_));
    std::string refusal = library_refusal(n, p);
    if (refusal.empty() && !(refusal = spinning_refusal()).empty())
      log(Artifact::Choices, fmt::format("{}: not by onednn: {}", program::label(n), refusal));
    add_library(out, n, {"onednn", {}}, refusal);
    for (auto& way : sched::proposed_rewrites(p, node, facts(), options_)) out.push_back(std::move(way));
    return out;
  }
  std::vector<program::Config> neighbours(const program::Program& p, size_t node, const program::Config& way) const override {
    const program::Node& n = p.nodes[node];
    const auto from = way.empty() ? first_of(codegen::configs(n, p, isa_)) : way;
    return from.empty() ? std::vector<program::Config>{} : codegen::neighbours(from, n, p, isa_);
  }

  codegen::KernelText generate(const program::Node& node, program::Program& p, codegen::ConstantMemory& constants) const override {
    return codegen::generate(node, p, isa_, constants);
  }
  std::string file_ending() const override { return ".c"; }
  std::string code_for() const override { return facts().isa == kNative ? exec::code_for_this_processor() : facts().isa; }

  device::Isa instructions() const { return isa_; }

 private:
  const CompileOptions options_;
  const device::Isa isa_;
};

bool run_choose(program::Program& p, target::PassContext& context) {
  return choose(p, dynamic_cast<const CpuBackend&>(context.target).instructions(), context);
}

constexpr target::ProgramPass kSchedule[] = {
    sched::kInlineDefaults,
    sched::kFuse,
    {"choose", "Decides who computes each product and convolution: the template or oneDNN.", run_choose, target::kEachFusion, true},
    sched::kFuseRests,
    sched::kFactorSums,
    sched::kRecompute,
    sched::kAbsorbProducers,
    sched::kSplitReductions,
    sched::kWriteBack,
    sched::kReuse,
    sched::kShareLaunches,
    sched::kOverlapCollectives,
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(const CompileOptions& options, bool absent) {
  const std::string name = options.get(options::kIsa);
  return std::make_unique<CpuBackend>(options, absent ? device::isa_from_name(name) : device::usable_isa(name));
}

std::span<const target::ProgramPass> cpu_passes(program::Stage to) {
  if (to == program::Stage::Lowered) return {};
  return kSchedule;
}

}  // namespace toroid::backend
