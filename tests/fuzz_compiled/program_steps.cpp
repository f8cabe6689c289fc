#include "fuzz_compiled/program_steps.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "fuzz_compiled/differential.h"
#include "graph/aliasing_oracle.h"
#include "program/interpret.h"
#include "program/parse.h"

namespace toroid::test {
namespace {

using program::Program;
using program::Stage;

// Constants of control flow, by their places.
void give_data(const graph::Graph& from, graph::Graph& to) {
  for (size_t i = 0; i < from.inputs.size(); ++i) to.inputs[i].data = from.inputs[i].data;
  for (size_t i = 0; i < from.nodes.size(); ++i)
    for (size_t r = 0; r < from.nodes[i]->regions.size(); ++r) give_data(*from.nodes[i]->regions[r], *to.nodes[i]->regions[r]);
}

void give_data(const Program& from, Program& to) {
  for (size_t i = 0; i < from.inputs.size(); ++i) to.inputs[i].data = from.inputs[i].data;
  for (size_t i = 0; i < from.nodes.size(); ++i) {
    if (auto* call = std::get_if<program::Extern>(&from.nodes[i].problem))
      for (size_t b = 0; b < call->blocks.size(); ++b)
        give_data(*call->blocks[b], *std::get<program::Extern>(to.nodes[i].problem).blocks[b]);
    auto* open = std::get_if<program::Open>(&from.nodes[i].problem);
    for (size_t a = 0; open && a < open->alternatives.size(); ++a) {
      auto& copy = std::get<program::Open>(to.nodes[i].problem).alternatives[a];
      auto inner = std::make_shared<Program>(*copy.program);
      give_data(*open->alternatives[a].program, *inner);
      copy.program = inner;
      if (copy.graph) give_data(*open->alternatives[a].graph, *copy.graph);
    }
  }
}

// What the text of a program says, with the data that is no part of the text.
Program reread(const Program& p) {
  Program out = program::parse(program::to_string(p));
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
  const auto out = program::interpret(p, inputs);
  buffers.restore();
  const auto other = program::interpret(again, own);
  TOROID_USER_CHECK(out.size() == other.size(), "the program that was read has {} results, not {}", other.size(), out.size());
  for (size_t i = 0; i < out.size(); ++i) same_bits(out[i], other[i]);
  for (size_t i = 0; i < own.size(); ++i) same_bits(inputs[i], own[i]);
  return out;
}

bool reads_constants(const Program& p, const program::Node& n) {
  const auto all = program::reads(n);
  return std::any_of(all.begin(), all.end(), [&](int b) { return p.buffers[static_cast<size_t>(b)].kind == loop::BufferKind::Constant; });
}

}  // namespace

ProgramCheck::ProgramCheck(const graph::Graph& g, std::vector<Tensor> inputs, compiler::Setup setup, const device::cuda::GpuInfo* gpu)
    : graph_(g),
      inputs_(std::move(inputs)),
      stages_{.setup = setup, .report = {}, .target = backend::make_backend(setup.device, setup.options, gpu)} {}

std::string ProgramCheck::fault(const What& what) {
  try {
    Program p = stages_.lowered(graph_);
    const CompileOptions& options = stages_.setup.options;
    const Program whole = target::run_passes(p, *stages_.target, Stage::Scheduled, options);
    if (std::string found = fault_of(p, Stage::Lowered, true); !found.empty()) return "lowered: " + found;
    target::PassContext context{*stages_.target, options, stages_.report.schedule};
    for (auto& pass : stages_.target->passes(Stage::Scheduled)) {
      if (!(pass.fusions & target::with(options.fusion())) || !pass.run(p, context)) continue;
      if (std::string found = fault_of(p, Stage::Lowered, what.interprets_each); !found.empty())
        return std::string(pass.name) + ": " + found;
    }
    if (program::to_string(whole) != program::to_string(p)) return "these steps are not those of the compiler";
    latest_.clear();
    if (std::string found = what.interprets_each ? "" : fault_of(p, Stage::Scheduled, true); !found.empty()) return "scheduled: " + found;
    return what.kernels ? fault_of_kernels(p) : "";
  } catch (const Error& e) {
    return e.what();
  }
}

std::string ProgramCheck::fault_of(const Program& p, Stage stage, bool interprets) {
  program::verify(p, stage, "this step");
  const std::string text = program::to_string(p);
  if (text == latest_) return "";  // nothing has happened
  latest_ = text;
  const Program again = reread(p);
  if (const std::string other = program::to_string(again); other != text) return "its text reads back as\n" + other + "\nand was\n" + text;
  program::verify(again, stage, "reading its text");
  if (refused_ || !interprets) return "";
  const fuzz::Buffers buffers(graph_);
  const auto verdict = fuzz::compare(graph_, inputs_, [&](const std::vector<Tensor>& own) { return run_both(p, again, own, buffers); });
  buffers.restore();
  refused_ = verdict.refused;
  return verdict.failure ? *verdict.failure + "\n" + text : "";
}

std::string ProgramCheck::fault_of_kernels(const Program& p) {
  const auto differ = [](const codegen::KernelText& made, const codegen::KernelText& own, const std::string& what) {
    if (made.source != own.source) return what + "\n" + made.source + "\ninstead of\n" + own.source;
    return made.buffers == own.buffers ? "" : what + fmt::format(" of buffers {}, not {}", made.buffers, own.buffers);
  };
  const auto made = kernels(p), again = kernels(reread(p));
  for (auto& [i, own] : made)
    if (std::string found = differ(again.at(i), own, fmt::format("kernel {} of its text is", i)); !found.empty()) return found;
  for (auto& [i, kernel] : made) {
    Program own = p;
    const program::Node& n = own.nodes[i];
    codegen::ConstantMemory none;
    if (reads_constants(p, n)) continue;
    if (std::string found = differ(kernel, stages_.target->generate(n, own, none), fmt::format("kernel {} is", i)); !found.empty())
      return found;
  }
  return "";
}

std::map<size_t, codegen::KernelText> ProgramCheck::kernels(Program p) {
  return compiler::generate({std::move(p)}, stages_.job(), stages_.report).texts;  // without blocks
}

}  // namespace toroid::test
