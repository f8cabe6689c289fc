// Graphs whose kernels are held: drawn once and kept as text, so that a change of the generator changes none of them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace toroid::kernel_texts {

struct Entry {
  std::string name;
  std::string text;  // of graph::to_string
};

// Random graphs, and products, convolutions, attention and reductions at the sizes of models, in several dtypes.
std::vector<Entry> draw();

// A file of entries: before each graph a line "== name".
std::string to_file(const std::vector<Entry>& entries);
std::vector<Entry> from_file(const std::string& file);

}  // namespace toroid::kernel_texts
