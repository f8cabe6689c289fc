// Sizes that follow from values, in functions that run eagerly once they are recorded: what they need is computed while they are recorded,
// so that to all that follows they are numbers.

#include <algorithm>

#include "autograd/function_trace.h"
#include "base/check.h"
#include "graph/decided_views.h"
#include "graph/effects.h"
#include "graph/pass.h"
#include "ops/autocast.h"
#include "ops/call_place.h"
#include "ops/custom.h"
#include "tensor/grad_state.h"
#include "toroid/random.h"

namespace toroid::autograd {
namespace {

// Of a graph that is recorded, how far it is.
struct Mark {
  size_t nodes, values, symbols, guards;
  explicit Mark(const graph::Graph& g)
      : nodes(g.nodes.size()), values(g.values.size()), symbols(g.symbols.size()), guards(g.guards.size()) {}

  bool has_sizes_of_data(const graph::Graph& g) const {
    return std::any_of(g.symbols.begin() + static_cast<std::ptrdiff_t>(symbols), g.symbols.end(), [](auto& s) { return s.unbacked; });
  }
  // All other sizes are numbers, so that these guards and symbols are of sizes of data alone.
  void forget_sizes(graph::Graph& g) const {
    g.symbols.erase(g.symbols.begin() + static_cast<std::ptrdiff_t>(symbols), g.symbols.end());
    g.guards.erase(g.guards.begin() + static_cast<std::ptrdiff_t>(guards), g.guards.end());
  }
  void forget_nodes(graph::Graph& g) const {
    g.nodes.erase(g.nodes.begin() + static_cast<std::ptrdiff_t>(nodes), g.nodes.end());
    std::set<const graph::Value*> kept;
    for (size_t i = 0; i < values; ++i) kept.insert(g.values[i].get());
    g.keep_values(kept);
  }
};

// The process's stream of random numbers is behind it as it was before, where something draws.
class SameStream {
 public:
  explicit SameStream(bool draws) {
    if (draws) before_ = default_generator().state();
  }
  ~SameStream() {
    if (before_) default_generator().set_state(*before_);
  }
  SameStream(const SameStream&) = delete;
  SameStream& operator=(const SameStream&) = delete;

