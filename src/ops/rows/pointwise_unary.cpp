// Functions of one number.
#include <cmath>

#include "base/check.h"
#include "ops/rows/pointwise.h"

namespace toroid::ops {
namespace {

constexpr double kPi = 3.14159265358979323846;

template <ScalarOp kOp>
S plain(F f) {
  return apply(kOp, f[0]);
}

// Rounds to a multiple of 10^-decimals, as PyTorch does: by scaling, in the compute dtype.
S round_decimals(F f) {
  int64_t d = f.integer("decimals");
  if (d == 0 || !is_float(f.compute)) return round(f[0]);
  S scale = f.constant(std::pow(10.0, static_cast<double>(std::abs(d))));
  return d > 0 ? round(f[0] * scale) / scale : round(f[0] / scale) * scale;
}

S sinc_formula(F f) {
  S x = f[0] * kPi;
  return select(f[0] == 0.0, 1.0, sin(x) / x);
}

S logit_formula(F f) {
  S x = f[0];
  if (f.has("eps")) x = minimum(maximum(x, f.real("eps")), 1 - f.real("eps"));
  return log(x / (1.0 - x));
}

// The gradient of logit. ATen takes an eps below 0 for none, and does not clamp then.
S logit_backward_formula(F f) {
  S x = f[1], slope = f[0] / (x * (1.0 - x));
  const bool clamps = f.has("eps") && f.real("eps") >= 0;
  S lo = lit(x, clamps ? f.real("eps") : 0), hi = 1.0 - lo;
  return select((x < lo) | (x > hi), lit(x, clamps ? 0 : std::nan("")), slope);
}

// abs and angle of a complex tensor are real.
void real_result_meta(MetaCall& c) {
  const TensorType& x = *c.tensor("self");
  DType t = x.dtype == DType::C128             ? DType::F64
            : x.dtype == DType::C64            ? DType::F32
            : c.op().promote == Promote::Float ? float_type(x.dtype)
                                               : x.dtype;
  c.result(t, x.sizes);
}

void add_elementary_rows(Table& t) {
  unary_rows(t, {"sqrt"}, Promote::Float, plain<ScalarOp::Sqrt>, [](Z z) { return std::sqrt(z[0]); });
  unary_rows(t, {"rsqrt"}, Promote::Float, plain<ScalarOp::Rsqrt>, [](Z z) { return 1.0 / std::sqrt(z[0]); });
  unary_rows(
      t, {"reciprocal"}, Promote::Float, [](F f) { return 1.0 / f[0]; }, [](Z z) { return 1.0 / z[0]; });
  unary_rows(t, {"exp"}, Promote::Float, plain<ScalarOp::Exp>, [](Z z) { return std::exp(z[0]); });
  unary_rows(t, {"exp2", "special_exp2"}, Promote::Float, plain<ScalarOp::Exp2>, [](Z z) { return std::pow(C128(2), z[0]); });
  unary_rows(t, {"expm1", "special_expm1"}, Promote::Float, plain<ScalarOp::Expm1>, [](Z z) { return std::exp(z[0]) - 1.0; });
  unary_rows(t, {"log"}, Promote::Float, plain<ScalarOp::Log>, [](Z z) { return std::log(z[0]); });
  unary_rows(t, {"log2"}, Promote::Float, plain<ScalarOp::Log2>, [](Z z) { return std::log(z[0]) / std::log(2.0); });
  unary_rows(t, {"log10"}, Promote::Float, plain<ScalarOp::Log10>, [](Z z) { return std::log10(z[0]); });
  unary_rows(t, {"log1p", "special_log1p"}, Promote::Float, plain<ScalarOp::Log1p>, [](Z z) { return std::log(1.0 + z[0]); });
  unary_rows(t, {"sin"}, Promote::Float, plain<ScalarOp::Sin>, [](Z z) { return std::sin(z[0]); });
  unary_rows(t, {"cos"}, Promote::Float, plain<ScalarOp::Cos>, [](Z z) { return std::cos(z[0]); });
  unary_rows(t, {"tan"}, Promote::Float, plain<ScalarOp::Tan>, [](Z z) { return std::tan(z[0]); });
  unary_rows(t, {"asin", "arcsin"}, Promote::Float, plain<ScalarOp::Asin>, [](Z z) { return std::asin(z[0]); });
  unary_rows(t, {"acos", "arccos"}, Promote::Float, plain<ScalarOp::Acos>, [](Z z) { return std::acos(z[0]); });
  unary_rows(t, {"atan", "arctan"}, Promote::Float, plain<ScalarOp::Atan>, [](Z z) { return std::atan(z[0]); });
  unary_rows(t, {"sinh"}, Promote::Float, plain<ScalarOp::Sinh>, [](Z z) { return std::sinh(z[0]); });
  unary_rows(t, {"cosh"}, Promote::Float, plain<ScalarOp::Cosh>, [](Z z) { return std::cosh(z[0]); });
  unary_rows(t, {"tanh"}, Promote::Float, plain<ScalarOp::Tanh>, [](Z z) { return std::tanh(z[0]); });
  unary_rows(t, {"asinh", "arcsinh"}, Promote::Float, plain<ScalarOp::Asinh>, [](Z z) { return std::asinh(z[0]); });
  unary_rows(t, {"acosh", "arccosh"}, Promote::Float, plain<ScalarOp::Acosh>, [](Z z) { return std::acosh(z[0]); });
  unary_rows(t, {"atanh", "arctanh"}, Promote::Float, plain<ScalarOp::Atanh>, [](Z z) { return std::atanh(z[0]); });
  unary_rows(t, {"sigmoid", "special_expit"}, Promote::Float, plain<ScalarOp::Sigmoid>, [](Z z) { return 1.0 / (1.0 + std::exp(-z[0])); });
  unary_rows(t, {"erf", "special_erf"}, Promote::Float, plain<ScalarOp::Erf>);
  unary_rows(t, {"erfc", "special_erfc"}, Promote::Float, plain<ScalarOp::Erfc>);
  unary_rows(t, {"erfinv", "special_erfinv"}, Promote::Float, plain<ScalarOp::Erfinv>);
  unary_rows(t, {"deg2rad"}, Promote::Float, [](F f) { return f[0] * (kPi / 180); });
  unary_rows(t, {"rad2deg"}, Promote::Float, [](F f) { return f[0] * (180 / kPi); });
  unary_rows(t, {"sinc", "special_sinc"}, Promote::Float, sinc_formula);
  for (const char* name : {"logit", "special_logit"})
    t.pointwise(fmt::format("{}(Tensor self, float? eps=None) -> Tensor", name), Promote::Float, logit_formula);
  t.pointwise("logit_backward(Tensor grad_output, Tensor self, float? eps=None) -> Tensor", Promote::Float, logit_backward_formula);
}

void add_sign_rows(Table& t) {
  unary_rows(
      t, {"neg", "negative"}, Promote::Default,
      [](F f) {
        refuse_bool(f);
        return -f[0];
      },
      [](Z z) { return -z[0]; });
  for (const char* name : {"abs", "absolute"}) {
    Op& op = t.pointwise(fmt::format("{}(Tensor self) -> Tensor", name), Promote::Default, [](F f) { return abs(f[0]); });
    op.complex_formula = [](Z z) { return C128(std::abs(z[0])); };
    op.meta = real_result_meta;
  }
  Op& angle = t.pointwise("angle(Tensor self) -> Tensor", Promote::Float,
                          [](F f) { return select(is_nan(f[0]), f[0], select(f[0] < 0.0, lit(f[0], kPi), lit(f[0], 0))); });
  angle.complex_formula = [](Z z) { return C128(std::arg(z[0])); };
  angle.meta = real_result_meta;
  unary_rows(t, {"sign"}, Promote::Default, plain<ScalarOp::Sign>);
  unary_rows(t, {"sgn"}, Promote::Default, plain<ScalarOp::Sign>, [](Z z) { return z[0] == C128(0) ? C128(0) : z[0] / std::abs(z[0]); });
  t.composite("positive(Tensor(a) self) -> Tensor(a)", [](const CallReader& c) -> std::vector<Tensor> {
    Tensor x = c.tensor("self");
    TOROID_USER_CHECK(x.dtype() != DType::Bool, "positive is not defined on bool");
    return {x};
  });
  Op& square = t.pointwise("square(Tensor self) -> Tensor", Promote::Default, [](F f) { return f[0] * f[0]; });
  square.complex_formula = [](Z z) { return z[0] * z[0]; };
  square.meta = [](MetaCall& c) {  // the power 2, and so a number of truth values, too
    const TensorType& x = *c.tensor("self");
    c.result(is_bool(x.dtype) ? DType::I64 : x.dtype, x.sizes);
  };
}

void add_rounding_rows(Table& t) {
  unary_rows(t, {"floor"}, Promote::Default, plain<ScalarOp::Floor>);
  unary_rows(t, {"ceil"}, Promote::Default, plain<ScalarOp::Ceil>);
  unary_rows(t, {"trunc", "fix"}, Promote::Default, plain<ScalarOp::Trunc>);
  unary_rows(t, {"round"}, Promote::Default, plain<ScalarOp::Round>);
  unary_rows(t, {"frac"}, Promote::Default, [](F f) { return f[0] - trunc(f[0]); });
  t.pointwise("round.decimals(Tensor self, *, int decimals) -> Tensor", Promote::Default, round_decimals);
  t.pointwise("special_round(Tensor self, *, int decimals=0) -> Tensor", Promote::Default, round_decimals);
}

void add_predicate_rows(Table& t) {
  unary_rows(
      t, {"isnan"}, Promote::Predicate, [](F f) { return is_nan(f[0]); },
      [](Z z) { return truth(std::isnan(z[0].real()) || std::isnan(z[0].imag())); });
  unary_rows(
      t, {"isinf"}, Promote::Predicate, [](F f) { return is_inf(f[0]); },
      [](Z z) { return truth(std::isinf(z[0].real()) || std::isinf(z[0].imag())); });
  unary_rows(
      t, {"isfinite"}, Promote::Predicate, [](F f) { return !(is_nan(f[0]) | is_inf(f[0])); },
      [](Z z) { return truth(std::isfinite(z[0].real()) && std::isfinite(z[0].imag())); });
  unary_rows(
      t, {"isreal"}, Promote::Predicate, [](F f) { return lit_as(f[0], DType::Bool, Number::of(true)); },
      [](Z z) { return truth(z[0].imag() == 0); });
  unary_rows(t, {"isposinf"}, Promote::Predicate, [](F f) { return is_inf(f[0]) & (f[0] > 0.0); });
  unary_rows(t, {"isneginf"}, Promote::Predicate, [](F f) { return is_inf(f[0]) & (f[0] < 0.0); });
  unary_rows(t, {"signbit"}, Promote::Predicate, [](F f) { return emit(ScalarOp::SignBit, DType::Bool, {f[0]}); });
}

void add_frexp_rows(Table& t) {
  unary_rows(t, {"prims.frexp_mantissa"}, Promote::Float, plain<ScalarOp::FrexpMantissa>);
  unary_rows(t, {"prims.frexp_exponent"}, Promote::Float, plain<ScalarOp::FrexpExponent>);
  t.composite("frexp.Tensor(Tensor self) -> (Tensor mantissa, Tensor exponent)", [](const CallReader& c) -> std::vector<Tensor> {
    Tensor exponent = call1("prims.frexp_exponent", {c.at("self")});
    return {call1("prims.frexp_mantissa", {c.at("self")}), call1("_to_copy", {exponent, DType::I32})};
  });
}

}  // namespace

void add_unary_rows(Table& t) {
  add_elementary_rows(t);
  add_sign_rows(t);
  add_rounding_rows(t);
  add_predicate_rows(t);
  add_frexp_rows(t);
}

}  // namespace toroid::ops
