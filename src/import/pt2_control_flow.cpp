// The half of NodeImporter that takes sub-graphs: those that become part of the graph around them, and control flow.
#include "base/check.h"
#include "graph/control_flow.h"
#include "import/pt2_nodes.h"
#include "import/sym_tensors.h"

namespace toroid::import {
namespace {

const ExportedGraph& graph_operand(const ExportedNode& node, size_t index) {
  auto* g = index < node.inputs.size() ? node.inputs[index].arg.get<GraphArg>() : nullptr;
  TOROID_USER_CHECK(g && g->graph, "{}: operand {} must be a graph", short_target(node.target), index);
  return *g->graph;
}

}  // namespace

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

// wrap_with_autocast(device, dtype, enabled, cache, graph, operands...): the nodes inside are there as they were called, without casts.
std::unique_ptr<autocast> NodeImporter::enter_autocast(const ExportedNode& node) {
  auto* device = node.inputs.size() > 2 ? node.inputs[0].arg.get<std::string>() : nullptr;
  auto* enabled = device ? node.inputs[2].arg.get<bool>() : nullptr;
  TOROID_USER_CHECK(enabled, "wrap_with_autocast names no device, or not whether it is enabled");
  std::optional<DType> dtype;
  if (auto* t = node.inputs[1].arg.get<ScalarTypeArg>()) dtype = dtype_from_scalar_type(t->number);
  bool known = *device == "cpu" || *device == "cuda";
  TOROID_USER_CHECK(known || !*enabled, "the program holds an autocast region for the device \"{}\"; those for cpu and cuda are supported",
                    *device);
  if (!known) return nullptr;
  return std::make_unique<autocast>(*device == "cuda" ? DeviceType::Cuda : DeviceType::Cpu, *enabled ? dtype : std::nullopt, *enabled);
}

void NodeImporter::import_inlined(Scope& scope, const ExportedNode& node) {
  std::unique_ptr<autocast> region;
  if (higher_order(node.target) == "wrap_with_autocast") region = enter_autocast(node);
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
  inner.defined_ = defined_;
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

// The operands of a scan's region: of what is scanned over it sees one slice, stand-in values of that type.
std::vector<graph::Value*> NodeImporter::with_slices(std::vector<graph::Value*> init, const std::vector<graph::Value*>& xs,
                                                     const std::vector<graph::Value*>& extra) {
  for (auto* x : xs) {
    TensorType type = x->type;
    TOROID_USER_CHECK(!type.sizes.empty(), "scan over a tensor without dimensions");
    type.sizes.erase(type.sizes.begin());
    init.push_back(slices_.new_value(std::move(type), "slice"));
  }
  init.insert(init.end(), extra.begin(), extra.end());
  return init;
}

graph::Node* NodeImporter::add_scan(std::shared_ptr<graph::Graph> combine, const std::vector<graph::Value*>& init,
                                    const std::vector<graph::Value*>& xs, const std::vector<graph::Value*>& extra,
                                    const std::string& where) {
  return graph::add_region_node(target_, graph::scan_op(), {{}, init, xs, extra}, {std::move(combine)}, where);
}

// associative_scan(graph, xs, extra): the first slices, and what a scan that carries them makes of the others.
std::vector<graph::Value*> NodeImporter::running_values(const Scope& scope, const ExportedNode& node, const std::string& where) {
  auto xs = operand_values(scope, node, 1, 2), extra = operand_values(scope, node, 2, node.inputs.size());
  std::vector<graph::Value*> first, others, results;
  for (auto* x : xs) {
    TOROID_USER_CHECK(!x->type.sizes.empty() && !(x->type.sizes[0] == Expr(0)), "associative_scan over a tensor without elements");
    first.push_back(recorder_.value_of(ops::call1("select.int", {recorder_.proxy(x), Expr(0), Expr(0)})));
    others.push_back(recorder_.value_of(ops::call1("slice.Tensor", {recorder_.proxy(x), Expr(0), Expr(1), {}, Expr(1)})));
  }
  auto combine = region(graph_operand(node, 0), with_slices(first, others, extra), "combine");
  TOROID_USER_CHECK(combine->outputs.size() == xs.size(), "associative_scan combines {} tensors into {}", xs.size(),
                    combine->outputs.size());
  auto values = combine->outputs;
  combine->outputs.insert(combine->outputs.end(), values.begin(), values.end());
  graph::Node* n = add_scan(std::move(combine), first, others, extra, where);
  for (size_t i = 0; i < xs.size(); ++i) {
    Tensor head = ops::call1("unsqueeze", {recorder_.proxy(first[i]), Expr(0)});
    results.push_back(
        recorder_.value_of(ops::call1("cat", {std::vector<Tensor>{head, recorder_.proxy(n->results[xs.size() + i])}, Expr(0)})));
  }
  return results;
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
  } else if (name == "scan") {
    auto init = operand_values(scope, node, 1, 2), xs = operand_values(scope, node, 2, 3),
         extra = operand_values(scope, node, 3, node.inputs.size());
    n = add_scan(region(graph_operand(node, 0), with_slices(init, xs, extra), "combine"), init, xs, extra, where);
  } else if (name == "map_impl") {
    auto xs = operand_values(scope, node, 1, 2), extra = operand_values(scope, node, 2, node.inputs.size());
    n = add_scan(region(graph_operand(node, 0), with_slices({}, xs, extra), "body"), {}, xs, extra, where);
  } else {
    return bind_results(scope, node, running_values(scope, node, where), 0);
  }
  bind_results(scope, node, n->results, 0);
}

}  // namespace toroid::import
