// The partition of graphs with gradients in a compile: how much of the forward pass stays in memory for the backward pass.
#pragma once

#include <memory>

#include "compile/job.h"
#include "compile/report.h"
#include "graph/graph.h"

namespace toroid::compiler {

// The graph after its partition (autograd/partition/partition.h), by the option activation_memory_budget; without gradients the graph as it
// is.
//
// A budget below 1 is kept by programs, not by graphs: partitions that compute more and more again are taken to their kernels, untuned, and
// the first is chosen of which a run needs no more memory (compile/memory.h). A share lies between what the default partition needs, 1, and
// the one that needs least, 0. So memory falls with the budget. UserError for bytes that no partition keeps, with what is missing.
std::unique_ptr<graph::Graph> partitioned(std::unique_ptr<graph::Graph> g, const Job& job, CompileReport& report);

}  // namespace toroid::compiler
