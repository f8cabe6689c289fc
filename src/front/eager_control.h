// Control flow whose regions are graphs, run operation by operation: what gradients and checkpoints of eager calls come to.
#pragma once

#include "graph/bind.h"
#include "graph/region_call.h"

namespace toroid::front {

// The nodes of a graph, each called through the eager dispatcher: views share memory, and writes happen where they stand. inputs: parallel
// to those of the graph. One tensor for each output.
std::vector<Tensor> run_nodes(const graph::Graph& g, std::vector<Tensor> inputs, graph::BoundSymbols& symbols);

// The results of a control-flow operation. symbols: those of the graph around its regions.
std::vector<Tensor> run_control_flow(const ops::Op& op, const CallArgs& args, const graph::Regions& regions,
                                     const graph::BoundSymbols& symbols);

}  // namespace toroid::front
