#include <map>

#include "graph/passes/arguments.h"
#include "graph/passes/movement.h"
#include "graph/passes/passes.h"
#include "graph/passes/rebuild.h"
#include "graph/recipe.h"
#include "tensor/late_stack.h"

namespace toroid::graph {
namespace {

// x . W^T, perhaps + bias, with constant W [n, k] and bias [n].
struct Linear {
  const Node* product = nullptr;
  const Node* sum = nullptr;  // nullptr: no bias
  Tensor weight, bias;
  const Node* last() const { return sum ? sum : product; }
};

Tensor constant_of(const Graph& g, const Value* v) {
  for (auto& in : g.inputs)
    if (in.value == v && in.kind == InputKind::Constant) return in.data;
  return {};
}

std::optional<Linear> match(const Graph& g, const Node& n, const std::map<const Value*, std::vector<const Node*>>& users) {
  if (n.op->name != "mm") return std::nullopt;
  const Value* b = operand(n, 1);
  if (!b->producer || !is_permute(*b->producer->op) || permutation(*b->producer)[0] != 1) return std::nullopt;
  Linear l{&n, nullptr, constant_of(g, operand(*b->producer, 0)), {}};
  if (!l.weight.defined()) return std::nullopt;
  auto it = users.find(n.results[0]);
  if (it == users.end() || it->second.size() != 1) return l;
  const Node* user = it->second[0];
  if (!user || user->op->name != "add.Tensor") return l;
  const Value *x = operand(*user, 0), *y = operand(*user, 1);
  const Value* other = x == n.results[0] ? y : x;
  auto* alpha = std::get_if<Expr>(&user->args[2]);
  Tensor bias = other ? constant_of(g, other) : Tensor();
  if (alpha && *alpha == Expr(1) && bias.defined() && bias.sizes().size() == 1 && bias.sizes()[0] == l.weight.sizes()[0] &&
      bias.dtype() == l.weight.dtype() && bias.device() == l.weight.device()) {
    l.sum = user;
    l.bias = bias;
  }
  return l;
}

Tensor stacked(const std::vector<Tensor>& parts) {
  const Tensor out = stack_late(parts);
  set_recipe(out, {.op = ops::table().find("cat"), .args = {parts, Expr(0)}});
  return out;
}

}  // namespace

std::unique_ptr<Graph> merge_linear(const Graph& g) {
  std::map<const Value*, std::vector<const Node*>> users;
  for (auto& n : g.nodes) for_each_operand(*n, [&](const Value* v) { users[v].push_back(n.get()); });
  for (auto& o : g.outputs)
    if (o.value) users[o.value].push_back(nullptr);
  std::map<const Value*, std::vector<Linear>> by_input;
  for (auto& n : g.nodes)
    if (auto l = match(g, *n, users)) {
      auto& same = by_input[operand(*n, 0)];
      bool fits = same.empty() || (same[0].weight.dtype() == l->weight.dtype() && same[0].weight.device() == l->weight.device() &&
                                   (same[0].sum != nullptr) == (l->sum != nullptr));
      if (fits) same.push_back(std::move(*l));
    }
  std::map<const Node*, const std::vector<Linear>*> groups;
  for (auto& [input, list] : by_input)
    if (list.size() > 1)
      for (auto& l : list) {
        groups[l.product] = &list;
        if (l.sum) groups[l.sum] = &list;
      }
  if (groups.empty()) return nullptr;

  Rebuild out(g);
  std::map<const Node*, Tensor> results;  // of the members' last nodes
  for (auto& n : g.nodes) {
    auto it = groups.find(n.get());
    if (it == groups.end()) {
      out.copy(*n);
      continue;
    }
    const auto& list = *it->second;
    if (!results.count(list[0].last())) {
      out.recorder().stand_in_for(*n);
      std::vector<Tensor> weights, biases;
      for (auto& l : list) {
        weights.push_back(l.weight);
        biases.push_back(l.bias);
      }
      Tensor w = ops::call1("permute", {stacked(weights), std::vector<Expr>{1, 0}});
      Tensor y = ops::call1("mm", {out.at(operand(*list[0].product, 0)), w});
      if (list[0].sum) y = ops::call1("add.Tensor", {y, stacked(biases)});
      int64_t column = 0;
      for (auto& l : list) {
        int64_t next = column + l.weight.sizes()[0];
        results[l.last()] = ops::call1("slice.Tensor", {y, Expr(1), Expr(column), Expr(next)});
        column = next;
      }
    }
    if (auto r = results.find(n.get()); r != results.end()) out.set(n->results[0], r->second);
  }
  return out.finish();
}

}  // namespace toroid::graph
