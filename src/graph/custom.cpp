#include "graph/custom.h"

#include <algorithm>
#include <map>

#include "base/check.h"
#include "base/log.h"
#include "graph/recorder.h"

namespace toroid::graph {
namespace {

thread_local std::vector<const ops::Op*> compiled;  // whose variants this thread compiles

// Whose memory a value surely is in: what views and writes were made of. A reshape may be a copy.
const Value* owner_of(const Value* v) {
  while (v->producer) {
    const ops::Op& op = *v->producer->op;
    const bool view =
        op.index_map && op.schema.params[0].alias && op.name != "reshape" && op.name != "contiguous" && op.name != "flatten.using_ints";
    if (!view && (ops::is_registered(op) || !is_mutating(op))) break;
    v = std::get<Value*>(v->producer->args[0]);
  }
  return v;
}

}  // namespace

void check_results_apart(const ops::Op& op, const Graph& recorded, const std::vector<Value*>& results) {
  std::map<const Value*, size_t> owners;
  for (size_t r = 0; r < results.size(); ++r) {
    const Value* owner = owner_of(results[r]);
    const bool operand = std::any_of(recorded.inputs.begin(), recorded.inputs.end(),
                                     [&](auto& in) { return in.value == owner && in.kind == InputKind::User; });
    TOROID_USER_CHECK(!operand, "{}: result {} is an argument itself or a view of it; return clone() of it", op.name, r);
    const auto [other, fresh] = owners.try_emplace(owner, r);
    TOROID_USER_CHECK(fresh, "{}: the results {} and {} share memory; return clone() of one of them", op.name, other->second, r);
  }
}

std::unique_ptr<Graph> trace_custom(const Graph& around, const ops::Op& op, const CustomOpConfig* variant,
                                    const std::vector<Arg<const TensorType*>>& types) {
  auto g = std::make_unique<Graph>();
  g->name = op.name;
  g->symbols = around.symbols;
  g->guards = around.guards;
  Recorder recorder(*g);
  CallArgs args;
  for (size_t i = 0; i < types.size(); ++i)
    args.push_back(map_arg<Tensor>(types[i], [&](const TensorType* t) {
      return t ? recorder.proxy(g->add_input(*t, InputKind::User, op.schema.params[i].name)) : Tensor();
    }));
  std::vector<Tensor> results;
  {
    DispatchScope scope(recorder);
    results = ops::run_custom(op, variant, args);
  }
  for (auto& r : results) g->outputs.push_back({recorder.value_of(r), {}, -1});
  return g;
}

std::string unfit_for_choice(const Graph& around, const Graph& g) {
  for (auto& n : g.nodes)
    if (n->op->random) return n->op->name + " in it draws random numbers";
  for (auto& in : g.inputs)
    if (in.kind == InputKind::Random) return "it draws random numbers";
  for (auto& s : g.symbols)
    if (s.unbacked && !around.find_symbol(s.expr.node()->name)) return "a size in it depends on data";
  return "";
}

VariantScope::VariantScope(const ops::Op& op) { compiled.push_back(&op); }
VariantScope::~VariantScope() { compiled.pop_back(); }
bool compiles_variants() { return !compiled.empty(); }

void note_no_choices(const ops::Op& op, std::string_view reason) {
  log(Artifact::Choices, fmt::format("{} has no choices, it becomes its own function: {}", op.name, reason));
  ops::count(op, ops::CustomEvent::OtherRefusal);
}

bool stays_whole(const Graph& around, const ops::Op& op, const std::vector<Arg<const TensorType*>>& types) {
  if (!ops::is_tuned(op)) return false;
  for (auto* other : compiled)
    if (ops::same_operation(*other, op)) return false;
  const std::string reason = unfit_for_choice(around, *trace_custom(around, op, nullptr, types));
  if (reason.empty()) return true;
  note_no_choices(op, reason);
  return false;
}

bool stays_whole(const Graph& around, const ops::Op& op, const std::vector<NodeArg>& args) {
  std::vector<Arg<const TensorType*>> types;
  for (auto& a : args) types.push_back(map_arg<const TensorType*>(a, [](Value* v) { return v ? &v->type : nullptr; }));
  return stays_whole(around, op, types);
}

bool stays_whole(const Graph& around, const ops::Op& op, const CallArgs& args) {
  std::deque<TensorType> held;
  std::vector<Arg<const TensorType*>> types;
  for (auto& a : args)
    types.push_back(map_arg<const TensorType*>(a, [&](const Tensor& t) -> const TensorType* {
      if (!t.defined()) return nullptr;
      TensorType& type = held.emplace_back();
      type.dtype = t.dtype();
      for (auto& s : t.sym_sizes()) type.sizes.push_back(s.expr());
      return &type;
    }));
  return stays_whole(around, op, types);
}

}  // namespace toroid::graph
