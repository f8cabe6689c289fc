#include "compile/target.h"

#include <strings.h>

#include <cstdlib>

#include "base/check.h"
#include "base/log.h"
#include "base/thread_pool.h"
#include "codegen/cuda/generate.h"
#include "codegen/cuda/templates/sort.h"
#include "compile/candidates.h"
#include "exec/bound.h"
#include "sched/absorb.h"
#include "sched/channels_last.h"
#include "sched/decompose_k.h"
#include "sched/layout.h"
#include "sched/pair.h"
#include "sched/share.h"
#include "sched/split.h"

namespace toroid::compiler {
namespace {

constexpr int64_t kLibraryChoices = 3;  // of a library's heuristics

// The template's configurations; the first is what it does by itself, unless the node was told otherwise.
std::vector<choice::Config> without_default(const choice::Node& n, std::vector<choice::Config> all) {
  if (!all.empty() && n.config.empty() && !n.is_library()) all.erase(all.begin());
  return all;
}

choice::Config first_of(const std::vector<choice::Config>& all) { return all.empty() ? choice::Config{} : all.front(); }

void add_library(std::vector<choice::Config>& ways, const choice::Node& n, choice::Config way, const std::string& refusal) {
  if (refusal.empty() && !n.is_library()) ways.push_back(std::move(way));
}

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

void add_splits(std::vector<choice::Config>& ways, const choice::Node& n, int processors, const CompileOptions& options) {
  const auto most = static_cast<size_t>(options.get(options::kNumDecomposeKSplits));
  for (int64_t splits : sched::decompose_k_splits(n, processors, options.get(options::kDecomposeKThreshold), most))
    ways.push_back({"decompose_k", {{"splits", splits}}});
}

class CpuTarget : public Target {
 public:
  explicit CpuTarget(CompileOptions options) : options_(std::move(options)) {}

  bool has_whole_products() const override { return isa_ != device::Isa::Scalar; }
  void set_templates(lower::LowerOptions& how) const override {
    how.takes_whole_product = [](const choice::Gemm& g, bool constant_b) { return codegen::supports(g, constant_b); };
    how.takes_convolution = [isa = isa_](const choice::Convolution& c, bool constant_weight, const CompileOptions& options) {
      return first_taker(candidates(c, constant_weight, isa, options)) != nullptr;
    };
    how.attention_template = [isa = isa_](const choice::Attention& a) { return codegen::supports(a, isa); };
    how.sort_template = [](const choice::Sort& s) { return codegen::supports(s); };
  }

  choice::Program schedule(choice::Program p, const CompileOptions& options, sched::FusionReport& report,
                           std::vector<std::string>& choices) const override {
    const bool joins = options.fusion() == Fusion::All;
    const size_t nodes = p.nodes.size();
    for (auto& line : choose(p, isa_, options)) choices.push_back(std::move(line));
    if (joins) {
      if (p.nodes.size() > nodes) p = sched::fuse(std::move(p));  // rests of epilogues with their readers
      p = sched::absorb_producers(std::move(p), sched::producers_on_threads(threads_), &report);
    }
    if (options.fusion() != Fusion::PerNode) p = sched::split_reductions(std::move(p), threads_, &report);
    if (joins) p = sched::share_launches(std::move(p));
    return p;
  }

  std::vector<choice::Config> ways(const choice::Program& p, size_t node) const override {
    const choice::Node& n = p.nodes[node];
    std::vector<choice::Config> out = without_default(n, codegen::configs(n, p, isa_));
    std::string refusal = library_refusal(n, p);
    if (refusal.empty() && !(refusal = spinning_refusal()).empty())
      log(Artifact::Choices, fmt::format("{}: not by onednn: {}", choice::label(n), refusal));
    add_library(out, n, {"onednn", {}}, refusal);
    for (auto& way : sched::cpu_layouts(n, p)) out.push_back(std::move(way));
    add_splits(out, n, threads_, options_);
    return out;
  }
  std::vector<choice::Config> neighbours(const choice::Program& p, size_t node, const choice::Config& way) const override {
    const choice::Node& n = p.nodes[node];
    const auto from = way.empty() ? first_of(codegen::configs(n, p, isa_)) : way;
    return from.empty() ? std::vector<choice::Config>{} : codegen::neighbours(from, n, p, isa_);
  }
  codegen::KernelText generate(const choice::Node& node, choice::Program& p, codegen::ConstantMemory& constants) const override {
    return codegen::generate(node, p, isa_, constants);
  }
  std::string isa() const override { return isa_ == device::host().isa ? "native" : std::string(device::name_of(isa_)); }
  std::string file_ending() const override { return ".c"; }
  std::string code_for() const override { return exec::code_for(isa_); }

