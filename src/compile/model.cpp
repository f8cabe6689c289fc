#include "compile/model.h"

#include <algorithm>
#include <chrono>

#include "backend/backend.h"
#include "base/check.h"
#include "base/log.h"
#include "base/options.h"
#include "compile/assembly.h"
#include "compile/disabled_passes.h"
#include "compile/tuning.h"
#include "device/runtime.h"
#include "graph/control_flow.h"
#include "lower/lowering.h"

namespace toroid::compiler {
namespace {

using Clock = std::chrono::steady_clock;
double ms_since(Clock::time_point t) { return std::chrono::duration<double, std::milli>(Clock::now() - t).count(); }

// One compile on its way through the stages. Each stage reads what those before it left here.
class Compilation {
 public:
  Compilation(std::unique_ptr<graph::Graph> g, const Setup& setup, CompileReport& report, std::shared_ptr<const backend::Backend> target,
              const TuneListener& tuning = {})
      : setup_(setup), report_(report), tuning_(tuning), debug_(g->name, setup.options), target_(std::move(target)), graph_(std::move(g)) {}

  exec::Loadable run() {
    auto start = Clock::now();
    struct Stage {
      void (Compilation::*run)();
      double CompileReport::*ms;
    };
    constexpr Stage kStages[] = {{&Compilation::transform, &CompileReport::passes_ms}, {&Compilation::lower, &CompileReport::lower_ms},
                                 {&Compilation::tune, &CompileReport::tune_ms},        {&Compilation::fuse, &CompileReport::fuse_ms},
                                 {&Compilation::blocks, &CompileReport::blocks_ms},    {&Compilation::generate, &CompileReport::codegen_ms},
                                 {&Compilation::build, &CompileReport::jit_ms}};
    for (auto& stage : kStages) {
      auto t = Clock::now();
      (this->*stage.run)();
      report_.*stage.ms = ms_since(t);
      if (stage.run == &Compilation::generate) assembly_->upload();  // while the kernels are compiled
    }
    exec::Loadable out = assembly_->plan();
    report_.total_ms = ms_since(start);
    return out;
  }

  // The stages up to code, which need no GPU.
  std::vector<codegen::KernelText> kernels() {
    for (auto stage : {&Compilation::transform, &Compilation::lower, &Compilation::fuse, &Compilation::generate}) (this->*stage)();
    return assembly_->kernels();
  }

  std::vector<std::pair<std::string, std::string>> take_sources() { return assembly_->take_sources(); }

 private:
  void transform() {
    debug_.show(Artifact::Graph, "graph_imported.txt", [&] { return graph::to_string(*graph_); });
    check_disabled_passes(options());
    const graph::Purpose purpose = {
        .frozen = options().get(options::kFreezing), .templates = options().get(options::kTemplates), .int8 = target_->facts().int8};
    graph_ = graph::run_passes(std::move(graph_), graph::pipeline(purpose), &report_.passes, options(), dump("graph"));
    debug_.show(Artifact::Graph, "graph_lowered.txt", [&] { return graph::to_string(*graph_); });
    report_.graph_nodes = graph_->nodes.size();
  }

  void lower() {
    program_ = lower::lower(*graph_, {.options = options(), .target = target_.get()});
    program_ = run_passes(choice::Stage::Lowered);
    report_.kernels_unfused = program_.nodes.size();
    debug_.show(Artifact::Loops, "program_lowered.txt", [&] { return choice::to_string(program_); });
  }

  choice::Program run_passes(choice::Stage to) {
    return target::run_passes(std::move(program_), *target_, to, options(), &report_.schedule, dump("program"));
  }

  // Numbers what passes make in the debug folder: passes/07_graph_trim.txt.
  PassDump dump(const char* of) {
    if (!debug_.on()) return {};
    return [this, of](const std::string& pass, const std::function<std::string()>& text) {
      debug_.write(fmt::format("passes/{:02}_{}_{}.txt", ++dumped_, of, pass), text);
    };
  }

  // Decides how choice nodes are computed, and what stays apart from them.
  void tune() {
    if (!tuned()) return;
    moved_ = std::make_shared<MovedConstants>();
    const auto pipeline = pipeline_for(setup_, target_, moved_, [](const graph::Graph& g, const Setup& how, auto target) {
      return block_of(g, how, std::move(target), {}, {});  // nothing is tuned there
    });
    const auto lock = lock_file(options());
    const auto memory = memory_for(*target_, options(), lock.get(), decided_before_);
    tune::SearchOptions how = search_options(options());
    how.progress = tuning_;
    how.pipelined = setup_.device.is_cuda();  // its own clock does not see what the host does
    program_ = tune::tune(std::move(program_), pipeline, how, memory.get(), report_.tuning);
  }

  void fuse() {
    program_ = run_passes(choice::Stage::Scheduled);
    for (auto& line : report_.schedule.choices) log(Artifact::Choices, line);
    debug_.show(Artifact::Schedule, "program_fused.txt", [&] { return choice::to_string(program_); });
    if (log_enabled(Artifact::Fusion))
      for (auto& m : report_.schedule.fusion.misses) log(Artifact::Fusion, m.first + " and " + m.second + " stay apart: " + m.reason);
    if (log_enabled(Artifact::Fusion))
      for (auto& u : report_.schedule.fusion.unsplit) log(Artifact::Fusion, u.node + " stays one loop: " + u.reason);
    assembly_ = std::make_unique<Assembly>(std::move(program_), setup_, report_, target_, debug_);
    if (moved_) assembly_->share(moved_);
  }

