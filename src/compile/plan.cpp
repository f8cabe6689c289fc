// From code to a plan: what each step launches or calls, and the memory of inputs and constants.
#include <algorithm>
#include <set>

#include "backend/cpu/onednn_problem.h"
#include "backend/cuda/cublaslt_problem.h"
#include "backend/cuda/cudnn_problem.h"
#include "backend/cuda/pieces_problem.h"
#include "base/check.h"
#include "base/log.h"
#include "base/thread_pool.h"
#include "compile/costs.h"
#include "compile/pipeline.h"
#include "graph/control_flow.h"
#include "program/users_calls.h"

namespace toroid::compiler {
namespace {

using Milliseconds = std::shared_future<double>;

exec::HostCall::View view_of(const program::Extern::View& v) {
  return {v.memory.buffer, v.memory.dtype, v.memory.offset, v.sizes, v.memory.strides};
}

// A call of the operation's reference implementation or function.
exec::HostCall host_call(const program::Extern& e) {
  exec::HostCall call{e.op->name, e.op, e.args, {}, {}};
  for (auto& v : e.inputs) call.inputs.push_back(view_of(v));
  for (auto& v : e.outputs) call.outputs.push_back(view_of(v));
  return call;
}

exec::CollectiveCall collective_call(const program::Collective& c) {
  exec::CollectiveCall call;
  call.name = fmt::format("_c10d_functional.{}", distributed::name_of(c.kind));
  call.kind = c.kind, call.op = c.op, call.group = c.group;
  call.ranks = c.ranks, call.root = static_cast<int>(c.root);
  call.count = c.kind == distributed::Kind::AllToAll ? Expr(0) : c.count;
  call.given = c.given, call.taken = c.taken;
  call.input = view_of({c.input, {elements_in(c)}});
  call.output = view_of({c.output, {elements_out(c)}});
  call.input.strides = call.output.strides = {1};
  return call;
}

// Tensors of an argument of control flow that its blocks take.
std::vector<exec::HostCall::View> operands_of(const program::Extern& e, size_t argument) {
  std::vector<exec::HostCall::View> out;
  if (auto* list = std::get_if<std::vector<int>>(&e.args[argument]))
    for (int i : *list)
      if (i >= 0) out.push_back(view_of(e.inputs[static_cast<size_t>(i)]));
  return out;
}

// A branch or a loop over compiled blocks, which are in the order of the regions.
exec::StepPlan control_step(const program::Extern& e, std::vector<exec::Block> blocks) {
  std::vector<exec::HostCall::View> results;
  for (auto& v : e.outputs) results.push_back(view_of(v));
  if (!e.conditions.empty()) {
    std::vector<exec::HostCall::View> operands;
    for (auto& v : e.inputs) operands.push_back(view_of(v));
    return exec::Branch{e.op->name, {}, e.conditions, std::move(operands), std::move(results), std::move(blocks)};
  }
  if (e.op == &graph::cond_op()) {
    auto predicate = view_of(e.inputs[static_cast<size_t>(std::get<int>(e.args[0]))]);
    return exec::Branch{e.op->name, std::move(predicate), {}, operands_of(e, 3), std::move(results), std::move(blocks)};
  }
  bool scan = e.op == &graph::scan_op();
  std::reverse(blocks.begin(), blocks.end());  // the body first, then the condition
  std::vector<exec::HostCall::View> slices;
  if (scan) slices = operands_of(e, 2);
  return exec::Loop{e.op->name, operands_of(e, scan ? 1 : 2), std::move(slices), operands_of(e, 3), std::move(results), std::move(blocks)};
}

bool reads(const std::vector<int>& buffers, int buffer) { return std::find(buffers.begin(), buffers.end(), buffer) != buffers.end(); }

// Packs the weights behind the caller's back: this moves all the memory of a model, which loading its inputs can hide.
Milliseconds pack(std::vector<std::function<void()>> jobs) {
  return std::async([jobs = std::move(jobs)]() mutable {
           const auto start = std::chrono::steady_clock::now();
           run_parallel(jobs);
           jobs.clear();  // what they read may be freed
           return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
         })
      .share();
}

// All of it, for who asks.
Milliseconds sum_of(std::vector<Milliseconds> parts) {
  if (parts.size() < 2) return parts.empty() ? Milliseconds() : parts[0];
  return std::async(std::launch::deferred,
                    [parts = std::move(parts)] {
                      double ms = 0;
                      for (auto& part : parts) ms += part.get();
                      return ms;
                    })
      .share();
}

// What the plans of a program and of its blocks have in common.
struct Common {
  const std::map<Hash128, std::string>& names;  // of kernels in the store, by the hash of their text
  exec::Store& store;
  std::vector<Milliseconds> filling;  // constants
};

// The plan of one program.
class Planner {
 public:
  // sent: its constants on their way to a GPU, by the input's buffer.
  Planner(Kernels& kernels, const Job& job, const std::map<int, Tensor>& sent, Common& common)
      : kernels_(kernels), program_(kernels.program), job_(job), sent_(sent), common_(common) {}

