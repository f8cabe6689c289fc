// What a compiled function could have been told to run faster: for its report.
#pragma once

#include <string>

#include "base/compile_options.h"
#include "graph/graph.h"

namespace toroid::front {

// That weights of products and convolutions are captured and may change from call to call, so that each call arranges them for the kernels
// again; and the option that ends that. Empty where there is nothing to say: little weights, weights that the graph writes to, a GPU, or
// the option.
std::string freezing_hint(const graph::Graph& g, const CompileOptions& options, const Device& device);

}  // namespace toroid::front
