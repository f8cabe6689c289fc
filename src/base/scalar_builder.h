// Writing scalar formulas as C++: S is a handle to one value of a program under construction.
#pragma once

#include <initializer_list>

#include "base/scalar.h"

namespace toroid {

// Receives the steps of a formula. The interpreter, loop bodies and tests each have one.
class ScalarBuilder {
 public:
  virtual ~ScalarBuilder() = default;
  virtual int emit(const ScalarNode& node) = 0;
};

// A value of the program that `builder` makes. Operands of a binary operator must have one dtype; a C++ number takes the other's.
struct S {
  ScalarBuilder* builder = nullptr;
  int id = -1;
  DType dtype = DType::F32;
};

S emit(ScalarOp op, DType result, std::initializer_list<S> args);
// Constant with the builder and dtype of `like`.
S lit(S like, double v);
S lit_as(S like, DType dtype, Number v);
S cast(S x, DType dtype);
S select(S condition, S a, S b);
inline S select(S condition, S a, double b) { return select(condition, a, lit(a, b)); }
inline S select(S condition, double a, S b) { return select(condition, lit(b, a), b); }

#define TOROID_BINARY(fn, Op) \
  inline S fn(S a, S b) { return emit(ScalarOp::Op, a.dtype, {a, b}); } \
  inline S fn(S a, double b) { return fn(a, lit(a, b)); } \
  inline S fn(double a, S b) { return fn(lit(b, a), b); }
#define TOROID_COMPARE(fn, Op) \
  inline S fn(S a, S b) { return emit(ScalarOp::Op, DType::Bool, {a, b}); } \
  inline S fn(S a, double b) { return fn(a, lit(a, b)); }
#define TOROID_UNARY(fn, Op) \
  inline S fn(S a) { return emit(ScalarOp::Op, a.dtype, {a}); }

TOROID_BINARY(operator+, Add)
TOROID_BINARY(operator-, Sub)
TOROID_BINARY(operator*, Mul)
TOROID_BINARY(operator/, Div)
TOROID_BINARY(floor_div, FloorDiv)
TOROID_BINARY(remainder, Remainder)
TOROID_BINARY(fmod, Fmod)
TOROID_BINARY(minimum, Min)
TOROID_BINARY(maximum, Max)
TOROID_BINARY(fmin, Fmin)
TOROID_BINARY(fmax, Fmax)
TOROID_BINARY(pow, Pow)
TOROID_BINARY(operator&, And)
TOROID_BINARY(operator|, Or)
TOROID_BINARY(operator^, Xor)
TOROID_COMPARE(operator==, Eq)
TOROID_COMPARE(operator!=, Ne)
TOROID_COMPARE(operator<, Lt)
TOROID_COMPARE(operator<=, Le)
TOROID_COMPARE(operator>, Gt)
TOROID_COMPARE(operator>=, Ge)
TOROID_UNARY(operator-, Neg)
TOROID_UNARY(operator!, Not)
TOROID_UNARY(abs, Abs)
TOROID_UNARY(floor, Floor)
TOROID_UNARY(ceil, Ceil)
TOROID_UNARY(trunc, Trunc)
TOROID_UNARY(round, Round)
TOROID_UNARY(sqrt, Sqrt)
TOROID_UNARY(rsqrt, Rsqrt)
TOROID_UNARY(exp, Exp)
TOROID_UNARY(expm1, Expm1)
TOROID_UNARY(log, Log)
TOROID_UNARY(log1p, Log1p)
TOROID_UNARY(sin, Sin)
TOROID_UNARY(cos, Cos)
TOROID_UNARY(tanh, Tanh)
TOROID_UNARY(sigmoid, Sigmoid)
TOROID_UNARY(erf, Erf)
TOROID_UNARY(erfc, Erfc)
#undef TOROID_BINARY
#undef TOROID_COMPARE
#undef TOROID_UNARY

// Any op of the vocabulary whose result has its operands' dtype.
S apply(ScalarOp op, S a);
S apply(ScalarOp op, S a, S b);
inline S is_nan(S a) { return emit(ScalarOp::IsNan, DType::Bool, {a}); }
inline S is_inf(S a) { return emit(ScalarOp::IsInf, DType::Bool, {a}); }

}  // namespace toroid
