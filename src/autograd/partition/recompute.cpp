// The graph of a partition.
#include <algorithm>
#include <unordered_map>

#include "autograd/partition/partition.h"
#include "base/gradient_bugs.h"
#include "graph/passes/rebuild.h"

namespace toroid::autograd {

using graph::Graph;
using graph::Node;
using graph::Value;

namespace {

// Computes what a node of the backward pass reads again where it is not there yet.
class Again {
 public:
  Again(graph::Rebuild& out, const Graph& g, const Partition& p) : out_(out), again_(p.again.begin(), p.again.end()) {
    for (size_t i = 0; i < g.nodes.size(); ++i) place_[g.nodes[i].get()] = i;
  }

  void before(const Node& reader) {
    std::vector<const Node*> found, stack{&reader};
    while (!stack.empty()) {
      const Node* at = stack.back();
      stack.pop_back();
      graph::for_each_operand(*at, [&](const Value* v) {
        if (!v->producer || again_.erase(v->producer) == 0) return;
        found.push_back(v->producer);
        stack.push_back(v->producer);
      });
    }
    std::sort(found.begin(), found.end(), [&](auto* a, auto* b) { return place_.at(a) < place_.at(b); });
    for (const Node* n : found) {
      out_.copy(*n);
      out_.graph().nodes.back()->pass = planted(GradientBug::AgainUnmarked) ? graph::Pass::Forward : graph::Pass::Again;
    }
  }

 private:
  graph::Rebuild& out_;
  std::unordered_set<const Node*> again_;  // that are not there yet
  std::unordered_map<const Node*, size_t> place_;
};

}  // namespace

std::unique_ptr<Graph> recompute(const Graph& g, const Partition& p) {
  if (p.backward.empty()) return nullptr;
  graph::Rebuild out(g);
  for (const Node* n : p.forward) out.copy(*n);
  // Outputs of the forward pass are its own results, also of nodes that are computed again.
  std::unordered_map<const Value*, Tensor> results;
  for (const Node* n : p.forward)
    for (const Value* r : n->results) results[r] = out.at(r);
  const auto follows = what_follows_from_seeds(g);
  Again again(out, g, p);
  for (const Node* n : p.backward) {
    again.before(*n);
    out.copy(*n);
    out.graph().nodes.back()->pass = follows.count(n) ? graph::Pass::Backward : graph::Pass::Again;
  }
  for (auto& o : g.outputs) {
    const auto own = results.find(o.value);
    const Tensor t = own == results.end() || planted(GradientBug::AgainForAll) ? out.at_or_undefined(o.value) : own->second;
    out.graph().outputs.push_back({out.recorder().value_of(t), o.literal, o.mutates});
  }
  return out.finish_without_outputs();
}

}  // namespace toroid::autograd
