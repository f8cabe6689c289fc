#include <algorithm>

#include "base/mutants.h"
#include "graph/effects.h"
#include "graph/passes/passes.h"
#include "graph/passes/rebuild.h"

namespace toroid::graph {

std::unique_ptr<Graph> cse(const Graph& g) {
  if (std::any_of(g.nodes.begin(), g.nodes.end(), [](auto& n) { return effects_of(*n).has(Effect::Writes); })) return nullptr;
  Rebuild out(g);
  std::unordered_map<std::string, const Node*> seen;
  bool changed = false;
  for (auto& n : g.nodes) {
    if (!is_pure(*n) || n->results.empty()) {
      out.copy(*n);
      continue;
    }
    std::string key = n->op->name;
    for (auto& a : out.node_args(*n)) key += ", " + to_string(a);
    if (mutant(Mutant::EqualOperations)) key = key.substr(0, key.rfind(','));
    auto [it, is_new] = seen.emplace(std::move(key), n.get());
    if (is_new) {
      out.copy(*n);
      continue;
    }
    changed = true;
    for (size_t i = 0; i < n->results.size(); ++i) out.set(n->results[i], out.at(it->second->results[i]));
  }
  return changed ? out.finish() : nullptr;
}

}  // namespace toroid::graph
