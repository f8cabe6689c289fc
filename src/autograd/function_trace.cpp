#include "autograd/function_trace.h"

#include <algorithm>

#include "autograd/differentiate.h"
#include "base/check.h"
#include "graph/known_sizes.h"
#include "graph/region_call.h"
#include "graph/stand_in.h"
#include "graph/writes.h"
#include "ops/autocast.h"
#include "ops/call_errors.h"
#include "ops/custom.h"
#include "tensor/checkpoint_scope.h"
#include "tensor/grad_state.h"

namespace toroid::autograd {
FunctionTrace::~FunctionTrace() {
  for (auto& t : kept_)
    if (t.shared_impl().use_count() > 1) graph::retire(*t.impl());
}

Tensor FunctionTrace::still_held() {
  lifted_.clear();
  const auto held = std::find_if(kept_.begin(), kept_.end(), [](auto& t) { return t.shared_impl().use_count() > 1; });
  return held == kept_.end() ? Tensor() : *held;
}

Tensor FunctionTrace::lift(const Tensor& t) {
  if (!t.defined() || made_.count(t.impl())) return t;
  Tensor& stand_in = lifted_[t.impl()];
  if (!stand_in.defined()) {
    TensorType type{t.dtype(), sizes_outside(t), {}};
    for (auto& e : type.sizes) declare_symbols(e);
    const bool closed = std::all_of(type.sizes.begin(), type.sizes.end(), [](auto& e) { return e.is_const(); });
    if (!is_proxy(t) && closed && !t.is_contiguous()) type.strides.assign(t.strides().begin(), t.strides().end());
    stand_in = keep(proxy(graph().add_input(type, graph::InputKind::User, "x")), t.device());
    originals_.push_back(t);
  }
  return stand_in;
}

std::vector<Expr> FunctionTrace::sizes_outside(const Tensor& t) {
  if (auto* around = dynamic_cast<Outside*>(&below_); around && !is_proxy(t)) return around->sizes_outside(t);
  std::vector<Expr> sizes;
  for (int64_t d = 0; d < t.dim(); ++d) sizes.push_back(t.size(d).expr());
  return sizes;
}

Tensor FunctionTrace::behind(const Tensor& t) {
  auto* around = dynamic_cast<Outside*>(&below_);
  return around ? around->behind(t) : t;
}

std::optional<int64_t> FunctionTrace::usual_size(const std::string& symbol) {
  auto* around = dynamic_cast<Outside*>(&below_);
  return around ? around->usual_size(symbol) : std::nullopt;
}

void FunctionTrace::note_call(const std::string& call) {
  last_call_ = call;
  if (auto* around = dynamic_cast<Outside*>(&below_)) around->note_call(call);
}

std::vector<Tensor> FunctionTrace::call(const ops::Op& op, CallArgs args, const std::source_location& where) {
  const Device device = ops::device_of(op, args);
  args = ops::autocast_args(op, std::move(args), device, where);
  runs_on(device, where);
  for (auto& a : args) {
    if (auto* size = std::get_if<Expr>(&a)) declare_symbols(*size);
    if (auto* sizes = std::get_if<std::vector<Expr>>(&a))
      for (auto& size : *sizes) declare_symbols(size);
    a = map_arg<Tensor>(a, [&](const Tensor& t) { return lift(t); });
  }
  graph::for_each_written(op, args, [&](const Tensor& t) { note_written(t); });
  const bool writes = graph::is_mutating(op);
  Tensor written;  // within a NoGrad: itself, and no view
  if (!grad_mode && ops::writes_arguments(op)) {
    if (op.inplace_of) written = std::get<Tensor>(args.at(0));
    args = graph::without_history(std::move(args), [&](const Tensor& t) { return Recorder::call(ops::get("detach"), {t}, where).at(0); });
  }
  const Calling calling(op, where, calling_);
  if (!has_elements()) note_call(fmt::format("{} ({})", op.name, ops::place_text(where)));
  auto results = ops::checked_call(op, where, [&] { return recorded(op, args, where); });
  if (written.defined()) return {written};
  for (auto& t : results) {
    if (!writes && loses_history(t)) t = Recorder::call(ops::get("detach"), {t}, where).at(0);
    keep(t, device);
  }
  return results;
}

Tensor FunctionTrace::move(const Tensor& t, const Device& device, const std::source_location& where) {
  runs_on(t.device(), where);
  runs_on(device, where);
  Tensor there = Recorder::call(ops::get("clone"), {lift(t), std::monostate{}}, where).at(0);
  if (loses_history(there)) there = Recorder::call(ops::get("detach"), {there}, where).at(0);
  return keep(there, device);
}

void FunctionTrace::note(sym::Guard g) {
  declare_symbols(g.a), declare_symbols(g.b);
  if (!sym::known(g) && !graph::states(graph().guards, g)) graph().guards.push_back(std::move(g));
}

// What data tells is unknown while the call is recorded that makes it, and forgotten afterwards.
bool FunctionTrace::decide(const sym::Relation& r) {
  if (has_elements()) return Recorder::decide(r);
  const bool truth = below_.decide(r);
  note(truth ? r : graph::opposite(r));
  return truth;
}

void FunctionTrace::require(const sym::Relation& r, const std::string& error) {
  const auto known = sym::known(r);
  if (known && !*known) fail<UserError>("{}", error);
  if (known) return;
  if (has_elements()) return Recorder::require(r, error);
  // Around it the requirement stays with the program, and fails at later calls.
  below_.require(
      r, calling_ && !ops::is_custom(calling_->op) ? ops::call_error(error, calling_->op, ops::place_text(calling_->where)) : error);
  note({r, error});
}

int64_t FunctionTrace::specialize(const Expr& e) {
  if (has_elements()) return Recorder::specialize(e);
  const int64_t value = below_.specialize(e);
  note({sym::Rel::Eq, e, value});
  return value;
}

void FunctionTrace::read(const Tensor& t, std::string_view what, const std::source_location& where) {
  if (!made_.count(t.impl())) return below_.read(t, what, where);
  fail<UserError>("{}: {} of a tensor inside of {}; its value is not known yet there", ops::place_text(where), what, function_);
}

void FunctionTrace::read_elements(const Tensor& t, std::string_view what, const std::source_location& where) {
  TOROID_USER_CHECK(!written_.count(t.impl()->storage.get()),
                    "{}: {} of a tensor that {} has written; its value is not known yet there. Read it before", ops::place_text(where),
                    what, function_);
  if (around_) around_->read_elements(t, what, where);
}

void FunctionTrace::note_written(const Tensor& t) {
  if (!t.defined()) return;
  const graph::Value* memory = graph::memory_of(value_of(t));
  for (size_t i = 0; i < originals_.size() && !memory->producer; ++i)
    if (originals_[i].impl()->storage && value_of(lifted_.at(originals_[i].impl())) == memory)
      written_.insert(originals_[i].impl()->storage.get());
}

void FunctionTrace::declare_symbols(const Expr& e) {
  sym::for_each_symbol(e, [&](const Expr& s) {
    const std::string& name = s.node()->name;
    if (graph().find_symbol(name)) return;
    graph().symbols.push_back({s});
    if (const auto size = usual_size(name)) set_hint(name, *size);
  });
}

// What an operation gives back as it was given, or a part of a composite has made, is kept already: held twice, it would look as if a
// variable outside held it.
Tensor FunctionTrace::keep(Tensor t, const Device& device) {
  if (!made_.insert(t.impl()).second) return t;
  t.impl()->device = device;
  kept_.push_back(t);
  return t;
}

void FunctionTrace::runs_on(const Device& device, const std::source_location& where) {
  if (!device.is_cuda() || device == device_) return;
  TOROID_USER_CHECK(!device_.is_cuda(), "{}: {} follows {} in {}; bring its tensors to one GPU with to()", ops::place_text(where),
                    to_string(device), to_string(device_), function_);
  device_ = device;
}

Tensor on_device(const Tensor& t, const Device& device) {
  return t.defined() && !(t.device() == device) ? current_dispatcher().move(t, device, std::source_location::current()) : t;
}

std::vector<Tensor> called(const graph::Graph& g, std::span<const Tensor> inputs, const Device& device) {
  const DeviceScope on(device);
  const ops::NoAutocast casts_are_nodes;
  std::unordered_map<const graph::Value*, Tensor> at;
  for (size_t i = 0; i < g.inputs.size(); ++i)
    at[g.inputs[i].value] = on_device(g.inputs[i].data.defined() ? g.inputs[i].data : inputs[i], device);
  int checkpoints = 0;
  for (auto& n : g.nodes) checkpoints = std::max(checkpoints, n->checkpoint);
  const uint64_t first = CheckpointScope::new_ids(static_cast<uint64_t>(checkpoints) + 1);
  for (auto& n : g.nodes) {
    const ops::PlaceScope place(n->where);
    const CheckpointScope checkpoint({n->checkpoint ? first + static_cast<uint64_t>(n->checkpoint) : 0});
    CallArgs args;
    for (auto& a : n->args) args.push_back(map_arg<Tensor>(a, [&](const graph::Value* v) { return v ? at.at(v) : Tensor(); }));
    const auto results = graph::call_again(*n, std::move(args));
    for (size_t i = 0; i < results.size(); ++i) at[n->results[i]] = results[i];
  }
  std::vector<Tensor> out;
  for (auto& o : g.outputs) {
    if (const auto written = static_cast<size_t>(o.mutates); o.mutates >= 0) {
      const GradModeScope with_history(grad_mode && !contents_with_history_of(*g.inputs[written].value, o.value));
      ops::call("copy_", {inputs[written], at.at(o.value)});
    } else
      out.push_back(o.value ? at.at(o.value) : Tensor());
  }
  return out;
}

}  // namespace toroid::autograd
