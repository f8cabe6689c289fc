// Which values of a graph stand for numbers of 8 bits, by one scale and zero point or more, and what else is known of real numbers that are
// made of whole ones: their bounds, and which functions of the numbers they are.
#pragma once

#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/passes/arguments.h"
#include "tensor/tensor_impl.h"

namespace toroid::graph {

inline bool has_8_bits(DType t) { return t == DType::I8 || t == DType::U8; }
inline bool is(const Node* n, std::string_view name) { return n && n->op->name == name; }
inline bool is_cast(const Node* n) { return is(n, "to.dtype") || is(n, "_to_copy"); }

// scale * (numbers - zero)
struct Quantized {
  Tensor numbers;
  float scale = 1;
  int64_t zero = 0;
};

// The same with more than one scale: both have one number, or broadcast against the numbers.
template <class Numbers>
struct Scaled {
  Numbers numbers;
  Tensor scale, zero;  // zero: undefined where there is none
};

// What whole numbers become in real ones: tensors of them times factors, and a summand, then limits. Factors and summands are one number
// each, or one for each output channel, which then have `sizes` to broadcast.
struct Affine {
  struct Term {
    Tensor numbers;
    std::vector<double> factors;
  };
  std::vector<Term> terms;
  std::vector<double> summands;
  std::vector<int64_t> sizes;
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();

  bool is_limited() const { return std::isfinite(low) || std::isfinite(high); }
};

// Numbers of 8 bits that are a function of others, point by point: what each of the 256 becomes, the least first.
struct Function {
  Tensor of;
  Tensor table;
  bool is_dear = false;  // to compute
};

// One number for each of `count` positions of an axis of `rank` dimensions; nothing where others have more.
std::optional<std::vector<double>> spread(const Tensor& t, size_t axis, int64_t rank, int64_t count);

// Of one scale and zero point, which are usual.
template <class Numbers>
std::optional<Quantized> with_one_scale(const Scaled<Numbers>& s, Tensor numbers) {
  if (s.scale.numel() != 1 || (s.zero.defined() && s.zero.numel() != 1)) return std::nullopt;
  const auto scale = static_cast<float>(s.scale.to_vector()[0]);
  if (!std::isfinite(scale) || !(scale > 0)) return std::nullopt;
  return Quantized{std::move(numbers), scale, s.zero.defined() ? static_cast<int64_t>(s.zero.to_vector()[0]) : 0};
}

// What is known of the values of a graph, while it is rewritten node by node: whoever does that tells what became of the nodes. Tensors of
// numbers are those of the new graph.
class QuantizedValues {
 public:
  static constexpr int64_t kMostNumbers = int64_t{1} << 16;  // of scales, zero points and biases

  explicit QuantizedValues(const Graph& g);

  // The contents of a value that depends on constants alone; undefined where there are more than `most` or they are not known.
  Tensor known(const Value* v, int64_t most = kMostNumbers);
  // Of a constant, however many; undefined where it is none.
  Tensor constant(const Value* v) const;

  // Patterns: what a dequantized value is made of, and a quantized one; the numbers of the latter are real ones.
  std::optional<Scaled<const Value*>> dequantized(const Value* v);
  std::optional<Scaled<const Value*>> quantized(const Node& n);

  // Null, or empty, where it is not known. Absolute values do not exceed the bound.
  const Quantized* find(const Value* v) const;
  const Affine* affine(const Value* v) const;
  std::optional<double> bound(const Value* v);
  // Whether it is computed from sums of whole numbers, point by point.
  bool is_of_sums(const Value* v) const { return of_sums_.count(v) > 0; }
  // What a quantized value is of the numbers that all of it depends on, if it is a function of one tensor of them.
  std::optional<Function> function_of(const Node& n);

  // The node stays as it is.
  void note(const Node& n);
  void set(const Value* v, Quantized q, bool of_sums);
  void set_of_sums(const Value* v) { of_sums_.insert(v); }
  void set_affine(const Value* v, Affine a) { affine_[v] = std::move(a); }
  void set_bound(const Value* v, double most) { bounds_[v] = most; }
  // Of numbers of the new graph.
  void set_function(const Tensor& numbers, Function f) { functions_[numbers.impl()] = std::move(f); }

 private:
  std::optional<double> bound_of(const Node& n);
  std::optional<Affine> affine_of(const Node& n);
  bool take_leaf(const Quantized& q, Function& f, Tensor& values) const;
  bool evaluate(const Value* v, const std::vector<Expr>& sizes, Function& f, std::map<const Value*, Tensor>& values);

  std::map<const Value*, Tensor> constants_, known_;
  std::map<const Value*, Quantized> quantized_;
  std::map<const Value*, Affine> affine_;
  std::map<const Value*, double> bounds_;
  std::map<const TensorImpl*, Function> functions_;
  std::set<const Value*> of_sums_;
};

}  // namespace toroid::graph
