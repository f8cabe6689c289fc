#include "compile/model.h"

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "base/check.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/options.h"
#include "base/thread_pool.h"
#include "codegen/cpu/generate.h"
#include "compile/costs.h"
#include "compile/debug_folder.h"
#include "device/cpu/code_loader.h"
#include "device/cpu/runtime_symbols.h"
#include "jit/jit.h"
#include "lower/lowering.h"
#include "ops/reference.h"
#include "sched/absorb.h"
#include "sched/share.h"
#include "sched/split.h"
#include "tensor/late_stack.h"

namespace toroid::compiler {
namespace {

using Clock = std::chrono::steady_clock;
double ms_since(Clock::time_point t) { return std::chrono::duration<double, std::milli>(Clock::now() - t).count(); }

exec::HostCall::View view_of(const choice::Extern::View& v) {
  return {v.memory.buffer, v.memory.dtype, v.memory.offset, v.sizes, v.memory.strides};
}

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

// One compile on its way through the stages. Each stage reads what those before it left here.
class Compilation {
 public:
  Compilation(std::unique_ptr<graph::Graph> g, const ModelOptions& options, CompileReport& report)
      : options_(options), report_(report), debug_(g->name), graph_(std::move(g)) {}

  exec::Plan run() {
    auto start = Clock::now();
    struct Stage {
      void (Compilation::*run)();
      double CompileReport::*ms;
    };
    constexpr Stage kStages[] = {{&Compilation::transform, &CompileReport::passes_ms}, {&Compilation::lower, &CompileReport::lower_ms},
                                 {&Compilation::fuse, &CompileReport::fuse_ms},        {&Compilation::generate, &CompileReport::codegen_ms},
                                 {&Compilation::build, &CompileReport::jit_ms},        {&Compilation::pack, &CompileReport::pack_ms}};
    for (auto& stage : kStages) {
      auto t = Clock::now();
      (this->*stage.run)();
      report_.*stage.ms = ms_since(t);
    }
    exec::Plan plan = assemble();
    report_.total_ms = ms_since(start);
    return plan;
  }

  std::vector<std::pair<std::string, std::string>> take_sources() { return std::move(sources_); }

 private:
  // Shows what a stage made, where somebody asked for it.
  void show(Artifact artifact, const std::string& file, const std::function<std::string()>& text) {
    debug_.write(file, text);
    if (log_enabled(artifact)) log(artifact, file + "\n" + text());
  }

  void transform() {
    show(Artifact::Graph, "graph_imported.txt", [&] { return graph::to_string(*graph_); });
    graph_ = graph::run_passes(std::move(graph_), graph::default_passes(options_.freeze, options_.templates), &report_.passes);
    show(Artifact::Graph, "graph_lowered.txt", [&] { return graph::to_string(*graph_); });
    report_.graph_nodes = graph_->nodes.size();
  }

  void lower() {
    lower::LowerOptions how{.templates = options_.templates, .compose = !options_.eager};
    how.convolution_template = [isa = isa_](const choice::Convolution& c, bool constant_weight) {
      return codegen::supports(c, constant_weight, isa);
    };
    how.attention_template = [isa = isa_](const choice::Attention& a) { return codegen::supports(a, isa); };
    how.sort_template = [](const choice::Sort& s) { return codegen::supports(s); };
    program_ = lower::lower(*graph_, how);
    report_.kernels_unfused = program_.nodes.size();
    show(Artifact::Loops, "program_lowered.txt", [&] { return choice::to_string(program_); });
  }

  void fuse() {
    const int threads = ThreadPool::global().size();
    if (options_.fuse && !options_.eager) {
      program_ = sched::fuse(std::move(program_), &report_.fusion);
      program_ = sched::absorb_producers(std::move(program_), threads, &report_.fusion);
    }
    if (options_.fuse) program_ = sched::split_reductions(std::move(program_), threads, &report_.fusion);
    if (options_.fuse && !options_.eager) program_ = sched::share_launches(std::move(program_));
    show(Artifact::Schedule, "program_fused.txt", [&] { return choice::to_string(program_); });
    if (log_enabled(Artifact::Fusion))
      for (auto& m : report_.fusion.misses) log(Artifact::Fusion, m.first + " and " + m.second + " stay apart: " + m.reason);
    if (log_enabled(Artifact::Fusion))
      for (auto& u : report_.fusion.unsplit) log(Artifact::Fusion, u.node + " stays one loop: " + u.reason);
  }

  void generate() {
    for (auto& in : program_.inputs) {
      if (!in.data.defined() || in.kind != graph::InputKind::Constant) continue;
      constants_.tensors[in.buffer] = in.data;
      constants_.parts[in.buffer] = late_parts(in.data);
    }
    for (auto& n : program_.nodes)
      if (!n.is_extern()) kernels_.push_back(codegen::generate(n, program_, isa_, constants_));
    show(Artifact::Kernels, "plan.txt", [&] {
      std::string out;
      for (auto& k : kernels_) out += k.name + "\n" + k.plan + "\n";
      return out;
    });
  }

