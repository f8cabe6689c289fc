// What operations of a graph require of open sizes.
#pragma once

#include "graph/graph.h"

namespace toroid::graph {

// The guards of the graph and, behind them, what its operations require of open sizes that no guard states. A graph that was recorded has
// guards for all of it; one that was parsed, or put together node by node, need not. UserError where a requirement cannot hold.
std::vector<sym::Guard> all_guards(const Graph& g);

}  // namespace toroid::graph
