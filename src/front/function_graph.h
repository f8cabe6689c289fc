// The graph of a C++ function that is stored: traced once, with the tensors that it captures as contents.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace toroid::front {

using ListFunction = std::function<std::vector<Tensor>(std::span<const Tensor>)>;

// name: of the function, for messages. Inputs have the sizes of the examples, those that mark_dynamic names aside. names_in, names_out: see
// names_for(). output_names: gets those of the results. UserError for a function that reads values of tensors.
std::unique_ptr<graph::Graph> graph_of_function(const std::string& name, std::span<const Tensor> examples, const ListFunction& fn,
                                                const std::vector<std::string>& names_in, const std::vector<std::string>& names_out,
                                                std::vector<std::string>& output_names);

}  // namespace toroid::front
