// From a graph to its scheduled program.
#include "base/log.h"
#include "compile/disabled_passes.h"
#include "compile/partitioning.h"
#include "compile/pipeline.h"
#include "graph/pass.h"
#include "lower/lowering.h"

namespace toroid::compiler {
namespace {

program::Program run_passes(program::Program p, program::Stage to, const Job& job, CompileReport& report,
                            target::Reach reach = target::Reach::All) {
  return target::run_passes(std::move(p), *job.target, to, job.options(), &report.schedule, job.debug.dump("program"), reach);
}

void log_schedule(const target::ScheduleReport& made) {
  for (auto& line : made.choices) log(Artifact::Choices, line);
  if (!log_enabled(Artifact::Fusion)) return;
  for (auto& m : made.fusion.misses) log(Artifact::Fusion, m.first + " and " + m.second + " stay apart: " + m.reason);
  for (auto& u : made.fusion.unsplit) log(Artifact::Fusion, u.node + " stays one loop: " + u.reason);
}

}  // namespace

Transformed transform(Begun in, const Job& job, CompileReport& report) {
  job.debug.show(Artifact::Graph, "graph_imported.txt", [&] { return graph::to_string(*in.graph); });
  check_disabled_passes(job.options());
  const graph::Purpose purpose = {.frozen = job.options().get(options::kFreezing),
                                  .templates = job.options().get(options::kTemplates),
                                  .int8 = job.target->facts().int8,
                                  .gradients = job.target->facts().gradients,
                                  .padding_apart = !job.options().get(options::kFoldPadding),
                                  .all_probabilities = !job.options().get(options::kFoldProbabilities)};
  Transformed out{graph::run_passes(std::move(in.graph), graph::pipeline(purpose), &report.passes, job.options(), job.debug.dump("graph")),
                  std::move(in.layers)};
  out.graph = partitioned(std::move(out.graph), job, report);
  job.debug.show(Artifact::Graph, "graph_lowered.txt", [&] { return graph::to_string(*out.graph); });
  report.graph_nodes = out.graph->nodes.size();
  return out;
}

Lowered lower_graph(Transformed in, const Job& job, CompileReport& report) {
  Lowered out{lower::lower(*in.graph, {.options = job.options(), .target = job.target.get()}), std::move(in.layers)};
  out.program = run_passes(std::move(out.program), program::Stage::Lowered, job, report);
  report.kernels_unfused = out.program.nodes.size();
  job.debug.show(Artifact::Loops, "program_lowered.txt", [&] { return program::to_string(out.program); });
  return out;
}

Joined join(Tuned in, const Job& job, CompileReport& report) {
  return {run_passes(std::move(in.program), program::Stage::Scheduled, job, report, target::Reach::Neighbours), std::move(in.decided),
          std::move(in.layers)};
}

Fused schedule(Whole in, const Job& job, CompileReport& report) {
  Fused out{run_passes(std::move(in.program), program::Stage::Scheduled, job, report, target::Reach::Whole), std::move(in.decided)};
  job.debug.show(Artifact::Schedule, "program_fused.txt", [&] { return program::to_string(out.program); });
  log_schedule(report.schedule);
  return out;
}

}  // namespace toroid::compiler
