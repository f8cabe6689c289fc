// From a graph to something that runs: the pipeline, and what it made.
#pragma once

#include <optional>

#include "choice/program.h"
#include "codegen/kernel_text.h"
#include "compile/setup.h"
#include "exec/executable.h"
#include "graph/graph.h"
#include "graph/pass.h"
#include "target/program_pass.h"
#include "tune/search/search.h"

namespace toroid::compiler {

// What one compile did.
struct CompileReport {
  PassReport passes;  // of the graph
  double passes_ms = 0, lower_ms = 0, tune_ms = 0, fuse_ms = 0, blocks_ms = 0, codegen_ms = 0, jit_ms = 0, load_ms = 0, total_ms = 0;
  double compiler_ms = 0;  // of NVRTC or Clang, summed over the kernels, which are compiled side by side within jit_ms
  // Of weights, packed or brought to a GPU by threads that begin before the kernels are compiled there, and go on when the compile has
  // ended: milliseconds. The first run waits for it.
  std::shared_future<double> packing;
  size_t uploaded_bytes = 0;    // to a GPU, by those threads
  size_t graph_nodes = 0;       // after the passes
  size_t kernels_unfused = 0;   // nodes before fusion
  size_t kernels = 0;           // launches a run, those of blocks of control flow aside
  size_t host_calls = 0;        // library and reference calls a run, those of blocks aside
  size_t blocks = 0;            // blocks that branches and loops run, nested ones included
  size_t kernels_compiled = 0;  // distinct texts that were not in a cache
  tune::TuneReport tuning;      // in modes that tune
  target::ScheduleReport schedule;
};

// Where the time went, in one line: "passes 1.2 ms, lowering ..."; waits for the weights.
std::string time_text(const CompileReport& report);

class CompiledModel {
 public:
  using TuneListener = std::function<void(const tune::TuneProgress&)>;
  // UserError for programs outside of what the compiler supports, naming the operation and its place. tuning: told how far it has come, in
  // modes that tune; blocks of control flow begin anew.
  static CompiledModel make(std::unique_ptr<graph::Graph> graph, const Setup& setup, const TuneListener& tuning = {});
  // The same by the options of the process and these: setup_of().
  static CompiledModel compile(std::unique_ptr<graph::Graph> graph, const ModelOptions& options = {}, const TuneListener& tuning = {});

  // One tensor an output. See exec::Executable::run.
  std::vector<Tensor> run(std::span<const Tensor> inputs) { return executable_->run(inputs); }
  // See exec::Executable::rebound: the program shares its kernels with this one. Nothing where it cannot be. The model must not have been
  // compiled with `freeze`, which makes other things of tensors.
  std::optional<CompiledModel> rebound(std::span<const std::pair<Tensor, Tensor>> others) const;
  exec::Executable& executable() { return *executable_; }
  const CompileReport& report() const { return report_; }
  // C text of each distinct kernel, by name.
  const std::vector<std::pair<std::string, std::string>>& sources() const { return sources_; }

 private:
  std::unique_ptr<exec::Executable> executable_;
  CompileReport report_;
  std::vector<std::pair<std::string, std::string>> sources_;
};

// What CompiledModel::make loads: for programs that are stored.
exec::Loadable loadable(std::unique_ptr<graph::Graph> graph, const Setup& setup);

// The kernels of a graph, without those of its blocks of control flow; no GPU is needed. gpu: what they are for where the device is one.
std::vector<codegen::KernelText> kernels_of(std::unique_ptr<graph::Graph> graph, const Setup& setup, const device::cuda::GpuInfo* gpu);
// The same for a GPU by the options of the process.
std::vector<codegen::KernelText> kernels_for_gpu(std::unique_ptr<graph::Graph> graph, const device::cuda::GpuInfo& gpu);

}  // namespace toroid::compiler
