#include <algorithm>
#include <functional>
#include <string>
#include <unordered_map>

#include "base/mutants.h"
#include "graph/effects.h"
#include "graph/passes/passes.h"
#include "graph/passes/rebuild.h"

namespace toroid::graph {

namespace {

// Equal operations are those of equal texts.
std::string text_of(const ops::Op& op, const std::vector<NodeArg>& args) {
  std::string key = op.name;
  for (auto& a : args) key += ", " + to_string(a);
  if (mutant(Mutant::EqualOperations)) key = key.substr(0, key.rfind(','));
  return key;
}

// By the operation and its operands, so that few texts are made; where there are none, by the text.
size_t hash_of(const ops::Op& op, const std::vector<NodeArg>& args) {
  size_t hash = std::hash<const void*>()(&op), operands = 0;
  const auto add = [&](const Value* v) {
    hash = (hash ^ static_cast<size_t>(v ? v->id + 1 : 0)) * 0x9e3779b97f4a7c15ULL;
    operands += v != nullptr;
  };
  for (auto& a : args) {
    if (auto* v = std::get_if<Value*>(&a)) add(*v);
    if (auto* list = std::get_if<std::vector<Value*>>(&a)) std::for_each(list->begin(), list->end(), add);
  }
  return operands > 0 && !mutant(Mutant::EqualOperations) ? hash ^ (hash >> 29) : std::hash<std::string>()(text_of(op, args));
}

}  // namespace

std::unique_ptr<Graph> cse(const Graph& g) {
  if (std::any_of(g.nodes.begin(), g.nodes.end(), [](auto& n) { return effects_of(*n).has(Effect::Writes); })) return nullptr;
  Rebuild out(g);
  std::unordered_multimap<size_t, const Node*> seen;  // nodes of the old graph that were copied
  seen.reserve(g.nodes.size());
  bool changed = false;
  for (auto& n : g.nodes) {
    if (!is_pure(*n) || n->results.empty()) {
      out.copy(*n);
      continue;
    }
    const std::vector<NodeArg> args = out.node_args(*n);
    const size_t hash = hash_of(*n->op, args);
    const Node* equal = nullptr;
    const auto [first, last] = seen.equal_range(hash);
    for (auto it = first; it != last && !equal; ++it)
      if (it->second->op->name == n->op->name && text_of(*n->op, out.node_args(*it->second)) == text_of(*n->op, args)) equal = it->second;
    if (!equal) {
      seen.emplace(hash, n.get());
      out.copy(*n);
      continue;
    }
    changed = true;
    for (size_t i = 0; i < n->results.size(); ++i) out.set(n->results[i], out.at(equal->results[i]));
  }
  return changed ? out.finish() : nullptr;
}

}  // namespace toroid::graph
