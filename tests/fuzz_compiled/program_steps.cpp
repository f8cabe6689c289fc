#include "fuzz_compiled/program_steps.h"

#include <cmath>
#include <cstring>

#include "base/check.h"
#include "choice/inline.h"
#include "choice/interpret.h"
#include "choice/parse.h"
#include "codegen/cuda/generate.h"
#include "compile/candidates.h"
#include "exec/bound.h"
#include "fuzz_compiled/differential.h"
#include "graph/aliasing_oracle.h"
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

// What the text of a program says, with the data that is no part of the text.
Program reread(const Program& p) {
  Program out = choice::parse(choice::to_string(p));
  give_data(p, out);
  return out;
}

// The same bits, but for those of NaN, which has no sign in texts.
void same_bits(const Tensor& a, const Tensor& b) {
  if (!a.defined() && !b.defined()) return;
  const Tensor x = graph::deep_copy(a), y = graph::deep_copy(b);
  TOROID_USER_CHECK(x.sizes() == y.sizes() && x.dtype() == y.dtype(), "the program that was read gives {}, not {}", to_string(y),
                    to_string(x));
  const size_t bytes = size_of(x.dtype());
  for (size_t i = 0; i < static_cast<size_t>(x.numel()); ++i) {
    const std::byte *p = x.raw_data() + i * bytes, *q = y.raw_data() + i * bytes;
    const auto is_nan = [&](const std::byte* at) { return is_float(x.dtype()) && std::isnan(load_number(at, x.dtype()).f); };
    TOROID_USER_CHECK(std::memcmp(p, q, bytes) == 0 || (is_nan(p) && is_nan(q)), "the program that was read gives other results");
  }
}

// Runs the program, and what was read of its text, which gives the same bits.
std::vector<Tensor> run_both(const Program& p, const Program& again, const std::vector<Tensor>& inputs, const fuzz::Buffers& buffers) {
  std::vector<Tensor> own;
  for (auto& t : inputs) own.push_back(graph::deep_copy(t));
  const auto out = choice::interpret(p, inputs);
  buffers.restore();
  const auto other = choice::interpret(again, own);
  TOROID_USER_CHECK(out.size() == other.size(), "the program that was read has {} results, not {}", other.size(), out.size());
  for (size_t i = 0; i < out.size(); ++i) same_bits(out[i], other[i]);
  for (size_t i = 0; i < own.size(); ++i) same_bits(inputs[i], own[i]);
  return out;
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

ProgramCheck::ProgramCheck(const graph::Graph& g, std::vector<Tensor> inputs, compiler::Setup setup, const device::cuda::GpuInfo* gpu)
    : graph_(g),
      inputs_(std::move(inputs)),
      gpu_(gpu),
      stages_{.setup = setup, .report = {}, .target = compiler::make_target(setup, gpu)} {}

std::string ProgramCheck::fault(const What& what) {
  try {
    Program p = stages_.lowered(graph_);
    const Program whole = compiler::schedule(p, *stages_.target, stages_.setup.options, stages_.report.fusion, stages_.report.choices);
    if (std::string found = fault_of(p, Stage::Lowered, true); !found.empty()) return "lowered: " + found;
    for (auto& step : schedule_steps(stages_.setup, gpu_)) {
      p = step.run(std::move(p));
      if (std::string found = fault_of(p, step.stage, what.interprets_each); !found.empty()) return std::string(step.name) + ": " + found;
    }
    if (choice::to_string(whole) != choice::to_string(p)) return "these steps are not those of the compiler";
    latest_.clear();
    if (std::string found = what.interprets_each ? "" : fault_of(p, Stage::Scheduled, true); !found.empty()) return "scheduled: " + found;
    return what.kernels ? fault_of_kernels(p) : "";
  } catch (const Error& e) {
    return e.what();
  }
}

std::string ProgramCheck::fault_of(const Program& p, Stage stage, bool interprets) {
  choice::verify(p, stage, "this step");
  const std::string text = choice::to_string(p);
  if (text == latest_) return "";  // nothing has happened
  latest_ = text;
  const Program again = reread(p);
  if (const std::string other = choice::to_string(again); other != text) return "its text reads back as\n" + other + "\nand was\n" + text;
  choice::verify(again, stage, "reading its text");
  if (refused_ || !interprets) return "";
  const fuzz::Buffers buffers(graph_);
  const auto verdict = fuzz::compare(graph_, inputs_, [&](const std::vector<Tensor>& own) { return run_both(p, again, own, buffers); });
  buffers.restore();
  refused_ = verdict.refused;
  return verdict.failure ? *verdict.failure + "\n" + text : "";
}

std::string ProgramCheck::fault_of_kernels(const Program& p) {
  const auto own = kernels(p), again = kernels(reread(p));
  for (size_t i = 0; i < own.size(); ++i)
    if (own[i] != again.at(i)) return "kernel " + std::to_string(i) + " of its text is\n" + again[i] + "\ninstead of\n" + own[i];
  return "";
}

std::vector<std::string> ProgramCheck::kernels(Program p) {
  compiler::Assembly assembly(std::move(p), stages_.setup, stages_.report, stages_.target,
                              compiler::DebugFolder("test", stages_.setup.options));
  assembly.generate();
  std::vector<std::string> out;
  for (auto& k : assembly.kernels()) out.push_back(k.source);
  return out;
}

}  // namespace toroid::test
