#include "front/eager.h"

#include <algorithm>

#include "autograd/rule.h"
#include "autograd/tape/record.h"
#include "base/check.h"
#include "base/compile_options.h"
#include "base/compile_scope.h"
#include "base/index_fault.h"
#include "base/log.h"
#include "base/scalar.h"
#include "device/runtime.h"
#include "front/eager_control.h"
#include "front/eager_region.h"
#include "front/recorded_members.h"
#include "graph/bind.h"
#include "graph/recorder.h"
#include "graph/writes.h"
#include "ops/autocast.h"
#include "ops/call_errors.h"
#include "ops/cuda_kernels.h"
#include "ops/custom.h"
#include "ops/gradients.h"
#include "ops/opaque.h"
#include "ops/reference.h"
#include "ops/strided_view.h"
#include "tensor/layout.h"
#include "toroid/grad.h"
#include "trace/sizes.h"

namespace toroid {
namespace front {
namespace {

// Programs that are kept: an operation's for different attributes, and for each of those for different sizes and layouts. The oldest go.
constexpr size_t kMaxFamilies = 1024;
constexpr size_t kMaxVariants = 32, kMaxVariantsOnGpus = 64;  // there each layout of a strided tensor is one
constexpr size_t kMaxPrograms = 8192;                         // of all operations: each maps memory, and a process has few mappings
constexpr size_t kLayoutVariants = 4;                         // elsewhere what is made after these takes strided tensors of any layout

template <class T>
void put(std::string& key, const T& v) {
  key.append(reinterpret_cast<const char*>(&v), sizeof v);
}

// While the parts of an operation run, errors are the whole's: it says where it was called.
thread_local bool parts_running = false;
struct PartsScope {
  PartsScope() { parts_running = true; }
  ~PartsScope() { parts_running = before; }
  PartsScope(const PartsScope&) = delete;
  bool before = parts_running;
};

// Everything of the arguments that the code of an operation depends on, but for sizes of tensors.
std::string family_key(const ops::Op& op, const CallArgs& args, const Device& device, std::vector<const Tensor*>& tensors) {
  std::string key;
  key.reserve(96);
  put(key, &op);
  put(key, process_key_number());  // set_options() knows where it is
  put(key, device.type);
  put(key, device.index);
  auto tensor = [&](const Tensor& t) {
    if (!t.defined()) {
      key += '-';
      return;
    }
    key += 'T';
    put(key, t.dtype());
    put(key, static_cast<uint8_t>(t.sizes().size()));
    tensors.push_back(&t);
  };
  auto number = [&](const Expr& e) { put(key, e.constant()); };
  for (auto& a : args) {
    key += static_cast<char>('a' + a.index());
    std::visit(
        [&](const auto& v) {
          using V = std::decay_t<decltype(v)>;
          if constexpr (std::is_same_v<V, Tensor>)
            tensor(v);
          else if constexpr (std::is_same_v<V, Expr>)
            number(v);
          else if constexpr (std::is_same_v<V, std::monostate>)
            key += '0';
          else if constexpr (std::is_same_v<V, std::string> || std::is_same_v<V, std::vector<bool>>) {
            put(key, v.size());
            for (auto c : v) key += static_cast<char>(c);
          } else if constexpr (std::is_same_v<V, std::vector<Tensor>> || std::is_same_v<V, std::vector<Expr>> ||
                               std::is_same_v<V, std::vector<double>>) {
            put(key, v.size());
            for (auto& x : v) {
              if constexpr (std::is_same_v<V, std::vector<Tensor>>)
                tensor(x);
              else if constexpr (std::is_same_v<V, std::vector<Expr>>)
                number(x);
              else
                put(key, x);
            }
          } else {
            put(key, v);
          }
        },
        a);
  }
  return key;
}

// Puts the number of these options into a family's key.
void set_options(std::string& key, const CompileOptions& options) {
  const uint64_t number = number_of_key(options);
  key.replace(sizeof(const ops::Op*), sizeof number, reinterpret_cast<const char*>(&number), sizeof number);
}

// A number given for a tensor becomes a 0-d tensor, so that x * 0.1 and x * 0.2 are one program. It has the same part in type promotion.
Tensor number_tensor(const Arg<Tensor>& a, bool wide) {
  if (auto* d = std::get_if<double>(&a)) return Tensor::full({}, *d, wide ? DType::F64 : DType::F32);
  if (auto* b = std::get_if<bool>(&a)) return Tensor::full({}, *b, DType::Bool);
  Tensor t = Tensor::empty({}, DType::I64);
  *t.data<int64_t>() = std::get<Expr>(a).constant();
  return t;
}

void wrap_numbers(const ops::Op& op, CallArgs& args) {
  if (!op.formula) return;
  bool wide = false;
  for (auto& a : args)
    if (auto* t = std::get_if<Tensor>(&a)) wide = wide || t->dtype() == DType::F64 || t->dtype() == DType::C128;
  for (size_t i = 0; i < args.size(); ++i) {
    const Arg<Tensor>& a = args[i];
    bool number = std::holds_alternative<double>(a) || std::holds_alternative<bool>(a) || std::holds_alternative<Expr>(a);
    if (number && op.schema.params[i].type == ops::ParamType::Tensor) args[i] = number_tensor(a, wide);
  }
}

bool has_complex(std::span<const Tensor* const> tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [](const Tensor* t) { return is_complex(t->dtype()); });
}

// Whether filling a new tensor is enough work for a GPU to be worth a compile; else the host does it, and the result is copied.
bool is_large(const ops::Op& op, const CallArgs& args) {
  constexpr int64_t kElements = 1 << 18;
  const int size = op.schema.find("size");
  auto* list = size < 0 ? nullptr : std::get_if<std::vector<Expr>>(&args[static_cast<size_t>(size)]);
  int64_t n = 1;
  for (size_t i = 0; list && i < list->size(); ++i) n *= (*list)[i].constant();
  return list && n >= kElements;
}

// Operations that write more than their first argument, and those of users: what they are made of is called by itself. So it is with
// random numbers and training statistics, which no program of one operation draws or writes, and with results that share memory with
// arguments, as a program's are new.
bool runs_as_parts(const ops::Op& op) {
  if (ops::is_opaque(op)) return false;
  if (ops::is_custom(op) || op.may_alias || (graph::is_mutating(op) && !op.inplace_of)) return true;
  const bool statistics = op.schema.find("training") >= 0 && op.schema.find("running_mean") >= 0;
  return op.decompose && (op.random || statistics);
}

}  // namespace

EagerDispatcher& EagerDispatcher::instance() {
  static EagerDispatcher& d = *new EagerDispatcher;  // never destroyed: threads may outlive main
  return d;
}

bool EagerDispatcher::decide(const sym::Relation& r) {
  auto k = sym::known(r);
  TOROID_CHECK(k, "undecided relation {} among ordinary sizes", sym::to_string(r));
  return *k;
}
int64_t EagerDispatcher::specialize(const Expr& e) { return e.constant(); }
void EagerDispatcher::read(const Tensor&, std::string_view what, const std::source_location& where) {
  fail<UserError>("{}:{}: {} of a tensor of a traced function after its trace has ended", where.file_name(), where.line(), what);
}

std::vector<Tensor> EagerDispatcher::reference(const ops::Op& op, CallArgs args, const Device& device, const std::source_location& where) {
  reference_.fetch_add(1, std::memory_order_relaxed);
  device::refuse_in_capture(Device::cpu(), op.name + ", which runs by the reference evaluator,");
  DispatchScope scope(*this);
  const std::string line = ops::place_text(where);
  const OperationPlace place(line);
  auto results = ops::evaluate(op, std::move(args));
  for (auto& t : results) t = moved(t, device);
  return results;
}

std::vector<Tensor> EagerDispatcher::parts(const ops::Op& op, const CallArgs& args, const Device& device) {
  DispatchScope scope(*this);
  DeviceScope there(device);
  ops::NoAutocast chosen;
  const PartsScope errors_are_the_callers;
  return op.decompose(ops::CallReader(op, args));
}

std::vector<Tensor> EagerDispatcher::call(const ops::Op& op, CallArgs args, const std::source_location& where) {
  if (graph::is_control_flow(op)) return run_control_flow(op, args, graph::regions_of_call(op), {});
  if (EagerRegion* region = EagerRegion::current()) return region->call(op, args, where, [&] { return call(op, args, where); });
  const bool taped = autograd::touches_tape(args);
  const auto call = [&] {
    if (ops::writes_arguments(op) && !graph::writes_one_value(op))
      graph::for_each_written(op, args, [&](const Tensor& t) {
        const bool overlap = t.defined() && !is_proxy(t) && graph::elements_overlap(t.sizes(), t.strides());
        if (overlap) fail<UserError>(graph::kOverlapError, ops::plain_name(op));
      });
    return taped ? call_taped(op, std::move(args), where) : call_part(op, std::move(args), where);
  };
  if (parts_running) return call();
  return ops::checked_call(op, where, call);
}

std::vector<Tensor> EagerDispatcher::call_taped(const ops::Op& op, CallArgs args, const std::source_location& where) {
  const auto forward = [&](CallArgs given) { return call_part(op, std::move(given), where); };
  if (!runs_as_parts(op) || autograd::has_custom_gradient(op) || !grad_mode)
    return autograd::remembered(op, std::move(args), where, forward);
  const std::string line = ops::place_text(where);
  const ops::PlaceScope parts_are_called_there(line);
  return forward(std::move(args));
}

std::vector<Tensor> EagerDispatcher::call_part(const ops::Op& op, CallArgs args, const std::source_location& where) {
  for (auto& a : args)
    map_arg<Tensor>(a, [&](const Tensor& t) {
      TOROID_USER_CHECK(!is_proxy(t), "{}: a tensor of a trace is used outside of the function that is traced", op.name);
      return t;
    });
  if (graph::is_alias_view(op)) {
    auto views = ops::strided_view(op, args);
    if (op.name == "detach") autograd::cut_history(views[0]);  // also of memory that may have a history later
    return views;
  }
  const Device device = ops::device_of(op, args);
  args = ops::autocast_args(op, std::move(args), device, where);
  if (ops::is_custom(op)) return parts(op, args, device);
  if (ops::is_opaque(op)) return opaque(op, std::move(args), device, where);
  if (!graph::is_mutating(op)) return functional(op, std::move(args), device, where);
  if (!op.inplace_of) {  // writes more than its first argument: its parts say what
    TOROID_USER_CHECK(op.decompose, "{} writes in place and has no eager form", op.name);
    return parts(op, args, device);
  }
  Tensor self = std::get<Tensor>(args.at(0));
  Tensor result = functional(*op.inplace_of, std::move(args), device, where).at(0);
  if (result.sizes() != self.sizes()) {
    const std::vector<Expr> sizes(self.sizes().begin(), self.sizes().end());
    ops::check_fits(op, std::vector<Expr>(result.sizes().begin(), result.sizes().end()), sizes);
    result = ops::call1("expand", {result, sizes});
  }
  copy_elements(result, self);
  self.impl()->storage->writes.note();
  return {self};
}

std::vector<Tensor> EagerDispatcher::functional(const ops::Op& op, CallArgs args, const Device& device, const std::source_location& where) {
  if (op.decompose && runs_as_parts(op)) return parts(op, args, device);
  {
    const device::CaptureSuspension not_captured;  // a graph keeps numbers as they are now
    wrap_numbers(op, args);
    if (device.is_cuda()) bring(args, device);
  }
  std::vector<const Tensor*> tensors;
  FamilyKey key = family_key(op, args, device, tensors);
  const bool fills = (tensors.empty() || op.random) && !(device.is_cuda() && is_large(op, args));
  const bool by_host = op.effect && !(device.is_cuda() && ops::has_cuda_kernel(op));
  if (fills || by_host || op.collective || has_complex(tensors)) return reference(op, std::move(args), device, where);
  auto variant = find(key, tensors);
  if (!variant) {
    const CompileOptions options = CompileOptions::of_process();  // this is the door
    set_options(key, options);
    variant = make(op, key, args, tensors, device, options, where);
  }
  if (!variant) return reference(op, std::move(args), device, where);
  std::vector<Tensor> inputs;
  for (auto* t : tensors) inputs.push_back(*t);
  return variant->program(inputs);
}

// What is read is brought together by one program; what is written to is seen as the row of memory that it spans, into which another
// program puts the elements.
bool EagerDispatcher::copy(const Tensor& from, const Tensor& to) {
  const Device device = to.device();
  const auto where = std::source_location::current();
  Tensor dense = from;
  if (from.dtype() != to.dtype() || !from.is_contiguous())
    dense = functional(ops::get("_to_copy"), ops::complete(ops::get("_to_copy"), {from, to.dtype()}), device, where).at(0);
  if (to.is_contiguous()) {
    copy_elements(dense, to);
    return true;
  }
  int64_t extent = 1;
  for (size_t d = 0; d < to.strides().size(); ++d) {
    if (to.strides()[d] <= 0 && to.sizes()[d] > 1) return false;
    extent += (to.sizes()[d] - 1) * to.strides()[d];
  }
  if (to.numel() == 0) return true;
  Tensor row = seen_as(to, std::vector<int64_t>{extent}, std::vector<int64_t>{1});
  auto exprs = [](const std::vector<int64_t>& v) { return std::vector<Expr>(v.begin(), v.end()); };
  const ops::Op& scatter = ops::get("as_strided_scatter");
  copy_elements(functional(scatter, ops::complete(scatter, {row, dense, exprs(to.sizes()), exprs(to.strides())}), device, where).at(0),
                row);
  return true;
}

std::shared_ptr<const EagerDispatcher::Variant> EagerDispatcher::find(const FamilyKey& key, std::span<const Tensor* const> tensors) const {
  std::shared_lock lock(mutex_);
  auto it = families_.find(key);
  if (it == families_.end()) return nullptr;
  for (size_t i = it->second.variants.size(); i-- > 0;)
    if (it->second.variants[i]->guards.hold(tensors)) return it->second.variants[i];
  return nullptr;
}

// A thread's turn to make a program of a family. Other families' are made meanwhile, and no lock is held, as what is logged goes to code of
// the user's. Where that calls operations, it waits for nobody: who has the turn may be waiting for it.
class EagerDispatcher::Turn {
 public:
  Turn(EagerDispatcher& d, const FamilyKey& key) : d_(d) {
    std::unique_lock lock(d.turns_mutex_);
    d.turn_ended_.wait(lock, [&] { return compiles_here > 0 || !d.making_.count(key); });
    mine_ = d.making_.insert(key);
    compiling_.emplace();
  }
  ~Turn() {
    std::lock_guard lock(d_.turns_mutex_);
    d_.making_.erase(mine_);
    d_.turn_ended_.notify_all();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  EagerDispatcher& d_;
  std::optional<CompileScope> compiling_;
  std::multiset<FamilyKey>::iterator mine_;
};

// Null when the operation is to run by the reference evaluator.
std::shared_ptr<const EagerDispatcher::Variant> EagerDispatcher::make(const ops::Op& op, const FamilyKey& key, const CallArgs& args,
                                                                      std::span<const Tensor* const> tensors, const Device& device,
                                                                      const CompileOptions& options, const std::source_location& where) {
  const Turn one_at_a_time(*this, key);
  if (auto made = find(key, tensors)) return made;
  Open open;
  Backend backend;
  size_t dropped = 0;
  {
    std::unique_lock lock(mutex_);
    if (kept_ >= kMaxPrograms) {
      dropped = kept_;
      drop_programs();
    }
    Family& f = family(op, key);
    if (f.refused || std::chrono::steady_clock::now() < f.not_before) return nullptr;
    open = f.see(tensors, device);
    if (!backend_) backend_ = find_backend("compiled");
    backend = backend_;
  }
  if (dropped) log(Artifact::Perf, fmt::format("{} programs of eager operations are dropped to make room", dropped));
  const auto compiled = [&](Traced traced) {
    auto v = std::make_shared<Variant>();
    v->guards = Guards(*traced.graph, tensors, traced.positions, traced.names, false);
    v->guards.ignore_requires_grad();
    for (size_t i = 0; i < tensors.size(); ++i)
      if (traced.any_layout[i]) v->guards.open_layout(i);
    v->program = backend(std::move(traced.graph), {.options = options, .device = device, .eager = true});
    compiles_.fetch_add(1);
    return v;
  };
  const auto keep = [&](std::shared_ptr<const Variant> v) {
    std::unique_lock lock(mutex_);
    auto found = families_.find(key);
    if (found == families_.end()) return v;  // a reset dropped it meanwhile
    auto& variants = found->second.variants;
    if (variants.size() >= (device.is_cuda() ? kMaxVariantsOnGpus : kMaxVariants)) variants.erase(variants.begin()), --kept_;
    variants.push_back(v);
    ++kept_;
    if (std::exchange(found->second.pause_ms, 0) > 0) fallbacks_.erase({&op, device.type});
    return v;
  };
  std::string closed;  // why sizes cannot be open
  if (open.any_size()) {
    try {
      return keep(compiled(trace(op, args, open, device, where)));
    } catch (const EnvironmentError& e) {
      try_later(op, key, device, e);
      return nullptr;
    } catch (const Error& e) {
      if (dynamic_cast<const InternalError*>(&e)) {  // a fault, which counts() names
        std::unique_lock lock(mutex_);
        fallbacks_[{&op, device.type}] = fmt::format("with open sizes: {}", e.what());
      }
      closed = e.what();
      open.sizes.clear();
    }
  }
  Traced traced = trace(op, args, open, device, where);  // errors of the caller (sizes that do not fit) leave from here
  if (!closed.empty()) {
    log(Artifact::Perf, fmt::format("{} is compiled for each size by itself: {}", op.name, closed));
    std::unique_lock lock(mutex_);
    family(op, key).fixed = true;
  }
  try {
    return keep(compiled(std::move(traced)));
  } catch (const EnvironmentError& e) {
    try_later(op, key, device, e);
    return nullptr;
  } catch (const Error& e) {
    log(Artifact::Perf, fmt::format("{} runs by the reference evaluator: {}", op.name, e.what()));
    std::unique_lock lock(mutex_);
    family(op, key).refused = true;
    fallbacks_[{&op, device.type}] = e.what();
    return nullptr;
  }
}

// What the machine refuses now it may do later, so that nothing is remembered of the operation but when to try again: after a tenth of a
// second, then twice as long each time, up to a minute.
void EagerDispatcher::try_later(const ops::Op& op, const FamilyKey& key, const Device& device, const EnvironmentError& e) {
  constexpr int64_t kFirst = 100, kLongest = 60'000;
  log(Artifact::Perf, fmt::format("{} runs by the reference evaluator for now: {}", op.name, e.what()));
  std::unique_lock lock(mutex_);
  Family& f = family(op, key);
  f.pause_ms = std::clamp(2 * f.pause_ms, kFirst, kLongest);
  f.not_before = std::chrono::steady_clock::now() + std::chrono::milliseconds(f.pause_ms);
  fallbacks_[{&op, device.type}] = fmt::format("for now: {}", e.what());
}

// With mutex_ held. An operation whose attributes are ever new makes room for itself, at nobody else's cost.
EagerDispatcher::Family& EagerDispatcher::family(const ops::Op& op, const FamilyKey& key) {
  if (auto found = families_.find(key); found != families_.end()) return found->second;
  if (size_t& n = family_counts_[&op]; ++n > kMaxFamilies) {
    const FamilyKey its = key.substr(0, sizeof(&op));  // keys begin with the operation
    std::erase_if(families_, [&](auto& f) {
      if (!f.first.starts_with(its)) return false;
      kept_ -= f.second.variants.size();
      return true;
    });
    n = 1;
  }
  return families_[key];
}

// Notes the tensors' sizes and layouts.
EagerDispatcher::Open EagerDispatcher::Family::see(std::span<const Tensor* const> tensors, const Device& device) {
  sizes.resize(tensors.size());
  seen.sizes.resize(tensors.size());
  seen.strides.resize(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto& now = tensors[i]->sizes();
    seen.sizes[i].resize(now.size());
    for (size_t d = 0; d < now.size(); ++d)
      if (!fixed && !variants.empty() && sizes[i][d] != now[d]) seen.sizes[i][d] = true;
    sizes[i] = now;
    if (!tensors[i]->is_contiguous()) seen.strides[i] = true;
  }
  Open open = seen;
  if (fixed) open.sizes.clear();
  if (device.is_cuda() || variants.size() < kLayoutVariants) open.strides.clear();
  return open;
}

bool EagerDispatcher::Open::any_size() const {
  return std::any_of(sizes.begin(), sizes.end(), [](auto& s) { return std::find(s.begin(), s.end(), true) != s.end(); });
}

// The graph of one call.
EagerDispatcher::Traced EagerDispatcher::trace(const ops::Op& op, const CallArgs& args, const Open& open, const Device& device,
                                               const std::source_location& where) {
  Traced out;
  out.graph = std::make_unique<graph::Graph>();
  graph::Graph& g = *out.graph;
  g.name = op.name;
  graph::Recorder recorder(g);
  trace::Origins origins;
  size_t next = 0;
  CallArgs stand_ins;
  for (auto& a : args)
    stand_ins.push_back(map_arg<Tensor>(a, [&](const Tensor& t) -> Tensor {
      if (!t.defined()) return t;
      TensorType type{t.dtype(), {}, {}};
      bool symbolic = false;
      // With open sizes, programs want dense tensors; on a GPU the copy that makes them dense is a program itself.
      const bool fixed = device.is_cuda() && !t.is_contiguous();
      for (size_t d = 0; d < t.sizes().size(); ++d) {
        int64_t size = t.sizes()[d];
        if (!open.sizes.empty() && open.sizes[next][d] && size > 1 && !fixed) {
          Expr s = g.new_symbol("s", 2, sym::kInf - 1, false);
          recorder.set_hint(s.node()->name, size);
          origins[s.node()->name].hint = size;
          type.sizes.push_back(s);
          symbolic = true;
        } else {
          type.sizes.push_back(size);
        }
      }
      const bool any_layout = symbolic || (!open.strides.empty() && open.strides[next]);
      if (!any_layout && !t.is_contiguous()) type.strides.assign(t.strides().begin(), t.strides().end());
      out.any_layout.push_back(any_layout);
      out.positions.push_back(static_cast<int>(next));
      out.names.push_back(fmt::format("tensor {} of {}", next, op.name));
      ++next;
      return recorder.proxy(g.add_input(std::move(type), graph::InputKind::User, "x"));
    }));
  for (auto& r : recorder.call(op, std::move(stand_ins), where)) g.outputs.push_back({static_cast<graph::Value*>(r.impl()->proxy), {}, -1});
  trace::settle_guards(g, origins, {});  // sizes that the operation needs as numbers (attention's scale) are no symbols
  return out;
}

EagerDispatcher::Counts EagerDispatcher::counts() const {
  Counts c;
  c.compiles = compiles_;
  c.reference = reference_;
  std::shared_lock lock(mutex_);
  for (auto& [key, why] : fallbacks_) c.fallbacks[key.first->name + (key.second == DeviceType::Cuda ? " on cuda" : "")] = why;
  return c;
}

void EagerDispatcher::reset() {
  std::unique_lock lock(mutex_);
  drop_programs();
  fallbacks_.clear();
}

// With mutex_ held.
void EagerDispatcher::drop_programs() {
  families_.clear();
  family_counts_.clear();
  kept_ = 0;
}

void EagerDispatcher::set_backend(Backend backend) {
  reset();
  std::unique_lock lock(mutex_);
  backend_ = std::move(backend);
}

std::vector<Tensor> run_one_by_one(const graph::Graph& g, std::span<const Tensor> user_inputs) {
  graph::BoundSymbols symbols = graph::bind_inputs(g, user_inputs);
  std::vector<Tensor> inputs;
  size_t next = 0;
  for (auto& in : g.inputs) inputs.push_back(in.kind == graph::InputKind::User ? user_inputs[next++] : in.data);
  return run_nodes(g, std::move(inputs), symbols);
}

}  // namespace front

namespace detail {
bool install_eager() {
  install_eager_dispatcher(&front::EagerDispatcher::instance());
  install_recorded_members(&front::members_of_tensor());
  ops::install_vector_jacobian([](const std::function<std::vector<Tensor>()>& fn, std::span<const Tensor> by,
                                  std::span<const Tensor> cotangents) { return vjp(fn, by, cotangents).second; });
  return true;
}
}  // namespace detail

}  // namespace toroid
