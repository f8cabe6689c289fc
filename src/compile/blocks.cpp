// What control flow runs: each region of the graph is a program of its own, taken to its schedule with the one around it.
#include <algorithm>

#include "compile/pipeline.h"
#include "graph/known_sizes.h"

namespace toroid::compiler {
namespace {

// Takes results away that are operands as they are: they need no code and no copy.
std::vector<int> take_computed_results(graph::Graph& g) {
  std::vector<const graph::Value*> given;
  for (auto& in : g.inputs)
    if (in.kind == graph::InputKind::User) given.push_back(in.value);
  std::vector<int> results;
  std::vector<graph::Output> computed;
  for (auto& o : g.outputs) {
    auto operand = std::find(given.begin(), given.end(), o.value) - given.begin();
    if (operand < static_cast<int64_t>(given.size())) {
      results.push_back(~static_cast<int>(operand));
    } else {
      results.push_back(static_cast<int>(computed.size()));
      computed.push_back(o);
    }
  }
  g.outputs = std::move(computed);
  return results;
}

void add(CompileReport& to, CompileReport block) {
  tune::add(to.tuning, std::move(block.tuning));
  for (auto& miss : block.schedule.fusion.misses) to.schedule.fusion.misses.push_back(std::move(miss));
  to.blocks += 1 + block.blocks;
}

}  // namespace

Scheduled schedule_blocks(Fused in, const Job& job, CompileReport& report) {
  Scheduled out{std::move(in.program), std::move(in.decided)};
  for (size_t i = 0; i < out.program.nodes.size(); ++i) {
    const auto* call = std::get_if<program::Extern>(&out.program.nodes[i].problem);
    for (size_t b = 0; call && b < call->blocks.size(); ++b) {
      auto g = graph::clone(*call->blocks[b]);
      const std::string name = g->name;
      std::vector<int> results = take_computed_results(*g);
      const Job own = job_of_block(job, name, call->options.empty() ? nullptr : &call->options[b], out.decided);
      CompileReport made;
      Scheduled program = advance<Scheduled>(Imported{std::move(g)}, own, made);
      out.decided.add(program.decided);
      // Before a block runs, the program around it has looked at these.
      std::erase_if(program.program.guards, [&](auto& guard) { return graph::states(out.program.guards, guard); });
      add(report, std::move(made));
      out.blocks[i].push_back({name, std::move(results), own, std::move(program)});
    }
  }
  if (job.tunes()) job.debug.write("tuning.txt", [&] { return tune::to_string(report.tuning); });
  return out;
}

}  // namespace toroid::compiler
