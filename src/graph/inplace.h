// Which outputs that overwrite an input can be computed in the input's own memory.
#pragma once

#include "graph/graph.h"

namespace toroid::graph {

// Output `output` overwrites input `input` by the chain `writes`: each node overwrites part of its first argument, which is the result
// of the one before (the input, for the first) and which nothing reads afterwards.
struct InplaceChain {
  size_t output = 0;
  size_t input = 0;
  std::vector<const Node*> writes;
};

// The chains of a functional graph, in the order of the outputs. Views of the memory count as reads where they are used.
std::vector<InplaceChain> inplace_chains(const Graph& g);

}  // namespace toroid::graph
