#include "import/pt2_nodes.h"

#include <algorithm>
#include <array>
#include <map>

#include "base/check.h"
#include "graph/known_sizes.h"
#include "import/named_guards.h"
#include "import/sym_tensors.h"
#include "ops/autocast.h"
#include "ops/refused.h"

namespace toroid::import {
namespace {

constexpr size_t kMaxFindings = 8;

// States facts about sizes and metadata that the file itself holds.
bool only_asserts(const ExportedNode& node) {
  static constexpr std::array<std::string_view, 4> kNames = {"_assert_tensor_metadata", "sym_constrain_range",
                                                             "sym_constrain_range_for_size", "_assert_scalar"};
  return std::find(kNames.begin(), kNames.end(), short_target(node.target)) != kNames.end();
}

bool is_inlined(std::string_view name) {
  static constexpr std::string_view kNames[] = {"wrap_with_set_grad_enabled", "wrap_with_autocast", "invoke_subgraph", "wrap",
                                                "tag_activation_checkpoint",  "strict_mode"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}
bool is_control_flow(std::string_view name) {
  static constexpr std::string_view kNames[] = {"cond", "while_loop", "scan", "map_impl", "associative_scan"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

// Takes a number out of a tensor.
bool reads_number(const ExportedNode& node) {
  std::string_view name = short_target(node.target);
  return name == "_local_scalar_dense" || name == "item";
}

// Its results are numbers made of sizes: the file states them in closed form.
bool computes_sizes(const ExportedNode& node) {
  if (reads_number(node) || node.outputs.empty()) return false;
  return std::all_of(node.outputs.begin(), node.outputs.end(), [](const Argument& a) {
    return a.is<SymIntArg>() || a.is<SymFloatArg>() || a.is<SymBoolArg>() || a.is<int64_t>() || a.is<double>() || a.is<bool>();
  });
}

// The view that a node gives its first argument for good (t_, squeeze_, detach_): it changes what the tensor is, not what it holds.
const ops::Op* lasting_view(const ExportedNode& node) {
  std::string name(short_target(node.target));
  size_t end = std::min(name.find('.'), name.size());
  if (end == 0 || name[end - 1] != '_' || ops::table().find(name) || node.inputs.empty() || !node.inputs[0].arg.is<TensorArg>())
    return nullptr;
  name.erase(end - 1, 1);
  const ops::Op* op = ops::table().find(name);
  if (!op) op = ops::table().find(name + ".int");
  return op && op->schema.params[0].alias ? op : nullptr;
}

// torch.func.vmap is there as the calls that enter and leave it: what lies between them is written for one element of the batch.
bool is_vmap(std::string_view target) { return target.starts_with("torch._functorch."); }

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

// Where the call of a node is written, as far as the file tells.
const std::string& place_of(const ExportedNode& node) {
  return !node.source.empty() ? node.source : !node.name.empty() ? node.name : node.target;
}

std::string describe(const ExportedNode& node) {
  std::string out = node.name.empty() ? "" : fmt::format("\"{}\" ", node.name);
  out += fmt::format("({}", short_target(node.target));
  if (!node.source.empty()) out += fmt::format(", {}", node.source);
  return out + ")";
}

bool is_data_dependent(const SymValues& symbols, const Expr& e) {
  bool out = false;
  sym::for_each_symbol(e, [&](const Expr& s) { out = out || symbols.is_unbacked(s.node()->name); });
  return out;
}

// PyTorch's own type rules are loose about results that nobody reads, and give unique_consecutive too many dimensions when its
// dimension counts from the end. What embedding_bag returns beside the bags is for its gradient, and empty where PyTorch takes a short cut.
bool is_type_reliable(const ExportedNode& node, const std::string& name) {
  if (name.find("_unused_") != std::string::npos) return false;
  if (short_target(node.target).starts_with("embedding_bag")) {
    auto* bags = node.outputs.empty() ? nullptr : node.outputs[0].get<TensorArg>();
    return bags && bags->name == name;
  }
  if (short_target(node.target) != "unique_consecutive") return true;
  auto* dim = node.find_input("dim");
  return !dim || !dim->is<int64_t>() || *dim->get<int64_t>() >= 0;
}

// What attention gives for heads whose width changes from call to call: the usual scale is a number that is made of the width, so that the
// queries are scaled instead. Undefined for all other calls.
Tensor attention_of_any_width(const ops::Op& op, const CallArgs& args) {
  if (op.name != "scaled_dot_product_attention") return {};
  const ops::CallReader c(op, args);
  Tensor query = c.tensor("query");
  if (query.dim() == 0 || query.size(-1).expr().is_const()) return {};
  double scale = 1;
  if (c.has("scale"))
    scale = c.real("scale");
  else
    query = ops::call1("mul.Tensor",
                       {query, ops::call1("rsqrt", {ops::call1("scalar_tensor", {sym::max(query.size(-1).expr(), 1), DType::F64})})});
  return ops::call("_scaled_dot_product_attention_math", {query, c.at("key"), c.at("value"), c.at("attn_mask"), c.at("dropout_p"),
                                                          c.at("is_causal"), std::monostate{}, scale, c.at("enable_gqa")})[0];
}

void count_unknown(const ExportedGraph& graph, std::map<std::string, size_t>& unknown) {
  for (auto& node : graph.nodes) {
    for (auto& in : node.inputs)
      if (auto* sub = in.arg.get<GraphArg>()) count_unknown(*sub->graph, unknown);
    if (computes_sizes(node) || only_asserts(node) || reads_number(node) || lasting_view(node)) continue;
    TOROID_USER_CHECK(!is_vmap(node.target),
                      "the program holds a torch.func.vmap region that is not written out; export it with "
                      "torch.export.export(...).run_decompositions() and save that");
    std::string target = node.target;
    std::string_view name = higher_order(target);
    if (name == "with_effects")
      target = unwrap_effects(node).target;
    else if (is_inlined(name) || is_control_flow(name))
      continue;
    if (!ops::table().find(target)) ++unknown[std::string(short_target(target))];
  }
}

}  // namespace

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

void check_operations(const ExportedGraph& graph, const std::string& source) {
  std::map<std::string, size_t> unknown;
  count_unknown(graph, unknown);
  if (unknown.empty()) return;
  std::string list;
  for (auto& [name, count] : unknown) {
    list += fmt::format("\n  {} ({} node{})", name, count, count == 1 ? "" : "s");
    if (auto* known = ops::find_refused(name)) {
      list += fmt::format("; {}", known->reason);
      continue;
    }
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
      recorder_.set_where(place_of(node));
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
  if (reads_number(node)) return import_number(scope, node);
  import_call(scope, node);
}

// The form with a tensor in place of the number `other`, for one that follows from sizes; null where there is nothing to change. Floats
// alone keep their dtype beside such a tensor.
const ops::Op* NodeImporter::tensor_form(const Scope& scope, const ExportedNode& node, const ops::Op& op) const {
  constexpr std::string_view kScalar = ".Scalar";
  auto *self = node.find_input("self"), *other = node.find_input("other");
  auto* tensor = self ? self->get<TensorArg>() : nullptr;
  auto* number = other ? other->get<SymFloatArg>() : nullptr;
  if (!op.name.ends_with(kScalar) || !tensor || !number || !number->is_name()) return nullptr;
  if (!is_float(find(scope, tensor->name)->type.dtype)) return nullptr;
  return ops::table().find(op.name.substr(0, op.name.size() - kScalar.size()) + ".Tensor");
}

void NodeImporter::import_call(Scope& scope, const ExportedNode& node) {
  const ops::Op* lasting = lasting_view(node);
  const ops::Op* op = lasting ? lasting : ops::table().find(node.target);
  if (const ops::Op* form = op ? tensor_form(scope, node, *op) : nullptr) op = form;
  TOROID_CHECK(op, "no row for {}", node.target);
  const size_t symbols_before = target_.symbols.size(), guards_before = target_.guards.size();
  if (graph::Value* row = selected_by_number(scope, node)) return bind_results(scope, node, {row}, 1);
  auto args = ops::complete(*op, call_args(scope, node, *op));
  args = autocast_args(scope, node, *op, std::move(args));
  const Tensor attended = attention_of_any_width(*op, args);
  const auto tensors =
      attended.defined() ? std::vector<Tensor>{attended} : recorder_.call(*op, std::move(args), std::source_location::current());
  name_guards(target_, guards_before, short_target(node.target), place_of(node),
              "export the program with a static dimension, or with example inputs of other sizes");
  std::vector<graph::Value*> results;
  for (auto& t : tensors) results.push_back(recorder_.value_of(t));
  if (target_.symbols.size() > symbols_before) adopt_symbols(scope, node, results, symbols_before);
  if (lasting) scope.values[node.inputs[0].arg.get<TensorArg>()->name] = results.at(0);
  bind_results(scope, node, results, op->schema.returns.size());
}

// Under autocast, by the rules of the device that the program was exported on; here all tensors are where the graph is.
CallArgs NodeImporter::autocast_args(const Scope& scope, const ExportedNode& node, const ops::Op& op, CallArgs args) const {
  for (auto& in : node.inputs) {
    const std::string* name = nullptr;
    if (auto* t = in.arg.get<TensorArg>()) name = &t->name;
    if (auto* list = in.arg.get<TensorsArg>(); list && !list->names.empty()) name = &list->names[0];
    auto meta = name ? scope.graph->tensor_values.find(*name) : scope.graph->tensor_values.end();
    if (meta == scope.graph->tensor_values.end()) continue;
    auto rules = meta->second.device.type == "cuda" ? DeviceType::Cuda : DeviceType::Cpu;
    return ops::autocast_args(op, std::move(args), Device::cpu(), rules, std::source_location::current());
  }
  return args;
}

void NodeImporter::import_number(Scope& scope, const ExportedNode& node) {
  auto* self = node.find_input("self");
  TOROID_USER_CHECK(self && self->is<TensorArg>() && node.outputs.size() == 1, "a number is read from something that is no tensor");
  graph::Value* v = find(scope, self->get<TensorArg>()->name);
  if (auto* i = node.outputs[0].get<SymIntArg>()) {
    scope.read_numbers[i->name] = v;
    auto it = scope.graph->sym_int_values.find(i->name);
    if (it == scope.graph->sym_int_values.end() || !it->second.is_expr) return;
    Expr symbol = symbols_.expr(it->second);
    if (symbol.kind() == sym::Kind::Symbol) numbers_from_data_.emplace(symbol.node()->name, v);
  }
  if (auto* f = node.outputs[0].get<SymFloatArg>()) scope.read_numbers[f->name] = v;
  if (auto* b = node.outputs[0].get<SymBoolArg>()) scope.read_numbers[b->name] = v;
}

// What select.int takes at a position that the program reads from a tensor: the index is checked where it is used, and may be negative.
graph::Value* NodeImporter::selected_by_number(Scope& scope, const ExportedNode& node) {
  if (short_target(node.target) != "select.int") return nullptr;
  auto *self = node.find_input("self"), *dim = node.find_input("dim"), *index = node.find_input("index");
  auto* position = index ? index->get<SymIntArg>() : nullptr;
  if (!position || !position->is_name() || !scope.read_numbers.count(position->name) || !self || !dim || !dim->is<int64_t>())
    return nullptr;
  Tensor at = ops::call1("reshape", {recorder_.proxy(scope.read_numbers.at(position->name)), std::vector<Expr>{1}});
  Tensor from = tensor(scope, self->get<TensorArg>()->name);
  std::vector<Tensor> indices(static_cast<size_t>(ops::normal_dim(ops::get("select.int"), *dim->get<int64_t>(), from.dim())));
  indices.push_back(at);
  Tensor rows = ops::call1("index.Tensor", {from, indices});
  return recorder_.value_of(ops::call1("squeeze.dim", {rows, Expr(*dim->get<int64_t>())}));
}

// Numbers that are read from tensors become sizes where one uses them: the rows of an empty tensor, which the run counts.
void NodeImporter::define_sizes(const Expr& e) {
  std::vector<Expr> missing;
  sym::for_each_symbol(e, [&](const Expr& s) {
    if (numbers_from_data_.count(s.node()->name)) missing.push_back(s);
  });
  for (auto& symbol : missing) {
    auto number = numbers_from_data_.extract(symbol.node()->name);
    TOROID_USER_CHECK(symbol.node()->lo >= 0,
                      "the number {} is read from a tensor, used as a size or an index, and may be negative; state what it can be with "
                      "torch._check(n >= 0) before it is used",
                      symbol.node()->name);
    size_t symbols_before = target_.symbols.size();
    Tensor rows = ops::call1("_number_as_size", {recorder_.proxy(number.mapped()), Expr(symbol.node()->hi)});
    recorder_.value_of(rows)->type.sizes[0] = symbol;
    target_.symbols.resize(symbols_before);
    defined_.insert(symbol.node()->name);
  }
}

// Conditions on sizes become guards, those on sizes that only the run tells where it tells them. What states facts about numbers that are
// read from tensors and never become sizes is left out.
void NodeImporter::import_assertion(Scope& scope, const ExportedNode& node) {
  auto* self = node.find_input("self");
  auto* condition = self ? self->get<SymBoolArg>() : nullptr;
  if (short_target(node.target) != "_assert_scalar" || !condition || !condition->is_name()) return;
  auto it = scope.graph->sym_bool_values.find(condition->name);
  if (it == scope.graph->sym_bool_values.end() || !it->second.expr) return;
  auto relations = symbols_.relations(*it->second.expr);
  if (!relations) return;
  for (auto& r : *relations)
    if (!sym::known(r) && are_defined(r.a) && are_defined(r.b)) target_.guards.push_back(r);
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
      if (ours.kind() != sym::Kind::Symbol || !is_data_dependent(symbols_, stated)) continue;
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
  for (auto& g : target_.guards) g = sym::with_sides(g, rename(g.a), rename(g.b));
  std::erase_if(target_.symbols, [&](const graph::Symbol& s) { return renamed.count(s.expr.node()->name) > 0; });
  for (auto& [ours, stated] : renamed)
    if (stated.kind() == sym::Kind::Symbol) defined_.insert(stated.node()->name);
}

bool NodeImporter::are_defined(const Expr& e) const {
  bool out = true;
  sym::for_each_symbol(e, [&](const Expr& s) { out = out && (!symbols_.is_unbacked(s.node()->name) || defined_.count(s.node()->name)); });
  return out;
}

// The same of sizes from 2 on, of which alone PyTorch's rules are: in programs that are for 0 and 1, too, these are left to Toroid's rules.
Expr NodeImporter::from_two(const Expr& e) const {
  return sym::substitute(e, [&](const sym::Node& s) -> std::optional<Expr> {
    if (s.lo >= 2 || s.hi < 2 || symbols_.is_unbacked(s.name)) return std::nullopt;
    return sym::symbol(s.name, 2, s.hi);
  });
}

// Whether dimension d of a result, which is `ours` by Toroid's rules, has the size that the file states. Where neither rules nor guards
// tell and the example inputs do not contradict it, the program requires it: PyTorch has it of a guard, which the file does not hold, or of
// rules for expressions that Toroid does not have.
bool NodeImporter::agree(const ExportedNode& node, const std::string& name, size_t d, const Expr& ours, const Expr& stated) {
  const sym::Relation same{sym::Rel::Eq, ours, stated};
  if (auto k = graph::known_by_guards(target_.guards, same)) return *k;
  if (!are_defined(ours) || !are_defined(stated)) return true;
  if (sym::known({sym::Rel::Eq, from_two(ours), from_two(stated)}).value_or(false)) return true;
  bool hinted = true;
  const bool holds = sym::holds(same, [&](const sym::Node& s) {
    auto it = symbols_.hints().find(s.name);
    hinted = hinted && it != symbols_.hints().end();
    return hinted ? it->second : int64_t{1};
  });
  if (hinted && !holds) return false;
  const std::string origins = origins_text(target_, ours - stated);
  target_.guards.push_back({same, fmt::format("{}: dimension {} of \"{}\" is {} in the exported program{}{}; export it with other example "
                                              "inputs for other sizes (called at {})",
                                              short_target(node.target), d, name, sym::to_string(stated), origins.empty() ? "" : ", where ",
                                              origins, place_of(node))});
  return true;
}

void NodeImporter::check_type(const Scope& scope, const ExportedNode& node, const std::string& name, const graph::Value& value) {
  auto it = scope.graph->tensor_values.find(name);
  if (it == scope.graph->tensor_values.end() || !is_type_reliable(node, name)) return;
  TensorType stated = symbols_.type(it->second);
  bool same = stated.dtype == value.type.dtype && stated.sizes.size() == value.type.sizes.size();
  for (size_t d = 0; same && d < stated.sizes.size(); ++d) same = agree(node, name, d, value.type.sizes[d], stated.sizes[d]);
  if (same) return;
  const bool cast = is_autocast_enabled(DeviceType::Cpu) || is_autocast_enabled(DeviceType::Cuda);
  TOROID_USER_CHECK(!cast || stated.dtype == value.type.dtype,
                    "the program holds an autocast region, and the file states {} where autocast gives {}; export it with "
                    "torch.export.export(..., strict=False), or run_decompositions() and save that",
                    name_of(stated.dtype), name_of(value.type.dtype));
  TensorType ours = value.type;
  ours.strides.clear();
  if (findings_.count++ < kMaxFindings)
    findings_.mismatches.push_back(fmt::format("node {}: \"{}\" is {} by Toroid's rules and {} in the file", describe(node), name,
                                               to_string(ours), to_string(stated)));
}

}  // namespace toroid::import
