// The equal layers of a graph, and the same graph with fewer of them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compile/layers/repetition.h"
#include "graph/graph.h"

namespace toroid::compiler {

class GraphLayers {
 public:
  // Of a graph as it was traced or read. Nothing where it has fewer than `least` layers, or something of which it is not known what it
  // becomes in a graph with more of them: random numbers, whose positions are counted, and control flow.
  static std::optional<GraphLayers> find(const graph::Graph& g, int64_t least, std::string& why);

  int64_t layers() const { return repetition_->layers(); }

  struct Fewer {
    std::unique_ptr<graph::Graph> graph;
    std::vector<Place> inputs;  // of each input, counted in a graph of so many layers
    std::vector<size_t> of;     // and which one of the whole graph it is
  };
  Fewer with(int64_t layers) const;

  // The input of this graph at a place that is counted in it.
  size_t input_at(const Place& p) const;

 private:
  const graph::Graph* graph_ = nullptr;
  std::optional<Repetition> repetition_;
  std::vector<size_t> input_of_;  // by value
};

}  // namespace toroid::compiler
