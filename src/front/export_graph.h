// Graphs as files, see import/graph_file.h.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace toroid::front {

// outputs: names of what the graph returns. Replaces the file in one step. UserError for tensors that the program writes to and that share
// memory with others, which the file would keep apart.
void export_graph(const graph::Graph& g, const std::vector<std::string>& outputs, const std::filesystem::path& path);

}  // namespace toroid::front
