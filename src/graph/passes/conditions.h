// What is known of conditions on numbers that follow from positions alone, as exporters make masks of.
#pragma once

#include "graph/graph.h"

namespace toroid::graph {

// Whether a tensor of Bool is known to be true everywhere.
bool always_holds(const Value* v);

}  // namespace toroid::graph
