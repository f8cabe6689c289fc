#include <algorithm>
#include <set>
#include <unordered_map>

#include "graph/effects.h"
#include "graph/passes/passes.h"
#include "graph/passes/rebuild.h"

namespace toroid::graph {
namespace {

// What becomes of the nodes from a product to the cast that reads it.
struct Widened {
  std::set<const Node*> products, views, casts;
};

const Value* first_operand(const Node& n) {
  const auto* v = n.args.empty() ? nullptr : std::get_if<Value*>(&n.args[0]);
  return v ? *v : nullptr;
}

bool is_widening(const Node& n) {
  const Value* from = n.op->name == "_to_copy" ? first_operand(n) : nullptr;
  return from && is_half(from->type.dtype) && n.results[0]->type.dtype == DType::F32 &&
         std::holds_alternative<std::monostate>(n.args[static_cast<size_t>(n.op->schema.find("device"))]);
}

// Of one tensor, whose elements it only moves.
bool is_view(const Node& n) {
  int operands = 0;
  for_each_operand(n, [&](const Value*) { ++operands; });
  return n.op->index_map && operands == 1 && n.results.size() == 1 && n.results[0]->type.dtype == first_operand(n)->type.dtype;
}

bool is_product(const Node& n) { return n.op->name == "mm" || n.op->name == "bmm"; }

Widened find(const Graph& g) {
  std::unordered_map<const Value*, int> uses;
  for (auto& n : g.nodes) for_each_operand(*n, [&](const Value* v) { ++uses[v]; });
  for (auto& o : g.outputs)
    if (o.value) ++uses[o.value];
  Widened out;
  for (auto& n : g.nodes) {
    if (!is_widening(*n)) continue;
    std::vector<const Node*> views;
    const Value* v = first_operand(*n);
    for (; uses[v] == 1 && v->producer && is_view(*v->producer); v = first_operand(*v->producer)) views.push_back(v->producer);
    if (uses[v] != 1 || !v->producer || !is_product(*v->producer)) continue;
    out.products.insert(v->producer);
    out.views.insert(views.begin(), views.end());
    out.casts.insert(n.get());
  }
  return out;
}

}  // namespace

std::unique_ptr<Graph> widen_products(const Graph& g) {
  const auto stays = [](auto& n) { return n->op->name == "prims.gradient_seed" || effects_of(*n).has(Effect::Writes); };
  if (std::any_of(g.nodes.begin(), g.nodes.end(), stays)) return nullptr;
  const Widened widened = find(g);
  if (widened.casts.empty()) return nullptr;
  Rebuild out(g);
  for (auto& n : g.nodes) {
    if (widened.casts.count(n.get())) {
      out.set(n->results[0], out.at(first_operand(*n)));
    } else if (widened.products.count(n.get())) {
      out.replace(*n, [&] {
        CallArgs args = out.args(*n);
        args.emplace_back(DType::F32);
        return std::vector<Tensor>{ops::call1(n->op->name + ".dtype", std::move(args))};
      });
    } else if (widened.views.count(n.get())) {
      out.replace(*n, [&] { return ops::call(*n->op, out.args(*n)); });
    } else {
      out.copy(*n);
    }
  }
  return out.finish();
}

}  // namespace toroid::graph
