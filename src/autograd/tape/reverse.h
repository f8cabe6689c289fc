// One call in reverse, as a small graph: made by `differentiate` once for all calls of an operation with equal attributes and types.
#pragma once

#include <memory>
#include <vector>

#include "graph/graph.h"

namespace toroid::autograd {

struct Reverse {
  enum class Kind : uint8_t { Operand, Result, Cotangent, Constant };
  struct Source {
    Kind kind = Kind::Constant;
    size_t index = 0;  // among the tensors of the call's arguments, or among its results
  };
  std::unique_ptr<graph::Graph> graph;       // its outputs are the gradients of the wanted operands, in their order
  std::vector<Source> inputs;                // of the graph, in its order
  std::vector<std::vector<size_t>> retired;  // by node: values that nobody reads after it
};

// The tensors among the arguments, in their order; what is undefined is left out.
std::vector<Tensor> operands_of(const CallArgs& args);

// Of a call whose operands (as operands_of) `wanted` says are to get gradients. Of the tensors only dtypes and sizes matter. UserError that
// names the operation and `place` where it has no gradient.
std::shared_ptr<const Reverse> reverse_of(const ops::Op& op, const CallArgs& args, const std::vector<bool>& wanted,
                                          const std::string& place);

// The gradients, in the order of the wanted operands; inputs as r.inputs, those of constants undefined. Operations go to the innermost
// dispatcher.
std::vector<Tensor> run(const Reverse& r, std::vector<Tensor> inputs);

}  // namespace toroid::autograd
