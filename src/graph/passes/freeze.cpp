#include <algorithm>

#include "graph/passes/passes.h"

namespace toroid::graph {

std::unique_ptr<Graph> freeze(const Graph& g) {
  auto can_freeze = [&](size_t i) {
    const Input& in = g.inputs[i];
    bool written = std::any_of(g.outputs.begin(), g.outputs.end(), [&](auto& o) { return o.mutates == static_cast<int>(i); });
    return !written && in.data.defined() && (in.kind == InputKind::Parameter || in.kind == InputKind::Buffer);
  };
  std::unique_ptr<Graph> out;
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    if (!can_freeze(i)) continue;
    if (!out) out = clone(g);
    out->inputs[i].kind = InputKind::Constant;
  }
  return out;
}

}  // namespace toroid::graph
