#include "trace/tracer.h"

#include <algorithm>

#include "base/check.h"
#include "graph/decided_views.h"
#include "graph/stand_in.h"
#include "graph/writes.h"
#include "ops/autocast.h"
#include "ops/call_errors.h"
#include "ops/custom.h"
#include "ops/strided_view.h"
#include "tensor/grad_state.h"

namespace toroid::trace {
namespace {

thread_local Tracer* innermost = nullptr;

// Makes the handle stand for what `real` stands for.
void become(TensorImpl& t, const TensorImpl& real) {
  t.proxy = nullptr;
  t.sym_sizes.clear();
  t.dtype = real.dtype;
  t.sizes = real.sizes;
  t.strides = real.strides;
  t.offset = real.offset;
  t.storage = real.storage;
  t.grad = real.grad;
  t.requires_grad = false;
}

}  // namespace

Tracer* Tracer::current() { return innermost; }

Tracer::Scope::Scope(Tracer* t)
    : before_(innermost), dispatch_(t ? std::make_unique<DispatchScope>(*t) : nullptr), reads_(t ? &t->reads_ : nullptr), elements_(t) {
  innermost = t;
}
Tracer::Scope::~Scope() { innermost = before_; }

Tracer::Tracer(std::string name, SegmentRunner on_break) : name_(std::move(name)), on_break_(std::move(on_break)) { start_segment(); }

Tracer::~Tracer() {
  for (auto& [weak, value] : issued_)
    if (auto t = weak.lock(); t && t->proxy) graph::retire(*t);
}

void Tracer::start_segment() {
  lifted_.clear();
  lifted_by_impl_.clear();
  lifted_by_storage_.clear();
  issued_.clear();
  guard_places_.clear();
  written_.clear();
  device_ = {};
  arguments_ = 0;
  recorder_.reset();
  graph_ = std::make_unique<graph::Graph>();
  graph_->name = name_;
  recorder_ = std::make_unique<graph::Recorder>(*graph_);
}

Expr Tracer::new_size(int64_t size, const SizePolicy& policy, const std::string& what) {
  if (!policy.dynamic || size < std::min<int64_t>(policy.min, 2)) {
    TOROID_USER_CHECK(
        !policy.marked,
        "the {} was marked dynamic from {} on, but it is {}; sizes 0 and 1 get code of their own, unless mark_dynamic says so: "
        "mark it from {} on, or give another size first",
        what, policy.min, size, size);
    return size;
  }
  TOROID_USER_CHECK(!policy.marked || (size >= policy.min && size <= policy.max), "the {} was marked dynamic from {} to {}, but it is {}",
                    what, policy.min, policy.max, size);
  Expr s = graph_->new_symbol(broken() ? fmt::format("s{}_", segments_) : "s", policy.min, policy.max, false);
  const std::string& name = s.node()->name;
  origins_[name] = {size, policy, what};
  recorder_->set_hint(name, size);
  return s;
}

Tensor Tracer::stand_in(const Tensor& original, TensorType type, graph::InputKind kind, const std::string& name) {
  // Data of parameters and buffers is bound to the graph; user inputs come with each call.
  Tensor data = kind == graph::InputKind::User ? Tensor() : original;
  graph::Value* v = graph_->add_input(std::move(type), kind, name, data);
  Tensor t = recorder_->proxy(v);
  t.impl()->requires_grad = original.requires_grad();
  t.impl()->device = original.device();
  lifted_by_impl_[original.impl()] = lifted_.size();
  lifted_by_impl_[t.impl()] = lifted_.size();
  lifted_by_storage_[original.impl()->storage.get()].push_back(lifted_.size());
  lifted_.push_back({original, t});
  issued_.emplace_back(t.shared_impl(), v);
  return t;
}

Tensor Tracer::argument(const Tensor& t, const std::string& what, const std::vector<SizePolicy>& sizes) {
  if (!t.defined()) return t;
  if (auto it = lifted_by_impl_.find(t.impl()); it != lifted_by_impl_.end()) return lifted_[it->second].stand_in;
  TensorType type{t.dtype(), {}, {}};
  bool symbolic = false;
  for (size_t d = 0; d < t.sizes().size(); ++d) {
    SizePolicy policy = d < sizes.size() ? sizes[d] : SizePolicy{};
    type.sizes.push_back(new_size(t.sizes()[d], policy, fmt::format("size of dimension {} of {}", d, what)));
    symbolic = symbolic || !type.sizes.back().is_const();
  }
  // Strides of tensors with symbolic sizes are left open: the executable brings them to row-major order.
  if (!symbolic && !t.is_contiguous()) type.strides.assign(t.strides().begin(), t.strides().end());
  ++arguments_;
  return stand_in(t, std::move(type), graph::InputKind::User, "arg");
}

// A tensor from outside of the trace: a capture, or what an earlier segment made.
Tensor Tracer::lift(const Tensor& t) {
  // Not the stand-in of an argument which happens to be that tensor: the next call may have another argument.
  if (auto it = lifted_by_impl_.find(t.impl()); it != lifted_by_impl_.end() && it->second >= arguments_)
    return lifted_[it->second].stand_in;
  for (const size_t i : lifted_by_storage_[t.impl()->storage.get()]) {  // another handle to the same elements
    if (i < arguments_) continue;
    const Lifted& l = lifted_[i];
    const TensorImpl &a = *l.original.impl(), &b = *t.impl();
    if (a.storage == b.storage && a.offset == b.offset && a.sizes == b.sizes && a.strides == b.strides && a.dtype == b.dtype)
      return l.stand_in;
  }
  TensorType type{t.dtype(), {}, {}};
  auto made = sizes_of_real_.find(t.impl());
  bool known = made != sizes_of_real_.end() && made->second.first.lock().get() == t.impl();
  bool symbolic = false;
  for (size_t d = 0; d < t.sizes().size(); ++d) {
    Expr size = t.sizes()[d];
    if (known && !made->second.second[d].is_const()) {
      const Expr& e = made->second.second[d];
      const auto origin = origins_.find(e.kind() == sym::Kind::Symbol ? e.node()->name : std::string());
      if (origin != origins_.end() && origin->second.hint == t.sizes()[d]) {
        size = e;
        if (!graph_->find_symbol(origin->first)) graph_->symbols.push_back({e, false});
        recorder_->set_hint(origin->first, t.sizes()[d]);
      } else {
        size = new_size(t.sizes()[d], {.dynamic = true}, fmt::format("size of dimension {} of a tensor made before a graph break", d));
      }
    }
    symbolic = symbolic || !size.is_const();
    type.sizes.push_back(size);
  }
  if (!symbolic && !t.is_contiguous()) type.strides.assign(t.strides().begin(), t.strides().end());
  // After a break everything comes with the call: the function runs each time anyway.
  auto kind = broken() ? graph::InputKind::User : t.requires_grad() ? graph::InputKind::Parameter : graph::InputKind::Buffer;
  return stand_in(t, std::move(type), kind, broken() ? "in" : t.requires_grad() ? "parameter" : "captured");
}

Tensor Tracer::on_graph(const Tensor& t) {
  if (!t.defined()) return t;
  if (is_proxy(t)) return t;
  return lift(t);
}

// As the graph takes it in.
std::vector<Expr> Tracer::sizes_outside(const Tensor& t) {
  const WatchedReads::Scope own_copies(nullptr);
  return static_cast<const graph::Value*>(on_graph(t).impl()->proxy)->type.sizes;
}

Tensor Tracer::behind(const Tensor& t) {
  const auto found = lifted_by_impl_.find(t.impl());
  return found != lifted_by_impl_.end() && found->second < arguments_ ? lifted_[found->second].original : t;
}

std::optional<int64_t> Tracer::usual_size(const std::string& symbol) {
  const auto found = origins_.find(symbol);
  return found == origins_.end() ? std::nullopt : std::optional(found->second.hint);
}

int64_t Tracer::hint_of(const Expr& e) const {
  return sym::evaluate(e, [&](const sym::Node& s) {
    auto it = origins_.find(s.name);
    TOROID_USER_CHECK(it != origins_.end(), "{}: the size {} is known only when the program has run", last_place_, s.name);
    return it->second.hint;
  });
}

// Symbols of earlier segments that no input of this one carries become numbers.
Expr Tracer::usable(const Expr& e) const {
  if (e.is_const() || !broken()) return e;
  return sym::substitute(e, [&](const sym::Node& s) -> std::optional<Expr> {
    if (graph_->find_symbol(s.name)) return std::nullopt;
    return Expr(origins_.count(s.name) ? origins_.at(s.name).hint : s.lo);
  });
}

void Tracer::note_guards(const std::string& place) { guard_places_.resize(graph_->guards.size(), place); }

// What an error leaves behind has a place, too.
void Tracer::noting_guards(const std::string& place, const std::function<void()>& record) {
  try {
    record();
  } catch (...) {
    note_guards(place);
    throw;
  }
  note_guards(place);
}

// A segment runs on one device: what it reads from the CPU is copied to its GPU.
void Tracer::runs_on(const Device& device) {
  if (!device.is_cuda() || device == device_) return;
  if (device_.is_cuda()) break_graph(fmt::format("{} follows {} in one function", to_string(device), to_string(device_)));
  device_ = device;
}

Tensor Tracer::move(const Tensor& t, const Device& device, const std::source_location& where) {
  const WatchedReads::Scope own_copies(nullptr);
  last_place_ = fmt::format("to({}) ({})", to_string(device), ops::place_text(where));
  runs_on(t.device());
  runs_on(device);
  Tensor r = recorder_->call(ops::get("clone"), {on_graph(t), std::monostate{}}, where).at(0);
  if (loses_history(r)) r = recorder_->call(ops::get("detach"), {r}, where).at(0);
  r.impl()->device = device;
  issued_.emplace_back(r.shared_impl(), static_cast<graph::Value*>(r.impl()->proxy));
  return r;
}

std::vector<Tensor> Tracer::call(const ops::Op& op, CallArgs args, const std::source_location& where) {
  const WatchedReads::Scope own_copies(nullptr);  // what the function itself reads was noted when it made the arguments
  const Device device = ops::device_of(op, args);
  args = ops::autocast_args(op, std::move(args), device, where);
  last_place_ = fmt::format("{} ({})", op.name, ops::place_text(where));
  runs_on(device);
  Tensor self;  // what an in-place operation writes to, as the caller holds it
  if (!ops::is_registered(op) && graph::is_mutating(op)) self = std::get<Tensor>(args.at(0));
  for (auto& a : args) {
    a = map_arg<Tensor>(a, [&](const Tensor& t) { return on_graph(t); });
    if (auto* e = std::get_if<Expr>(&a)) *e = usable(*e);
    if (auto* list = std::get_if<std::vector<Expr>>(&a))
      for (auto& e : *list) e = usable(e);
  }
  std::vector<Tensor> results;
  noting_guards(last_place_, [&] {
    results = ops::checked_call(op, where, [&] {
      const bool writes_aside = !grad_mode && ops::writes_arguments(op);  // a NoGrad within the function
      const auto detach = [&](const Tensor& t) { return recorder_->call(ops::get("detach"), {t}, where).at(0); };
      try {
        return recorder_->call(op, writes_aside ? graph::without_history(args, detach) : args, where);
      } catch (const UserError& e) {
        const std::string said = ops::is_custom(op) ? "" : with_sizes(e.what(), origins_);
        if (said.empty()) throw;
        fail<UserError>("{}", said);
      }
    });
  });
  ++operations_;
  graph::for_each_written(op, args, [&](const Tensor& t) { note_written(t); });
  if (!graph::is_mutating(op))
    for (auto& r : results)
      if (loses_history(r)) r = recorder_->call(ops::get("detach"), {r}, where).at(0);
  for (auto& r : results) r.impl()->device = device;
  for (auto& r : results)
    if (is_proxy(r)) issued_.emplace_back(r.shared_impl(), static_cast<graph::Value*>(r.impl()->proxy));
  if (self.defined() && !results.empty()) results[0] = self;
  return results;
}

bool Tracer::decide(const sym::Relation& given) {
  sym::Relation r{given.rel, usable(given.a), usable(given.b)};
  bool truth = recorder_->decide(r);
  note_guards(last_place_.empty() ? "a comparison of sizes at the start of the function" : "a comparison of sizes after " + last_place_);
  return truth;
}

void Tracer::require(const sym::Relation& r, const std::string& error) {
  noting_guards(last_place_, [&] { recorder_->require({r.rel, usable(r.a), usable(r.b)}, error); });
}

int64_t Tracer::specialize(const Expr& given) {
  Expr e = usable(given);
  if (auto c = e.maybe_constant()) return *c;
  bool unbacked = false;
  sym::for_each_symbol(e, [&](const Expr& s) { unbacked = unbacked || !origins_.count(s.node()->name); });
  TOROID_USER_CHECK(
      !unbacked,
      "after {}: the size {} depends on data, and the function needs it as a number. Use it as a SymInt, or read it outside of compile()",
      last_place_, sym::to_string(e));
  int64_t v = recorder_->specialize(e);
  note_guards(last_place_.empty() ? "the use of a size as a plain number at the start of the function"
                                  : "the use of a size as a plain number after " + last_place_);
  return v;
}

void Tracer::read(const Tensor&, std::string_view what, const std::source_location& where) {
  const WatchedReads::Scope own_copies(nullptr);
  break_graph(fmt::format("{} at {}: the value of a tensor is read", what, ops::place_text(where)));
}

void Tracer::note_written(const Tensor& t) {
  if (!t.defined()) return;
  const graph::Value* memory = graph::memory_of(static_cast<graph::Value*>(t.impl()->proxy));
  for (size_t i = 0; i < lifted_.size(); ++i)
    if (graph_->inputs[i].value == memory) written_.insert(lifted_[i].original.impl()->storage.get());
}

void Tracer::read_elements(const Tensor& t, std::string_view what, const std::source_location& where) {
  if (!WatchedReads::are_noted() || !t.impl()->storage) return;  // by the trace itself
  const bool written = written_.count(t.impl()->storage.get()) > 0;
  const bool in_a_whole = dynamic_cast<graph::Recorder*>(innermost_dispatcher()) != nullptr;  // which cannot be divided
  TOROID_USER_CHECK(
      !written || !in_a_whole,
      "{}: {} of a tensor that the function \"{}\" has written, inside of a function that is recorded as a whole (one that is "
      "differentiated, or given to cond, while_loop, scan or map); its value is not known yet there. Read it before",
      ops::place_text(where), what, name_);
  if (!written) elements_.add(t);
  if (!written && (!breaks_at_reads_ || broken() || in_a_whole)) return;
  break_graph(fmt::format("{} at {}: the value of a captured tensor is read, which {}", what, ops::place_text(where),
                          written ? "the function has written" : "changes between calls"));
}

// Before the guards are settled: functionalization comes later, when nobody knows the sizes at hand.
void Tracer::decide_written_views() {
  graph::decide_written_views(*graph_, [&](const sym::Relation& r, const std::string& place) {
    sym::for_each_symbol(r.a - r.b, [&](const Expr& s) {
      TOROID_USER_CHECK(origins_.count(s.node()->name),
                        "{}: whether this is a view or a copy depends on the size {}, which data tells, and its memory is written later; "
                        "clone() the operand first, or write before",
                        place, s.node()->name);
    });
    const bool truth = recorder_->decide(r);
    note_guards(fmt::format("{}, whose memory is written later,", place));
    return truth;
  });
}

Segment Tracer::take_segment(std::string reason, std::vector<Device> output_devices) {
  decide_written_views();
  Segment s;
  s.output_devices = std::move(output_devices);
  for (size_t i = 0; i < lifted_.size(); ++i)
    if (graph_->inputs[i].kind == graph::InputKind::User) s.inputs.push_back(lifted_[i].original);
  s.arguments = arguments_;
  s.origins = origins_;
  s.guard_places = guard_places_;
  s.break_reason = std::move(reason);
  s.writes_inputs = !written_.empty();
  s.device = device_;
  for (auto& l : lifted_)
    if (!s.device.is_cuda() && graph_->nodes.empty()) s.device = l.original.device();
  recorder_.reset();
  s.graph = std::move(graph_);
  reads_.settle();
  s.reads = std::move(reads_);
  elements_.settle();
  s.elements = std::move(elements_);
  return s;
}

void Tracer::break_graph(const std::string& reason) {
  const WatchedReads::Scope own_copies(nullptr);
  TOROID_USER_CHECK(
      on_break_,
      "fullgraph: the function \"{}\" cannot be captured as one graph: {}{}. Return the tensor and read it outside, use where() instead of "
      "branching on it, or compile without fullgraph",
      name_, reason, last_place_.empty() ? "" : " (after " + last_place_ + ")");
  // Views of other tensors are made again from those, so that they share memory afterwards.
  struct View {
    const ops::Op* op;
    CallArgs args;
    size_t result;
    graph::Value* base;
  };
  std::map<graph::Value*, View> views;
  std::map<graph::Value*, size_t> outputs;
  std::vector<Device> devices;  // of the outputs
  auto known = [&](const Expr& e) {
    bool all = true;
    sym::for_each_symbol(e, [&](const Expr& s) { all = all && origins_.count(s.node()->name); });
    return all;
  };
  auto view_of = [&](graph::Value* v) -> std::optional<View> {
    if (!v->producer || !graph::is_alias_view(*v->producer->op)) return std::nullopt;
    View view{v->producer->op, {}, v->result, std::get<graph::Value*>(v->producer->args[0])};
    for (auto& a : v->producer->args) {
      Arg<Tensor> c = map_arg<Tensor>(a, [](graph::Value*) { return Tensor(); });
      auto number = [&](Expr& e) {
        if (!known(e)) return false;
        e = hint_of(e);
        return true;
      };
      if (auto* e = std::get_if<Expr>(&c); e && !number(*e)) return std::nullopt;
      if (auto* list = std::get_if<std::vector<Expr>>(&c))
        for (auto& e : *list)
          if (!number(e)) return std::nullopt;
      view.args.push_back(std::move(c));
    }
    return view;
  };
  std::vector<std::pair<std::shared_ptr<TensorImpl>, graph::Value*>> live;
  for (auto& [weak, value] : issued_) {
    auto t = weak.lock();
    if (!t) continue;
    live.emplace_back(t, value);
    for (graph::Value* v = value; v->producer && !outputs.count(v) && !views.count(v);) {
      if (auto view = view_of(v)) {
        v = views.emplace(v, std::move(*view)).first->second.base;
      } else {
        size_t position = outputs.size();
        outputs[v] = position;
        devices.push_back(t->device);
        graph_->outputs.emplace_back();
      }
    }
  }
  for (auto& [v, position] : outputs) graph_->outputs[position].value = v;
  std::map<graph::Value*, Tensor> real;
  for (size_t i = 0; i < lifted_.size(); ++i) {
    graph::Input& in = graph_->inputs[i];
    real[in.value] = lifted_[i].original;
    in.kind = graph::InputKind::User;
    in.data = Tensor();
  }
  auto results = on_break_(take_segment(reason, std::move(devices)));
  for (auto& [v, position] : outputs) real[v] = results.at(position);
  std::function<const Tensor&(graph::Value*)> make = [&](graph::Value* v) -> const Tensor& {
    if (auto it = real.find(v); it != real.end()) return it->second;
    View& view = views.at(v);
    view.args[0] = make(view.base);
    const TensorImpl& base = *std::get<Tensor>(view.args[0]).impl();
    const auto made = is_taped(base) ? eager_dispatcher()->call(*view.op, view.args, std::source_location::current())
                                     : ops::strided_view(*view.op, view.args);
    return real[v] = made.at(view.result);
  };
  for (auto& [t, value] : live) {
    std::vector<Expr> sizes = std::move(t->sym_sizes);
    bool symbolic = std::any_of(sizes.begin(), sizes.end(), [&](const Expr& e) { return !e.is_const(); });
    if (symbolic) sizes_of_real_[t.get()] = {t, std::move(sizes)};
    become(*t, *make(value).impl());
  }
  ++segments_;
  start_segment();
}

// Tensors that the function has made, has written to, and leaves to nobody: each call begins with what they held when they were made. What
// somebody else has (a variable outside of the function, its own static ones) keeps what is written to it.
void Tracer::renew_own_tensors() {
  for (size_t i = arguments_; i < lifted_.size(); ++i) {
    const Tensor& original = lifted_[i].original;
    graph::Value* const made = graph_->inputs[i].value;
    constexpr long kOwn = 2;  // the handles of lifted_ and of the graph's input
    if (graph_->inputs[i].kind == graph::InputKind::User || !written_.count(original.impl()->storage.get())) continue;
    if (original.shared_impl().use_count() > kOwn || original.impl()->storage.use_count() > 1) continue;
    const Tensor copy = recorder_->call(ops::get("clone"), {lifted_[i].stand_in, std::monostate{}}, std::source_location::current()).at(0);
    auto* const fresh = static_cast<graph::Value*>(copy.impl()->proxy);
    const auto renew = [&](graph::Value*& v) { v = v == made ? fresh : v; };
    std::string& place = fresh->producer->where;  // that of the first who reads it
    place.clear();
    for (size_t n = 0; n + 1 < graph_->nodes.size(); ++n) {
      graph::Node& reader = *graph_->nodes[n];
      graph::for_each_operand(reader, [&](const graph::Value* v) { place = place.empty() && v == made ? reader.where : place; });
      for (graph::NodeArg& a : reader.args) {
        if (auto* v = std::get_if<graph::Value*>(&a)) renew(*v);
        if (auto* list = std::get_if<std::vector<graph::Value*>>(&a)) std::for_each(list->begin(), list->end(), renew);
      }
    }
    for (graph::Output& o : graph_->outputs) renew(o.value);
    std::rotate(graph_->nodes.begin(), graph_->nodes.end() - 1, graph_->nodes.end());
    written_.erase(original.impl()->storage.get());
  }
}

Segment Tracer::finish(std::vector<Tensor> results) {
  std::vector<Device> devices;
  for (auto& r : results) {
    graph::Output o;
    if (r.defined()) o.value = static_cast<graph::Value*>(on_graph(r).impl()->proxy);
    devices.push_back(r.defined() ? r.device() : Device::cpu());
    graph_->outputs.push_back(std::move(o));
  }
  results.clear();
  renew_own_tensors();
  for (auto& l : lifted_) l.stand_in = Tensor();
  for (auto& [weak, value] : issued_) {
    auto t = weak.lock();
    if (!t || !t->proxy) continue;
    std::string what =
        value->producer ? fmt::format("the result of {} ({})", value->producer->op->name, value->producer->where) : "an argument";
    for (auto& [other, v] : issued_)
      if (auto o = other.lock(); o && o->proxy) graph::retire(*o);
    fail<UserError>("the function \"{}\" keeps {} beyond its end, in a variable outside of it; return the tensor instead", name_, what);
  }
  return take_segment("", std::move(devices));
}

}  // namespace toroid::trace
