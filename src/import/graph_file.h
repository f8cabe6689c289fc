// Graphs as files: text, and the tensors of its parameters, buffers and constants beside it in an archive (zip).
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace toroid::import {

inline constexpr const char *kGraphHead = "toroid-graph.json", *kGraphText = "graph.txt", *kGraphWeights = "weights.safetensors";
inline constexpr int64_t kGraphFormat = 1;

struct GraphFile {
  std::unique_ptr<graph::Graph> graph;
  std::vector<std::string> outputs;  // names of what it returns
};

// Reads what front::export_graph has written; tensors are views of the file's bytes in memory. UserError for what is no such file, is of
// another format, names an operation that nobody registered, or whose tensors do not fit the graph.
GraphFile read_graph_file(const std::filesystem::path& path);

}  // namespace toroid::import
