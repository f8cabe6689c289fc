#include "compile/layers/equal_layers.h"

#include "base/compile_scope.h"
#include "base/log.h"
#include "compile/layers/program_layers.h"
#include "compile/pipeline.h"
#include "graph/custom.h"
#include "graph/sharing.h"
#include "jit/jit.h"

namespace toroid::compiler {
namespace {

// What becomes of a layer must not depend on how many there are, and must be the same for all of them: no constants are made of weights,
// nothing is tuned, and no budget of memory is kept by the whole program. Tests and dumps look at the passes of the graph as it is.
bool may_repeat(const graph::Graph& g, const Job& job) {
  constexpr size_t kWorthwhile = 4 * kLeastLayers;  // nodes
  return g.nodes.size() >= kWorthwhile && graph::shares_equal_work() && !job.tunes() && !job.debug.is_on() &&
         !job.options().get(options::kFreezing) && job.options().get(options::kActivationMemoryBudget) == "1";
}

std::future<OneLess> begin_one_less(std::unique_ptr<graph::Graph> g, const Job& job) {
  // Which operation's variants a thread compiles, others do not know.
  const std::launch way = graph::compiles_variants() ? std::launch::deferred : std::launch::async;
  return std::async(way, [graph = std::move(g), &job, within = compiles_here]() mutable {
    const CompileScope compiling(within);
    OneLess out;
    out.program = advance<Joined>(Begun{std::move(graph)}, job, out.report).program;
    return out;
  });
}

// Compiles the kernels of few layers, which are most of those of all. What is wrong with them the compile of all says. `graphs`, which take
// long to destroy and are of no use any more, end there as well.
std::shared_future<void> begin_kernels(const program::Program& few, const Job& job, std::shared_ptr<EqualLayers> graphs) {
  return std::async(std::launch::async, [few, job, graphs = std::move(graphs)]() mutable {
    try {
      CompileReport unseen;
      const Kernels kernels = advance<Kernels>(Whole{few}, job, unseen);
      std::vector<jit::CompileRequest> requests;
      for (auto& [node, text] : kernels.texts) requests.push_back({.source = text.source, .isa = job.target->facts().isa, .ahead = true});
      jit::compile_all(requests, job.compile_threads);
    } catch (const Error&) {
    }
    graphs = nullptr;
  });
}

void say(std::string what, CompileReport& report) {
  log(Artifact::Choices, what);
  report.layers = std::move(what);
}

}  // namespace

Begun find_layers(Imported in, const Job& job, CompileReport& report) {
  if (!may_repeat(*in.graph, job)) return {std::move(in.graph)};
  std::string why;
  auto layers = GraphLayers::find(*in.graph, kLeastLayers, why);
  if (!layers) {
    say("no equal layers: " + why, report);
    return {std::move(in.graph)};
  }
  auto out = std::make_shared<EqualLayers>(EqualLayers{std::move(in.graph), std::move(*layers), {}});
  out->one_less = out->layers.with(kFewLayers - 1);
  out->made = begin_one_less(std::move(out->one_less.graph), job);
  out->few = out->layers.with(kFewLayers);
  return {std::move(out->few.graph), out};
}

Whole repeat_layers(Joined in, const Job& job, CompileReport& report) {
  if (!in.layers) return {std::move(in.program), std::move(in.decided)};
  EqualLayers& of = *in.layers;
  if (job.makes_code) report.early_kernels = begin_kernels(in.program, job, in.layers);
  OneLess fewer = of.made.get();
  CompileReport& unseen = fewer.report;
  std::string why;
  auto whole = program_of_layers({in.program, of.few, kFewLayers}, {fewer.program, of.one_less, kFewLayers - 1}, *of.whole, of.layers, why);
  if (whole) {
    const auto all = [&](size_t few, size_t less) { return few + static_cast<size_t>(of.layers.layers() - kFewLayers) * (few - less); };
    say(fmt::format("{} equal layers, of which {} were compiled", of.layers.layers(), kFewLayers), report);
    report.graph_nodes = all(report.graph_nodes, unseen.graph_nodes);
    report.kernels_unfused = all(report.kernels_unfused, unseen.kernels_unfused);
    return {std::move(*whole), std::move(in.decided)};
  }
  Joined each = advance<Joined>(Begun{graph::clone(*of.whole)}, job, unseen = {});
  report.passes = unseen.passes, report.schedule = unseen.schedule, report.partition = unseen.partition;
  report.graph_nodes = unseen.graph_nodes, report.kernels_unfused = unseen.kernels_unfused;
  say("each layer is compiled: " + why, report);
  return {std::move(each.program), std::move(each.decided)};
}

}  // namespace toroid::compiler
