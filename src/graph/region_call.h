// Calls of control flow. The arguments of a call have no room for graphs: its regions are told beside them.
#pragma once

#include "graph/control_flow.h"

namespace toroid::graph {

using Regions = std::vector<std::shared_ptr<Graph>>;

// Calls a control-flow operation through the innermost dispatcher.
std::vector<Tensor> call_regions(const ops::Op& op, CallArgs args, Regions regions,
                                 const std::source_location& where = std::source_location::current());
// The regions of the call of this operation that is being made on this thread, which a dispatcher asks for. InternalError where there is
// none.
const Regions& regions_of_call(const ops::Op& op);

// Calls the operation of a node, with its regions if it has some, on other arguments.
std::vector<Tensor> call_again(const Node& n, CallArgs args);

}  // namespace toroid::graph
