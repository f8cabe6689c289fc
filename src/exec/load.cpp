#include "exec/load.h"

#include "base/check.h"
#include "base/index_fault.h"
#include "base/log.h"
#include "device/cpu/code_loader.h"
#include "device/cpu/runtime_symbols.h"
#include "device/cuda/architecture.h"
#include "dist/group.h"
#include "dist/p2p/peer_memory.h"
#include "exec/nccl.h"
#include "exec/run/executable.h"
#include "exec/steps.h"
#include "exec/users_function.h"
#include "exec/verify.h"
#include "extern/cublaslt/cublaslt.h"
#include "extern/cudnn/cudnn.h"
#include "extern/onednn/onednn.h"
#include "ops/cuda_kernels.h"
#include "ops/opaque.h"
#include "ops/reference.h"
#include "tensor/upload.h"

namespace toroid::exec {
namespace {

// What a feature that kernels may use is called, and whether the processor has it.
std::vector<std::pair<std::string_view, bool>> features() {
  const auto& host = device::host();
  return {{"f16c", host.f16c}, {"bf16", host.avx512_bf16}, {"vnni", host.avx512_vnni}};
}

constexpr int64_t kWorthAnUpload = 1 << 16;  // bytes: smaller constants are copied one by one

Tensor copy_of(const Tensor& t) {
  Tensor own = Tensor::empty(t.sizes(), t.dtype(), t.device());
  copy_elements(t, own);
  return own;
}

void check_machine(const Plan& plan) {
  if (plan.code_for.empty()) return;
  if (plan.device.is_cuda()) {
    const device::cuda::GpuInfo& gpu = device::cuda::gpu(plan.device.index).info();
    if (device::cuda::runs(plan.code_for, gpu)) return;
    fail<EnvironmentError>("\"{}\" was compiled for a GPU of architecture {}, {} has {}: compile it for this one", plan.name, plan.code_for,
                           to_string(plan.device), gpu.architecture);
  }
  if (!processor_runs(plan.code_for))
    fail<EnvironmentError>("\"{}\" was compiled for a processor with {}, this one has {}: compile it for this one", plan.name,
                           plan.code_for, code_for_this_processor());
}

// Tensors on their way to a device. Large ones of the host have their elements there when send() is done.
class Moves {
 public:
  explicit Moves(const Device& device) : device_(device) {}
  Moves(const Moves&) = delete;

  Tensor moved(const Tensor& t) {
    const int64_t bytes = t.numel() * static_cast<int64_t>(size_of(t.dtype()));
    if (!device_.is_cuda() || t.device().is_cuda() || !t.is_contiguous() || bytes < kWorthAnUpload) return toroid::moved(t, device_);
    return pairs_.emplace_back(t, Tensor::empty(t.sizes(), t.dtype(), device_)).to;
  }

  void send() {
    if (pairs_.empty()) return;
    synchronize(device_);  // the memory may have been somebody's
    upload(std::exchange(pairs_, {}));
  }

 private:
  const Device device_;
  std::vector<CopyPair> pairs_;
};

class Loader {
 public:
  Loader(const Store& store, const Device& device) : store_(store), device_(device), moves_(device) {}

  Loaded load_all(const Plan& plan) {
    if (!device_.is_cuda()) map_code(plan);
    Loaded out = load(plan);
    moves_.send();
    return out;
  }

 private:
  Loaded load(const Plan& plan) {
    check_machine(plan);
    Loaded out;
    out.filling = store_.filling;
    for (auto& b : plan.buffers)
      out.constants.push_back(b.constant.empty() ? Tensor() : b.role == BufferRole::Peers ? peers(b.constant) : constant(b.constant));
    for (auto& in : plan.inputs) out.inputs.push_back(in.constant.empty() ? Tensor() : input(in));
    for (auto& step : plan.steps) {
      Loaded::Step& s = out.steps.emplace_back();
      if (auto* l = std::get_if<Launch>(&step)) s.kernel = kernel(*l);
      if (auto* h = std::get_if<HostCall>(&step)) check_function(*h, plan);
      if (auto* c = std::get_if<LibraryCall>(&step))
        s.library = prepare(*c, device_, c->constant.empty() ? Tensor() : store_.constants.at(c->constant));
      if (auto* c = std::get_if<CollectiveCall>(&step); c && device_.is_cuda()) connect(*c, plan, s);
      for (auto& block : blocks_of(step)) s.blocks.push_back(load(*block.plan));
    }
    return out;
  }

