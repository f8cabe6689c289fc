// From a graph to its scheduled program.
#include "autograd/partition/partition.h"
#include "base/check.h"
#include "base/log.h"
#include "compile/disabled_passes.h"
#include "compile/memory.h"
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

// The graph of a partition with the largest budget of those that keep the cap, by the programs that they lead to without tuning.
autograd::Partition within(int64_t cap, const graph::Graph& g, autograd::PartitionPolicy policy, const Job& job) {
  policy.most_bytes.reset();
  constexpr int kSteps = 64;
  const auto made = [&](int step) {
    policy.budget = static_cast<double>(step) / kSteps;
    return autograd::partition(g, policy);
  };
  const auto need = [&](int step) {
    const auto after = autograd::recompute(g, made(step));
    program::Program p = lower::lower(after ? *after : g, {.options = job.options(), .target = job.target.get()});
    for (const auto stage : {program::Stage::Lowered, program::Stage::Scheduled})
      p = target::run_passes(std::move(p), *job.target, stage, job.options());
    return memory_of(p).all();
  };
  int high = kSteps;  // what is above keeps no cap
  if (need(high) <= cap) return made(high);
  const int64_t least = need(0);
  TOROID_USER_CHECK(least <= cap,
                    "activation_memory_budget: a run of {} needs {} bytes beside its inputs, also where all that can be is computed again; "
                    "the cap is {}, {} too few",
                    g.name, least, cap, least - cap);
  int low = 0;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (need(middle) <= cap ? low : high) = middle;
  }
  return made(low);
}

// What the backward pass of a graph with gradients finds in memory, and what it computes again.
std::unique_ptr<graph::Graph> partitioned(std::unique_ptr<graph::Graph> g, const Job& job, CompileReport& report) {
  const auto policy = autograd::policy_of(job.options().get(options::kActivationMemoryBudget), !job.target->facts().device.is_cuda());
  if (!policy.recomputes || autograd::what_follows_from_seeds(*g).empty()) return g;
  const autograd::Partition made = policy.most_bytes ? within(*policy.most_bytes, *g, policy, job) : autograd::partition(*g, policy);
  if (made.backward.empty()) return g;
  report.partition = autograd::to_string(made);
  log(Artifact::Choices, report.partition.substr(0, report.partition.find('\n')));
  job.debug.show(Artifact::Graph, "partition.txt", [&] { return report.partition; });
  return autograd::recompute(*g, made);
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
  report.memory = memory_of(out.program);
  job.debug.show(Artifact::Schedule, "program_fused.txt", [&] { return program::to_string(out.program); });
  log_schedule(report.schedule);
  return out;
}

}  // namespace toroid::compiler
