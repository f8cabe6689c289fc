#include <algorithm>

#include "graph/passes/passes.h"
#include "graph/passes/rebuild.h"

namespace toroid::graph {
namespace {

// Draws move the stream of random numbers on for those after them.
bool has_effect(const Node& n) {
  if (n.op->effect || n.op->random || is_mutating(*n.op)) return true;
  for (auto& r : n.regions)
    for (auto& inner : r->nodes)
      if (has_effect(*inner)) return true;
  return false;
}

void drop_inputs(Graph& g, const std::vector<bool>& keep) {
  std::vector<Input> kept;
  std::vector<int> place(keep.size(), -1);
  for (size_t i = 0; i < keep.size(); ++i) {
    if (!keep[i]) continue;
    place[i] = static_cast<int>(kept.size());
    kept.push_back(std::move(g.inputs[i]));
  }
  g.inputs = std::move(kept);
  for (auto& o : g.outputs)
    if (o.mutates >= 0) o.mutates = place[static_cast<size_t>(o.mutates)];
}

}  // namespace

std::unique_ptr<Graph> dce(const Graph& g) {
  std::vector<bool> live(g.values.size(), false);
  auto mark = [&](const Value* v) { live[static_cast<size_t>(v->id)] = true; };
  for (auto& o : g.outputs)
    if (o.value) mark(o.value);
  std::vector<bool> keep(g.nodes.size(), false);
  bool drops = false;
  for (size_t i = g.nodes.size(); i-- > 0;) {
    const Node& n = *g.nodes[i];
    keep[i] = has_effect(n);
    for (auto* r : n.results) keep[i] = keep[i] || live[static_cast<size_t>(r->id)];
    if (keep[i])
      for_each_operand(n, mark);
    else
      drops = true;
  }
  std::vector<bool> keep_input;
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    bool written = std::any_of(g.outputs.begin(), g.outputs.end(), [&](auto& o) { return o.mutates == static_cast<int>(i); });
    keep_input.push_back(written || g.inputs[i].kind != InputKind::Constant || live[static_cast<size_t>(g.inputs[i].value->id)]);
    drops = drops || !keep_input.back();
  }
  if (!drops) return nullptr;
  Rebuild out(g);
  for (size_t i = 0; i < g.nodes.size(); ++i)
    if (keep[i]) out.copy(*g.nodes[i]);
  auto after = out.finish();
  drop_inputs(*after, keep_input);
  return after;
}

}  // namespace toroid::graph
