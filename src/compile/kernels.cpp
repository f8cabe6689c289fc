// From a scheduled program to its kernels' texts.
#include <fmt/core.h>

#include <algorithm>
#include <deque>
#include <set>
#include <unordered_map>

#include "base/check.h"
#include "codegen/rearrange.h"
#include "compile/pipeline.h"
#include "graph/recipe.h"
#include "graph/sharing.h"
#include "ops/cuda_kernels.h"
#include "program/parse.h"
#include "program/region.h"
#include "program/users_calls.h"
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
    auto [how, from] = codegen::packing_of(r, b.dtype, b.numel.constant(), out.tensors);
    const codegen::Packed arranged = codegen::rearrange(how, from);
    for (auto& job : arranged.jobs) job();  // others may be packed of it
    const Tensor made = arranged.tensor;
    graph::set_recipe(made, {.layout = how.name, .numbers = how.numbers, .of = from});
    out.tensors[r.buffer] = out.packed[r.buffer] = made;
    out.parts[r.buffer] = {made};
  }
  return out;
}

// Texts of a program's nodes. A node that reads no constants is generated from its content, as text, so that nothing else has a part in its
// kernel: equal nodes, as those of equal layers are, are generated once.
class Texts {
 public:
  Texts(program::Program& p, const Job& job, codegen::ConstantMemory& constants)
      : p_(p), job_(job), constants_(constants), faults_(program::records_of_faults(p)) {}

  codegen::KernelText of(const program::Node& n) {
    program::NodeContent content = program::content_of(p_, n, faults_);
    if (reads_constants(content)) return job_.target->generate(n, p_, constants_);  // which may be laid out anew for it
    auto [known, is_new] = made_.try_emplace(std::move(content.text));
    if (is_new || !graph::shares_equal_work()) known->second = generated(known->first, n.origins);
    codegen::KernelText out = known->second;
    for (int& b : out.buffers) b = content.buffers.at(static_cast<size_t>(b));
    return out;
  }

 private:
  // origins: for messages.
  codegen::KernelText generated(const std::string& content, const std::vector<std::string>& origins) const {
    program::Program alone = program::parse(content);
    program::Node node = alone.nodes.front();
    node.origins = origins;
    codegen::ConstantMemory none;
    return job_.target->generate(node, alone, none);
  }

  bool reads_constants(const program::NodeContent& content) const {
    return std::any_of(content.buffers.begin(), content.buffers.end(),
                       [&](int b) { return p_.buffers[static_cast<size_t>(b)].kind == loop::BufferKind::Constant; });
  }

  program::Program& p_;
  const Job& job_;
  codegen::ConstantMemory& constants_;
  const std::vector<int> faults_;
  std::unordered_map<std::string, codegen::KernelText> made_;  // by content, whose numbers of buffers they have
};

// The launch of a kernel of the user's.
codegen::KernelText text_of(const program::Extern& call) {
  std::deque<TensorType> held;
  std::vector<Arg<const TensorType*>> types;
  codegen::KernelText out;
  for (auto& a : call.args)
    types.push_back(map_arg<const TensorType*>(a, [&](int i) -> const TensorType* {
      const program::Extern::View& v = call.inputs[static_cast<size_t>(i)];
      out.buffers.push_back(v.memory.buffer);
      return &held.emplace_back(TensorType{v.memory.dtype, v.sizes, {}});
    }));
  TOROID_USER_CHECK(program::has_gpu_operands(call), "{} got its kernel while a program with it was compiled; register the kernel before",
                    call.op->name);
  const size_t results = call.outputs.size() - program::written_operands(call).size();  // what it writes over are arguments
  for (size_t r = 0; r < results; ++r) out.buffers.push_back(call.outputs[r].memory.buffer);
  ops::CudaKernelLaunch launch = ops::cuda_kernel_launch(*call.op, types);
  out.name = std::move(launch.name), out.source = std::move(launch.text);
  out.params = std::move(launch.params), out.tasks = launch.blocks;
  out.block = launch.threads, out.shared_bytes = launch.shared_bytes;
  out.plan = fmt::format("the kernel that was registered for {}\n", call.op->name);
  return out;
}

}  // namespace

Kernels generate(Scheduled in, const Job& job, CompileReport& report) {
  Kernels out{std::move(in.program), {}, {}};
  program::Program& p = out.program;
  out.constants = constants_of(p);
  Texts texts(p, job, out.constants);
  for (size_t i = 0; i < p.nodes.size(); ++i)
    if (const program::Node& n = p.nodes[i]; !n.is_call() && !n.is_library())
      out.texts[i] = texts.of(n);
    else if (auto* call = std::get_if<program::Extern>(&n.problem); call && job.setup.device.is_cuda() && program::is_users_kernel(*call))
      out.texts[i] = text_of(*call);
  for (auto& [buffer, o] : out.constants.origins)
    graph::set_recipe(out.constants.packed.at(buffer), {.layout = o.how.name, .numbers = o.how.numbers, .of = o.from});
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