  static void check_function(const HostCall& h, const Plan& plan) {
    TOROID_USER_CHECK(!h.on_gpu || ops::has_cuda_function(*h.op),
                      "\"{}\" calls the function for GPUs of {}, which this process has not registered: call register_cuda_function before "
                      "its programs are loaded",
                      plan.name, ops::opaque_name(*h.op));
  }

  void connect(const CollectiveCall& c, const Plan& plan, Loaded::Step& s) const {
    s.refusal = nccl_refusal({.kind = c.kind, .dtype = c.input.dtype, .op = c.op}, c.group, device_);
    if (s.refusal.empty())
      s.communicator = distributed::current_world().group(c.group).on_gpu(device_.index).nccl;
    else
      log(Artifact::Perf, fmt::format("{}{} of {} goes through copies in the host's memory: {}", c.name,
                                      c.where.empty() ? "" : " (" + c.where + ")", plan.name, s.refusal));
  }

  // Of all kernels of the plan and its blocks, at once.
  void map_code(const Plan& plan) {
    std::map<std::string, device::ObjectCode> objects;
    const std::function<void(const Plan&)> collect = [&](const Plan& p) {
      for (auto& step : p.steps) {
        if (auto* l = std::get_if<Launch>(&step))
          if (auto& k = store_.kernels.at(l->kernel); !k.function) objects.try_emplace(l->kernel, device::ObjectCode{*k.object, l->name});
        for (auto& block : blocks_of(step)) collect(*block.plan);
      }
    };
    collect(plan);
    std::vector<device::ObjectCode> all;
    for (auto& [name, object] : objects) all.push_back(object);
    if (all.empty()) return;
    auto code = device::LoadedCode::load_all(all, device::runtime_symbols());
    size_t next = 0;
    for (auto& [name, object] : objects) code_[name] = std::move(code[next++]);
  }

  KernelCode kernel(const Launch& l) {
    const KernelStore::Kernel& k = store_.kernels.at(l.kernel);
    if (!device_.is_cuda()) {
      if (k.function) return {k.function, nullptr, {}};
      const auto& code = code_.at(l.kernel);
      return {code->function<void(void* const*, const int64_t*, int64_t, int64_t, int)>(l.name), code, {}};
    }
    TOROID_USER_CHECK(k.object, "kernel {} is no code of a GPU", l.kernel);
    auto [it, fresh] = gpu_.try_emplace({l.kernel, l.name, l.gpu.shared_bytes, l.gpu.overlaps});
    if (fresh) it->second = device::cuda::gpu(device_.index).load(*k.object, l.name, l.gpu.shared_bytes, l.gpu.overlaps);
    return {nullptr, nullptr, it->second};
  }

  Tensor constant(const std::string& name) {
    const Tensor& t = store_.constants.at(name);
    if (t.device() == device_) return t;
    Tensor& there = moved_[name];
    if (!there.defined()) there = moves_.moved(t);
    return there;
  }

  // What the GPUs of the group share, which lasts as long as the tensor.
  Tensor peers(const std::string& group) {
    auto memory = distributed::p2p::peer_memory(distributed::current_world().group(group), device_);
    if (!memory->refusal().empty())
      fail<EnvironmentError>("the ranks of the group \"{}\" share no memory of GPUs, which the program is compiled for: {}", group,
                             memory->refusal());
    void* const table = memory->table();
    return Tensor::from_blob(table, std::vector<int64_t>{1}, DType::I64, {}, std::move(memory), device_);
  }

  // What the program writes to is its own, unless the store has that very tensor.
  Tensor input(const InputPlan& in) {
    const Tensor t = constant(in.constant);
    if (!in.mutated || ConstantStore::is_identity(in.constant)) return t;
    moves_.send();
    return copy_of(t);
  }

