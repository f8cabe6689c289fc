#include "autograd/partition/again.h"

#include <algorithm>

namespace toroid::autograd {

using graph::Node;
using graph::Value;

Again::Again(graph::Rebuild& out, const graph::Graph& g, const Partition& p) : out_(out), again_(p.again.begin(), p.again.end()) {
  for (size_t i = 0; i < g.nodes.size(); ++i) place_[g.nodes[i].get()] = i;
}

void Again::before(const Node& reader, graph::Pass pass) {
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
    out_.graph().nodes.back()->pass = pass;
  }
}

}  // namespace toroid::autograd
