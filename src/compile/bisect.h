// Which operation of a program is computed wrongly.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace toroid::compiler {

struct BisectReport {
  struct Row {
    std::string value, op, where;  // its first result, the operation, its source line or the importer's name of it
    std::string difference;        // the largest error with its place, both values and the bound
  };
  size_t compared = 0;      // operations
  size_t left_out = 0;      // those that draw random numbers or leave memory as it is
  std::vector<Row> beyond;  // in their order: the first is where an error begins
};

// Runs a graph on these inputs and gives its outputs, on the host.
using RunGraph = std::function<std::vector<Tensor>(std::unique_ptr<graph::Graph>, std::span<const Tensor>)>;

// Runs the graph once with the results of all operations as outputs, and compares each of them with what the reference evaluator makes of
// the operands as they were in that run: an error is seen where it is made, not where it arrives. What is allowed follows from dtypes and
// lengths of sums (tune/check/equivalence.h) or, where that is more, from how far results move when operands do by about their last place;
// tf32: products of f32 may round their operands. A program whose error is gone here is one whose fusion is wrong, as all results are
// stored. UserError for inputs that do not fit.
BisectReport bisect(std::unique_ptr<graph::Graph> g, std::span<const Tensor> inputs, const RunGraph& run, bool tf32 = false);

}  // namespace toroid::compiler