  const Store& store_;
  const Device device_;
  std::map<std::string, std::shared_ptr<const device::LoadedCode>> code_;
  std::map<std::tuple<std::string, std::string, int, bool>, device::cuda::Kernel> gpu_;
  std::map<std::string, Tensor> moved_;
  Moves moves_;
};

// The implementation that a call asks for, of those that the library has.
std::shared_ptr<const external::LibraryCall> chosen(const LibraryCall& c, const char* library, const std::string& version,
                                                    const char* option, std::vector<std::shared_ptr<const external::LibraryCall>> calls) {
  const std::string where = c.where.empty() ? "" : " (" + c.where + ")";
  if (calls.empty())
    fail<EnvironmentError>("{} {} has no implementation of {}{}; take {} out of the option {}", library, version, c.name, where,
                           c.name.substr(0, c.name.find('_')), option);
  if (calls.size() <= static_cast<size_t>(c.choice))
    fail<UserError>("algo={} of {}{}: {} {} has {} implementations; tune it again", c.choice, c.name, where, library, version,
                    calls.size());
  return std::move(calls[static_cast<size_t>(c.choice)]);
}

// The plan, its blocks included, on another device of its kind.
Plan on_device(Plan plan, const Device& device) {
  plan.device = device;
  for (auto& step : plan.steps)
    for (auto& block : blocks_of(step)) block.plan = std::make_shared<const Plan>(on_device(*block.plan, device));
  return plan;
}

}  // namespace

std::string code_for_this_processor() {
  std::string out(device::name_of(device::host().isa));
  for (auto& [name, has] : features())
    if (has) out += " +" + std::string(name);
  return out;
}

bool processor_runs(std::string_view code) {
  if (device::isa_from_name(code.substr(0, code.find(' '))) > device::host().isa) return false;
  for (size_t at = code.find('+'); at != code.npos; at = code.find('+', at + 1)) {
    const std::string_view name = code.substr(at + 1, code.find(' ', at) - at - 1);
    bool known = false;
    for (auto& [feature, has] : features()) known = known || (feature == name && has);
    if (!known) return false;
  }
  return true;
}

Loaded with_own_state(const Plan& plan, Loaded loaded) {
  for (size_t i = 0; i < plan.inputs.size(); ++i)
    if (plan.inputs[i].mutated && loaded.inputs[i].defined()) loaded.inputs[i] = copy_of(loaded.inputs[i]);
  return loaded;
}

Loaded with_state_of(const Plan& plan, Loaded loaded, const Loaded& other) {
  for (size_t i = 0; i < plan.inputs.size(); ++i)
    if (plan.inputs[i].mutated) loaded.inputs[i] = other.inputs[i];
  return loaded;
}

namespace {

Loaded replaced(const Plan& plan, Loaded loaded, std::map<std::string, Tensor>& others, Moves& moves) {
  const auto replace = [&](const std::string& name, Tensor& t) {
    const auto other = others.find(name);
    if (other == others.end()) return false;
    if (other->second.device() != plan.device) other->second = moves.moved(other->second);
    t = other->second;
    return true;
  };
  for (size_t i = 0; i < plan.buffers.size(); ++i)
    if (plan.buffers[i].role == BufferRole::Constant) replace(plan.buffers[i].constant, loaded.constants[i]);
  for (size_t i = 0; i < plan.inputs.size(); ++i)
    TOROID_USER_CHECK(!replace(plan.inputs[i].constant, loaded.inputs[i]) || !plan.inputs[i].mutated,
                      "\"{}\" is memory that the program writes to, and no constant", plan.inputs[i].name);
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    auto& step = loaded.steps[i];
    Tensor b;
    if (auto* c = std::get_if<LibraryCall>(&plan.steps[i]); c && replace(c->constant, b)) {
      moves.send();
      step.library = prepare(*c, plan.device, b);
    }
    const auto blocks = blocks_of(plan.steps[i]);
    for (size_t k = 0; k < step.blocks.size(); ++k) step.blocks[k] = replaced(*blocks[k].plan, std::move(step.blocks[k]), others, moves);
  }
  return loaded;
}

}  // namespace

Loaded with_constants(const Plan& plan, Loaded loaded, std::map<std::string, Tensor>& others) {
  Moves moves(plan.device);
  loaded = replaced(plan, std::move(loaded), others, moves);
  moves.send();
  return loaded;
}

