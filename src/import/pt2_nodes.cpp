#include "import/pt2_nodes.h"

#include <algorithm>
#include <array>
#include <map>

#include "base/check.h"
#include "graph/control_flow.h"
#include "import/sym_tensors.h"

namespace toroid::import {
namespace {

constexpr size_t kMaxFindings = 8;

// Arguments of a node without the prefix that all ATen operations share.
std::string_view short_target(std::string_view target) {
  for (std::string_view prefix : {"torch.ops.", "aten."})
    if (target.starts_with(prefix)) target.remove_prefix(prefix.size());
  if (target.ends_with(".default")) target.remove_suffix(8);
  return target;
}

std::string_view higher_order(std::string_view target) {
  constexpr std::string_view kPrefix = "torch.ops.higher_order.";
  return target.starts_with(kPrefix) ? target.substr(kPrefix.size()) : std::string_view();
}

// Its results are numbers made of sizes: the file states them in closed form.
bool computes_sizes(const ExportedNode& node) {
  if (short_target(node.target) == "_local_scalar_dense" || node.outputs.empty()) return false;
  return std::all_of(node.outputs.begin(), node.outputs.end(), [](const Argument& a) {
    return a.is<SymIntArg>() || a.is<SymFloatArg>() || a.is<SymBoolArg>() || a.is<int64_t>() || a.is<double>() || a.is<bool>();
  });
}

// States facts about sizes and metadata that the file itself holds.
bool only_asserts(const ExportedNode& node) {
  static constexpr std::array<std::string_view, 4> kNames = {"_assert_tensor_metadata", "sym_constrain_range",
                                                             "sym_constrain_range_for_size", "_assert_scalar"};
  return std::find(kNames.begin(), kNames.end(), short_target(node.target)) != kNames.end();
}

bool is_inlined(std::string_view name) { return name == "wrap_with_set_grad_enabled" || name == "invoke_subgraph"; }
bool is_control_flow(std::string_view name) { return name == "cond" || name == "while_loop" || name == "scan"; }

// with_effects(token, operation, arguments...) -> (token, results...): the operation itself.
ExportedNode unwrap_effects(const ExportedNode& node) {
  auto* name = node.inputs.size() >= 2 ? node.inputs[1].arg.get<OperatorArg>() : nullptr;
  TOROID_USER_CHECK(name && !node.outputs.empty(), "with_effects names no operation");
  ExportedNode out = node;
  out.target = name->name;
  out.inputs.erase(out.inputs.begin(), out.inputs.begin() + 2);
  out.outputs.erase(out.outputs.begin());
  return out;
}

std::string describe(const ExportedNode& node) {
  std::string out = node.name.empty() ? "" : fmt::format("\"{}\" ", node.name);
  out += fmt::format("({}", short_target(node.target));
  if (!node.source.empty()) out += fmt::format(", {}", node.source);
  return out + ")";
}

bool is_data_dependent(const Expr& e) {
  bool out = false;
  sym::for_each_symbol(e, [&](const Expr& s) { out = out || is_unbacked(s.node()->name); });
  return out;
}

// PyTorch's own type rules are loose about results that nobody reads, and give unique_consecutive too many dimensions when its
// dimension counts from the end.
bool is_type_reliable(const ExportedNode& node, const std::string& name) {
  if (name.find("_unused_") != std::string::npos) return false;
  if (short_target(node.target) != "unique_consecutive") return true;
  auto* dim = node.find_input("dim");
  return !dim || !dim->is<int64_t>() || *dim->get<int64_t>() >= 0;
}

const ExportedGraph& graph_operand(const ExportedNode& node, size_t index) {
  auto* g = index < node.inputs.size() ? node.inputs[index].arg.get<GraphArg>() : nullptr;
  TOROID_USER_CHECK(g && g->graph, "{}: operand {} must be a graph", short_target(node.target), index);
  return *g->graph;
}

void count_unknown(const ExportedGraph& graph, std::map<std::string, size_t>& unknown) {
  for (auto& node : graph.nodes) {
    for (auto& in : node.inputs)
      if (auto* sub = in.arg.get<GraphArg>()) count_unknown(*sub->graph, unknown);
    if (computes_sizes(node) || only_asserts(node) || short_target(node.target) == "_local_scalar_dense") continue;
    std::string target = node.target;
    std::string_view name = higher_order(target);
    if (name == "with_effects")
      target = unwrap_effects(node).target;
    else if (is_inlined(name) || is_control_flow(name) || name == "wrap_with_autocast")
      continue;
    if (!ops::table().find(target)) ++unknown[std::string(short_target(target))];
  }
}

}  // namespace

void check_operations(const ExportedGraph& graph, const std::string& source) {
  std::map<std::string, size_t> unknown;
  count_unknown(graph, unknown);
  if (unknown.empty()) return;
  std::string list;
  for (auto& [name, count] : unknown) {
    list += fmt::format("\n  {} ({} node{})", name, count, count == 1 ? "" : "s");
    std::string near;
    for (auto& n : ops::table().near(name)) near += (near.empty() ? "" : ", ") + n;
    if (!near.empty()) list += "; Toroid has " + near;
  }
  fail<UserError>("{}: Toroid does not have {} of the operations in this program:{}", source, unknown.size(), list);
}

NodeImporter::NodeImporter(graph::Graph& target, const SymValues& symbols, TypeFindings& findings)
    : target_(target), symbols_(symbols), findings_(findings), recorder_(target) {
  for (auto& [name, value] : symbols.hints()) recorder_.set_hint(name, value);
}

graph::Value* NodeImporter::find(const Scope& scope, const std::string& name) const {
  auto it = scope.values.find(name);
  TOROID_USER_CHECK(it != scope.values.end(), "the tensor \"{}\" is used before it is computed", name);
  return it->second;
}

void NodeImporter::run(const ExportedGraph& graph) {
  outermost_.graph = &graph;
  DispatchScope dispatch(recorder_);
  import_nodes(outermost_);
}

void NodeImporter::import_nodes(Scope& scope) {
  for (auto& node : scope.graph->nodes) {
    try {
      recorder_.set_where(!node.source.empty() ? node.source : !node.name.empty() ? node.name : node.target);
      import_node(scope, node);
    } catch (const UserError& e) {
      std::string_view what = e.what();
      if (what.starts_with("node ")) throw;  // named inside a sub-graph already
      fail<UserError>("node {}: {}", describe(node), what);
    }
  }
}

void NodeImporter::import_node(Scope& scope, const ExportedNode& node) {
  std::string_view name = higher_order(node.target);
  if (computes_sizes(node)) return;
  if (only_asserts(node)) return import_assertion(scope, node);
  if (name == "with_effects") return import_call(scope, unwrap_effects(node));
  if (is_inlined(name)) return import_inlined(scope, node);
  if (is_control_flow(name)) return import_control_flow(scope, node);
  TOROID_USER_CHECK(name != "wrap_with_autocast",
                    "the program holds an autocast region whose casts are not written out; export it with "
                    "torch.export.export(...).run_decompositions() and save that");
  if (short_target(node.target) == "_local_scalar_dense") {
    auto* self = node.find_input("self");
    TOROID_USER_CHECK(self && self->is<TensorArg>() && node.outputs.size() == 1, "a number is read from something that is no tensor");
    graph::Value* v = find(scope, self->get<TensorArg>()->name);
    if (auto* i = node.outputs[0].get<SymIntArg>()) scope.read_numbers[i->name] = v;
    if (auto* f = node.outputs[0].get<SymFloatArg>()) scope.read_numbers[f->name] = v;
    if (auto* b = node.outputs[0].get<SymBoolArg>()) scope.read_numbers[b->name] = v;
    return;
  }
  import_call(scope, node);
}

void NodeImporter::import_call(Scope& scope, const ExportedNode& node) {
  const ops::Op* op = ops::table().find(node.target);
  TOROID_CHECK(op, "no row for {}", node.target);
  size_t symbols_before = target_.symbols.size();
  auto args = ops::complete(*op, call_args(scope, node, *op));
  auto tensors = recorder_.call(*op, std::move(args), std::source_location::current());
  std::vector<graph::Value*> results;
  for (auto& t : tensors) results.push_back(recorder_.value_of(t));
  if (target_.symbols.size() > symbols_before) adopt_symbols(scope, node, results, symbols_before);
  bind_results(scope, node, results, op->schema.returns.size());
}

// Conditions on sizes become guards. Those on numbers that the program reads from tensors are left out.
void NodeImporter::import_assertion(Scope& scope, const ExportedNode& node) {
  auto* self = node.find_input("self");
  auto* condition = self ? self->get<SymBoolArg>() : nullptr;
  if (short_target(node.target) != "_assert_scalar" || !condition || !condition->is_name()) return;
  auto it = scope.graph->sym_bool_values.find(condition->name);
  if (it == scope.graph->sym_bool_values.end() || !it->second.expr) return;
  auto relations = symbols_.relations(*it->second.expr);
  if (!relations) return;
  for (auto& r : *relations)
    if (!sym::known(r)) target_.guards.push_back(r);
}

std::vector<graph::Value*> NodeImporter::operand_values(const Scope& scope, const ExportedNode& node, size_t first, size_t last) {
  std::vector<graph::Value*> out;
  for (size_t i = first; i < std::min(last, node.inputs.size()); ++i) {
    const Argument& a = node.inputs[i].arg;
    if (auto* t = a.get<TensorArg>())
      out.push_back(find(scope, t->name));
    else if (auto* list = a.get<TensorsArg>())
      for (auto& name : list->names) out.push_back(find(scope, name));
    else if (!a.is<SymIntArg>() && !a.is<std::string>() && !a.is<NoneArg>() && !a.is<std::vector<int64_t>>())
      fail<UserError>("operand {} of {} is {}; a tensor is expected", i, short_target(node.target), a.tag());
  }
  return out;
}

void NodeImporter::import_inlined(Scope& scope, const ExportedNode& node) {
  size_t at = 0;
  while (at < node.inputs.size() && !node.inputs[at].arg.is<GraphArg>()) ++at;
  const ExportedGraph& sub = graph_operand(node, at);
  auto operands = operand_values(scope, node, at + 1, node.inputs.size());
  Scope inner;
  inner.graph = &sub;
  size_t next = 0;
  for (auto& in : sub.inputs) {
    if (!in.is<TensorArg>()) continue;
    TOROID_USER_CHECK(next < operands.size(), "the sub-graph takes more than the {} tensors it is given", operands.size());
    inner.values[in.get<TensorArg>()->name] = operands[next++];
  }
  import_nodes(inner);
  std::vector<graph::Value*> results;
  for (auto& out : sub.outputs) {
    if (auto* t = out.get<TensorArg>()) results.push_back(find(inner, t->name));
    if (auto* list = out.get<TensorsArg>())
      for (auto& name : list->names) results.push_back(find(inner, name));
  }
  bind_results(scope, node, results, 0);
}

std::shared_ptr<graph::Graph> NodeImporter::region(const ExportedGraph& sub, const std::vector<graph::Value*>& operands,
                                                   const std::string& name) {
  auto g = std::make_shared<graph::Graph>();
  g->name = name;
  g->symbols = target_.symbols;
  g->guards = target_.guards;
  NodeImporter inner(*g, symbols_, findings_);
  size_t next = 0;
  for (auto& in : sub.inputs) {
    auto* t = in.get<TensorArg>();
    if (!t) continue;
    TOROID_USER_CHECK(next < operands.size(), "the sub-graph takes more than the {} tensors it is given", operands.size());
    TensorType type = operands[next++]->type;
    type.strides.clear();
    inner.bind(t->name, g->add_input(std::move(type), graph::InputKind::User, t->name));
  }
  TOROID_USER_CHECK(next == operands.size(), "the sub-graph takes {} tensors, {} are given", next, operands.size());
  inner.run(sub);
  for (auto& out : sub.outputs) {
    auto* t = out.get<TensorArg>();
    TOROID_USER_CHECK(t, "a sub-graph returns {}; only tensors are supported", out.tag());
    g->outputs.push_back({inner.value_of(t->name), {}, -1});
  }
  target_.guards = std::move(g->guards);
  g->guards.clear();
  std::erase_if(g->symbols, [&](const graph::Symbol& s) { return target_.find_symbol(s.expr.node()->name) != nullptr; });
  return g;
}

graph::Value* NodeImporter::predicate(const Scope& scope, const Argument& arg) {
  if (auto* t = arg.get<TensorArg>()) return find(scope, t->name);
  if (auto* b = arg.get<SymBoolArg>()) {
    if (!b->is_name()) return recorder_.value_of(ops::call1("scalar_tensor", {b->value, DType::Bool}));
    if (auto it = scope.read_numbers.find(b->name); it != scope.read_numbers.end()) return it->second;
    auto it = scope.graph->sym_bool_values.find(b->name);
    if (it != scope.graph->sym_bool_values.end() && it->second.expr) return recorder_.value_of(number_tensor(*it->second.expr, symbols_));
  }
  fail<UserError>("the condition of a branch is {}; a tensor or a relation between sizes is expected", arg.tag());
}

void NodeImporter::import_control_flow(Scope& scope, const ExportedNode& node) {
  std::string_view name = higher_order(node.target);
  auto where = !node.source.empty() ? node.source : node.name;
  graph::Node* n = nullptr;
  if (name == "cond") {
    TOROID_USER_CHECK(node.inputs.size() >= 3, "cond has {} operands; at least 3 are expected", node.inputs.size());
    graph::Value* condition = predicate(scope, node.inputs[0].arg);
    auto operands = operand_values(scope, node, 3, node.inputs.size());
    auto yes = region(graph_operand(node, 1), operands, "true"), no = region(graph_operand(node, 2), operands, "false");
    n = graph::add_region_node(target_, graph::cond_op(), {condition, {}, {}, operands}, {yes, no}, where);
  } else if (name == "while_loop") {
    auto carried = operand_values(scope, node, 2, 3), extra = operand_values(scope, node, 3, node.inputs.size());
    auto all = carried;
    all.insert(all.end(), extra.begin(), extra.end());
    auto condition = region(graph_operand(node, 0), all, "condition"), body = region(graph_operand(node, 1), all, "body");
    n = graph::add_region_node(target_, graph::while_loop_op(), {{}, {}, carried, extra}, {condition, body}, where);
  } else {
    auto init = operand_values(scope, node, 1, 2), xs = operand_values(scope, node, 2, 3),
         extra = operand_values(scope, node, 3, node.inputs.size());
    // The region sees one slice of each scanned tensor: stand-in values of that type.
    graph::Graph slices;
    auto all = init;
    for (auto* x : xs) {
      TensorType type = x->type;
      TOROID_USER_CHECK(!type.sizes.empty(), "scan over a tensor without dimensions");
      type.sizes.erase(type.sizes.begin());
      all.push_back(slices.new_value(std::move(type), "slice"));
    }
    all.insert(all.end(), extra.begin(), extra.end());
    auto combine = region(graph_operand(node, 0), all, "combine");
    n = graph::add_region_node(target_, graph::scan_op(), {{}, init, xs, extra}, {combine}, where);
  }
  bind_results(scope, node, n->results, 0);
}

void NodeImporter::bind_results(Scope& scope, const ExportedNode& node, const std::vector<graph::Value*>& results, size_t returns) {
  size_t next = 0;
  auto bind = [&](const std::string& name) {
    TOROID_CHECK(next < results.size(), "{} has {} results; the file has more", describe(node), results.size());
    graph::Value* v = results[next++];
    scope.values[name] = v;
    check_type(scope, node, name, *v);
  };
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const Argument& out = node.outputs[i];
    if (auto* t = out.get<TensorArg>())
      bind(t->name);
    else if (auto* list = out.get<TensorsArg>())
      for (auto& name : list->names) bind(name);
    else if (auto* maybe = out.get<OptionalTensorArg>(); maybe && maybe->name)
      bind(*maybe->name);
    else if (i < returns)
      ++next;  // a result that PyTorch leaves undefined
  }
}

