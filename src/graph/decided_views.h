// Views that are copies at some sizes: reshape, flatten, view and contiguous of what does not lie in a row.
#pragma once

#include <functional>

#include "graph/graph.h"

namespace toroid::graph {

// Where it depends on open sizes whether a result shares memory with its operand, and one of them is written later, a program is right for
// those sizes alone where it does (or does not). `decide` tells whether a relation holds at the sizes at hand, and makes that a guard of g;
// it is given the operation and line that asks. Where nothing is written, nothing is asked.
void decide_written_views(const Graph& g, const std::function<bool(const sym::Relation&, const std::string& place)>& decide);

}  // namespace toroid::graph
