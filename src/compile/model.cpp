#include "compile/model.h"

#include <fmt/format.h>

#include "base/json_text.h"
#include "base/stopwatch.h"
#include "compile/pipeline.h"
#include "compile/tuned_later.h"
#include "device/runtime.h"
#include "toroid/version.h"

namespace toroid::compiler {

namespace {

// Beside what the stages write.
void write_report(const Job& job, const CompileReport& report) {
  job.debug.write("report.json", [&] {
    CompileOptions others = job.options();
    others.set("compile_debug", "0");
    others.set("debug_dir", "toroid_debug");
    std::string notes;
    for (auto& note : job.setup.notes) notes += (notes.empty() ? "" : ",") + json_string(note);
    return fmt::format("{{\"version\":{},\n \"device\":{},\n \"options\":{},\n \"notes\":[{}],\n {}}}\n", json_string(TOROID_VERSION),
                       json_string(to_string(job.setup.device)), json_string(others.text()), notes, json_members(report));
  });
}

}  // namespace

CompiledModel CompiledModel::make(std::unique_ptr<graph::Graph> graph, const Setup& setup, const TuneListener& tuning,
                                  const Observer& made) {
  const device::CaptureSuspension not_captured;
  Job job = job_of(graph->name, setup, tuning);
  job.makes_code = true;
  if (!is_tuned_later(*graph, setup)) return of_job(std::move(graph), job, made);
  Job untuned = job;
  untuned.may_tune = false;
  job.compile_threads = 1;  // that of tuning
  std::shared_ptr<const graph::Graph> kept = graph::clone(*graph);
  CompiledModel out, first = of_job(std::move(graph), untuned, made);
  out.report_ = first.report_, out.sources_ = first.sources_;
  out.later_ = std::make_shared<TunedLater>(std::move(first), [kept, job](const TuneListener& progress) {
    Job tuned = job;
    tuned.listener = [&](const tune::TuneProgress& p) {
      progress(p);
      if (job.listener) job.listener(p);
    };
    return of_job(graph::clone(*kept), tuned, {});
  });
  return out;
}

CompiledModel CompiledModel::of_job(std::unique_ptr<graph::Graph> graph, const Job& job, const Observer& made) {
  const device::CaptureSuspension not_captured;
  CompiledModel model;
  CompileReport& report = model.report_;
  const Stopwatch all;
  Objects objects = advance<Objects>(Imported{std::move(graph)}, job, report);
  model.sources_ = std::move(objects.sources);
  exec::Loadable loadable = advance<exec::Loadable>(std::move(objects), job, report);
  if (made) made(loadable, report);
  const Stopwatch loading;
  model.executable_ = exec::load(std::move(loadable.plan), loadable.store, job.setup.device);
  report.stages.push_back({"loading", loading.ms()});
  report.total_ms = all.ms();
  write_report(job, report);
  return model;
}

CompiledModel CompiledModel::of(exec::Loadable made, const Device& device, CompileReport report) {
  const device::CaptureSuspension not_captured;
  CompiledModel model;
  model.report_ = std::move(report);
  const Stopwatch loading;
  model.executable_ = exec::load(std::move(made.plan), made.store, device);
  model.report_.stages.push_back({"loading", loading.ms()});
  model.report_.total_ms = loading.ms();
  return model;
}

exec::Loadable loadable(std::unique_ptr<graph::Graph> graph, const Setup& setup, const device::cuda::GpuInfo* absent) {
  CompileReport report;
  Job job = job_of(graph->name, setup, {}, absent);
  job.makes_code = true;
  const Stopwatch all;
  exec::Loadable made = advance<exec::Loadable>(Imported{std::move(graph)}, job, report);
  report.total_ms = all.ms();
  write_report(job, report);
  return made;
}

std::vector<Tensor> CompiledModel::run(std::span<const Tensor> inputs) { return later_ ? later_->run(inputs) : executable_->run(inputs); }

exec::Executable& CompiledModel::executable() { return later_ ? later_->current()->executable() : *executable_; }

std::string CompiledModel::background_tuning() const { return later_ ? later_->state() : ""; }

std::optional<CompiledModel> CompiledModel::rebound(std::span<const std::pair<Tensor, Tensor>> others) const {
  CompiledModel out;
  if (later_)
    out.later_ = later_->rebound(others);
  else
    out.executable_ = executable_->rebound(others);
  if (!out.later_ && !out.executable_) return std::nullopt;
  out.report_ = report_;
  out.sources_ = sources_;
  return out;
}

std::vector<codegen::KernelText> kernels_of(std::unique_ptr<graph::Graph> graph, const Setup& setup, const device::cuda::GpuInfo* gpu) {
  CompileReport report;
  Job job = job_of(graph->name, setup, {}, gpu);
  job.may_tune = false;
  Kernels kernels = advance<Kernels>(Imported{std::move(graph)}, job, report);
  std::vector<codegen::KernelText> out;
  for (auto& [node, text] : kernels.texts) out.push_back(std::move(text));
  return out;
}

}  // namespace toroid::compiler
