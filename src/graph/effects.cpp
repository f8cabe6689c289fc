#include "graph/effects.h"

namespace toroid::graph {

Effects effects_of(const Node& n) {
  Effects out = effects_of(*n.op);
  for (auto& r : n.regions)
    for (auto& inner : r->nodes) out |= effects_of(*inner);
  return out;
}

}  // namespace toroid::graph
