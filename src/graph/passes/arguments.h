// Arguments of nodes, as passes look at them.
#pragma once

#include <optional>

#include "graph/graph.h"

namespace toroid::graph {

// Null where the argument is no value.
const Value* operand(const Node& n, size_t i);
// A number that is known; nothing for other arguments.
std::optional<double> number(const NodeArg& a);

}  // namespace toroid::graph
