#include "compile/model.h"

#include "base/stopwatch.h"
#include "compile/pipeline.h"
#include "device/runtime.h"

namespace toroid::compiler {

CompiledModel CompiledModel::make(std::unique_ptr<graph::Graph> graph, const Setup& setup, const TuneListener& tuning,
                                  const Observer& made) {
  const device::CaptureSuspension not_captured;
  CompiledModel model;
  CompileReport& report = model.report_;
  const Job job = job_of(graph->name, setup, tuning);
  const Stopwatch all;
  Objects objects = advance<Objects>(Imported{std::move(graph)}, job, report);
  model.sources_ = std::move(objects.sources);
  exec::Loadable loadable = advance<exec::Loadable>(std::move(objects), job, report);
  if (made) made(loadable, report);
  const Stopwatch loading;
  model.executable_ = exec::load(std::move(loadable.plan), loadable.store, setup.device);
  report.stages.push_back({"loading", loading.ms()});
  report.total_ms = all.ms();
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

exec::Loadable loadable(std::unique_ptr<graph::Graph> graph, const Setup& setup) {
  CompileReport report;
  const Job job = job_of(graph->name, setup);
  return advance<exec::Loadable>(Imported{std::move(graph)}, job, report);
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
  Job job = job_of(graph->name, setup, {}, gpu);
  job.may_tune = false;
  Kernels kernels = advance<Kernels>(Imported{std::move(graph)}, job, report);
  std::vector<codegen::KernelText> out;
  for (auto& [node, text] : kernels.texts) out.push_back(std::move(text));
  return out;
}

}  // namespace toroid::compiler
