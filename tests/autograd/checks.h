// Checks of gradients against differences in f64: of single calls, of random graphs, and of corners that no difference tells.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "ops/op.h"

namespace toroid::autograd {

// A call whose gradients are checked.
struct Sample {
  std::string op;
  CallArgs args;
  bool symmetric = false;            // its first operand is taken for symmetric: it is moved so
  std::vector<size_t> results = {};  // those that count; empty: all floats
  // Elements are equal where a rule must choose: all operands are moved alike, which is the direction in which the call is smooth.
  bool tied = false;
};

Tensor floats(const std::vector<int64_t>& sizes, double lo = -2, double hi = 2);
Tensor integers(const std::vector<int64_t>& sizes, std::initializer_list<double> values);
std::vector<Expr> list(std::initializer_list<int64_t> v);

// At least one call of each rule; the same ones each time.
std::vector<Sample> samples();
// Calls that are differentiated as what they are made of, one at least of each family that training uses.
std::vector<Sample> composite_samples();

// The call as a graph whose outputs are its float results, complex ones as real pairs; and its inputs, complex ones as real pairs.
std::shared_ptr<graph::Graph> graph_of(const Sample& s);
std::vector<Tensor> inputs_of(const Sample& s);

// Each of the following says what is wrong, or nothing: "".

// The sizes and dtypes of a sample's gradients, and that they are slopes of the call, in a direction of each operand.
std::string wrong_gradient(const Sample& s);
// The same for the gradients' own gradients: by operands and by cotangents.
std::string wrong_second_gradient(const Sample& s);
// The same where all cotangents are 0: gradients are linear in them, whatever is left out of a sum there.
std::string wrong_second_gradient_at_zero(const Sample& s);

struct RandomCheck {
  std::string wrong;
  int slopes = 0, kinks = 0;  // slopes that were compared, and directions in which the graph has a kink or a jump
  bool refused = false;       // no gradient, by a UserError
};
// A random graph by all its float inputs; `second`: the gradients of its gradients.
RandomCheck check_random_graph(uint64_t seed, bool second);

// Gradients of attention, of some heads at a time beside those of all.
std::string wrong_attention_parts();

// Gradients that are zero by definition, those of values that no one chose, of several outputs, of tied parameters.
std::string wrong_corner();

}  // namespace toroid::autograd
