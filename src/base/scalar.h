// The scalar vocabulary: what one element can be computed with. One formula over it serves the interpreter, the CPU and GPU code
// generators and template epilogues.
#pragma once

#include <complex>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "toroid/dtype.h"

namespace toroid {

// name, arity. Operands and result share a dtype unless stated; comparisons and predicates give Bool.
// clang-format off
#define TOROID_SCALAR_OPS(X) \
  /* leaves; see ScalarNode for where their data is */ \
  X(Const, 0) X(Input, 0) \
  X(Cast, 1)   /* to the node's dtype, C rules; float to Bool is x != 0 */ \
  X(Select, 3) /* Bool, then two of one dtype */ \
  X(Add, 2) X(Sub, 2) X(Mul, 2) X(Neg, 1) X(Abs, 1) \
  X(Div, 2)      /* floats: true division; integers: truncates, 0 divisor gives 0 */ \
  X(FloorDiv, 2) X(Remainder, 2) /* result has the sign of the divisor, as Python */ \
  X(Fmod, 2)     /* sign of the dividend, as C */ \
  X(Min, 2) X(Max, 2)   /* NaN wins */ \
  X(Fmin, 2) X(Fmax, 2) /* NaN loses */ \
  X(Eq, 2) X(Ne, 2) X(Lt, 2) X(Le, 2) X(Gt, 2) X(Ge, 2) \
  X(And, 2) X(Or, 2) X(Xor, 2) X(Not, 1) /* bitwise on integers, logical on Bool */ \
  X(Shl, 2) X(Shr, 2) \
  X(Floor, 1) X(Ceil, 1) X(Trunc, 1) X(Round, 1) /* half to even */ \
  X(IsNan, 1) X(IsInf, 1) X(SignBit, 1) X(CopySign, 2) X(NextAfter, 2) X(Sign, 1) \
  X(Sqrt, 1) X(Rsqrt, 1) X(Exp, 1) X(Exp2, 1) X(Expm1, 1) X(Log, 1) X(Log2, 1) X(Log10, 1) X(Log1p, 1) X(Pow, 2) X(Hypot, 2) \
  X(Sin, 1) X(Cos, 1) X(Tan, 1) X(Asin, 1) X(Acos, 1) X(Atan, 1) X(Atan2, 2) X(Sinh, 1) X(Cosh, 1) X(Tanh, 1) X(Asinh, 1) X(Acosh, 1) \
  X(Atanh, 1) X(Sigmoid, 1) X(Erf, 1) X(Erfc, 1) X(Erfinv, 1) \
  X(Gcd, 2) X(Lcm, 2) \
  /* special functions, float only; order arguments are floats */ \
  X(Lgamma, 1) X(Digamma, 1) X(Polygamma, 2) X(Zeta, 2) X(Igamma, 2) X(Igammac, 2) X(I0, 1) X(I0e, 1) X(I1, 1) X(I1e, 1) X(Ndtri, 1) \
  X(LogNdtr, 1) X(Erfcx, 1) X(BesselJ0, 1) X(BesselJ1, 1) X(BesselY0, 1) X(BesselY1, 1) X(ModifiedBesselI0, 1) X(ModifiedBesselI1, 1) \
  X(ModifiedBesselK0, 1) X(ModifiedBesselK1, 1) X(ScaledModifiedBesselK0, 1) X(ScaledModifiedBesselK1, 1) X(SphericalBesselJ0, 1) \
  X(AiryAi, 1) X(ChebyshevT, 2) X(ChebyshevU, 2) X(ChebyshevV, 2) X(ChebyshevW, 2) X(ShiftedChebyshevT, 2) X(ShiftedChebyshevU, 2) \
  X(ShiftedChebyshevV, 2) X(ShiftedChebyshevW, 2) X(HermiteH, 2) X(HermiteHe, 2) X(LaguerreL, 2) X(LegendreP, 2) \
  X(FrexpMantissa, 1) X(FrexpExponent, 1) /* the exponent as a float */ \
  /* counter-based random numbers: (seed, offset) as I64, F32 result */ \
  X(RandUniform, 2) X(RandNormal, 2)
// clang-format on

enum class ScalarOp : uint8_t {
#define TOROID_ENUM(name, arity) name,
  TOROID_SCALAR_OPS(TOROID_ENUM)
#undef TOROID_ENUM
};
inline constexpr int kScalarOpCount = 0
#define TOROID_COUNT(name, arity) +1
    TOROID_SCALAR_OPS(TOROID_COUNT)
#undef TOROID_COUNT
    ;

std::string_view name_of(ScalarOp op);
int arity_of(ScalarOp op);
// Throws UserError for an unknown name.
ScalarOp scalar_op_from_name(std::string_view name);

// A number as an attribute: integers stay exact.
struct Number {
  enum class Kind : uint8_t { Int, Float, Bool } kind = Kind::Int;
  int64_t i = 0;
  double f = 0;

  static Number of(int64_t v) { return {Kind::Int, v, static_cast<double>(v)}; }
  static Number of(double v);
  static Number of(bool v) { return {Kind::Bool, v, static_cast<double>(v)}; }
  double as_double() const { return kind == Kind::Float ? f : static_cast<double>(i); }
  int64_t as_int() const { return i; }
  bool operator==(const Number& o) const;
};

// One step of a scalar program in SSA form. args index earlier steps.
struct ScalarNode {
  ScalarOp op;
  DType dtype;  // of the result
  int args[3] = {-1, -1, -1};
  Number value;  // Const: its value; Input: value.i = which input
};

// Value of one op on host numbers. Floating ops are computed in double, integer ops in int64 wrapped to `dtype`, Bool as 0/1.
// A value travels as Number with the kind that its dtype implies.
Number evaluate(ScalarOp op, DType dtype, DType operand_dtype, const Number* args);

// The name under which an op that is a function is known to the prelude of generated code ("exp", "j0"); empty for operators.
std::string_view function_name(ScalarOp op);
// Floating functions beyond the C library's. `b` is ignored by functions of one argument.
double special_function(ScalarOp op, double a, double b);
// Counter-based random numbers: uniform in [0, 1), standard normal.
double random_uniform(int64_t seed, int64_t offset);
double random_normal(int64_t seed, int64_t offset);

// Rounds (floats) or wraps (integers) a number to what `dtype` can hold.
Number convert(const Number& v, DType dtype);

// Whether a number can be an element of `dtype`: integers as PyTorch's, where those without a sign have room for the negatives of their
// numbers, and floats lose what is behind the point. All others have room for all.
bool has_room(DType dtype, const Number& v);
std::string to_string(const Number& v);

// Element access on raw memory.
Number load_number(const void* p, DType dtype);
// Of any dtype: of a real one with no imaginary part.
std::complex<double> load_complex(const void* p, DType dtype);
void store_number(void* p, DType dtype, const Number& v);

// Half-precision conversions, round to nearest even.
uint16_t f32_to_f16(float v);
float f16_to_f32(uint16_t v);
uint16_t f32_to_bf16(float v);
float bf16_to_f32(uint16_t v);

}  // namespace toroid
