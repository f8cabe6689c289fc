// Graphs in their text form, which commands take in place of a model file.
#pragma once

#include <memory>
#include <string>

#include "graph/graph.h"

namespace toroid::cli {

// Whether the file begins as the text of a graph does.
bool is_graph_text(const std::string& path);

// UserError that names the file for text that is none, or breaks a rule of graphs.
std::unique_ptr<graph::Graph> read_graph(const std::string& path);

}  // namespace toroid::cli
