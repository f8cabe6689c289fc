// Prints steps of loop bodies as C over the prelude's functions, one lane ("s_") or a vector of lanes ("v_") at a time.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "loop/node.h"

namespace toroid::codegen {

// C name of the prelude's element type in memory: "f32", "u8" for Bool.
std::string memory_type(DType t);
// Dtype that a reduction is accumulated in.
inline DType accumulator_type(DType t) { return is_half(t) ? DType::F32 : t; }

// The operation that folds two values; none for positions.
ScalarOp fold_of(loop::Reduction r, DType t);
// "fused_add_relu": what the body does, in order, each operation once.
std::string name_kernel(const loop::Body& b);

class StepEmitter {
 public:
  struct Names {
    std::function<std::string(int buffer, DType dtype)> pointer;  // C expression of type dtype*
    std::function<std::string(const sym::Node& symbol)> symbol;   // domain variables (the inner one: lane 0's) and sizes
    std::string vector_accumulator, scalar_accumulator;           // value of Accumulate
    bool f16_is_bits = false;                                     // as bf16 always is
    std::string second_accumulator = {};                          // of a product's second right operand
  };
  // on_inner[k]: the value of step k differs between lanes.
  StepEmitter(const loop::Body& body, Expr inner, std::vector<bool> on_inner, int lanes, Names names);

  // --- text -----------------------------------------------------------------------------------------------------------------------
  void line(const std::string& text);
  void open(const std::string& head) {
    line(head.empty() ? "{" : head + " {");
    ++indent_;
  }
  void close() {
    --indent_;
    line("}");
  }
  std::string take() { return std::move(text_); }
  void set_indent(int levels) { indent_ = levels; }

  // --- values ---------------------------------------------------------------------------------------------------------------------
  // Where steps have values, to be restored when a scope ends.
  struct Value {
    std::string name;  // empty: not computed
    bool vector = false;
    std::string splat;    // of a scalar: the vector variable that holds it in all lanes
    std::string inverse;  // of a scalar that vectors are divided by: the arguments of v_quotient that stand for it
  };
  using Values = std::vector<Value>;
  const Values& values() const { return values_; }
  void restore(Values values) { values_ = std::move(values); }
  void define(int step, std::string name, bool vector) { values_[static_cast<size_t>(step)] = {std::move(name), vector, {}, {}}; }
  bool known(int step) const { return !values_[static_cast<size_t>(step)].name.empty(); }
  // Emits vector copies of the scalar values that the vector forms of `steps` read, and inverses of those that they divide by.
  void splat_operands(const std::vector<int>& steps);

  // Text of a known value.
  std::string scalar(int step);
  std::string vector(int step);

  // Emits a value or a store; as a vector only when asked to and the step differs between lanes.
  void emit(int step, bool vector);

  // A division whose quotient becomes a whole number, maybe after more arithmetic: an error in the last place may make it another one.
  bool is_exact(int step) const { return exact_[static_cast<size_t>(step)]; }
  // A reduction's result, or computed from one.
  bool reduced(int step) const;

  // --- expressions ----------------------------------------------------------------------------------------------------------------
  std::string index(const Expr& e);
  std::string vector_index(const Expr& e);
  // Call of the prelude's function for an op on operands of dtype `operand`.
  std::string call(ScalarOp op, DType operand, DType result, const std::vector<std::string>& args, bool vector);
  // "v_add_f32" or "s_add_f32", recorded as used.
  std::string function(const std::string& stem, DType t, bool vector);
  std::string convert(DType from, DType to, const std::string& value, bool vector);
  std::string literal(const Number& v, DType t, bool vector);
  const std::set<std::string>& functions() const { return functions_; }
  // Names of functions that are not in the prelude, whose text helpers() gives: a whole vector of every second element from p on, of
  // the elements before and at p backwards, the transposition of `lanes` vectors in place, the store of `count` vectors whose elements take
  // turns, and powers of integers.
  std::string load_second(DType t);
  std::string load_backwards(DType t);
  std::string transpose(DType t);
  std::string store_woven(DType t, int count);
  std::string integer_power(DType t, bool vector);
  void add_helper(const std::string& name, const std::string& text) { helpers_[name] = text; }
  const std::map<std::string, std::string>& helpers() const { return helpers_; }
  int lanes() const { return lanes_; }

 private:
  const loop::Statement& step(int k) const { return body_.steps[static_cast<size_t>(k)]; }
  bool differs(const Expr& e) const;
  bool inner_coefficient(const Expr& e, int64_t* coefficient) const;
  bool nonnegative(const Expr& e) const { return sym::known_ge(e, 0); }
  void emit_load(int k, bool vector);
  void emit_check(int k, bool vector);
  void emit_store(int k, bool vector);
  std::string combined(const loop::Statement& s, const std::string& old, const std::string& value, bool vector);

  const loop::Body& body_;
  Expr inner_;
  std::vector<bool> on_inner_, exact_, repeated_;
  int lanes_;
  Names names_;
  Values values_;
  std::set<std::string> functions_;
  std::map<std::string, std::string> helpers_;
  std::string text_;
  int indent_ = 1;
};

}  // namespace toroid::codegen