  exec::Plan plan() {
    exec::Plan plan;
    for (size_t i = 0; i < program_.nodes.size(); ++i) {
      const auto* m = std::get_if<program::Meeting>(&program_.nodes[i].problem);
      if (program_.nodes[i].is_library()) library_calls_[i].push_back(library_call(program_.nodes[i]));
      if (m && program::in_pieces(*m)) library_calls_[i] = backend::pieces_calls(program_.nodes[i]);
    }
    fill_packed();
    plan.name = program_.name;
    plan.device = job_.setup.device;
    plan.code_for = job_.target->code_for();
    plan.record = records_calls(job_.options().mode());
    plan.options = job_.options();
    add_buffers(plan);
    add_inputs(plan);
    add_outputs(plan);
    plan.guards = program_.guards;
    plan.sites = program_.sites;
    for (auto& s : program_.symbols) plan.symbols.emplace_back(s.expr, s.unbacked);
    for (size_t i = 0; i < program_.nodes.size(); ++i) {
      for (exec::StepPlan& s : steps(i)) {
        std::visit([&](auto& of) { of.where = program_.nodes[i].where; }, s);
        plan.steps.push_back(std::move(s));
      }
    }
    return plan;
  }

 private:
  // Starts to fill what is packed, and drops what is only packed from.
  void fill_packed() {
    codegen::ConstantMemory& constants = kernels_.constants;
    if (!constants.jobs.empty()) {
      const Milliseconds packed = pack(std::move(constants.jobs));
      if (job_.setup.device.is_cuda())
        packed.get();  // it is copied there
      else
        common_.filling.push_back(packed);
    }
    for (auto& r : program_.rearranged) {
      const auto by = [&](auto& k) { return reads(k.buffers, r.buffer); };
      const bool by_kernel = std::any_of(kernels_.texts.begin(), kernels_.texts.end(), [&](auto& k) { return by(k.second); });
      const bool by_library = std::any_of(library_calls_.begin(), library_calls_.end(),
                                          [&](auto& c) { return std::any_of(c.second.begin(), c.second.end(), by); });
      if (!by_kernel && !by_library) constants.packed.erase(r.buffer);
    }
  }

  void add_buffers(exec::Plan& plan) {
    for (auto& b : program_.buffers) {
      exec::BufferPlan bp{b.name, b.dtype, b.numel, exec::BufferRole::Temporary, {}};
      if (b.kind == loop::BufferKind::Output) bp.role = exec::BufferRole::Output;
      if (b.kind == loop::BufferKind::Faults) bp.role = exec::BufferRole::Faults;
      if (b.kind == loop::BufferKind::Peers) bp.role = exec::BufferRole::Peers, bp.constant = b.name;
      if (auto it = kernels_.constants.packed.find(b.id); it != kernels_.constants.packed.end()) {
        bp.role = exec::BufferRole::Constant;
        bp.constant = common_.store.constants.add(job_.absent ? it->second : moved(it->second, plan.device));
      }
      plan.buffers.push_back(std::move(bp));
    }
    for (auto& [node, list] : kernels_.blocks)
      for (int b : program::writes(program_.nodes[node])) plan.buffers[static_cast<size_t>(b)].role = exec::BufferRole::Handed;
  }

