#include <algorithm>
#include <map>
#include <set>

#include "graph/effects.h"
#include "graph/passes/passes.h"
#include "graph/passes/rebuild.h"

namespace toroid::graph {
namespace {

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

// Sizes that only the run tells: the node that determines one stays while one that is kept uses it, though nothing reads its results.
class FreshSizes {
 public:
  explicit FreshSizes(const Graph& g) {
    std::set<std::string> open;
    for (auto& s : g.symbols)
      if (s.unbacked) open.insert(s.expr.node()->name);
    for (size_t i = 0; i < g.nodes.size() && !open.empty(); ++i)
      for (auto* r : g.nodes[i]->results)
        for (auto& s : r->type.sizes)
          if (s.kind() == sym::Kind::Symbol && open.erase(s.node()->name)) determines_[g.nodes[i].get()].push_back(s.node()->name);
  }

  void use(const Expr& e) {
    if (determines_.empty()) return;
    sym::for_each_symbol(e, [&](const Expr& s) { used_.insert(s.node()->name); });
  }
  void use(const Node& n) {
    if (determines_.empty()) return;
    for (auto& a : n.args) {
      if (auto* e = std::get_if<Expr>(&a)) use(*e);
      if (auto* list = std::get_if<std::vector<Expr>>(&a))
        for (auto& e : *list) use(e);
    }
    for (auto* r : n.results)
      for (auto& s : r->type.sizes) use(s);
    for (auto& region : n.regions) {
      for (auto& inner : region->nodes) use(*inner);
      for (auto& in : region->inputs)
        for (auto& s : in.value->type.sizes) use(s);
    }
  }
  bool needs(const Node& n) const {
    auto it = determines_.find(&n);
    return it != determines_.end() && std::any_of(it->second.begin(), it->second.end(), [&](auto& name) { return used_.count(name) > 0; });
  }

 private:
  std::map<const Node*, std::vector<std::string>> determines_;
  std::set<std::string> used_;
};

}  // namespace

std::unique_ptr<Graph> dce(const Graph& g) {
  std::vector<bool> live(g.values.size(), false);
  FreshSizes sizes(g);
  auto mark = [&](const Value* v) { live[static_cast<size_t>(v->id)] = true; };
  for (auto& o : g.outputs) {
    if (o.value) mark(o.value);
    if (auto* e = std::get_if<Expr>(&o.literal)) sizes.use(*e);
  }
  std::vector<bool> keep(g.nodes.size(), false);
  bool drops = false;
  for (size_t i = g.nodes.size(); i-- > 0;) {
    const Node& n = *g.nodes[i];
    keep[i] = effects_of(n).any() || sizes.needs(n);
    for (auto* r : n.results) keep[i] = keep[i] || live[static_cast<size_t>(r->id)];
    if (!keep[i]) {
      drops = true;
      continue;
    }
    for_each_operand(n, mark);
    sizes.use(n);
  }
  std::vector<bool> keep_input, written(g.inputs.size(), false);
  for (auto& o : g.outputs)
    if (o.mutates >= 0) written[static_cast<size_t>(o.mutates)] = true;
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    keep_input.push_back(written[i] || g.inputs[i].kind != InputKind::Constant || live[static_cast<size_t>(g.inputs[i].value->id)]);
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
