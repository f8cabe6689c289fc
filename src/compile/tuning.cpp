#include "compile/tuning.h"

#include <limits>

#include "base/check.h"
#include "base/text.h"
#include "compile/pipeline.h"
#include "extern/gpu_libraries.h"
#include "jit/jit.h"

namespace toroid::compiler {
namespace {

// A region's code.
class RegionBuild : public tune::Build {
 public:
  RegionBuild(program::Program scheduled, std::shared_ptr<const Job> job)
      : job_(std::move(job)), kernels_(advance<Kernels>(Fused{std::move(scheduled)}, *job_, report_)) {
    for (auto& [node, text] : kernels_.texts) texts_.push_back(text);
  }
  void compile() override { objects_ = advance<Objects>(std::move(kernels_), *job_, report_); }
  exec::Loadable plan() override { return advance<exec::Loadable>(std::move(objects_), *job_, report_); }
  const std::vector<codegen::KernelText>& kernels() const override { return texts_; }

 private:
  const std::shared_ptr<const Job> job_;
  CompileReport report_;  // nobody asks
  Kernels kernels_;       // until compile()
  Objects objects_;       // from then on, until plan()
  std::vector<codegen::KernelText> texts_;
};

}  // namespace

Tuned choose(Lowered in, const Job& job, CompileReport& report) {
  if (!job.tunes()) return {std::move(in.program), {}, std::move(in.layers)};
  const auto lock = lock_file(job.options());
  const auto memory = memory_for(*job.target, job.options(), lock.get(), job.decided);
  tune::SearchOptions how = search_options(job.options());
  how.progress = job.listener;
  how.workers = job.compile_threads;
  how.pipelined = job.setup.device.is_cuda();  // its own clock does not see what the host does
  tune::TuneReport found;
  Tuned out{tune::tune(std::move(in.program), pipeline_for(job), how, memory.get(), found)};
  out.decided = found.decided;
  report.tuning = std::move(found);
  return out;
}

std::shared_ptr<const tune::Pipeline> pipeline_for(const Job& job) {
  auto out = std::make_shared<tune::Pipeline>();
  out->target = job.target;
  out->options = job.options();
  out->build = [regions = std::make_shared<const Job>(job_of_regions(job))](program::Program p) -> std::unique_ptr<tune::Build> {
    return std::make_unique<RegionBuild>(std::move(p), regions);
  };
  return out;
}

std::unique_ptr<tune::LockFile> lock_file(const CompileOptions& options) {
  const std::string path = options.get(options::kTuneLock);
  if (path.empty()) return options.get(options::kDeterministic) ? std::make_unique<tune::LockFile>() : nullptr;
  return std::make_unique<tune::LockFile>(tune::LockFile::read(path));
}

std::unique_ptr<tune::Memory> memory_for(const target::Target& target, const CompileOptions& options, const tune::LockFile* lock,
                                         tune::LockFile decided) {
  constexpr const char* kGenerators = "toroid 5";  // another number where what templates make, or how choices are compared, has changed
  tune::Memory::Sources sources;
  sources.lock = lock;
  if (!lock)
    sources.database = tune::shared_database(options.get(options::kTuneDatabase)),
    sources.remote = tune::shared_remote(options.get(options::kTuneRemote));
  sources.decided = std::move(decided);
  sources.retry_hours = options.get(options::kTuneRetryHours);
  const char* steps = options.get(options::kCoordinateDescentTuning) ? ", by steps" : "";  // what was decided without is not the end of it
  const char* bits = options.get(options::kTuneStrict) ? ", equal bits" : "";              // what is refused for them is not elsewhere
  // Choices name the proposals of libraries by number.
  const std::string libraries = target.facts().device.is_cuda() ? ", " + external::gpu_libraries() : "";
  return std::make_unique<tune::Memory>(
      target.facts().key, fmt::format("{}, {}{}{}{}", kGenerators, jit::compiler_revision(target.facts().isa), libraries, steps, bits),
      std::move(sources));
}

tune::SearchOptions search_options(const CompileOptions& options) {
  tune::SearchOptions o;
  o.budget_ms = static_cast<double>(options.get(options::kTuneBudgetMs));
  o.region_ms = static_cast<double>(options.get(options::kTuneRegionMs));
  o.whole_ms = static_cast<double>(options.get(options::kTuneWholeMs));
  o.fusion_depth = options.get(options::kEnableRecursiveFusion) ? static_cast<int>(options.get(options::kMaxFusionDepth)) : 1;
  const std::string listed = options.get(options::kFusionTypes);
  const auto kinds = split_list(listed);
  const auto has = [&](std::string_view kind) { return std::find(kinds.begin(), kinds.end(), kind) != kinds.end(); };
  o.fusion = {has("epilogue"), has("prologue"), has("cross_subgraph")};
  o.fusion_speedup = static_cast<double>(options.get(options::kFusionSpeedupPercent)) / 100;
  o.descent = options.get(options::kCoordinateDescentTuning);
  o.equivalence = options.get(options::kTuneStrict) ? tune::Equivalence::Strict : tune::Equivalence::Fast;
  const std::string backends = options.get(options::kTuneBackends);
  o.backends.clear();
  for (std::string_view by : split_list(backends)) o.backends.emplace_back(by);
  o.names = options.get(options::kTuneChoices);
  o.check_lock = options.get(options::kTuneLockCheck);
  o.all_tried = static_cast<size_t>(options.get(options::kTuneAllTried));
  o.precompile = options.get(options::kTunePrecompile);
  o.compile_ms = static_cast<double>(options.get(options::kTuneCompileTimeoutMs));
  o.isolated = options.get(options::kTuneIsolated);
  if (const int64_t ms = options.get(options::kTuneTimeoutMs); ms > 0)
    o.worker.timeout_ms = static_cast<int>(ms);
  else
    o.worker.timeout_ms = std::numeric_limits<int>::max();
  return o;
}

}  // namespace toroid::compiler