  void build() {
    std::string edited = get_option(options::kKernelDir);
    std::vector<jit::CompileRequest> requests;
    std::vector<std::string> files;
    for (auto& k : kernels_) {
      files.push_back(k.name + "_" + hash_text(k.source).hex().substr(0, 8) + ".c");
      std::filesystem::path replacement = std::filesystem::path(edited) / files.back();
      if (!edited.empty() && std::filesystem::exists(replacement)) k.source = read_file(replacement);
      requests.push_back({.source = k.source});
    }
    auto artefacts = jit::compile_all(requests);
    std::unordered_map<std::string, std::shared_ptr<const device::LoadedCode>> loaded;
    for (size_t i = 0; i < kernels_.size(); ++i) {
      auto& code = loaded[artefacts[i].key.hex()];
      if (!code) {
        code = device::LoadedCode::load(artefacts[i].object, device::runtime_symbols(), kernels_[i].name);
        if (!artefacts[i].from_cache) ++report_.kernels_compiled;
        sources_.emplace_back(kernels_[i].name, kernels_[i].source);
        show(Artifact::OutputCode, "kernels/" + files[i], [&] { return kernels_[i].source; });
      }
      code_.push_back(code);
    }
  }

  void pack() {
    run_parallel(constants_.jobs);
    constants_.jobs.clear();  // what they read may be freed
  }

  exec::Plan assemble() {
    exec::Plan plan;
    plan.record = options_.mode == Mode::ReduceOverhead;
    for (auto& b : program_.buffers) {
      exec::BufferPlan bp{b.name, b.dtype, b.numel, exec::BufferRole::Temporary, {}};
      if (b.kind == loop::BufferKind::Output) bp.role = exec::BufferRole::Output;
      if (auto it = constants_.packed.find(b.id); it != constants_.packed.end()) {
        bp.role = exec::BufferRole::Constant;
        bp.data = it->second;
      }
      plan.buffers.push_back(std::move(bp));
    }
    add_inputs(plan);
    plan.guards = program_.guards;
    for (auto& s : program_.symbols) plan.symbols.emplace_back(s.expr, s.unbacked);
    size_t next = 0;
    for (auto& n : program_.nodes) {
      if (n.is_extern()) {
        plan.steps.push_back(host_call(n));
        ++report_.host_calls;
      } else {
        plan.steps.push_back(launch(n, kernels_[next], code_[next]));
        ++report_.kernels;
        ++next;
      }
    }
    return plan;
  }

  // All but the weights that nobody reads any more because they were packed: their memory can go.
  void add_inputs(exec::Plan& plan) {
    std::vector<bool> used(program_.buffers.size(), false);
    auto use = [&](int buffer) {
      if (buffer >= 0) used[static_cast<size_t>(buffer)] = true;
    };
    for (auto& k : kernels_) std::for_each(k.buffers.begin(), k.buffers.end(), use);
    for (auto& n : program_.nodes)
      if (n.is_extern())
        for (auto& v : std::get<choice::Extern>(n.problem).inputs) use(v.memory.buffer);
    for (auto& o : program_.outputs) {
      use(o.buffer);
      if (o.mutates >= 0) use(program_.inputs[static_cast<size_t>(o.mutates)].buffer);
    }
    std::vector<int> place(program_.inputs.size(), -1);
    int users = 0;
    for (size_t i = 0; i < program_.inputs.size(); ++i) {
      auto& in = program_.inputs[i];
      plan.buffers[static_cast<size_t>(in.buffer)].role = exec::BufferRole::Input;
      if (in.data.defined() && !used[static_cast<size_t>(in.buffer)]) continue;
      place[i] = static_cast<int>(plan.inputs.size());
      plan.inputs.push_back({in.name, in.type, in.buffer, in.data.defined() ? -1 : users++, in.data, false});
    }
    for (auto& o : program_.outputs) {
      int mutates = o.mutates < 0 ? -1 : place[static_cast<size_t>(o.mutates)];
      if (mutates >= 0) plan.inputs[static_cast<size_t>(mutates)].mutated = true;
      plan.outputs.push_back({o.buffer, o.type, mutates});
    }
  }

  exec::Launch launch(const choice::Node& n, const codegen::CpuKernel& k, const std::shared_ptr<const device::LoadedCode>& code) {
    exec::Launch l;
    l.name = k.name;
    l.function = code->function<void(void* const*, const int64_t*, int64_t, int64_t, int)>(k.name);
    l.code = code;
    l.buffers = k.buffers;
    l.params = k.params;
    l.tasks = k.tasks;
    l.scratch_bytes_per_thread = k.scratch_bytes_per_thread;
    l.serial = k.serial;
    Cost cost = cost_of(n, program_);
    l.bytes = cost.bytes;
    l.flops = cost.flops;
    return l;
  }

  const ModelOptions& options_;
  CompileReport& report_;
  DebugFolder debug_;
  device::Isa isa_ = device::active_isa();
  std::unique_ptr<graph::Graph> graph_;
  choice::Program program_;
  codegen::ConstantMemory constants_;
  std::vector<codegen::CpuKernel> kernels_;
  std::vector<std::shared_ptr<const device::LoadedCode>> code_;  // parallel to kernels_
  std::vector<std::pair<std::string, std::string>> sources_;
};

}  // namespace

CompiledModel CompiledModel::compile(std::unique_ptr<graph::Graph> graph, const ModelOptions& options) {
  CompiledModel model;
  Compilation compilation(std::move(graph), options, model.report_);
  model.executable_ = std::make_unique<exec::Executable>(compilation.run());
  model.sources_ = compilation.take_sources();
  return model;
}

}  // namespace toroid::compiler
