// The rules of the graph IR.
#pragma once

#include "graph/graph.h"

namespace toroid::graph {

// Checks one node against the operation's row: arguments, regions, result types. `around` are the graphs that a region lies in.
// UserError says what is wrong.
void check_node(const Graph& g, const Node& n, const std::vector<const Graph*>& around = {});

}  // namespace toroid::graph
