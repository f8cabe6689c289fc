// From a graph to its joint graph, which computes its gradients as well.
#pragma once

#include <string_view>

#include "graph/graph.h"

namespace toroid::autograd {

// What the name of a cotangent begins with, among the inputs of a joint graph.
inline constexpr std::string_view kCotangent = "cotangent_";

struct Request {
  // Indices of the inputs whose gradients are wanted; they are of float dtypes.
  std::vector<size_t> inputs;
  // What is differentiated: the first output, a float tensor of one element (false); or the sum over the float outputs, each times a
  // cotangent, which is an input of its own at the end, "cotangent_<output>" (true).
  bool takes_cotangents = false;
  // Whether gradients begin with rows prims.gradient_seed, by which a partition knows them (autograd/partition).
  bool seeds = true;
  // Whether calls may be recorded as operations that give more for their gradients (autograd/rule.h, Extension). Otherwise the results of a
  // call are all that is known of it.
  bool extends = true;
};

// The joint graph of a functional graph: its outputs, then the gradient of each input of the request, of the input's sizes and dtype (zeros
// where no output depends on it). Reverse accumulation: what lies on a path from those inputs to the outputs is differentiated, and only
// that is written as operations that have a rule (autograd/rule.h).
// Of control flow, cond and scan have gradients.
//
// UserError naming the operation and its line where one on such a path has no gradient, and for inputs and outputs that are no floats.
std::unique_ptr<graph::Graph> differentiate(const graph::Graph& g, const Request& request);

// By output of a functional graph, whether gradients of it may go to one of these inputs.
std::vector<bool> follows_from(const graph::Graph& g, const std::vector<size_t>& inputs);

// What is written to an input, without what stands for the input's history: null where its gradient goes elsewhere than before.
graph::Value* contents_with_history_of(const graph::Value& input, graph::Value* written);

}  // namespace toroid::autograd
