// Makes a failing graph small.
#pragma once

#include <functional>

#include "graph/graph.h"

namespace toroid::fuzz {

// Tries, as long as `fails` holds of what is left: fewer outputs, nodes replaced by their operands or by new inputs, smaller sizes.
// `fails` sees graphs with parameters filled in.
std::unique_ptr<graph::Graph> minimise(std::unique_ptr<graph::Graph> g, const std::function<bool(const graph::Graph&)>& fails);

}  // namespace toroid::fuzz
