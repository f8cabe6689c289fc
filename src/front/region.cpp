#include "front/region.h"

#include <algorithm>

#include "base/check.h"
#include "front/eager_region.h"
#include "graph/writes.h"
#include "ops/call_errors.h"
#include "ops/custom.h"

namespace toroid::front {
namespace {

// Whether v is in the memory of an input: that itself, or a view of it.
bool is_of_input(const graph::Value* v) {
  while (v->producer && graph::is_alias_view(*v->producer->op)) v = std::get<graph::Value*>(v->producer->args[0]);
  return !v->producer;
}

}  // namespace

Region::Region(std::string name, std::string_view name_in_text, Dispatcher& below)
    : Region(std::move(name), name_in_text, below, std::make_shared<graph::Graph>()) {}

Region::Region(std::string name, std::string_view name_in_text, Dispatcher& below, std::shared_ptr<graph::Graph> g)
    : FunctionTrace(*g, below, name), name_(std::move(name)), graph_(std::move(g)) {
  graph_->name = name_in_text;
  know(below);
  told_ = graph_->guards.size();
}

void Region::know(Dispatcher& around) {
  if ((tracer_ = dynamic_cast<trace::Tracer*>(&around))) return know(tracer_->graph());
  auto* function = dynamic_cast<FunctionTrace*>(&around);
  auto* region = dynamic_cast<Region*>(function);
  if (region)
    tracer_ = region->tracer_;
  else if (function)
    know(function->below());
  if (auto* recorder = dynamic_cast<graph::Recorder*>(&around)) know(recorder->graph());
}

void Region::know(const graph::Graph& around) {
  know_symbols(around);
  graph_->guards.insert(graph_->guards.end(), around.guards.begin(), around.guards.end());
}

void Region::know_symbols(const graph::Graph& around) {
  for (auto& s : around.symbols) {
    const std::string& name = s.expr.node()->name;
    if (!around_.insert(name).second) continue;
    graph_->symbols.push_back(s);
    if (s.hint) set_hint(name, *s.hint);
  }
}

// Sizes of earlier segments of a trace are those that this segment knows, or numbers.
Expr Region::usable(const Expr& e) {
  if (!tracer_ || e.is_const()) return e;
  know_symbols(tracer_->graph());
  return tracer_->usable(e);
}

// Whether e depends on a size that only this region knows.
bool Region::is_own(const Expr& e) const {
  bool own = false;
  sym::for_each_symbol(e, [&](const Expr& s) {
    const graph::Symbol* found = graph_->find_symbol(s.node()->name);
    own = own || (found && found->unbacked && !around_.count(s.node()->name));
  });
  return own;
}

void Region::tell_new_guards() {
  while (told_ < graph_->guards.size()) {
    const sym::Guard g = graph_->guards[told_++];
    if (is_own(g.a) || is_own(g.b)) continue;
    if (g.is_requirement()) {
      below().require(g, g.error);
      continue;
    }
    const bool holds = below().decide(g);
    TOROID_CHECK(holds, "{} is assumed in {} and not around it", sym::to_string(g), name_);
  }
}

// f(), and what it has assumed of sizes is told around, also where it fails: when it has ended, as a call that fails takes back what it
// required.
template <class F>
auto Region::telling_guards(F&& f) {
  const bool is_part = std::exchange(telling_, true);
  const auto end = [&] {
    telling_ = is_part;
    if (!is_part) tell_new_guards();
  };
  try {
    auto out = f();
    end();
    return out;
  } catch (...) {
    end();
    throw;
  }
}

void Region::add_parameter(const TensorType& type, const Device& device) {
  if (tracer_) know_symbols(tracer_->graph());
  parameters_.push_back(keep(proxy(graph_->add_input({type.dtype, type.sizes, {}}, graph::InputKind::User, "a")), device));
}

void Region::record(const detail::RegionFunction& fn) {
  {
    const DispatchScope scope(*this);
    results_ = fn(parameters_);
  }
  tell_new_guards();
  for (size_t i = 0; i < size(); ++i) {
    Tensor& t = results_.tensors[i];
    TOROID_USER_CHECK(t.defined(), "{} returns an undefined tensor as result {}", name_, i);
    t = lift(t);
    for (auto& e : type(i).sizes)
      TOROID_USER_CHECK(
          !is_own(e),
          "{} returns {} as result {} ({}), whose size {} follows from values within: its results have sizes that are known before it runs",
          name_, to_string(type(i)), i, place(i), sym::to_string(e));
  }
}

const TensorType& Region::type(size_t i) { return result(i)->type; }

std::string Region::place(size_t i) {
  const graph::Value* v = result(i);
  return v->producer ? fmt::format("{} at {}", v->producer->op->name, v->producer->where) : "a tensor that it is given";
}

bool Region::fit(size_t i, const TensorType& want) {
  const TensorType have = type(i);
  if (have.dtype != want.dtype || have.sizes.size() != want.sizes.size()) return false;
  if (have.sizes == want.sizes) return true;
  for (size_t d = 0; d < have.sizes.size(); ++d)
    if (!decide({sym::Rel::Eq, have.sizes[d], want.sizes[d]})) return false;
  const DispatchScope scope(*this);
  results_.tensors[i] = ops::call1("reshape", {results_.tensors[i], want.sizes});
  return true;
}

std::shared_ptr<graph::Graph> Region::finish(const std::vector<Tensor>& captured) {
  for (const Tensor& t : captured) lift(t);
  std::vector<graph::Input> inputs(graph_->inputs.begin(), graph_->inputs.begin() + static_cast<std::ptrdiff_t>(parameters_.size()));
  for (const Tensor& t : captured) {
    const graph::Value* v = value_of(lift(t));
    inputs.push_back(*std::find_if(graph_->inputs.begin(), graph_->inputs.end(), [&](auto& in) { return in.value == v; }));
  }
  graph_->inputs = std::move(inputs);
  for (size_t i = 0; i < size(); ++i) graph_->outputs.push_back({result(i), {}, -1});
  std::erase_if(graph_->guards, [&](auto& g) { return !is_own(g.a) && !is_own(g.b); });
  std::erase_if(graph_->symbols, [&](auto& s) { return !s.unbacked || around_.count(s.expr.node()->name) > 0; });
  results_.tensors.clear();
  parameters_.clear();
  if (const Tensor held = still_held(); held.defined()) {
    const auto* v = static_cast<const graph::Value*>(held.impl()->proxy);
    fail<UserError>(
        "{} keeps {} beyond its end, in a variable outside of it; return the tensor instead", name_,
        v->producer ? fmt::format("the result of {} ({})", v->producer->op->name, v->producer->where) : "a tensor that it is given");
  }
  return graph_;
}

std::vector<Expr> Region::sizes_outside(const Tensor& t) {
  std::vector<Expr> sizes = FunctionTrace::sizes_outside(t);
  if (tracer_) know_symbols(tracer_->graph());
  return sizes;
}

void Region::refuse_write(const ops::Op& op, const Tensor& written, const std::source_location& where) {
  if (!written.defined() || is_of_input(value_of(lift(written)))) fail_outside_write(op, name_, where);
}

std::vector<Tensor> Region::call(const ops::Op& op, CallArgs args, const std::source_location& where) {
  if (ops::is_registered(op))
    for (size_t i : ops::written_arguments(op)) refuse_write(op, std::get<Tensor>(args.at(i)), where);
  else if (graph::is_mutating(op))
    refuse_write(op, std::get<Tensor>(args.at(0)), where);
  for (auto& a : args) {
    if (auto* e = std::get_if<Expr>(&a)) *e = usable(*e);
    if (auto* list = std::get_if<std::vector<Expr>>(&a))
      for (auto& e : *list) e = usable(e);
  }
  return telling_guards([&] { return ops::checked_call(op, where, [&] { return FunctionTrace::call(op, std::move(args), where); }); });
}

bool Region::decide(const sym::Relation& r) {
  return telling_guards([&] { return Recorder::decide({r.rel, usable(r.a), usable(r.b)}); });
}

void Region::require(const sym::Relation& r, const std::string& error) { Recorder::require({r.rel, usable(r.a), usable(r.b)}, error); }

int64_t Region::specialize(const Expr& e) {
  TOROID_USER_CHECK(!is_own(e),
                    "after {}: the size {} depends on data, and {} needs it as a number. Use it as a SymInt, or read it outside",
                    last_call(), sym::to_string(e), name_);
  return telling_guards([&] { return Recorder::specialize(usable(e)); });
}

void Region::read(const Tensor&, std::string_view what, const std::source_location& where) {
  fail<UserError>("{}: {} of a tensor in {}, which is recorded before any value is known; compute with the tensor, or read it before",
                  ops::place_text(where), what, name_);
}

}  // namespace toroid::front