// Sizes that only the run tells: what our type rules call by fresh symbols has a name in the file already.
void NodeImporter::adopt_symbols(Scope& scope, const ExportedNode& node, const std::vector<graph::Value*>& results, size_t symbols_before) {
  std::vector<std::string> names;
  for (auto& out : node.outputs) {
    if (auto* t = out.get<TensorArg>())
      names.push_back(t->name);
    else if (auto* list = out.get<TensorsArg>())
      names.insert(names.end(), list->names.begin(), list->names.end());
    else
      names.emplace_back();
  }
  std::map<std::string, Expr> renamed;
  for (size_t i = 0; i < std::min(names.size(), results.size()); ++i) {
    auto meta = scope.graph->tensor_values.find(names[i]);
    if (meta == scope.graph->tensor_values.end() || meta->second.sizes.size() != results[i]->type.sizes.size()) continue;
    for (size_t d = 0; d < results[i]->type.sizes.size(); ++d) {
      const Expr& ours = results[i]->type.sizes[d];
      Expr stated = symbols_.expr(meta->second.sizes[d]);
      if (ours.kind() != sym::Kind::Symbol || !is_data_dependent(stated)) continue;
      for (size_t s = symbols_before; s < target_.symbols.size(); ++s)
        if (target_.symbols[s].expr == ours) renamed.emplace(ours.node()->name, stated);
    }
  }
  auto rename = [&](const Expr& e) {
    return sym::substitute(e, [&](const sym::Node& s) {
      auto it = renamed.find(s.name);
      return it == renamed.end() ? std::nullopt : std::optional(it->second);
    });
  };
  for (auto* r : results)
    for (auto& s : r->type.sizes) s = rename(s);
  for (auto& g : target_.guards) g = {g.rel, rename(g.a), rename(g.b)};
  std::erase_if(target_.symbols, [&](const graph::Symbol& s) { return renamed.count(s.expr.node()->name) > 0; });
}

