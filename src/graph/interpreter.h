// Runs a graph node by node with the reference evaluator: the definition of what a graph means.
#pragma once

#include <span>

#include "graph/bind.h"

namespace toroid::graph {

// Checks the inputs against the graph (UserError), runs it, writes the new contents of mutated inputs into their tensors, and returns
// the other outputs in order (undefined for literals). The graph must be functional: UserError for in-place operations.
std::vector<Tensor> interpret(const Graph& g, std::span<const Tensor> user_inputs);

// Runs one node on concrete arguments. Symbols that only the run tells are bound from the sizes of the results.
std::vector<Tensor> interpret_node(const Node& n, CallArgs args, BoundSymbols& symbols);

}  // namespace toroid::graph
