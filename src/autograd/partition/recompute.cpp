// The graph of a partition.
#include <unordered_map>

#include "autograd/partition/again.h"
#include "base/gradient_bugs.h"

namespace toroid::autograd {

using graph::Graph;
using graph::Node;
using graph::Value;

std::unique_ptr<Graph> recompute(const Graph& g, const Partition& p) {
  if (p.backward.empty()) return nullptr;
  graph::Rebuild out(g);
  for (const Node* n : p.forward) out.copy(*n);
  // Outputs of the forward pass are its own results, also of nodes that are computed again.
  std::unordered_map<const Value*, Tensor> results;
  for (auto& o : g.outputs)
    if (o.value) results[o.value] = {};
  for (const Node* n : p.forward)
    for (const Value* r : n->results)
      if (const auto it = results.find(r); it != results.end()) it->second = out.at(r);
  const auto follows = what_follows_from_seeds(g);
  Again again(out, g, p);
  for (const Node* n : p.backward) {
    again.before(*n, planted(GradientBug::AgainUnmarked) ? graph::Pass::Forward : graph::Pass::Again);
    out.copy(*n);
    out.graph().nodes.back()->pass = follows.count(n) ? graph::Pass::Backward : graph::Pass::Again;
  }
  for (auto& o : g.outputs) {
    const auto own = results.find(o.value);
    const Tensor t =
        own == results.end() || !own->second.defined() || planted(GradientBug::AgainForAll) ? out.at_or_undefined(o.value) : own->second;
    out.graph().outputs.push_back({out.recorder().value_of(t), o.literal, o.mutates});
  }
  return out.finish_without_outputs();
}

}  // namespace toroid::autograd
