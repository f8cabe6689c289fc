#include "graph/recorder.h"

#include <algorithm>
#include <set>

#include "base/check.h"
#include "base/text.h"
#include "graph/custom.h"
#include "graph/known_sizes.h"
#include "graph/region_call.h"
#include "graph/sharing.h"
#include "ops/call_errors.h"
#include "ops/custom.h"
#include "ops/open_number.h"
#include "tensor/checkpoint_scope.h"

namespace toroid::graph {
namespace {

TensorType type_of(const Tensor& t) {
  if (is_proxy(t)) return static_cast<Value*>(t.impl()->proxy)->type;
  TensorType type{t.dtype(), {}, {}};
  for (int64_t s : t.sizes()) type.sizes.push_back(s);
  if (!t.is_contiguous())
    for (int64_t s : t.strides()) type.strides.push_back(s);
  return type;
}

// What sizes without a hint are taken for where they are compared: windows fit into them, and there is more than one element.
constexpr int64_t kLarge = 1 << 12;

std::optional<int64_t> number_by_guards(const Graph& g, const Expr& e) {
  for (auto& guard : g.guards)
    if (guard.rel == sym::Rel::Eq && guard.a == e && guard.b.is_const()) return guard.b.constant();
  return std::nullopt;
}

}  // namespace

void Recorder::set_hint(const std::string& symbol, int64_t value) {
  hints_[symbol] = value;
  for (auto& s : graph_.symbols)
    if (s.expr.node()->name == symbol) s.hint = value;
}

Tensor Recorder::proxy(Value* v) {
  auto impl = std::make_shared<TensorImpl>();
  impl->dtype = v->type.dtype;
  impl->sym_sizes = v->type.sizes;
  impl->proxy = v;
  return Tensor(std::move(impl));
}

Value* Recorder::value_of(const Tensor& t) {
  if (!t.defined()) return nullptr;
  if (is_proxy(t)) return static_cast<Value*>(t.impl()->proxy);
  TensorType type = type_of(t);
  auto& same_storage = constants_[t.impl()->storage.get()];
  for (Value* v : same_storage)
    for (auto& in : graph_.inputs)
      if (in.value == v && in.data.raw_data() == t.raw_data() && v->type == type) return v;
  Value* v = graph_.add_input(type, InputKind::Constant, "constant", t);
  graph_.inputs.back().name = v->name;
  same_storage.push_back(v);
  return v;
}

// Types of calls without open sizes follow from the call alone, unless it makes a size or a guard; functions of users may look elsewhere.
std::vector<TensorType> Recorder::result_types(const ops::Op& op, const CallArgs& args) {
  const auto append_type = [](const Tensor& t, const auto& append) -> std::optional<DType> {
    const auto all = [&](auto& list) { return std::all_of(list.begin(), list.end(), append); };
    append(t.dim());
    if (is_proxy(t)) {
      const TensorType& type = static_cast<const Value*>(t.impl()->proxy)->type;
      return all(type.sizes) && all(type.strides) ? std::optional(type.dtype) : std::nullopt;
    }
    for (int64_t s : t.sizes()) append(s);
    if (!t.is_contiguous())
      for (int64_t s : t.strides()) append(s);
    return t.dtype();
  };
  std::optional<CallKey> key;
  if (!ops::is_registered(op) && shares_equal_work()) key = CallKey::of(op, args, append_type);
  if (!key) return inferred_types(op, args);
  if (const auto known = types_->find(*key); known != types_->end()) return known->second;
  const size_t guards = graph_.guards.size(), symbols = graph_.symbols.size();
  std::vector<TensorType> types = inferred_types(op, args);
  if (graph_.guards.size() == guards && graph_.symbols.size() == symbols) types_->emplace(std::move(*key), types);
  return types;
}

std::vector<TensorType> Recorder::inferred_types(const ops::Op& op, const CallArgs& args) {
  std::vector<TensorType> held;
  std::vector<Arg<const TensorType*>> types;
  size_t count = 0;
  for (auto& a : args) {
    if (std::holds_alternative<Tensor>(a)) ++count;
    if (auto* l = std::get_if<std::vector<Tensor>>(&a)) count += l->size();
  }
  held.reserve(count);
  for (auto& a : args)
    types.push_back(map_arg<const TensorType*>(a, [&](const Tensor& t) -> const TensorType* {
      if (!t.defined()) return nullptr;
      held.push_back(type_of(t));
      return &held.back();
    }));
  auto decide = [&](const sym::Relation& r) { return this->decide(r); };
  auto fresh = [&] { return graph_.new_symbol("u", 0, sym::kInf - 1, true); };
  auto demand = [&](const sym::Relation& r, const std::string& error) { require(r, error); };
  if (!op.decompose) return ops::infer(op, types, decide, fresh, demand);
  // A composite's types are those of what it is made of: record that aside.
  Graph scratch;
  scratch.symbols = graph_.symbols;
  scratch.guards = graph_.guards;
  Recorder aside(scratch);
  aside.hints_ = hints_;
  aside.expand_ = true;
  aside.types_ = types_;
  std::map<const TensorImpl*, Tensor> seen;
  CallArgs stand_ins;
  for (auto& a : args)
    stand_ins.push_back(map_arg<Tensor>(a, [&](const Tensor& t) -> Tensor {
      if (!t.defined()) return t;
      Tensor& s = seen[t.impl()];
      if (!s.defined()) s = aside.proxy(scratch.add_input(type_of(t), InputKind::User, "x"));
      return s;
    }));
  std::vector<TensorType> out;
  const auto take_guards = [&] {
    graph_.symbols = std::move(scratch.symbols);
    graph_.guards = std::move(scratch.guards);
    required_.insert(required_.end(), aside.required_.begin(), aside.required_.end());
  };
  try {
    DispatchScope scope(aside);
    std::vector<Value*> made;
    for (auto& r : op.decompose(ops::CallReader(op, stand_ins))) {
      out.push_back(type_of(r));
      if (ops::is_custom(op)) made.push_back(aside.value_of(r));
    }
    check_results_apart(op, scratch, made);
  } catch (...) {
    take_guards();
    throw;
  }
  take_guards();
  return out;
}

std::vector<Tensor> Recorder::call(const ops::Op& op, CallArgs args, const std::source_location& where) {
  const size_t guards = graph_.guards.size(), symbols = graph_.symbols.size();
  std::erase_if(required_, [&](size_t i) { return i >= guards; });  // which somebody else has taken back
  for (;;) try {
      return record(op, args, where);
    } catch (const ops::OpenNumber& e) {
      forget_call(guards, symbols);
      if (!fix_number(args, e.size())) throw;
    } catch (...) {
      forget_call(guards, symbols);
      throw;
    }
}

bool Recorder::fix_number(CallArgs& args, const Expr& size) {
  std::vector<Expr*> places;
  for (auto& a : args) {
    if (auto* e = std::get_if<Expr>(&a); e && *e == size) places.push_back(e);
    if (auto* list = std::get_if<std::vector<Expr>>(&a))
      for (Expr& e : *list)
        if (e == size) places.push_back(&e);
  }
  bool known = true;
  sym::for_each_symbol(size, [&](const Expr& s) { known = known && hints_.count(s.node()->name) > 0; });
  if (places.empty() || !(known || number_by_guards(graph_, size))) return false;
  const int64_t number = specialize(size);
  for (Expr* e : places) *e = number;
  return true;
}

// What the operation required goes with it: it is refused either way. What was decided stays, as the error may depend on it, but for
// sizes that the call would have made.
void Recorder::forget_call(size_t guards, size_t symbols) {
  for (; !required_.empty() && required_.back() >= guards; required_.pop_back())
    graph_.guards.erase(graph_.guards.begin() + static_cast<std::ptrdiff_t>(required_.back()));
  std::set<std::string> gone;
  for (size_t i = symbols; i < graph_.symbols.size(); ++i) gone.insert(graph_.symbols[i].expr.node()->name);
  graph_.symbols.erase(graph_.symbols.begin() + static_cast<std::ptrdiff_t>(symbols), graph_.symbols.end());
  const auto is_of_gone = [&](const sym::Guard& g) {
    bool found = false;
    const auto look = [&](const Expr& s) { found = found || gone.count(s.node()->name) > 0; };
    sym::for_each_symbol(g.a, look), sym::for_each_symbol(g.b, look);
    return found;
  };
  graph_.guards.erase(std::remove_if(graph_.guards.begin() + static_cast<std::ptrdiff_t>(guards), graph_.guards.end(), is_of_gone),
                      graph_.guards.end());
}

std::vector<Tensor> Recorder::record(const ops::Op& op, const CallArgs& args, const std::source_location& where) {
  // Who looks for the memory of a value sees views alone, so that a composite which may give (a view of) an argument is no node. What
  // draws random numbers stays one: whether it gives its argument is up to its flags.
  if (op.decompose && !op.inplace_of && (expand_ || (op.may_alias && !op.random))) {
    const std::string line = where_.empty() && !expand_ ? ops::place_text(where) : std::string();
    const ops::PlaceScope parts_are_called_there(line);
    DispatchScope scope(*this);
    return op.decompose(ops::CallReader(op, args));
  }
  const ops::Op& typed = op.inplace_of ? *op.inplace_of : op;
  const std::string place = where_.empty() ? ops::place_text(where) : where_;
  const size_t guards = graph_.guards.size();
  const bool has_regions = is_control_flow(op);
  auto types = has_regions ? std::vector<TensorType>() : result_types(typed, args);
  if (op.inplace_of) {  // the result takes the dtype and sizes of what it is written to
    TensorType self = type_of(std::get<Tensor>(args[0]));
    types.resize(1);
    ops::check_fits(op, types[0].sizes, self.sizes, [&](const sym::Relation& r, const std::string& error) { require(r, error); });
    types[0] = {self.dtype, self.sizes, {}};
  }
  name_requirements(guards, op, place);
  std::vector<NodeArg> node_args;
  for (auto& a : args) node_args.push_back(map_arg<Value*>(a, [&](const Tensor& t) { return value_of(t); }));
  Node* n = has_regions ? add_region_node(graph_, op, std::move(node_args), regions_of_call(op), place)
                        : graph_.add_node(op, std::move(node_args), std::move(types), place);
  n->checkpoint = checkpoint_of(op);
  std::vector<Tensor> out;
  for (auto* r : n->results) out.push_back(proxy(r));
  return out;
}

int Recorder::checkpoint_of(const ops::Op& op) {
  if (open_checkpoint.id == 0) return checkpoint_;
  const auto* save = open_checkpoint.save;
  const auto is_saved = [&](const std::string& name) { return name == op.name || name == op.name.substr(0, op.name.find('.')); };
  if (save && std::any_of(save->begin(), save->end(), is_saved)) return 0;
  return open_checkpoints_.try_emplace(open_checkpoint.id, static_cast<int>(open_checkpoints_.size()) + 1).first->second;
}

bool Recorder::decide(const sym::Relation& r) {
  if (auto k = sym::known(r)) return *k;
  if (auto k = known_by_guards(graph_.guards, r)) return *k;
  bool hinted = true;
  auto look = [&](const sym::Node& s) {
    auto it = hints_.find(s.name);
    if (it == hints_.end()) hinted = false;
    return it == hints_.end() ? kLarge : it->second;
  };
  bool truth = sym::holds(r, look);
  if (!hinted && r.rel == sym::Rel::Eq) truth = !(r.a == Expr(1) || r.b == Expr(1) || r.a == Expr(0) || r.b == Expr(0));
  if (!hinted && r.rel == sym::Rel::Ne) truth = true;
  sym::Guard guard = truth ? r : opposite(r);
  // Sizes that nobody has seen are taken for equal: operations can do with others only where these are 1.
  if (truth && !hinted && r.rel == sym::Rel::Eq)
    guard.error = fmt::format("the program takes the sizes {} and {} for equal", sym::to_string(r.a), sym::to_string(r.b));
  graph_.guards.push_back(std::move(guard));
  return truth;
}

void Recorder::require(const sym::Relation& r, const std::string& error) {
  auto truth = sym::known(r);
  if (!truth) truth = known_by_guards(graph_.guards, r);
  bool hinted = !truth;
  auto look = [&](const sym::Node& s) {
    auto it = hints_.find(s.name);
    if (it == hints_.end()) hinted = false;
    return it == hints_.end() ? kLarge : it->second;
  };
  const bool holds = truth ? *truth : sym::holds(r, look);
  if (!holds && (truth || hinted)) {
    // Who catches the error goes on in a way that is for these sizes.
    if (!truth) graph_.guards.push_back(opposite(r));
    fail<UserError>("{}", error);
  }
  if (truth) return;
  required_.push_back(graph_.guards.size());
  graph_.guards.push_back({r, error});
}

void Recorder::name_requirements(size_t since, const ops::Op& op, const std::string& place) {
  if (ops::is_custom(op)) return;  // as errors of their own functions
  for (size_t i = since; i < graph_.guards.size(); ++i)
    if (sym::Guard& g = graph_.guards[i]; g.is_requirement()) g.error = ops::call_error(g.error, op, place);
}

int64_t Recorder::specialize(const Expr& e) {
  if (auto c = e.maybe_constant()) return *c;
  if (auto n = number_by_guards(graph_, e)) return *n;
  bool hinted = true;
  int64_t v = sym::evaluate(e, [&](const sym::Node& s) {
    auto it = hints_.find(s.name);
    if (it == hints_.end()) hinted = false;
    return it == hints_.end() ? int64_t{0} : it->second;
  });
  TOROID_USER_CHECK(hinted, "the size {} must be a known number here, but it is symbolic", sym::to_string(e));
  graph_.guards.push_back({sym::Rel::Eq, e, v});
  return v;
}

void Recorder::read(const Tensor&, std::string_view what, const std::source_location& where) {
  const std::string custom = ops::running_custom();
  TOROID_USER_CHECK(
      custom.empty(),
      "{}: {} of a tensor in the function of the custom operation {}, which is recorded here as the operations that it calls; "
      "the tensor's value exists only at run time. Write the function with operations alone, or make it a plain function "
      "that compile_disable() calls between compiled graphs",
      line_text(where), what, custom);
  fail<UserError>("{}: {} of a tensor while a graph is recorded; its value exists only at run time", ops::place_text(where), what);
}

}  // namespace toroid::graph
