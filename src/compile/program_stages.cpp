// From a graph to its scheduled program.
#include "autograd/partition/partition.h"
#include "base/log.h"
#include "compile/disabled_passes.h"
#include "compile/pipeline.h"
#include "graph/pass.h"
#include "lower/lowering.h"

namespace toroid::compiler {
namespace {

program::Program run_passes(program::Program p, program::Stage to, const Job& job, CompileReport& report) {
  return target::run_passes(std::move(p), *job.target, to, job.options(), &report.schedule, job.debug.dump("program"));
}

void log_schedule(const target::ScheduleReport& made) {
  for (auto& line : made.choices) log(Artifact::Choices, line);
  if (!log_enabled(Artifact::Fusion)) return;
  for (auto& m : made.fusion.misses) log(Artifact::Fusion, m.first + " and " + m.second + " stay apart: " + m.reason);
  for (auto& u : made.fusion.unsplit) log(Artifact::Fusion, u.node + " stays one loop: " + u.reason);
}

// What the backward pass of a graph with gradients finds in memory, and what it computes again.
std::unique_ptr<graph::Graph> partitioned(std::unique_ptr<graph::Graph> g, const Job& job, CompileReport& report) {
  const std::string& budget = job.options().get(options::kActivationMemoryBudget);
  if (budget == "off") return g;
  const autograd::Partition made =
      autograd::partition(*g, {.budget = std::stod(budget), .arithmetic_is_dear = !job.target->facts().device.is_cuda()});
  if (made.backward.empty()) return g;
  report.partition = autograd::to_string(made);
  log(Artifact::Choices, report.partition.substr(0, report.partition.find('\n')));
  job.debug.show(Artifact::Graph, "partition.txt", [&] { return report.partition; });
  auto after = autograd::recompute(*g, made);
  return after ? std::move(after) : std::move(g);
}

}  // namespace

Transformed transform(Imported in, const Job& job, CompileReport& report) {
  job.debug.show(Artifact::Graph, "graph_imported.txt", [&] { return graph::to_string(*in.graph); });
  check_disabled_passes(job.options());
  const graph::Purpose purpose = {.frozen = job.options().get(options::kFreezing),
                                  .templates = job.options().get(options::kTemplates),
                                  .int8 = job.target->facts().int8};
  Transformed out{graph::run_passes(std::move(in.graph), graph::pipeline(purpose), &report.passes, job.options(), job.debug.dump("graph"))};
  out.graph = partitioned(std::move(out.graph), job, report);
  job.debug.show(Artifact::Graph, "graph_lowered.txt", [&] { return graph::to_string(*out.graph); });
  report.graph_nodes = out.graph->nodes.size();
  return out;
}

Lowered lower_graph(Transformed in, const Job& job, CompileReport& report) {
  Lowered out{lower::lower(*in.graph, {.options = job.options(), .target = job.target.get()})};
  out.program = run_passes(std::move(out.program), program::Stage::Lowered, job, report);
  report.kernels_unfused = out.program.nodes.size();
  job.debug.show(Artifact::Loops, "program_lowered.txt", [&] { return program::to_string(out.program); });
  return out;
}

Fused schedule(Tuned in, const Job& job, CompileReport& report) {
  Fused out{run_passes(std::move(in.program), program::Stage::Scheduled, job, report), std::move(in.decided)};
  job.debug.show(Artifact::Schedule, "program_fused.txt", [&] { return program::to_string(out.program); });
  log_schedule(report.schedule);
  return out;
}

}  // namespace toroid::compiler