  // Buffers that steps and outputs take.
  std::vector<bool> used_buffers() const {
    std::vector<bool> used(program_.buffers.size(), false);
    auto use = [&](int buffer) {
      if (buffer >= 0) used[static_cast<size_t>(buffer)] = true;
    };
    for (auto& [node, k] : kernels_.texts) std::for_each(k.buffers.begin(), k.buffers.end(), use);
    for (auto& n : program_.nodes)
      if (n.is_call())
        for (int b : program::reads(n)) use(b);
    for (auto& [node, calls] : library_calls_)
      for (auto& c : calls) std::for_each(c.buffers.begin(), c.buffers.end(), use);
    for (auto& o : program_.outputs) {
      use(o.buffer);
      if (o.mutates >= 0) use(program_.inputs[static_cast<size_t>(o.mutates)].buffer);
    }
    return used;
  }

  // All but the weights that nobody reads any more because they were packed: their memory can go.
  void add_inputs(exec::Plan& plan) {
    const std::vector<bool> used = used_buffers();
    place_.assign(program_.inputs.size(), -1);
    int users = 0;
    for (size_t i = 0; i < program_.inputs.size(); ++i) {
      auto& in = program_.inputs[i];
      plan.buffers[static_cast<size_t>(in.buffer)].role = exec::BufferRole::Input;
      if (in.data.defined() && !used[static_cast<size_t>(in.buffer)]) continue;
      place_[i] = static_cast<int>(plan.inputs.size());
      plan.inputs.push_back({in.name, in.type, in.buffer, in.data.defined() || in.draws ? -1 : users++, {}, false});
      if (const Tensor data = on_device(in); data.defined()) plan.inputs.back().constant = common_.store.constants.add(data);
      plan.inputs.back().draws = in.draws;
      const auto& donated = job_.setup.donated;
      const int user = plan.inputs.back().user;
      plan.inputs.back().donated = user >= 0 && std::find(donated.begin(), donated.end(), static_cast<size_t>(user)) != donated.end();
    }
  }

  // The data of an input, where it has some, and where a GPU that is there is to have it.
  Tensor on_device(const program::ProgramInput& in) const {
    if (!in.data.defined() || job_.absent) return in.data;
    if (const auto sent = sent_.find(in.buffer); sent != sent_.end()) return sent->second;
    return job_.constants ? job_.constants->get(in.data, job_.setup.device) : moved(in.data, job_.setup.device);
  }

  void add_outputs(exec::Plan& plan) const {
    for (auto& o : program_.outputs) {
      const int mutates = o.mutates < 0 ? -1 : place_[static_cast<size_t>(o.mutates)];
      if (mutates >= 0) {
        auto& in = plan.inputs[static_cast<size_t>(mutates)];
        TOROID_USER_CHECK(!in.draws, "the program writes to \"{}\", the state of the random numbers; only manual_seed may", in.name);
        in.mutated = true;
      }
      plan.outputs.push_back({o.buffer, o.type, mutates, o.where});
    }
  }

  std::vector<exec::StepPlan> steps(size_t i) {
    const program::Node& n = program_.nodes[i];
    const auto calls = library_calls_.find(i);
    if (n.is_library() || calls == library_calls_.end()) return {step(i)};
    // A product in pieces.
    exec::Launch barrier = launch(n, kernels_.texts.at(i));
    barrier.bytes = barrier.flops = 0;
    std::vector<exec::StepPlan> out;
    for (auto& call : calls->second) {
      if (meets_before(std::get<exec::PiecesProblem>(call.problem))) out.emplace_back(barrier);
      out.emplace_back(std::move(call));
    }
    return out;
  }

