// Operators that compute element by element, and casts.
#include <cmath>

#include "base/check.h"
#include "base/scalar.h"
#include "import/onnx/operators.h"
#include "import/onnx/tensors.h"

namespace toroid::import::onnx {
namespace {

// Before version 7 the second operand was broadcast on demand only, from dimension "axis" of the first.
Tensor second_operand(OpCall& c) {
  Tensor b = c.in(1);
  if (c.version() >= 7 || c.integer("broadcast", 0) == 0 || !c.has_attribute("axis")) return b;
  int64_t rank = rank_of(c.in(0));
  return with_rank(b, rank - normal_axis(c.integer("axis"), rank));
}

template <OpName name>
void arithmetic(OpCall& c) {
  c.set(0, op(name.text, c.in(0), second_operand(c)));
}

void divide(OpCall& c) {
  Tensor a = c.in(0), b = second_operand(c);
  c.set(0, is_float(a.dtype()) ? op("div.Tensor", a, b) : op("div.Tensor_mode", a, b, "trunc"));
}

void power(OpCall& c) {
  Tensor base = c.in(0), exponent = second_operand(c);
  auto number = c.constant(exponent);
  if (number && number->numel() == 1 && rank_of(*number) <= rank_of(base) && is_float(base.dtype())) {
    c.set(0, op("pow.Tensor_Scalar", base, number->item()));
    return;
  }
  // The result is of the base's type, whatever the exponent's.
  if (is_float(exponent.dtype()) && !is_float(base.dtype()))
    c.set(0, cast(op("pow.Tensor_Tensor", cast(base, exponent.dtype()), exponent), base.dtype()));
  else
    c.set(0, op("pow.Tensor_Tensor", base, cast(exponent, base.dtype())));
}

void modulo(OpCall& c) { c.set(0, op(c.integer("fmod", 0) ? "fmod.Tensor" : "remainder.Tensor", c.in(0), c.in(1))); }

void bit_shift(OpCall& c) {
  bool left = c.text("direction", "") == "LEFT";
  c.set(0, op(left ? "bitwise_left_shift.Tensor" : "bitwise_right_shift.Tensor", c.in(0), c.in(1)));
}

template <OpName name>
void variadic(OpCall& c) {
  Tensor out = c.in(0);
  for (size_t i = 1; i < c.count(); ++i) out = op(name.text, out, c.in(i));
  c.set(0, out);
}

void mean(OpCall& c) {
  Tensor out = c.in(0);
  for (size_t i = 1; i < c.count(); ++i) out = op("add.Tensor", out, c.in(i));
  c.set(0, op("div.Tensor", out, static_cast<double>(c.count())));
}

// The only element of a constant, as a number of its kind.
Arg<Tensor> number_of(const Tensor& t) {
  if (is_float(t.dtype())) return t.item();
  return Expr(load_number(t.raw_data(), t.dtype()).as_int());
}

void clip_by_inputs(OpCall& c) {
  Tensor x = c.in(0);
  auto bound = [&](size_t i) { return c.has(i) ? c.constant(i) : std::nullopt; };
  auto low = bound(1), high = bound(2);
  if (c.has(1) == low.has_value() && c.has(2) == high.has_value()) {
    if (!low && !high) return c.set(0, x);
    c.set(0, op("clamp", x, low ? number_of(*low) : kNone, high ? number_of(*high) : kNone));
    return;
  }
  if (c.has(1)) x = op("maximum", x, c.in(1));
  if (c.has(2)) x = op("minimum", x, c.in(2));
  c.set(0, x);
}

// As NumPy's: what is no number stays so.
void sign(OpCall& c) {
  Tensor x = c.in(0), out = op("sign", x);
  c.set(0, is_float(x.dtype()) ? op("where.self", op("isnan", x), x, out) : out);
}

void clip_by_attributes(OpCall& c) {
  Arg<Tensor> low, high;
  if (c.has_attribute("min")) low = c.real("min", 0);
  if (c.has_attribute("max")) high = c.real("max", 0);
  c.set(0, low.index() || high.index() ? op("clamp", c.in(0), low, high) : c.in(0));
}

void is_infinite(OpCall& c) {
  bool negative = c.integer("detect_negative", 1) != 0, positive = c.integer("detect_positive", 1) != 0;
  Tensor x = c.in(0);
  if (negative && positive) return c.set(0, op("isinf", x));
  if (negative || positive) return c.set(0, op(negative ? "isneginf" : "isposinf", x));
  c.set(0, op("full_like", op("isinf", x), 0));
}

void cast_to(OpCall& c) {
  c.ignore({"saturate", "round_mode"});  // of 8-bit floats
  c.set(0, cast(c.in(0), need_dtype(static_cast<int32_t>(c.integer("to")), "the result")));
}

// Before version 6 the type was a name.
void cast_to_name(OpCall& c) {
  std::string name = c.text("to", "");
  for (int32_t type = 1; type <= 16; ++type)
    if (element_name(type) == name) return c.set(0, cast(c.in(0), need_dtype(type, "the result")));
  fail<UserError>("the type \"{}\" is unknown", name);
}

void cast_like(OpCall& c) {
  c.ignore({"saturate", "round_mode"});
  c.set(0, cast(c.in(0), c.in(1).dtype()));
}

void bit_cast(OpCall& c) {
  DType to = need_dtype(static_cast<int32_t>(c.integer("to")), "the result");
  TOROID_USER_CHECK(size_of(to) == size_of(c.in(0).dtype()), "the bits of {} are not as many as those of {}", name_of(c.in(0).dtype()),
                    name_of(to));
  c.set(0, op("view.dtype", c.in(0), to));
}

void not_equal_less(Operators& t) {
  t.add("Equal", 1, arithmetic<"eq.Tensor">);
  t.add("Less", 1, arithmetic<"lt.Tensor">);
  t.add("Greater", 1, arithmetic<"gt.Tensor">);
  t.add("LessOrEqual", 12, binary<"le.Tensor">);
  t.add("GreaterOrEqual", 12, binary<"ge.Tensor">);
  t.add("And", 1, arithmetic<"logical_and">);
  t.add("Or", 1, arithmetic<"logical_or">);
  t.add("Xor", 1, arithmetic<"logical_xor">);
  t.add("Not", 1, unary<"logical_not">);
}

}  // namespace

void add_elementwise_operators(Operators& t) {
  t.add("Add", 1, arithmetic<"add.Tensor">);
  t.add("Sub", 1, arithmetic<"sub.Tensor">);
  t.add("Mul", 1, arithmetic<"mul.Tensor">);
  t.add("Div", 1, divide);
  t.add("Pow", 1, power);
  t.add("Mod", 10, modulo);
  t.add("BitShift", 11, bit_shift);
  t.add("BitwiseAnd", 18, binary<"bitwise_and.Tensor">);
  t.add("BitwiseOr", 18, binary<"bitwise_or.Tensor">);
  t.add("BitwiseXor", 18, binary<"bitwise_xor.Tensor">);
  t.add("BitwiseNot", 18, unary<"bitwise_not">);
  t.add("Max", 1, variadic<"maximum">);
  t.add("Min", 1, variadic<"minimum">);
  t.add("Sum", 1, variadic<"add.Tensor">);
  t.add("Mean", 1, mean);
  not_equal_less(t);
  t.add("Where", 9, [](OpCall& c) { c.set(0, op("where.self", c.in(0), c.in(1), c.in(2))); });
  t.add("Abs", 1, unary<"abs">);
  t.add("Neg", 1, unary<"neg">);
  t.add("Sign", 9, sign);
  t.add("Exp", 1, unary<"exp">);
  t.add("Log", 1, unary<"log">);
  t.add("Sqrt", 1, unary<"sqrt">);
  t.add("Reciprocal", 1, unary<"reciprocal">);
  t.add("Floor", 1, unary<"floor">);
  t.add("Ceil", 1, unary<"ceil">);
  t.add("Round", 11, unary<"round">);
  t.add("Sin", 7, unary<"sin">);
  t.add("Cos", 7, unary<"cos">);
  t.add("Tan", 7, unary<"tan">);
  t.add("Asin", 7, unary<"asin">);
  t.add("Acos", 7, unary<"acos">);
  t.add("Atan", 7, unary<"atan">);
  t.add("Sinh", 9, unary<"sinh">);
  t.add("Cosh", 9, unary<"cosh">);
  t.add("Asinh", 9, unary<"asinh">);
  t.add("Acosh", 9, unary<"acosh">);
  t.add("Atanh", 9, unary<"atanh">);
  t.add("Erf", 9, unary<"erf">);
  t.add("IsNaN", 9, unary<"isnan">);
  t.add("IsInf", 10, is_infinite);
  t.add("Clip", 1, clip_by_attributes);
  t.add("Clip", 11, clip_by_inputs);
  t.add("Cast", 1, cast_to_name);
  t.add("Cast", 6, cast_to);
  t.add("CastLike", 15, cast_like);
  t.add("BitCast", 26, bit_cast);
}

}  // namespace toroid::import::onnx