 private:
  const CompileOptions options_;
  const int threads_ = exec::threads_of(options_);  // that run the kernels
  const device::Isa isa_ = device::usable_isa(options_.get(options::kIsa));
};

class GpuTarget : public Target {
 public:
  GpuTarget(CompileOptions options, device::cuda::GpuInfo gpu) : options_(std::move(options)), gpu_(std::move(gpu)) {}

  void set_templates(lower::LowerOptions& how) const override {
    how.tf32 = true;
    how.takes_convolution = [](const choice::Convolution& c, bool constant_weight, const CompileOptions& options) {
      return first_taker(gpu_candidates(c, constant_weight, options)) != nullptr;
    };
    how.attention_template = [](const choice::Attention& a) { return codegen::cuda_supports(a); };
    how.sort_template = [](const choice::Sort& s) { return codegen::cuda_supports(s); };
  }

  void prepare(choice::Program& p, const CompileOptions& options, std::vector<std::string>& choices) const override {
    if (options.fusion() != Fusion::All) return;
    for (auto& line : sched::pad_for_gpu(p)) choices.push_back(std::move(line));
  }

  choice::Program schedule(choice::Program p, const CompileOptions& options, sched::FusionReport& report,
                           std::vector<std::string>& choices) const override {
    const size_t nodes = p.nodes.size();
    for (auto& line : choose_on_gpu(p, options)) choices.push_back(std::move(line));
    if (options.fusion() == Fusion::All) {
      if (p.nodes.size() > nodes) p = sched::fuse(std::move(p));  // rests of epilogues with their readers
      p = sched::absorb_producers(
          std::move(p), [&](const choice::Node& n) { return codegen::cuda_producer_refusal(n, gpu_); }, &report);
      p = sched::pair_products(
          std::move(p), [&](const choice::Node& n) { return codegen::cuda_pair_refusal(n, gpu_); }, &report);
    }
    for (auto& n : p.nodes)
      if (std::string line = n.is_library() ? "" : codegen::cuda_choice(n, p, gpu_); !line.empty()) choices.push_back(std::move(line));
    return p;
  }

  std::vector<choice::Config> ways(const choice::Program& p, size_t node) const override {
    const choice::Node& n = p.nodes[node];
    std::vector<choice::Config> out = without_default(n, codegen::cuda_configs(n, p, gpu_));
    const std::string refusal = gpu_library_refusal(n, p);
    const std::string library(
        name_of(std::holds_alternative<choice::Convolution>(n.problem) ? choice::Implementation::CuDnn : choice::Implementation::CublasLt));
    for (int64_t algo = 0; algo < kLibraryChoices; ++algo) add_library(out, n, {library, {{"algo", algo}}}, refusal);
    for (auto& way : sched::gpu_layouts(n, p)) out.push_back(std::move(way));
    for (auto& way : sched::gpu_channels_last(n, p)) out.push_back(std::move(way));
    add_splits(out, n, gpu_.multiprocessors, options_);
    return out;
  }
  std::vector<choice::Config> neighbours(const choice::Program& p, size_t node, const choice::Config& way) const override {
    const choice::Node& n = p.nodes[node];
    const auto from = way.empty() ? first_of(codegen::cuda_configs(n, p, gpu_)) : way;
    return from.empty() ? std::vector<choice::Config>{} : codegen::cuda_neighbours(from, n, p, gpu_);
  }
  codegen::KernelText generate(const choice::Node& node, choice::Program& p, codegen::ConstantMemory& constants) const override {
    return codegen::generate_cuda(node, p, gpu_, constants);
  }
  std::string isa() const override { return gpu_.architecture; }
  std::string file_ending() const override { return ".cu"; }
  std::string code_for() const override { return gpu_.architecture; }

 private:
  const CompileOptions options_;
  device::cuda::GpuInfo gpu_;
};

}  // namespace

std::unique_ptr<Target> make_target(const Setup& setup, const device::cuda::GpuInfo* absent) {
  if (!setup.device.is_cuda()) return std::make_unique<CpuTarget>(setup.options);
  const int index = setup.device.index;
  return std::make_unique<GpuTarget>(setup.options, absent ? *absent : device::cuda::gpu(index).info());
}

}  // namespace toroid::compiler