  exec::StepPlan step(size_t i) {
    const program::Node& n = program_.nodes[i];
    if (const auto control = kernels_.blocks.find(i); control != kernels_.blocks.end())
      return control_step(std::get<program::Extern>(n.problem), plans_of(control->second));
    if (n.is_library()) return std::move(library_calls_.at(i).front());
    if (!n.is_call() || kernels_.texts.count(i)) return launch(n, kernels_.texts.at(i));
    if (const auto* meet = std::get_if<program::Collective>(&n.problem)) return collective_call(*meet);
    const auto& e = std::get<program::Extern>(n.problem);
    exec::HostCall call = host_call(e);
    if (!job_.setup.device.is_cuda()) return call;
    call.on_gpu = program::is_users_function(e);
    TOROID_USER_CHECK(!call.on_gpu || program::has_gpu_operands(e),
                      "{} got its function for GPUs while a program with it was compiled; register the function before", call.name);
    if (!call.on_gpu)
      log(Artifact::Perf,
          fmt::format("{} of {} has no kernel for a GPU and runs on copies in the host's memory", call.name, program_.name));
    return call;
  }

  std::vector<exec::Block> plans_of(std::vector<Block<Kernels>>& blocks) {
    std::vector<exec::Block> out;
    for (auto& b : blocks) {
      auto plan = std::make_shared<const exec::Plan>(Planner(b.program, b.job, {}, common_).plan());
      out.push_back({std::move(b.name), std::move(plan), std::move(b.results)});
    }
    return out;
  }

  exec::LibraryCall library_call(const program::Node& n) {
    if (n.by == program::Implementation::CublasLt) return backend::cublaslt_call(n);
    if (n.by == program::Implementation::CuDnn) return backend::cudnn_call(n);
    backend::OneDnnNode made = backend::describe_onednn(n, program_);
    exec::LibraryCall call{made.name, made.problem, 0, made.buffers};
    const auto* g = std::get_if<program::Gemm>(&n.problem);
    const int b = g ? g->b.buffer : std::get<program::Convolution>(n.problem).weight.buffer;
    if (made.problem.constant_b) call.constant = common_.store.constants.add(kernels_.constants.tensors.at(b));
    return call;
  }

  exec::Launch launch(const program::Node& n, const codegen::KernelText& k) {
    exec::Launch l;
    l.name = k.name;
    l.kernel = common_.names.at(hash_text(k.source));
    l.gpu = {k.block, k.shared_bytes, k.overlaps, k.scratch_bytes, k.counters, k.tensor_maps, k.together};
    l.buffers = k.buffers;
    l.params = k.params;
    l.tasks = k.tasks;
    l.scratch_bytes_per_thread = k.scratch_bytes_per_thread;
    l.serial = k.serial;
    Cost cost = cost_of(n, program_);
    l.bytes = cost.bytes;
    l.flops = cost.flops;
    const std::vector<int> read = program::reads(n), written = program::writes(n);
    auto is_written = [&](int b) { return std::find(written.begin(), written.end(), b) != written.end(); };
    for (int b : l.buffers) l.written.push_back(is_written(b));
    l.in_place = std::any_of(read.begin(), read.end(), is_written);
    return l;
  }

  Kernels& kernels_;
  const program::Program& program_;
  const Job& job_;
  const std::map<int, Tensor>& sent_;
  Common& common_;
  std::map<size_t, std::vector<exec::LibraryCall>> library_calls_;  // by the place of their node
  std::vector<int> place_;                                          // of the program's inputs among the plan's; -1: left out
};

}  // namespace

exec::Loadable make_plan(Objects in, const Job& job, CompileReport& report) {
  exec::Loadable out{{}, std::move(in.store)};
  Common common{in.names, out.store, {}};
  if (in.upload.finished.valid()) common.filling.push_back(in.upload.finished);
  out.plan = Planner(in.kernels, job, in.upload.tensors, common).plan();
  out.store.filling = report.packing = sum_of(std::move(common.filling));
  for (auto& step : out.plan.steps) {
    report.kernels += std::holds_alternative<exec::Launch>(step);
    report.host_calls += std::holds_alternative<exec::HostCall>(step) || std::holds_alternative<exec::LibraryCall>(step) ||
                         std::holds_alternative<exec::CollectiveCall>(step);
  }
  return out;
}

}  // namespace toroid::compiler
