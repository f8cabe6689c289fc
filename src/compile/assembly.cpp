#include "compile/assembly.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <future>
#include <set>

#include "backend/cpu/onednn_problem.h"
#include "backend/cuda/cublaslt_problem.h"
#include "backend/cuda/cudnn_problem.h"
#include "base/check.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/thread_pool.h"
#include "codegen/rearrange.h"
#include "compile/costs.h"
#include "device/runtime.h"
#include "graph/control_flow.h"
#include "tensor/late_stack.h"
#include "tensor/upload.h"

namespace toroid::compiler {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int64_t kWorthAnUpload = 1 << 16;  // bytes: smaller weights are copied at once
double ms_since(Clock::time_point t) { return std::chrono::duration<double, std::milli>(Clock::now() - t).count(); }

exec::HostCall::View view_of(const choice::Extern::View& v) {
  return {v.memory.buffer, v.memory.dtype, v.memory.offset, v.sizes, v.memory.strides};
}

// A call of the operation's reference implementation.
exec::HostCall host_call(const choice::Extern& e) {
  exec::HostCall call{e.op->name, e.op, e.args, {}, {}};
  for (auto& v : e.inputs) call.inputs.push_back(view_of(v));
  for (auto& v : e.outputs) call.outputs.push_back(view_of(v));
  return call;
}

// Tensors of an argument of control flow that its blocks take.
std::vector<exec::HostCall::View> operands_of(const choice::Extern& e, size_t argument) {
  std::vector<exec::HostCall::View> out;
  if (auto* list = std::get_if<std::vector<int>>(&e.args[argument]))
    for (int i : *list)
      if (i >= 0) out.push_back(view_of(e.inputs[static_cast<size_t>(i)]));
  return out;
}

// A branch or a loop over compiled blocks, which are in the order of the regions.
exec::StepPlan control_step(const choice::Extern& e, std::vector<exec::Block> blocks) {
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

}  // namespace

Tensor MovedConstants::get(const Tensor& t, const Device& device) {
  if (t.device() == device) return t;
  if (Tensor there = find(t); there.defined()) return there;
  Tensor there = moved(t, device);
  std::lock_guard lock(mutex_);
  moved_.emplace_back(t, there);
  return there;
}

Tensor MovedConstants::find(const Tensor& t) {
  std::lock_guard lock(mutex_);
  for (auto& [from, to] : moved_)
    if (from.impl() == t.impl()) return to;
  return {};
}

void Assembly::add_blocks(const std::function<Inner(const graph::Graph&, const Setup&)>& make) {
  for (auto& n : program_.nodes)
    if (auto* e = std::get_if<choice::Extern>(&n.problem))
      for (size_t i = 0; i < e->blocks.size(); ++i) {
        Setup its = setup_;
        if (!e->options.empty()) its.options = its.options.with(e->options[i]);
        blocks_[&n].push_back(make(*e->blocks[i], its));
      }
}

// This one and those within, outermost first.
std::vector<Assembly*> Assembly::all() {
  std::vector<Assembly*> out = {this};
  for (auto& [node, list] : blocks_)
    for (auto& b : list)
      for (auto* c : b.assembly->all()) out.push_back(c);
  return out;
}

void Assembly::generate() {
  std::set<int> packed;  // by the host
  for (auto& n : program_.nodes)
    if (auto* c = std::get_if<choice::Convolution>(&n.problem)) packed.insert(c->weight.buffer);
  for (auto& r : program_.rearranged)
    for (auto& part : r.parts) packed.insert(part.from.buffer);
  for (auto& in : program_.inputs) {
    if (!in.data.defined() || in.kind != graph::InputKind::Constant) continue;
    constants_.tensors[in.buffer] = packed.count(in.buffer) ? moved(in.data, Device::cpu()) : in.data;
    constants_.parts[in.buffer] = late_parts(constants_.tensors[in.buffer]);
  }
  for (auto& r : program_.rearranged) {
    const auto& b = program_.buffers[static_cast<size_t>(r.buffer)];
    const Tensor made = codegen::rearranged(r, b.dtype, b.numel.constant(), constants_.tensors);
    constants_.tensors[r.buffer] = constants_.packed[r.buffer] = made;
    constants_.parts[r.buffer] = {made};
  }
  for (auto& n : program_.nodes)
    if (!n.is_extern() && !n.is_library()) kernels_.push_back(target_->generate(n, program_, constants_));
  debug_.show(Artifact::Kernels, "plan.txt", [&] {
    std::string out;
    for (auto& k : kernels_) out += k.name + "\n" + k.plan + "\n";
    return out;
  });
}

void Assembly::build(int threads) {
  const std::string edited = setup_.options.get(options::kKernelDir);
  std::vector<jit::CompileRequest> requests;
  std::vector<std::string> files;
  for (auto* c : all())
    for (auto& k : c->kernels_) {
      files.push_back(k.name + "_" + hash_text(k.source).hex().substr(0, 8) + target_->file_ending());
      std::filesystem::path replacement = std::filesystem::path(edited) / files.back();
      if (!edited.empty() && std::filesystem::exists(replacement)) k.source = read_file(replacement);
      requests.push_back({.source = k.source, .isa = target_->facts().isa});
    }
  artefacts_ = jit::compile_all(requests, threads);
  for (auto& a : artefacts_) report_.compiler_ms += a.compile_ms;
  files_ = std::move(files);
}

void Assembly::upload() {
  if (!setup_.device.is_cuda()) return;
  std::vector<bool> used(program_.buffers.size(), false);
  auto use = [&](int buffer) {
    if (buffer >= 0) used[static_cast<size_t>(buffer)] = true;
  };
  for (auto& k : kernels_) std::for_each(k.buffers.begin(), k.buffers.end(), use);
  for (auto& n : program_.nodes)
    if (n.is_extern() || n.is_library())
      for (int b : choice::reads(n)) use(b);
  for (auto& o : program_.outputs) use(o.buffer);
  std::vector<CopyPair> pairs;
  for (auto& in : program_.inputs) {
    const bool large = in.data.defined() && in.data.numel() * static_cast<int64_t>(size_of(in.data.dtype())) >= kWorthAnUpload;
    if (!large || in.data.device().is_cuda() || !used[static_cast<size_t>(in.buffer)] || !in.data.is_contiguous()) continue;
    if (Tensor known = moved_ ? moved_->find(in.data) : Tensor(); known.defined()) {
      uploaded_[in.buffer] = known;
      continue;
    }
    Tensor there = Tensor::empty(in.data.sizes(), in.data.dtype(), setup_.device);
    report_.uploaded_bytes += there.impl()->storage->bytes;
    pairs.push_back({in.data, there});
    uploaded_[in.buffer] = std::move(there);
  }
  if (pairs.empty()) return;
  synchronize(setup_.device);  // the memory may have been somebody's
  report_.packing = std::async(std::launch::async, [pairs = std::move(pairs)] {
                      auto start = Clock::now();
                      toroid::upload(pairs);
                      return ms_since(start);
                    }).share();
}

// Packs the weights behind the caller's back: this moves all the memory of a model, which loading its inputs can hide.
std::shared_future<double> Assembly::pack() {
  return std::async([jobs = std::move(constants_.jobs)]() mutable {
           auto start = Clock::now();
           run_parallel(jobs);
           jobs.clear();  // what they read may be freed
           return ms_since(start);
         })
      .share();
}

exec::LibraryCall Assembly::library_call(const choice::Node& n, exec::Store& store) {
  if (n.by == choice::Implementation::CublasLt) return backend::cublaslt_call(n);
  if (n.by == choice::Implementation::CuDnn) return backend::cudnn_call(n);
  backend::OneDnnNode made = backend::describe_onednn(n, program_);
  exec::LibraryCall call{made.name, made.problem, 0, made.buffers};
  const auto* g = std::get_if<choice::Gemm>(&n.problem);
  const int b = g ? g->b.buffer : std::get<choice::Convolution>(n.problem).weight.buffer;
  if (made.problem.constant_b) call.constant = store.constants.add(constants_.tensors.at(b));
  return call;
}

// Objects of all kernels, those of blocks too.
void Assembly::take_objects(exec::Store& store) {
  std::set<Hash128> taken;
  size_t i = 0;
  for (auto* c : all())
    for (auto& k : c->kernels_) {
      if (taken.insert(artefacts_[i].key).second) {
        if (!artefacts_[i].from_cache) ++report_.kernels_compiled;
        sources_.emplace_back(k.name, k.source);
        debug_.show(Artifact::OutputCode, "kernels/" + files_[i], [&] { return k.source; });
      }
      c->objects_.push_back(store.kernels.add(std::move(artefacts_[i].object)));
      ++i;
    }
  artefacts_.clear();
}

exec::Loadable Assembly::plan() {
  exec::Loadable out;
  take_objects(out.store);
  out.plan = plan(out.store);
  std::vector<std::shared_future<double>> filling;
  for (auto* c : all())
    if (c->report_.packing.valid()) filling.push_back(c->report_.packing);
  if (filling.size() == 1) out.store.filling = filling[0];
  if (filling.size() > 1)
    out.store.filling = std::async(std::launch::deferred, [filling] {
                          double ms = 0;
                          for (auto& f : filling) ms += f.get();
                          return ms;
                        }).share();
  return out;
}

exec::Plan Assembly::plan(exec::Store& store) {
  exec::Plan plan;
  for (auto& n : program_.nodes)
    if (n.is_library()) library_calls_.push_back(library_call(n, store));
  if (!constants_.jobs.empty()) {
    std::shared_future<double> packed = pack();
    if (setup_.device.is_cuda()) packed.wait();  // what is packed is copied there
    if (!report_.packing.valid()) report_.packing = packed;
  }
  for (auto& r : program_.rearranged) {  // only packed from
    const auto reads = [&](auto& k) { return std::find(k.buffers.begin(), k.buffers.end(), r.buffer) != k.buffers.end(); };
    if (std::none_of(kernels_.begin(), kernels_.end(), reads) && std::none_of(library_calls_.begin(), library_calls_.end(), reads))
      constants_.packed.erase(r.buffer);
  }
  plan.name = program_.name;
  plan.device = setup_.device;
  plan.code_for = target_->code_for();
  plan.record = records_calls(setup_.options.mode());
  plan.options = setup_.options;
  for (auto& b : program_.buffers) {
    exec::BufferPlan bp{b.name, b.dtype, b.numel, exec::BufferRole::Temporary, {}};
    if (b.kind == loop::BufferKind::Output) bp.role = exec::BufferRole::Output;
    if (b.kind == loop::BufferKind::Faults) bp.role = exec::BufferRole::Faults;
    if (auto it = constants_.packed.find(b.id); it != constants_.packed.end()) {
      bp.role = exec::BufferRole::Constant;
      bp.constant = store.constants.add(moved(it->second, setup_.device));
    }
    plan.buffers.push_back(std::move(bp));
  }
  for (auto& [node, list] : blocks_)
    for (int b : choice::writes(*node)) plan.buffers[static_cast<size_t>(b)].role = exec::BufferRole::Handed;
  add_inputs(plan, store);
  plan.guards = program_.guards;
  plan.sites = program_.sites;
  for (auto& s : program_.symbols) plan.symbols.emplace_back(s.expr, s.unbacked);
  size_t next = 0, next_call = 0;
  for (auto& n : program_.nodes) {
    if (auto control = blocks_.find(&n); control != blocks_.end()) {
      plan.steps.push_back(control_step(std::get<choice::Extern>(n.problem), assemble_blocks(control->second, store)));
    } else if (n.is_extern()) {
      plan.steps.push_back(host_call(std::get<choice::Extern>(n.problem)));
      if (plan.device.is_cuda())
        log(Artifact::Perf, fmt::format("{} of {} has no kernel for a GPU and runs on copies in the host's memory",
                                        std::get<choice::Extern>(n.problem).op->name, program_.name));
      ++report_.host_calls;
    } else if (n.is_library()) {
      plan.steps.push_back(library_calls_[next_call++]);
      ++report_.host_calls;
    } else {
      plan.steps.push_back(launch(n, kernels_[next], objects_[next]));
      ++report_.kernels;
      ++next;
    }
  }
  for (size_t i = 0; i < plan.steps.size(); ++i) std::visit([&](auto& step) { step.where = program_.nodes[i].where; }, plan.steps[i]);
  return plan;
}

std::vector<exec::Block> Assembly::assemble_blocks(std::vector<Inner>& list, exec::Store& store) {
  std::vector<exec::Block> out;
  for (auto& b : list) {
    out.push_back(std::move(b.block));
    out.back().plan = std::make_shared<const exec::Plan>(b.assembly->plan(store));
    for (auto& miss : b.report->schedule.fusion.misses) report_.schedule.fusion.misses.push_back(std::move(miss));
    report_.blocks += 1 + b.report->blocks;
  }
  return out;
}

// All but the weights that nobody reads any more because they were packed: their memory can go.
void Assembly::add_inputs(exec::Plan& plan, exec::Store& store) {
  std::vector<bool> used(program_.buffers.size(), false);
  auto use = [&](int buffer) {
    if (buffer >= 0) used[static_cast<size_t>(buffer)] = true;
  };
  for (auto& k : kernels_) std::for_each(k.buffers.begin(), k.buffers.end(), use);
  for (auto& n : program_.nodes)
    if (n.is_extern())
      for (auto& v : std::get<choice::Extern>(n.problem).inputs) use(v.memory.buffer);
  for (auto& c : library_calls_) std::for_each(c.buffers.begin(), c.buffers.end(), use);
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
    const auto sent = uploaded_.find(in.buffer);
    const Tensor data = sent != uploaded_.end() ? sent->second
                        : !in.data.defined()    ? in.data
                        : moved_                ? moved_->get(in.data, setup_.device)
                                                : moved(in.data, setup_.device);
    plan.inputs.push_back({in.name, in.type, in.buffer, in.data.defined() || in.draws ? -1 : users++, {}, false});
    if (data.defined()) plan.inputs.back().constant = store.constants.add(data);
    plan.inputs.back().draws = in.draws;
  }
  for (auto& o : program_.outputs) {
    int mutates = o.mutates < 0 ? -1 : place[static_cast<size_t>(o.mutates)];
    if (mutates >= 0) {
      auto& in = plan.inputs[static_cast<size_t>(mutates)];
      TOROID_USER_CHECK(!in.draws, "the program writes to \"{}\", the state of the random numbers; only manual_seed may", in.name);
      in.mutated = true;
    }
    plan.outputs.push_back({o.buffer, o.type, mutates, o.where});
  }
}

exec::Launch Assembly::launch(const choice::Node& n, const codegen::KernelText& k, const std::string& object) {
  exec::Launch l;
  l.name = k.name;
  l.kernel = object;
  l.gpu = {k.block, k.shared_bytes, k.overlaps, k.scratch_bytes, k.counters, k.tensor_maps};
  l.buffers = k.buffers;
  l.params = k.params;
  l.tasks = k.tasks;
  l.scratch_bytes_per_thread = k.scratch_bytes_per_thread;
  l.serial = k.serial;
  Cost cost = cost_of(n, program_);
  l.bytes = cost.bytes;
  l.flops = cost.flops;
  const std::vector<int> read = choice::reads(n), written = choice::writes(n);
  auto is_written = [&](int b) { return std::find(written.begin(), written.end(), b) != written.end(); };
  for (int b : l.buffers) l.written.push_back(is_written(b));
  l.in_place = std::any_of(read.begin(), read.end(), is_written);
  return l;
}

}  // namespace toroid::compiler
