// From a scheduled program to its kernels' texts.
#include <set>

#include "codegen/rearrange.h"
#include "compile/pipeline.h"
#include "tensor/late_stack.h"

namespace toroid::compiler {
namespace {

// Constants where those who lay them out anew look for them: in the host's memory where the host does that.
codegen::ConstantMemory constants_of(const program::Program& p) {
  std::set<int> packed;  // by the host
  for (auto& n : p.nodes)
    if (auto* c = std::get_if<program::Convolution>(&n.problem)) packed.insert(c->weight.buffer);
  for (auto& r : p.rearranged)
    for (auto& part : r.parts) packed.insert(part.from.buffer);
  codegen::ConstantMemory out;
  for (auto& in : p.inputs) {
    if (!in.data.defined() || in.kind != graph::InputKind::Constant) continue;
    out.tensors[in.buffer] = packed.count(in.buffer) ? moved(in.data, Device::cpu()) : in.data;
    out.parts[in.buffer] = late_parts(out.tensors[in.buffer]);
  }
  for (auto& r : p.rearranged) {
    const auto& b = p.buffers[static_cast<size_t>(r.buffer)];
    const Tensor made = codegen::rearranged(r, b.dtype, b.numel.constant(), out.tensors);
    out.tensors[r.buffer] = out.packed[r.buffer] = made;
    out.parts[r.buffer] = {made};
  }
  return out;
}

}  // namespace

Kernels generate(Scheduled in, const Job& job, CompileReport& report) {
  Kernels out{std::move(in.program), {}, {}};
  program::Program& p = out.program;
  out.constants = constants_of(p);
  for (size_t i = 0; i < p.nodes.size(); ++i)
    if (const program::Node& n = p.nodes[i]; !n.is_call() && !n.is_library()) out.texts[i] = job.target->generate(n, p, out.constants);
  job.debug.show(Artifact::Kernels, "plan.txt", [&] {
    std::string text;
    for (auto& [node, k] : out.texts) text += k.name + "\n" + k.plan + "\n";
    return text;
  });
  report.memory = memory_of(out, job);
  for (auto& [node, list] : in.blocks)
    for (auto& b : list) {
      CompileReport own;
      Kernels program = generate(std::move(b.program), b.job, own);
      out.blocks[node].push_back({std::move(b.name), std::move(b.results), std::move(b.job), std::move(program)});
    }
  return out;
}

}  // namespace toroid::compiler
