// Graphs compiled: a model that runs, a program that can be stored, or kernels alone.
#pragma once

#include <optional>

#include "codegen/kernel_text.h"
#include "compile/job.h"
#include "compile/report.h"
#include "compile/setup.h"
#include "exec/run/executable.h"
#include "graph/graph.h"

namespace toroid::compiler {

class TunedLater;

class CompiledModel {
 public:
  // UserError for programs outside of what the compiler supports, naming the operation and its place. tuning: told how far it has come, in
  // modes that tune; blocks of control flow begin anew.
  // made: is shown what was made, before it is loaded. With the option tune_in_background that is the untuned program, which runs at once.
  using Observer = std::function<void(const exec::Loadable&, const CompileReport&)>;
  static CompiledModel make(std::unique_ptr<graph::Graph> graph, const Setup& setup, const TuneListener& tuning = {},
                            const Observer& made = {});
  // Of what was made before. See exec::load. report: what is known of it.
  static CompiledModel of(exec::Loadable made, const Device& device, CompileReport report);

  // One tensor an output. See exec::Executable::run.
  std::vector<Tensor> run(std::span<const Tensor> inputs);
  // See exec::Executable::rebound: the program shares its kernels with this one. Nothing where it cannot be. The model must not have been
  // compiled with `freeze`, which makes other things of tensors.
  std::optional<CompiledModel> rebound(std::span<const std::pair<Tensor, Tensor>> others) const;
  // What the next run is by. Of a program that is tuned in the background it lives until then.
  exec::Executable& executable();
  // How far tuning in the background has come, what it found, or why it failed; empty where there is none.
  std::string background_tuning() const;
  const CompileReport& report() const { return report_; }
  // C text of each distinct kernel that this process has made, by name.
  const std::vector<std::pair<std::string, std::string>>& sources() const { return sources_; }

 private:
  static CompiledModel of_job(std::unique_ptr<graph::Graph> graph, const Job& job, const Observer& made);

  std::unique_ptr<exec::Executable> executable_;
  std::shared_ptr<TunedLater> later_;  // null, or what runs it
  CompileReport report_;
  std::vector<std::pair<std::string, std::string>> sources_;
};

// What CompiledModel::make loads: for programs that are stored. absent: see job_of.
exec::Loadable loadable(std::unique_ptr<graph::Graph> graph, const Setup& setup, const device::cuda::GpuInfo* absent = nullptr);

// The kernels of a graph, without those of its blocks of control flow; no GPU is needed. gpu: what they are for where the device is one.
std::vector<codegen::KernelText> kernels_of(std::unique_ptr<graph::Graph> graph, const Setup& setup, const device::cuda::GpuInfo* gpu);

}  // namespace toroid::compiler