 private:
  std::optional<Generator::State> before_;
};

std::unique_ptr<graph::Graph> after_pass(std::unique_ptr<graph::Graph> g, const char* name) {
  const graph::PassRow& pass = graph::find_pass(name);
  return graph::run_passes(std::move(g), std::span(&pass, 1));
}

std::vector<Tensor> tensors_of(const CallArgs& args) {
  std::vector<Tensor> out;
  for (auto& a : args) map_arg<Tensor>(a, [&](const Tensor& t) { return t.defined() ? out.emplace_back(t) : t; });
  return out;
}

}  // namespace

bool FunctionTrace::has_elements() const {
  const auto* around = dynamic_cast<const FunctionTrace*>(&below_);
  return around ? around->has_elements() : &below_ == eager_dispatcher();
}

bool FunctionTrace::draws() {
  auto* around = dynamic_cast<FunctionTrace*>(&below_);
  const auto draws_numbers = [](auto& n) { return effects_of(*n).has(graph::Effect::Draws); };
  return (around && around->draws()) || std::any_of(graph().nodes.begin(), graph().nodes.end(), draws_numbers);
}

std::vector<Tensor> FunctionTrace::elements_of(std::span<const Tensor> tensors) {
  graph::Graph& g = graph();
  for (const Tensor& t : tensors) g.outputs.push_back({value_of(lift(t)), {}, -1});
  auto computed = graph::clone(g);
  g.outputs.clear();
  graph::decide_written_views(*computed, [&](const sym::Relation& r, const std::string&) { return decide(r); });
  computed = after_pass(std::move(computed), "functionalize");
  std::erase_if(computed->outputs, [](auto& o) { return o.mutates >= 0; });
  computed = after_pass(std::move(computed), "dce");
  std::vector<Tensor> inputs = originals_;
  if (auto* around = dynamic_cast<FunctionTrace*>(&below_)) {
    std::vector<Tensor> stand_ins;  // maybe none, but what is recorded there draws first
    for (const Tensor& t : inputs)
      if (is_proxy(t)) stand_ins.push_back(t);
    const auto elements = around->elements_of(stand_ins);
    size_t next = 0;
    for (Tensor& t : inputs)
      if (is_proxy(t)) t = elements[next++];
  }
  const GradModeScope without_history(false);
  const DispatchScope eager(*eager_dispatcher());
  return called(*computed, inputs, device_);
}

// A composite that makes such sizes is recorded as its parts, so that whoever takes it apart later makes no new ones.
std::vector<Tensor> FunctionTrace::recorded(const ops::Op& op, const CallArgs& args, const std::source_location& where) {
  if (!has_elements()) {
    const size_t guards = graph().guards.size();
    auto results = Recorder::call(op, args, where);
    tell_guards(guards);
    return results;
  }
  const bool has_parts = op.decompose && !op.inplace_of && !ops::is_custom(op);
  const Mark before(graph());
  std::vector<Tensor> results;
  try {
    results = Recorder::call(op, args, where);
  } catch (const UserError&) {
    if (!has_parts) throw;
    return recorded_parts(op, args, where);  // it may need a number that only its first part gives
  }
  if (!before.has_sizes_of_data(graph())) return results;
  const auto has_numbers = [](const Tensor& t) {
    return std::all_of(t.impl()->sym_sizes.begin(), t.impl()->sym_sizes.end(), [](auto& e) { return e.is_const(); });
  };
  before.forget_sizes(graph());
  if (std::all_of(results.begin(), results.end(), has_numbers)) return results;
  if (has_parts) {
    results.clear();
    before.forget_nodes(graph());
    return recorded_parts(op, args, where);
  }
  set_sizes_of_data(op, args, results, where);
  return results;
}

// What a composite's parts have assumed is recorded aside.
void FunctionTrace::tell_guards(size_t since) {
  const auto is_of_data = [&](const Expr& e) {
    bool found = false;
    sym::for_each_symbol(e, [&](const Expr& s) {
      const graph::Symbol* known = graph().find_symbol(s.node()->name);
      found = found || (known && known->unbacked);
    });
    return found;
  };
  for (size_t i = since; i < graph().guards.size(); ++i) {
    const sym::Guard g = graph().guards[i];
    if (is_of_data(g.a) || is_of_data(g.b)) continue;
    if (g.is_requirement() || !below_.decide(g)) below_.require(g, g.is_requirement() ? g.error : "sizes of " + function_);
  }
}

std::vector<Tensor> FunctionTrace::recorded_parts(const ops::Op& op, const CallArgs& args, const std::source_location& where) {
  const std::string line = ops::place_text(where);
  const ops::PlaceScope parts_are_called_there(line);
  const DispatchScope scope(*this);
  return op.decompose(ops::CallReader(op, args));
}

// The operation runs on what its operands will be, and its results have the sizes that it gives.
void FunctionTrace::set_sizes_of_data(const ops::Op& op, const CallArgs& args, std::span<const Tensor> results,
                                      const std::source_location& where) {
  const SameStream stream(draws());
  const auto operands = elements_of(tensors_of(args));
  size_t next = 0;
  CallArgs given;
  for (auto& a : args) given.push_back(map_arg<Tensor>(a, [&](const Tensor& t) { return t.defined() ? operands[next++] : t; }));
  const GradModeScope without_history(false);
  const DispatchScope eager(*eager_dispatcher());
  const ops::NoAutocast casts_are_nodes;
  const auto made = ops::call(op, std::move(given), where);
  for (size_t i = 0; i < results.size(); ++i) {
    auto& sizes = value_of(results[i])->type.sizes;
    sizes.assign(made[i].sizes().begin(), made[i].sizes().end());
    results[i].impl()->sym_sizes = sizes;
  }
}

}  // namespace toroid::autograd
