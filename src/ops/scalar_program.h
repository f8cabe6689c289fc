// Scalar programs held as data: recorded from a formula, differentiated, and replayed into another program.
#pragma once

#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "base/scalar_builder.h"

namespace toroid::ops {

// Steps that are equal are held once; multiplications by 1 and 0 and additions of 0 are not held at all.
class ScalarProgram : public ScalarBuilder {
 public:
  int emit(const ScalarNode& node) override;
  // Input number i.
  S input(int64_t i, DType dtype);

  const ScalarNode& node(S s) const { return nodes_[static_cast<size_t>(s.id)]; }
  bool is_constant(S s, double value) const;

  // The derivative of `of` by the input `by`, which is a float, in forward mode: one pass over the steps (Griewank and Walther, "Evaluating
  // Derivatives", chapter 3). A choice chooses between derivatives, so that what is not chosen has no part in them, whatever it is. At the
  // points where a function has none, it is what PyTorch defines: 0 for abs at 0, halves for equal operands of maximum and minimum. An S
  // without builder is 0. UserError naming a function without derivative.
  S derivative(S of, S by);
  // Whether the derivative s may be infinite or no number at points where the function is finite.
  bool may_be_singular(S s) const;
  // a * b, where a choice between constants becomes a choice between multiples of a.
  S times(S a, S b);

  // Which inputs s needs, where step `leaf` is at hand (-1: none); element i: input i. The last one: whether it needs the leaf.
  std::vector<bool> needs(S s, size_t inputs, int leaf = -1) const;
  // Appends s to `into`, with `inputs` for its inputs, and `leaf_value` for step `leaf`.
  S replay(S s, ScalarBuilder& into, std::span<const S> inputs, int leaf = -1, S leaf_value = {}) const;

 private:
  std::vector<bool> reached(S s, int leaf) const;
  using Key = std::tuple<ScalarOp, DType, int, int, int, Number::Kind, int64_t, double>;
  int simplified(const ScalarNode& n) const;
  S at(int id) { return {this, id, nodes_[static_cast<size_t>(id)].dtype}; }
  S derivative_of_step(int id, const std::vector<S>& d);
  S derivative_of_binary(const ScalarNode& n, S result, S a, S b, S da, S db);
  S factor_of_unary(const ScalarNode& n, S result, S x);

  std::vector<ScalarNode> nodes_;
  std::map<Key, int> known_;
};

// The derivative of result = sin(x) / x.
S slope_of_sin_over(S x, S result);

}  // namespace toroid::ops
