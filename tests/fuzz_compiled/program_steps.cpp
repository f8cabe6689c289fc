#include "fuzz_compiled/program_steps.h"

#include "choice/inline.h"
#include "choice/parse.h"
#include "codegen/cuda/generate.h"
#include "compile/candidates.h"
#include "exec/bound.h"
#include "sched/absorb.h"
#include "sched/pair.h"
#include "sched/share.h"
#include "sched/split.h"

namespace toroid::test {
namespace {

using choice::Program;
using choice::Stage;

// Constants of control flow, by their places.
void give_data(const graph::Graph& from, graph::Graph& to) {
  for (size_t i = 0; i < from.inputs.size(); ++i) to.inputs[i].data = from.inputs[i].data;
  for (size_t i = 0; i < from.nodes.size(); ++i)
    for (size_t r = 0; r < from.nodes[i]->regions.size(); ++r) give_data(*from.nodes[i]->regions[r], *to.nodes[i]->regions[r]);
}

void give_data(const Program& from, Program& to) {
  for (size_t i = 0; i < from.inputs.size(); ++i) to.inputs[i].data = from.inputs[i].data;
  for (size_t i = 0; i < from.nodes.size(); ++i) {
    if (auto* call = std::get_if<choice::Extern>(&from.nodes[i].problem))
      for (size_t b = 0; b < call->blocks.size(); ++b)
        give_data(*call->blocks[b], *std::get<choice::Extern>(to.nodes[i].problem).blocks[b]);
    auto* open = std::get_if<choice::Open>(&from.nodes[i].problem);
    for (size_t a = 0; open && a < open->alternatives.size(); ++a) {
      auto& copy = std::get<choice::Open>(to.nodes[i].problem).alternatives[a];
      auto inner = std::make_shared<Program>(*copy.program);
      give_data(*open->alternatives[a].program, *inner);
      copy.program = inner;
      if (copy.graph) give_data(*open->alternatives[a].graph, *copy.graph);
    }
  }
}

}  // namespace

std::vector<ProgramStep> schedule_steps(const compiler::Setup& setup, const device::cuda::GpuInfo* gpu) {
  const CompileOptions& o = setup.options;
  const bool joins = o.fusion() == Fusion::All;
  const int threads = exec::threads_of(o);
  std::vector<ProgramStep> out;
  const auto add = [&](const char* name, std::function<Program(Program)> run) { out.push_back({name, Stage::Scheduled, std::move(run)}); };
  add("decide", [](Program p) {
    std::vector<std::string> lines;
    return choice::inline_defaults(std::move(p), lines);
  });
  if (joins) add("fuse", [](Program p) { return sched::fuse(std::move(p)); });
  add("choose", [o, joins, gpu](Program p) {
    const size_t nodes = p.nodes.size();
    if (gpu)
      compiler::choose_on_gpu(p, o);
    else
      compiler::choose(p, device::usable_isa(o.get(options::kIsa)), o);
    return joins && p.nodes.size() > nodes ? sched::fuse(std::move(p)) : p;
  });
  if (joins && gpu) {
    add("absorb", [gpu](Program p) {
      return sched::absorb_producers(std::move(p), [&](const choice::Node& n) { return codegen::cuda_producer_refusal(n, *gpu); });
    });
    add("pair", [gpu](Program p) {
      return sched::pair_products(std::move(p), [&](const choice::Node& n) { return codegen::cuda_pair_refusal(n, *gpu); });
    });
  }
  if (gpu) return out;
  if (joins) add("absorb", [threads](Program p) { return sched::absorb_producers(std::move(p), sched::producers_on_threads(threads)); });
  if (o.fusion() != Fusion::PerNode) add("split", [threads](Program p) { return sched::split_reductions(std::move(p), threads); });
  if (joins) add("share", [](Program p) { return sched::share_launches(std::move(p)); });
  return out;
}

Program reread(const Program& p) {
  Program out = choice::parse(choice::to_string(p));
  give_data(p, out);
  return out;
}

}  // namespace toroid::test