bool NodeImporter::may_equal(const Expr& a, const Expr& b) const {
  if (auto k = sym::known({sym::Rel::Eq, a, b})) return *k;
  for (auto& g : target_.guards)
    if (g.rel == sym::Rel::Eq) return true;  // what equalities between symbols imply is left to the run
  if (is_data_dependent(a) || is_data_dependent(b)) return true;
  for (uint64_t trial = 1; trial <= 4; ++trial) {
    auto value = [&](const sym::Node& s) {
      int64_t lo = std::max<int64_t>(s.lo, 0), span = std::clamp<int64_t>(s.hi - lo, 0, 96);
      return lo + static_cast<int64_t>((s.hash >> 7) * trial % static_cast<uint64_t>(span + 1));
    };
    if (sym::evaluate(a, value) != sym::evaluate(b, value)) return false;
  }
  return true;
}

void NodeImporter::check_type(const Scope& scope, const ExportedNode& node, const std::string& name, const graph::Value& value) {
  auto it = scope.graph->tensor_values.find(name);
  if (it == scope.graph->tensor_values.end() || !is_type_reliable(node, name)) return;
  TensorType stated = symbols_.type(it->second);
  bool same = stated.dtype == value.type.dtype && stated.sizes.size() == value.type.sizes.size();
  for (size_t d = 0; same && d < stated.sizes.size(); ++d) same = may_equal(value.type.sizes[d], stated.sizes[d]);
  if (same) return;
  TensorType ours = value.type;
  ours.strides.clear();
  if (findings_.count++ < kMaxFindings)
    findings_.mismatches.push_back(fmt::format("node {}: \"{}\" is {} by Toroid's rules and {} in the file", describe(node), name,
                                               to_string(ours), to_string(stated)));
}

}  // namespace toroid::import