  // What control flow runs: each region is a compilation of its own, which is taken to its kernels here.
  void blocks() {
    assembly_->add_blocks([&](const graph::Graph& region, const Setup& its) {
      Assembly::Inner block = block_of(region, its, target_, tuning_, report_.tuning.decided);
      tune::add(report_.tuning, std::move(block.report->tuning));
      return block;
    });
    if (tuned()) debug_.write("tuning.txt", [&] { return tune::to_string(report_.tuning); });
  }

  static Assembly::Inner block_of(const graph::Graph& region, const Setup& setup, std::shared_ptr<const backend::Backend> target,
                                  const TuneListener& tuning, tune::LockFile decided_before) {
    auto g = graph::clone(region);
    Assembly::Inner out;
    out.report = std::make_unique<CompileReport>();
    out.block.name = g->name;
    std::vector<const graph::Value*> given;
    for (auto& in : g->inputs)
      if (in.kind == graph::InputKind::User) given.push_back(in.value);
    // Results that are operands as they are need no code and no copy.
    std::vector<graph::Output> computed;
    for (auto& o : g->outputs) {
      auto operand = std::find(given.begin(), given.end(), o.value) - given.begin();
      if (operand < static_cast<int64_t>(given.size())) {
        out.block.results.push_back(~static_cast<int>(operand));
      } else {
        out.block.results.push_back(static_cast<int>(computed.size()));
        computed.push_back(o);
      }
    }
    g->outputs = std::move(computed);
    Compilation within(std::move(g), setup, *out.report, std::move(target), tuning);
    within.decided_before_ = std::move(decided_before);
    for (auto stage : {&Compilation::transform, &Compilation::lower, &Compilation::tune, &Compilation::fuse, &Compilation::blocks,
                       &Compilation::generate})
      (within.*stage)();
    out.assembly = std::move(within.assembly_);
    return out;
  }

  const CompileOptions& options() const { return setup_.options; }
  bool tuned() const { return tunes(options().mode()) && options().fusion() != Fusion::None; }

  void generate() { assembly_->generate(); }
  void build() { assembly_->build(); }

  const Setup setup_;
  CompileReport& report_;
  const TuneListener tuning_;
  tune::LockFile decided_before_;  // by the program that this is a block of
  DebugFolder debug_;
  std::shared_ptr<const backend::Backend> target_;
  std::unique_ptr<graph::Graph> graph_;
  std::shared_ptr<MovedConstants> moved_;  // in modes that tune: constants that timing has brought to a GPU
  choice::Program program_;                // until it is scheduled
  int dumped_ = 0;                         // passes, in the debug folder
  std::unique_ptr<Assembly> assembly_;     // from then on
};

}  // namespace

std::string time_text(const CompileReport& r) {
  std::string out = fmt::format(
      "passes {:.1f} ms, lowering {:.1f}, tuning {:.1f}, fusion {:.1f}, blocks {:.1f}, code {:.1f}, compiler {:.1f} ({} kernels, {:.1f} by "
      "one thread), "
      "loading {:.1f}, all {:.1f}",
      r.passes_ms, r.lower_ms, r.tune_ms, r.fuse_ms, r.blocks_ms, r.codegen_ms, r.jit_ms, r.kernels_compiled, r.compiler_ms, r.load_ms,
      r.total_ms);
  if (!r.packing.valid()) return out;
  const double ms = r.packing.get();
  out += fmt::format("; weights {:.1f} ms in the background", ms);
  if (r.uploaded_bytes)
    out += fmt::format(" ({:.2f} GB to the GPU, {:.1f} GB/s)", static_cast<double>(r.uploaded_bytes) / 1e9,
                       static_cast<double>(r.uploaded_bytes) / ms / 1e6);
  return out;
}

CompiledModel CompiledModel::make(std::unique_ptr<graph::Graph> graph, const Setup& setup, const TuneListener& tuning) {
  const device::CaptureSuspension not_captured;
  CompiledModel model;
  Compilation compilation(std::move(graph), setup, model.report_, backend::make_backend(setup.device, setup.options), tuning);
  exec::Loadable made = compilation.run();
  const auto start = Clock::now();
  model.executable_ = exec::load(std::move(made.plan), made.store, setup.device);
  model.report_.load_ms = ms_since(start);
  model.report_.total_ms += model.report_.load_ms;
  model.sources_ = compilation.take_sources();
  return model;
}

exec::Loadable loadable(std::unique_ptr<graph::Graph> graph, const Setup& setup) {
  CompileReport report;
  return Compilation(std::move(graph), setup, report, backend::make_backend(setup.device, setup.options)).run();
}

std::optional<CompiledModel> CompiledModel::rebound(std::span<const std::pair<Tensor, Tensor>> others) const {
  CompiledModel out;
  out.executable_ = executable_->rebound(others);
  if (!out.executable_) return std::nullopt;
  out.report_ = report_;
  out.sources_ = sources_;
  return out;
}

std::vector<codegen::KernelText> kernels_of(std::unique_ptr<graph::Graph> graph, const Setup& setup, const device::cuda::GpuInfo* gpu) {
  CompileReport report;
  return Compilation(std::move(graph), setup, report, backend::make_backend(setup.device, setup.options, gpu)).kernels();
}

}  // namespace toroid::compiler
