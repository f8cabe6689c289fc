// Random well-typed graphs from a seed, for comparing whatever runs graphs with the interpreter.
#pragma once

#include "graph/graph.h"

namespace toroid::graph {

struct RandomGraphOptions {
  int nodes = 12;
  bool dynamic_sizes = true;
  bool in_place = true;      // also writes through views; the functionalize pass must run before the interpreter can
  bool mixed_dtypes = true;  // f64, f16, i64 and bool besides f32
};

// Pointwise operations with broadcasting, reductions, views, casts, matrix products, in-place operations. Values stay moderate, so that
// results can be compared with a tolerance. The same seed and options give the same graph.
std::unique_ptr<Graph> random_graph(uint64_t seed, const RandomGraphOptions& options = {});

// Inputs that fit the graph; symbols get small random values.
std::vector<Tensor> random_inputs(const Graph& g, uint64_t seed);

}  // namespace toroid::graph