void for_each_constant(const Plan& plan, const Loaded& loaded, const std::function<void(const std::string&, const Tensor&)>& use) {
  for (size_t i = 0; i < plan.buffers.size(); ++i)
    if (plan.buffers[i].role == BufferRole::Constant && loaded.constants[i].defined()) use(plan.buffers[i].constant, loaded.constants[i]);
  for (size_t i = 0; i < plan.inputs.size(); ++i)
    if (!plan.inputs[i].mutated && loaded.inputs[i].defined()) use(plan.inputs[i].constant, loaded.inputs[i]);
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const auto blocks = blocks_of(plan.steps[i]);
    for (size_t k = 0; k < blocks.size(); ++k) for_each_constant(*blocks[k].plan, loaded.steps[i].blocks[k], use);
  }
}

Loaded load_parts(const Plan& plan, const Store& store) { return Loader(store, plan.device).load_all(plan); }

namespace {

CallArgs arguments_of(const HostCall& h, const std::vector<Tensor>& inputs, const std::function<Expr(const Expr&)>& resolve) {
  CallArgs concrete;
  for (auto& a : h.args) {
    Arg<Tensor> c = map_arg<Tensor>(a, [&](int i) { return i < 0 ? Tensor() : inputs[static_cast<size_t>(i)]; });
    if (auto* x = std::get_if<Expr>(&c)) *x = resolve(*x);
    if (auto* list = std::get_if<std::vector<Expr>>(&c))
      for (auto& x : *list) x = resolve(x);
    concrete.push_back(std::move(c));
  }
  return concrete;
}

}  // namespace

std::vector<Tensor> call(const HostCall& h, const std::vector<Tensor>& inputs, const std::function<Expr(const Expr&)>& resolve) {
  const OperationPlace place(h.where);
  return ops::evaluate(*h.op, arguments_of(h, inputs, resolve));
}

void call_into(const HostCall& h, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
               const std::function<Expr(const Expr&)>& resolve) {
  if (ops::is_opaque(*h.op)) {
    const OperationPlace place(h.where);
    return ops::run_opaque(*h.op, arguments_of(h, inputs, resolve), outputs);
  }
  const auto results = call(h, inputs, resolve);
  for (size_t r = 0; r < outputs.size(); ++r)
    if (results.at(r).defined()) copy_elements(results[r], outputs[r]);
}

void call_on_gpu(const HostCall& h, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
                 const std::function<Expr(const Expr&)>& resolve, const Device& device) {
  const OperationPlace place(h.where);
  run_cuda_function(*h.op, arguments_of(h, inputs, resolve), outputs, device);
}

namespace {

std::shared_ptr<const external::LibraryCall> prepare_on_gpu(const LibraryCall& c, const Device& device) {
  if (auto* p = std::get_if<external::CublasLtProblem>(&c.problem))
    return chosen(c, "cuBLASLt", external::cublaslt_version(), "gemm_backends",
                  external::prepare_cublaslt(*p, device::cuda::gpu(device.index), c.choice + 1));
  if (auto* p = std::get_if<PiecesProblem>(&c.problem)) return prepare_pieces(*p, device);
  return chosen(c, "cuDNN", external::cudnn_version(), "conv_backends",
                external::prepare_cudnn(std::get<external::CudnnProblem>(c.problem), device::cuda::gpu(device.index), c.choice + 1));
}

bool ranks_are_threads() { return distributed::has_world() && distributed::current_world().world().engine() == "threads"; }

}  // namespace

std::shared_ptr<const external::LibraryCall> prepare(const LibraryCall& c, const Device& device, const Tensor& constant) {
  if (auto* p = std::get_if<external::OneDnnProblem>(&c.problem))
    return external::prepare_onednn(*p, constant.defined() ? constant.raw_data() : nullptr);
  auto call = prepare_on_gpu(c, device);
  // The driver loads a library's kernel at its first launch, under a lock of the process, and waits for the GPU meanwhile. A rank whose GPU
  // waits for another rank would so keep that one from coming.
  if (ranks_are_threads()) call->load();
  return call;
}

Plan verified(Plan plan, const Device& device) {
  TOROID_USER_CHECK(plan.device.is_cuda() == device.is_cuda(), "\"{}\" was compiled for {}, and cannot be loaded on {}", plan.name,
                    to_string(plan.device), to_string(device));
  verify(plan);
  return plan.device == device ? std::move(plan) : on_device(std::move(plan), device);
}

std::unique_ptr<Executable> load(Plan plan, const Store& store, const Device& device) {
  plan = verified(std::move(plan), device);
  Loaded parts = load_parts(plan, store);
  return std::make_unique<Executable>(std::move(plan), std::move(parts));
}

}  // namespace toroid::exec
