#include "compile/model.h"

#include <chrono>

#include "base/check.h"
#include "base/log.h"
#include "base/thread_pool.h"
#include "codegen/cpu/generate.h"
#include "compile/costs.h"
#include "compile/debug_folder.h"
#include "device/cpu/code_loader.h"
#include "device/cpu/runtime_symbols.h"
#include "jit/jit.h"
#include "lower/lowering.h"
#include "ops/reference.h"

namespace toroid::compiler {
namespace {

using Clock = std::chrono::steady_clock;
double ms_since(Clock::time_point t) { return std::chrono::duration<double, std::milli>(Clock::now() - t).count(); }

exec::HostCall::View view_of(const choice::Extern::View& v) { return {v.memory.buffer, v.memory.dtype, v.memory.offset, v.sizes, v.memory.strides}; }

// A call of the operation's reference implementation; symbolic arguments get their values at each call.
exec::HostCall host_call(const choice::Node& node) {
  const auto& e = std::get<choice::Extern>(node.problem);
  exec::HostCall call;
  call.name = e.op->name;
  for (auto& v : e.inputs) call.inputs.push_back(view_of(v));
  for (auto& v : e.outputs) call.outputs.push_back(view_of(v));
  call.function = [op = e.op, args = e.args](const std::vector<Tensor>& inputs, const std::function<Expr(const Expr&)>& resolve) {
    CallArgs concrete;
    for (auto& a : args) {
      Arg<Tensor> c = map_arg<Tensor>(a, [&](int i) { return i < 0 ? Tensor() : inputs[static_cast<size_t>(i)]; });
      if (auto* x = std::get_if<Expr>(&c)) *x = resolve(*x);
      if (auto* list = std::get_if<std::vector<Expr>>(&c))
        for (auto& x : *list) x = resolve(x);
      concrete.push_back(std::move(c));
    }
    return ops::evaluate(*op, std::move(concrete));
  };
  return call;
}

}  // namespace

CompiledModel CompiledModel::compile(std::unique_ptr<graph::Graph> g, const ModelOptions& options) {
  CompiledModel model;
  CompileReport& report = model.report_;
  auto start = Clock::now();
  DebugFolder debug(g->name);
  debug.write("graph_imported.txt", [&] { return graph::to_string(*g); });
  g = graph::run_passes(std::move(g), graph::default_passes(options.freeze, options.templates), &report.passes);
  debug.write("graph_lowered.txt", [&] { return graph::to_string(*g); });
  report.graph_nodes = g->nodes.size();

  auto t = Clock::now();
  device::Isa isa = device::active_isa();
  lower::LowerOptions lowering{.templates = options.templates, .compose = !options.eager};
  lowering.convolution_template = [isa](const choice::Convolution& c, bool constant_weight) { return codegen::supports(c, constant_weight, isa); };
  lowering.attention_template = [isa](const choice::Attention& a) { return codegen::supports(a, isa); };
  choice::Program program = lower::lower(*g, lowering);
  report.lower_ms = ms_since(t);
  report.kernels_unfused = program.nodes.size();
  debug.write("program_lowered.txt", [&] { return choice::to_string(program); });

  t = Clock::now();
  if (options.fuse && !options.eager) program = sched::fuse(std::move(program), &report.fusion);
  report.fuse_ms = ms_since(t);
  debug.write("program_fused.txt", [&] { return choice::to_string(program); });

  t = Clock::now();
  codegen::ConstantMemory constants;
  for (auto& in : program.inputs)
    if (in.data.defined() && in.kind == graph::InputKind::Constant) constants.tensors[in.buffer] = in.data;
  std::vector<codegen::CpuKernel> kernels;
  for (auto& n : program.nodes)
    if (!n.is_extern()) kernels.push_back(codegen::generate(n, program, isa, constants));
  run_parallel(constants.jobs);
  report.codegen_ms = ms_since(t);

  t = Clock::now();
  std::vector<jit::CompileRequest> requests;
  for (auto& k : kernels) requests.push_back({.source = k.source});
  auto artefacts = jit::compile_all(requests);
  std::unordered_map<std::string, std::shared_ptr<const device::LoadedCode>> loaded;
  for (size_t i = 0; i < kernels.size(); ++i) {
    auto& code = loaded[artefacts[i].key.hex()];
    if (code) continue;
    code = device::LoadedCode::load(artefacts[i].object, device::runtime_symbols(), kernels[i].name);
    if (!artefacts[i].from_cache) ++report.kernels_compiled;
    model.sources_.emplace_back(kernels[i].name, kernels[i].source);
    debug.write("kernels/" + kernels[i].name + "_" + artefacts[i].key.hex().substr(0, 8) + ".c", [&] { return kernels[i].source; });
  }
  report.jit_ms = ms_since(t);

  exec::Plan plan;
  plan.record = options.mode == Mode::ReduceOverhead;
  std::map<int, Tensor> packed = std::move(constants.packed);
  for (auto& b : program.buffers) {
    exec::BufferPlan bp{b.name, b.dtype, b.numel, exec::BufferRole::Temporary, -1, {}};
    if (b.kind == loop::BufferKind::Output) bp.role = exec::BufferRole::Output;
    if (auto it = packed.find(b.id); it != packed.end()) {
      bp.role = exec::BufferRole::Constant;
      bp.data = it->second;
    }
    plan.buffers.push_back(std::move(bp));
  }
  int users = 0;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    auto& in = program.inputs[i];
    auto& b = plan.buffers[static_cast<size_t>(in.buffer)];
    b.role = exec::BufferRole::Input;
    b.input = static_cast<int>(i);
    plan.inputs.push_back({in.name, in.type, in.buffer, in.data.defined() ? -1 : users++, in.data, false});
  }
  for (auto& o : program.outputs) {
    if (o.mutates >= 0) plan.inputs[static_cast<size_t>(o.mutates)].mutated = true;
    plan.outputs.push_back({o.buffer, o.type, o.mutates});
  }
  plan.guards = program.guards;
  for (auto& s : program.symbols) plan.symbols.emplace_back(s.expr, s.unbacked);
  size_t next = 0;
  for (auto& n : program.nodes) {
    if (n.is_extern()) {
      plan.steps.push_back(host_call(n));
      ++report.host_calls;
      continue;
    }
    auto& k = kernels[next];
    auto& code = loaded.at(artefacts[next].key.hex());
    exec::Launch l;
    l.name = k.name;
    l.function = code->function<void(void* const*, const int64_t*, int64_t, int64_t, int)>(k.name);
    l.code = code;
    l.buffers = k.buffers;
    l.params = k.params;
    l.tasks = k.tasks;
    l.scratch_bytes_per_thread = k.scratch_bytes_per_thread;
    l.serial = k.serial;
    Cost cost = cost_of(n, program);
    l.bytes = cost.bytes;
    l.flops = cost.flops;
    plan.steps.push_back(std::move(l));
    ++report.kernels;
    ++next;
  }
  debug.write("plan.txt", [&] {
    std::string out;
    for (auto& k : kernels) out += k.name + "\n" + k.plan + "\n";
    return out;
  });
  model.executable_ = std::make_unique<exec::Executable>(std::move(plan));
  report.total_ms = ms_since(start);
  return model;
}

}  // namespace toroid::compiler
