// Definitions of toroid/ops_table.h.
// Generated from the operation table by tests/ops/generate.cpp (scripts/generate.sh); do not edit.
#include "ops/function_arguments.h"

// clang-format off
namespace toroid {

using ops::call;
using ops::call1;
using namespace ops::arguments;

Tensor subtract(const Operand& self, const Operand& other, const Operand& alpha, Where where) {
  need_tensor("subtract.Tensor", self, other);
  return call1("subtract.Tensor", {argument(self), argument(other), number("subtract.Tensor", "alpha", alpha)}, where);
}
Tensor rsub(const Operand& self, const Operand& other, const Operand& alpha, Where where) {
  need_tensor("rsub.Tensor", self, other);
  return call1("rsub.Tensor", {argument(self), argument(other), number("rsub.Tensor", "alpha", alpha)}, where);
}
Tensor multiply(const Operand& self, const Operand& other, Where where) {
  need_tensor("multiply.Tensor", self, other);
  return call1("multiply.Tensor", {argument(self), argument(other)}, where);
}
Tensor divide(const Operand& self, const Operand& other, Where where) {
  need_tensor("divide.Tensor", self, other);
  return call1("divide.Tensor", {argument(self), argument(other)}, where);
}
Tensor divide(const Tensor& self, const Tensor& other, std::optional<Word> rounding_mode, Where where) {
  return call1("divide.Tensor_mode", {self, other, optional(rounding_mode)}, where);
}
Tensor divide(const Tensor& self, const Operand& other, std::optional<Word> rounding_mode, Where where) {
  return call1("divide.Scalar_mode", {self, number("divide.Scalar_mode", "other", other), optional(rounding_mode)}, where);
}
Tensor true_divide(const Operand& self, const Operand& other, Where where) {
  need_tensor("true_divide.Tensor", self, other);
  return call1("true_divide.Tensor", {argument(self), argument(other)}, where);
}
Tensor div(const Tensor& self, const Tensor& other, std::optional<Word> rounding_mode, Where where) {
  return call1("div.Tensor_mode", {self, other, optional(rounding_mode)}, where);
}
Tensor div(const Tensor& self, const Operand& other, std::optional<Word> rounding_mode, Where where) {
  return call1("div.Scalar_mode", {self, number("div.Scalar_mode", "other", other), optional(rounding_mode)}, where);
}
Tensor fmod(const Operand& self, const Operand& other, Where where) {
  need_tensor("fmod.Tensor", self, other);
  return call1("fmod.Tensor", {argument(self), argument(other)}, where);
}
Tensor float_power(const Tensor& self, const Tensor& exponent, Where where) {
  return call1("float_power.Tensor_Tensor", {self, exponent}, where);
}
Tensor float_power(const Tensor& self, const Operand& exponent, Where where) {
  return call1("float_power.Tensor_Scalar", {self, number("float_power.Tensor_Scalar", "exponent", exponent)}, where);
}
Tensor float_power(const Operand& self, const Tensor& exponent, Where where) {
  return call1("float_power.Scalar", {number("float_power.Scalar", "self", self), exponent}, where);
}
Tensor ldexp(const Tensor& self, const Tensor& other, Where where) {
  return call1("ldexp.Tensor", {self, other}, where);
}
Tensor fmax(const Operand& self, const Operand& other, Where where) {
  need_tensor("fmax", self, other);
  return call1("fmax", {argument(self), argument(other)}, where);
}
Tensor fmin(const Operand& self, const Operand& other, Where where) {
  need_tensor("fmin", self, other);
  return call1("fmin", {argument(self), argument(other)}, where);
}
Tensor arctan2(const Operand& self, const Operand& other, Where where) {
  need_tensor("arctan2", self, other);
  return call1("arctan2", {argument(self), argument(other)}, where);
}
Tensor hypot(const Operand& self, const Operand& other, Where where) {
  need_tensor("hypot", self, other);
  return call1("hypot", {argument(self), argument(other)}, where);
}
Tensor copysign(const Operand& self, const Operand& other, Where where) {
  need_tensor("copysign.Tensor", self, other);
  return call1("copysign.Tensor", {argument(self), argument(other)}, where);
}
Tensor nextafter(const Operand& self, const Operand& other, Where where) {
  need_tensor("nextafter", self, other);
  return call1("nextafter", {argument(self), argument(other)}, where);
}
Tensor heaviside(const Operand& self, const Operand& values, Where where) {
  need_tensor("heaviside", self, values);
  return call1("heaviside", {argument(self), argument(values)}, where);
}
Tensor xlogy(const Operand& self, const Operand& other, Where where) {
  need_tensor("xlogy.Tensor", self, other);
  return call1("xlogy.Tensor", {argument(self), argument(other)}, where);
}
Tensor special_xlogy(const Operand& self, const Operand& other, Where where) {
  need_tensor("special_xlogy", self, other);
  return call1("special_xlogy", {argument(self), argument(other)}, where);
}
Tensor logaddexp(const Operand& self, const Operand& other, Where where) {
  need_tensor("logaddexp", self, other);
  return call1("logaddexp", {argument(self), argument(other)}, where);
}
Tensor logaddexp2(const Operand& self, const Operand& other, Where where) {
  need_tensor("logaddexp2", self, other);
  return call1("logaddexp2", {argument(self), argument(other)}, where);
}
Tensor gcd(const Operand& self, const Operand& other, Where where) {
  need_tensor("gcd", self, other);
  return call1("gcd", {argument(self), argument(other)}, where);
}
Tensor lcm(const Operand& self, const Operand& other, Where where) {
  need_tensor("lcm", self, other);
  return call1("lcm", {argument(self), argument(other)}, where);
}
Tensor not_equal(const Operand& self, const Operand& other, Where where) {
  need_tensor("not_equal.Tensor", self, other);
  return call1("not_equal.Tensor", {argument(self), argument(other)}, where);
}
Tensor less(const Operand& self, const Operand& other, Where where) {
  need_tensor("less.Tensor", self, other);
  return call1("less.Tensor", {argument(self), argument(other)}, where);
}
Tensor less_equal(const Operand& self, const Operand& other, Where where) {
  need_tensor("less_equal.Tensor", self, other);
  return call1("less_equal.Tensor", {argument(self), argument(other)}, where);
}
Tensor greater(const Operand& self, const Operand& other, Where where) {
  need_tensor("greater.Tensor", self, other);
  return call1("greater.Tensor", {argument(self), argument(other)}, where);
}
Tensor greater_equal(const Operand& self, const Operand& other, Where where) {
  need_tensor("greater_equal.Tensor", self, other);
  return call1("greater_equal.Tensor", {argument(self), argument(other)}, where);
}
Tensor bitwise_and(const Operand& self, const Operand& other, Where where) {
  need_tensor("bitwise_and.Tensor", self, other);
  return call1("bitwise_and.Tensor", {argument(self), argument(other)}, where);
}
Tensor bitwise_or(const Operand& self, const Operand& other, Where where) {
  need_tensor("bitwise_or.Tensor", self, other);
  return call1("bitwise_or.Tensor", {argument(self), argument(other)}, where);
}
Tensor bitwise_xor(const Operand& self, const Operand& other, Where where) {
  need_tensor("bitwise_xor.Tensor", self, other);
  return call1("bitwise_xor.Tensor", {argument(self), argument(other)}, where);
}
Tensor bitwise_left_shift(const Operand& self, const Operand& other, Where where) {
  need_tensor("bitwise_left_shift.Tensor", self, other);
  return call1("bitwise_left_shift.Tensor", {argument(self), argument(other)}, where);
}
Tensor bitwise_right_shift(const Operand& self, const Operand& other, Where where) {
  need_tensor("bitwise_right_shift.Tensor", self, other);
  return call1("bitwise_right_shift.Tensor", {argument(self), argument(other)}, where);
}
Tensor isclose(const Operand& self, const Operand& other, double rtol, double atol, bool equal_nan, Where where) {
  need_tensor("isclose", self, other);
  return call1("isclose", {argument(self), argument(other), rtol, atol, equal_nan}, where);
}
Tensor special_exp2(const Tensor& self, Where where) {
  return call1("special_exp2", {self}, where);
}
Tensor special_expm1(const Tensor& self, Where where) {
  return call1("special_expm1", {self}, where);
}
Tensor special_log1p(const Tensor& self, Where where) {
  return call1("special_log1p", {self}, where);
}
Tensor arcsin(const Tensor& self, Where where) {
  return call1("arcsin", {self}, where);
}
Tensor arccos(const Tensor& self, Where where) {
  return call1("arccos", {self}, where);
}
Tensor arctan(const Tensor& self, Where where) {
  return call1("arctan", {self}, where);
}
Tensor asinh(const Tensor& self, Where where) {
  return call1("asinh", {self}, where);
}
Tensor arcsinh(const Tensor& self, Where where) {
  return call1("arcsinh", {self}, where);
}
Tensor acosh(const Tensor& self, Where where) {
  return call1("acosh", {self}, where);
}
Tensor arccosh(const Tensor& self, Where where) {
  return call1("arccosh", {self}, where);
}
Tensor atanh(const Tensor& self, Where where) {
  return call1("atanh", {self}, where);
}
Tensor arctanh(const Tensor& self, Where where) {
  return call1("arctanh", {self}, where);
}
Tensor special_expit(const Tensor& self, Where where) {
  return call1("special_expit", {self}, where);
}
Tensor special_erf(const Tensor& self, Where where) {
  return call1("special_erf", {self}, where);
}
Tensor special_erfc(const Tensor& self, Where where) {
  return call1("special_erfc", {self}, where);
}
Tensor erfinv(const Tensor& self, Where where) {
  return call1("erfinv", {self}, where);
}
Tensor special_erfinv(const Tensor& self, Where where) {
  return call1("special_erfinv", {self}, where);
}
Tensor deg2rad(const Tensor& self, Where where) {
  return call1("deg2rad", {self}, where);
}
Tensor rad2deg(const Tensor& self, Where where) {
  return call1("rad2deg", {self}, where);
}
Tensor sinc(const Tensor& self, Where where) {
  return call1("sinc", {self}, where);
}
Tensor special_sinc(const Tensor& self, Where where) {
  return call1("special_sinc", {self}, where);
}
Tensor logit(const Tensor& self, std::optional<double> eps, Where where) {
  return call1("logit", {self, optional(eps)}, where);
}
Tensor special_logit(const Tensor& self, std::optional<double> eps, Where where) {
  return call1("special_logit", {self, optional(eps)}, where);
}
Tensor logit_backward(const Operand& grad_output, const Operand& self, std::optional<double> eps, Where where) {
  need_tensor("logit_backward", grad_output, self);
  return call1("logit_backward", {argument(grad_output), argument(self), optional(eps)}, where);
}
Tensor negative(const Tensor& self, Where where) {
  return call1("negative", {self}, where);
}
Tensor absolute(const Tensor& self, Where where) {
  return call1("absolute", {self}, where);
}
Tensor angle(const Tensor& self, Where where) {
  return call1("angle", {self}, where);
}
Tensor sgn(const Tensor& self, Where where) {
  return call1("sgn", {self}, where);
}
Tensor positive(const Tensor& self, Where where) {
  return call1("positive", {self}, where);
}
Tensor fix(const Tensor& self, Where where) {
  return call1("fix", {self}, where);
}
Tensor frac(const Tensor& self, Where where) {
  return call1("frac", {self}, where);
}
Tensor round(const Tensor& self, const SymInt& decimals, Where where) {
  return call1("round.decimals", {self, decimals.expr()}, where);
}
Tensor special_round(const Tensor& self, const SymInt& decimals, Where where) {
  return call1("special_round", {self, decimals.expr()}, where);
}
Tensor isreal(const Tensor& self, Where where) {
  return call1("isreal", {self}, where);
}
Tensor isposinf(const Tensor& self, Where where) {
  return call1("isposinf", {self}, where);
}
Tensor isneginf(const Tensor& self, Where where) {
  return call1("isneginf", {self}, where);
}
Tensor signbit(const Tensor& self, Where where) {
  return call1("signbit", {self}, where);
}
std::pair<Tensor, Tensor> frexp(const Tensor& self, Where where) {
  return two(ops::get("frexp.Tensor"), {self}, where);
}
Tensor prelu(const Tensor& self, const Tensor& weight, Where where) {
  return call1("prelu", {self, weight}, where);
}
Tensor celu(const Tensor& self, const Operand& alpha, Where where) {
  return call1("celu", {self, number("celu", "alpha", alpha)}, where);
}
Tensor threshold(const Tensor& self, const Operand& threshold, const Operand& value, Where where) {
  return call1("threshold", {self, number("threshold", "threshold", threshold), number("threshold", "value", value)}, where);
}
Tensor gelu_backward(const Operand& grad_output, const Operand& self, Word approximate, Where where) {
  need_tensor("gelu_backward", grad_output, self);
  return call1("gelu_backward", {argument(grad_output), argument(self), std::string(approximate)}, where);
}
Tensor softshrink(const Tensor& self, const Operand& lambd, Where where) {
  return call1("softshrink", {self, number("softshrink", "lambd", lambd)}, where);
}
Tensor hardshrink(const Tensor& self, const Operand& lambd, Where where) {
  return call1("hardshrink", {self, number("hardshrink", "lambd", lambd)}, where);
}
std::pair<Tensor, Tensor> log_sigmoid_forward(const Tensor& self, Where where) {
  return two(ops::get("log_sigmoid_forward"), {self}, where);
}
Tensor masked_fill(const Tensor& self, const Tensor& mask, const Tensor& value, Where where) {
  return call1("masked_fill.Tensor", {self, mask, value}, where);
}
Tensor clamp(const Tensor& self, const Tensor& min, const Tensor& max, Where where) {
  return call1("clamp.Tensor", {self, maybe(min), maybe(max)}, where);
}
Tensor clip(const Tensor& self, const std::optional<Operand>& min, const std::optional<Operand>& max, Where where) {
  return call1("clip", {self, number("clip", "min", min), number("clip", "max", max)}, where);
}
Tensor clip(const Tensor& self, const Tensor& min, const Tensor& max, Where where) {
  return call1("clip.Tensor", {self, maybe(min), maybe(max)}, where);
}
Tensor clamp_min(const Operand& self, const Operand& min, Where where) {
  need_tensor("clamp_min.Tensor", self, min);
  return call1("clamp_min.Tensor", {argument(self), argument(min)}, where);
}
Tensor clamp_max(const Operand& self, const Operand& max, Where where) {
  need_tensor("clamp_max.Tensor", self, max);
  return call1("clamp_max.Tensor", {argument(self), argument(max)}, where);
}
Tensor type_as(const Tensor& self, const Tensor& other, Where where) {
  return call1("type_as", {self, other}, where);
}
Tensor lift_fresh(const Tensor& self, Where where) {
  return call1("lift_fresh", {self}, where);
}
Tensor fill(const Operand& self, const Operand& value, Where where) {
  need_tensor("fill.Tensor", self, value);
  return call1("fill.Tensor", {argument(self), argument(value)}, where);
}
Tensor zero(const Tensor& self, Where where) {
  return call1("zero", {self}, where);
}
void sym_constrain_range(const Operand& size, const std::optional<SymInt>& min, const std::optional<SymInt>& max, Where where) {
  call("sym_constrain_range", {number("sym_constrain_range", "size", size), optional(min), optional(max)}, where);
}
void sym_constrain_range_for_size(const Operand& size, const std::optional<SymInt>& min, const std::optional<SymInt>& max, Where where) {
  call("sym_constrain_range_for_size", {number("sym_constrain_range_for_size", "size", size), optional(min), optional(max)}, where);
}
Tensor fake_quantize_per_tensor_affine(const Tensor& self, double scale, const SymInt& zero_point, const SymInt& quant_min, const SymInt& quant_max, Where where) {
  return call1("fake_quantize_per_tensor_affine", {self, scale, zero_point.expr(), quant_min.expr(), quant_max.expr()}, where);
}
Tensor fake_quantize_per_tensor_affine(const Tensor& self, const Tensor& scale, const Tensor& zero_point, const SymInt& quant_min, const SymInt& quant_max, Where where) {
  return call1("fake_quantize_per_tensor_affine.tensor_qparams", {self, scale, zero_point, quant_min.expr(), quant_max.expr()}, where);
}
Tensor fake_quantize_per_channel_affine(const Tensor& self, const Tensor& scale, const Tensor& zero_point, int64_t axis, const SymInt& quant_min, const SymInt& quant_max, Where where) {
  return call1("fake_quantize_per_channel_affine", {self, scale, zero_point, Expr(axis), quant_min.expr(), quant_max.expr()}, where);
}
std::pair<Tensor, Tensor> fake_quantize_per_tensor_affine_cachemask(const Tensor& self, double scale, const SymInt& zero_point, const SymInt& quant_min, const SymInt& quant_max, Where where) {
  return two(ops::get("fake_quantize_per_tensor_affine_cachemask"), {self, scale, zero_point.expr(), quant_min.expr(), quant_max.expr()}, where);
}
std::pair<Tensor, Tensor> fake_quantize_per_channel_affine_cachemask(const Tensor& self, const Tensor& scale, const Tensor& zero_point, int64_t axis, const SymInt& quant_min, const SymInt& quant_max, Where where) {
  return two(ops::get("fake_quantize_per_channel_affine_cachemask"), {self, scale, zero_point, Expr(axis), quant_min.expr(), quant_max.expr()}, where);
}
Tensor special_gammaln(const Tensor& self, Where where) {
  return call1("special_gammaln", {self}, where);
}
Tensor digamma(const Tensor& self, Where where) {
  return call1("digamma", {self}, where);
}
Tensor special_digamma(const Tensor& self, Where where) {
  return call1("special_digamma", {self}, where);
}
Tensor special_psi(const Tensor& self, Where where) {
  return call1("special_psi", {self}, where);
}
Tensor polygamma(const SymInt& n, const Tensor& self, Where where) {
  return call1("polygamma", {n.expr(), self}, where);
}
Tensor special_polygamma(const SymInt& n, const Tensor& self, Where where) {
  return call1("special_polygamma", {n.expr(), self}, where);
}
Tensor mvlgamma(const Tensor& self, const SymInt& p, Where where) {
  return call1("mvlgamma", {self, p.expr()}, where);
}
Tensor special_multigammaln(const Tensor& self, const SymInt& p, Where where) {
  return call1("special_multigammaln", {self, p.expr()}, where);
}
Tensor igamma(const Operand& self, const Operand& other, Where where) {
  need_tensor("igamma", self, other);
  return call1("igamma", {argument(self), argument(other)}, where);
}
Tensor special_gammainc(const Operand& self, const Operand& other, Where where) {
  need_tensor("special_gammainc", self, other);
  return call1("special_gammainc", {argument(self), argument(other)}, where);
}
Tensor igammac(const Operand& self, const Operand& other, Where where) {
  need_tensor("igammac", self, other);
  return call1("igammac", {argument(self), argument(other)}, where);
}
Tensor special_gammaincc(const Operand& self, const Operand& other, Where where) {
  need_tensor("special_gammaincc", self, other);
  return call1("special_gammaincc", {argument(self), argument(other)}, where);
}
Tensor i0(const Tensor& self, Where where) {
  return call1("i0", {self}, where);
}
Tensor special_i0(const Tensor& self, Where where) {
  return call1("special_i0", {self}, where);
}
Tensor special_i0e(const Tensor& self, Where where) {
  return call1("special_i0e", {self}, where);
}
Tensor special_i1(const Tensor& self, Where where) {
  return call1("special_i1", {self}, where);
}
Tensor special_i1e(const Tensor& self, Where where) {
  return call1("special_i1e", {self}, where);
}
Tensor special_bessel_j0(const Tensor& self, Where where) {
  return call1("special_bessel_j0", {self}, where);
}
Tensor special_bessel_j1(const Tensor& self, Where where) {
  return call1("special_bessel_j1", {self}, where);
}
Tensor special_bessel_y0(const Tensor& self, Where where) {
  return call1("special_bessel_y0", {self}, where);
}
Tensor special_bessel_y1(const Tensor& self, Where where) {
  return call1("special_bessel_y1", {self}, where);
}
Tensor special_modified_bessel_i0(const Tensor& self, Where where) {
  return call1("special_modified_bessel_i0", {self}, where);
}
Tensor special_modified_bessel_i1(const Tensor& self, Where where) {
  return call1("special_modified_bessel_i1", {self}, where);
}
Tensor special_modified_bessel_k0(const Tensor& self, Where where) {
  return call1("special_modified_bessel_k0", {self}, where);
}
Tensor special_modified_bessel_k1(const Tensor& self, Where where) {
  return call1("special_modified_bessel_k1", {self}, where);
}
Tensor special_scaled_modified_bessel_k0(const Tensor& x, Where where) {
  return call1("special_scaled_modified_bessel_k0", {x}, where);
}
Tensor special_scaled_modified_bessel_k1(const Tensor& x, Where where) {
  return call1("special_scaled_modified_bessel_k1", {x}, where);
}
Tensor special_spherical_bessel_j0(const Tensor& x, Where where) {
  return call1("special_spherical_bessel_j0", {x}, where);
}
Tensor special_airy_ai(const Tensor& x, Where where) {
  return call1("special_airy_ai", {x}, where);
}
Tensor special_erfcx(const Tensor& self, Where where) {
  return call1("special_erfcx", {self}, where);
}
Tensor special_ndtri(const Tensor& self, Where where) {
  return call1("special_ndtri", {self}, where);
}
Tensor special_log_ndtr(const Tensor& self, Where where) {
  return call1("special_log_ndtr", {self}, where);
}
Tensor special_ndtr(const Tensor& self, Where where) {
  return call1("special_ndtr", {self}, where);
}
Tensor special_entr(const Tensor& self, Where where) {
  return call1("special_entr", {self}, where);
}
Tensor special_zeta(const Operand& self, const Operand& other, Where where) {
  need_tensor("special_zeta", self, other);
  return call1("special_zeta", {argument(self), argument(other)}, where);
}
Tensor special_xlog1py(const Operand& self, const Operand& other, Where where) {
  need_tensor("special_xlog1py", self, other);
  return call1("special_xlog1py", {argument(self), argument(other)}, where);
}
Tensor special_chebyshev_polynomial_t(const Operand& x, const Operand& n, Where where) {
  need_tensor("special_chebyshev_polynomial_t", x, n);
  return call1("special_chebyshev_polynomial_t", {argument(x), argument(n)}, where);
}
Tensor special_chebyshev_polynomial_u(const Operand& x, const Operand& n, Where where) {
  need_tensor("special_chebyshev_polynomial_u", x, n);
  return call1("special_chebyshev_polynomial_u", {argument(x), argument(n)}, where);
}
Tensor special_chebyshev_polynomial_v(const Operand& x, const Operand& n, Where where) {
  need_tensor("special_chebyshev_polynomial_v", x, n);
  return call1("special_chebyshev_polynomial_v", {argument(x), argument(n)}, where);
}
Tensor special_chebyshev_polynomial_w(const Operand& x, const Operand& n, Where where) {
  need_tensor("special_chebyshev_polynomial_w", x, n);
  return call1("special_chebyshev_polynomial_w", {argument(x), argument(n)}, where);
}
Tensor special_shifted_chebyshev_polynomial_t(const Operand& x, const Operand& n, Where where) {
  need_tensor("special_shifted_chebyshev_polynomial_t", x, n);
  return call1("special_shifted_chebyshev_polynomial_t", {argument(x), argument(n)}, where);
}
Tensor special_shifted_chebyshev_polynomial_u(const Operand& x, const Operand& n, Where where) {
  need_tensor("special_shifted_chebyshev_polynomial_u", x, n);
  return call1("special_shifted_chebyshev_polynomial_u", {argument(x), argument(n)}, where);
}
Tensor special_shifted_chebyshev_polynomial_v(const Operand& x, const Operand& n, Where where) {
  need_tensor("special_shifted_chebyshev_polynomial_v", x, n);
  return call1("special_shifted_chebyshev_polynomial_v", {argument(x), argument(n)}, where);
}
Tensor special_shifted_chebyshev_polynomial_w(const Operand& x, const Operand& n, Where where) {
  need_tensor("special_shifted_chebyshev_polynomial_w", x, n);
  return call1("special_shifted_chebyshev_polynomial_w", {argument(x), argument(n)}, where);
}
Tensor special_hermite_polynomial_h(const Operand& x, const Operand& n, Where where) {
  need_tensor("special_hermite_polynomial_h", x, n);
  return call1("special_hermite_polynomial_h", {argument(x), argument(n)}, where);
}
Tensor special_hermite_polynomial_he(const Operand& x, const Operand& n, Where where) {
  need_tensor("special_hermite_polynomial_he", x, n);
  return call1("special_hermite_polynomial_he", {argument(x), argument(n)}, where);
}
Tensor special_laguerre_polynomial_l(const Operand& x, const Operand& n, Where where) {
  need_tensor("special_laguerre_polynomial_l", x, n);
  return call1("special_laguerre_polynomial_l", {argument(x), argument(n)}, where);
}
Tensor special_legendre_polynomial_p(const Operand& x, const Operand& n, Where where) {
  need_tensor("special_legendre_polynomial_p", x, n);
  return call1("special_legendre_polynomial_p", {argument(x), argument(n)}, where);
}
Tensor alias(const Tensor& self, Where where) {
  return call1("alias", {self}, where);
}
Tensor view(const Tensor& self, DType dtype, Where where) {
  return call1("view.dtype", {self, dtype}, where);
}
Tensor view_as(const Tensor& self, const Tensor& other, Where where) {
  return call1("view_as", {self, other}, where);
}
Tensor reshape_as(const Tensor& self, const Tensor& other, Where where) {
  return call1("reshape_as", {self, other}, where);
}
Tensor ravel(const Tensor& self, Where where) {
  return call1("ravel", {self}, where);
}
Tensor atleast_1d(const Tensor& self, Where where) {
  return call1("atleast_1d", {self}, where);
}
Tensor atleast_2d(const Tensor& self, Where where) {
  return call1("atleast_2d", {self}, where);
}
Tensor atleast_3d(const Tensor& self, Where where) {
  return call1("atleast_3d", {self}, where);
}
Tensor resize(const Tensor& self, const SizeList& size, Where where) {
  return call1("resize", {self, exprs(size), std::monostate{}}, where);
}
Tensor copy(const Tensor& self, const Tensor& src, bool non_blocking, Where where) {
  return call1("copy", {self, src, non_blocking}, where);
}
Tensor linalg_diagonal(const Tensor& self, const SymInt& offset, int64_t dim1, int64_t dim2, Where where) {
  return call1("linalg_diagonal", {self, offset.expr(), Expr(dim1), Expr(dim2)}, where);
}
Tensor unfold(const Tensor& self, int64_t dimension, const SymInt& size, const SymInt& step, Where where) {
  return call1("unfold", {self, Expr(dimension), size.expr(), step.expr()}, where);
}
Tensor as_strided(const Tensor& self, const SizeList& size, const SizeList& stride, const std::optional<SymInt>& storage_offset, Where where) {
  return call1("as_strided", {self, exprs(size), exprs(stride), optional(storage_offset)}, where);
}
std::vector<Tensor> tensor_split(const Tensor& self, const SymInt& sections, int64_t dim, Where where) {
  return call("tensor_split.sections", {self, sections.expr(), Expr(dim)}, where);
}
std::vector<Tensor> tensor_split(const Tensor& self, const std::vector<SymInt>& indices, int64_t dim, Where where) {
  return call("tensor_split.indices", {self, exprs(indices), Expr(dim)}, where);
}
std::vector<Tensor> hsplit(const Tensor& self, const std::vector<SymInt>& indices, Where where) {
  return call("hsplit.array", {self, exprs(indices)}, where);
}
std::vector<Tensor> hsplit(const Tensor& self, const SymInt& sections, Where where) {
  return call("hsplit.int", {self, sections.expr()}, where);
}
std::vector<Tensor> vsplit(const Tensor& self, const std::vector<SymInt>& indices, Where where) {
  return call("vsplit.array", {self, exprs(indices)}, where);
}
std::vector<Tensor> vsplit(const Tensor& self, const SymInt& sections, Where where) {
  return call("vsplit.int", {self, sections.expr()}, where);
}
std::vector<Tensor> dsplit(const Tensor& self, const std::vector<SymInt>& indices, Where where) {
  return call("dsplit.array", {self, exprs(indices)}, where);
}
std::vector<Tensor> dsplit(const Tensor& self, const SymInt& sections, Where where) {
  return call("dsplit.int", {self, sections.expr()}, where);
}
Tensor swapdims(const Tensor& self, int64_t dim0, int64_t dim1, Where where) {
  return call1("swapdims", {self, Expr(dim0), Expr(dim1)}, where);
}
Tensor swapaxes(const Tensor& self, int64_t axis0, int64_t axis1, Where where) {
  return call1("swapaxes", {self, Expr(axis0), Expr(axis1)}, where);
}
Tensor numpy_T(const Tensor& self, Where where) {
  return call1("numpy_T", {self}, where);
}
Tensor mT(const Tensor& self, Where where) {
  return call1("mT", {self}, where);
}
Tensor movedim(const Tensor& self, int64_t source, int64_t destination, Where where) {
  return call1("movedim.int", {self, Expr(source), Expr(destination)}, where);
}
Tensor movedim_intlist(const Tensor& self, const Dims& source, const Dims& destination, Where where) {
  return call1("movedim.intlist", {self, numbers(source), numbers(destination)}, where);
}
Tensor moveaxis(const Tensor& self, int64_t source, int64_t destination, Where where) {
  return call1("moveaxis.int", {self, Expr(source), Expr(destination)}, where);
}
Tensor moveaxis_intlist(const Tensor& self, const Dims& source, const Dims& destination, Where where) {
  return call1("moveaxis.intlist", {self, numbers(source), numbers(destination)}, where);
}
Tensor adjoint(const Tensor& self, Where where) {
  return call1("adjoint", {self}, where);
}
Tensor mH(const Tensor& self, Where where) {
  return call1("mH", {self}, where);
}
Tensor matrix_H(const Tensor& self, Where where) {
  return call1("matrix_H", {self}, where);
}
Tensor broadcast_to(const Tensor& self, const SizeList& size, Where where) {
  return call1("broadcast_to", {self, exprs(size)}, where);
}
Tensor expand_as(const Tensor& self, const Tensor& other, Where where) {
  return call1("expand_as", {self, other}, where);
}
Tensor fliplr(const Tensor& self, Where where) {
  return call1("fliplr", {self}, where);
}
Tensor flipud(const Tensor& self, Where where) {
  return call1("flipud", {self}, where);
}
Tensor tile(const Tensor& self, const Dims& dims, Where where) {
  return call1("tile", {self, numbers(dims)}, where);
}
Tensor reflection_pad1d(const Tensor& self, const SizeList& padding, Where where) {
  return call1("reflection_pad1d", {self, exprs(padding)}, where);
}
Tensor replication_pad1d(const Tensor& self, const SizeList& padding, Where where) {
  return call1("replication_pad1d", {self, exprs(padding)}, where);
}
Tensor reflection_pad2d(const Tensor& self, const SizeList& padding, Where where) {
  return call1("reflection_pad2d", {self, exprs(padding)}, where);
}
Tensor replication_pad2d(const Tensor& self, const SizeList& padding, Where where) {
  return call1("replication_pad2d", {self, exprs(padding)}, where);
}
Tensor reflection_pad3d(const Tensor& self, const SizeList& padding, Where where) {
  return call1("reflection_pad3d", {self, exprs(padding)}, where);
}
Tensor replication_pad3d(const Tensor& self, const SizeList& padding, Where where) {
  return call1("replication_pad3d", {self, exprs(padding)}, where);
}
Tensor rot90(const Tensor& self, const SymInt& k, const Dims& dims, Where where) {
  return call1("rot90", {self, k.expr(), numbers(dims)}, where);
}
Tensor select_scatter(const Tensor& self, const Tensor& src, int64_t dim, const SymInt& index, Where where) {
  return call1("select_scatter", {self, src, Expr(dim), index.expr()}, where);
}
Tensor slice_scatter(const Tensor& self, const Tensor& src, int64_t dim, const std::optional<SymInt>& start, const std::optional<SymInt>& end, const SymInt& step, Where where) {
  return call1("slice_scatter", {self, src, Expr(dim), optional(start), optional(end), step.expr()}, where);
}
Tensor diagonal_scatter(const Tensor& self, const Tensor& src, const SymInt& offset, int64_t dim1, int64_t dim2, Where where) {
  return call1("diagonal_scatter", {self, src, offset.expr(), Expr(dim1), Expr(dim2)}, where);
}
Tensor as_strided_scatter(const Tensor& self, const Tensor& src, const SizeList& size, const SizeList& stride, const std::optional<SymInt>& storage_offset, Where where) {
  return call1("as_strided_scatter", {self, src, exprs(size), exprs(stride), optional(storage_offset)}, where);
}
Tensor new_full(const Tensor& self, const SizeList& size, const Operand& fill_value, std::optional<DType> dtype, std::optional<bool> pin_memory, Where where) {
  return call1("new_full", {self, exprs(size), number("new_full", "fill_value", fill_value), optional(dtype), std::monostate{}, std::monostate{}, optional(pin_memory)}, where);
}
Tensor empty(const SizeList& size, std::optional<DType> dtype, std::optional<Device> device, std::optional<bool> pin_memory, Where where) {
  DeviceScope scope(device.value_or(default_device()));
  return call1("empty.memory_format", {exprs(size), optional(dtype), std::monostate{}, std::monostate{}, optional(pin_memory), std::monostate{}}, where);
}
Tensor empty_strided(const SizeList& size, const SizeList& stride, std::optional<DType> dtype, std::optional<Device> device, std::optional<bool> pin_memory, Where where) {
  DeviceScope scope(device.value_or(default_device()));
  return call1("empty_strided", {exprs(size), exprs(stride), optional(dtype), std::monostate{}, std::monostate{}, optional(pin_memory)}, where);
}
Tensor empty_permuted(const SizeList& size, const SizeList& physical_layout, std::optional<DType> dtype, std::optional<Device> device, std::optional<bool> pin_memory, Where where) {
  DeviceScope scope(device.value_or(default_device()));
  return call1("empty_permuted", {exprs(size), exprs(physical_layout), optional(dtype), std::monostate{}, std::monostate{}, optional(pin_memory)}, where);
}
Tensor new_zeros(const Tensor& self, const SizeList& size, std::optional<DType> dtype, std::optional<bool> pin_memory, Where where) {
  return call1("new_zeros", {self, exprs(size), optional(dtype), std::monostate{}, std::monostate{}, optional(pin_memory)}, where);
}
Tensor new_empty(const Tensor& self, const SizeList& size, std::optional<DType> dtype, std::optional<bool> pin_memory, Where where) {
  return call1("new_empty", {self, exprs(size), optional(dtype), std::monostate{}, std::monostate{}, optional(pin_memory)}, where);
}
Tensor new_empty_strided(const Tensor& self, const SizeList& size, const SizeList& stride, std::optional<DType> dtype, std::optional<bool> pin_memory, Where where) {
  return call1("new_empty_strided", {self, exprs(size), exprs(stride), optional(dtype), std::monostate{}, std::monostate{}, optional(pin_memory)}, where);
}
Tensor new_ones(const Tensor& self, const SizeList& size, std::optional<DType> dtype, std::optional<bool> pin_memory, Where where) {
  return call1("new_ones", {self, exprs(size), optional(dtype), std::monostate{}, std::monostate{}, optional(pin_memory)}, where);
}
Tensor linspace(const Operand& start, const Operand& end, const SymInt& steps, std::optional<DType> dtype, std::optional<Device> device, std::optional<bool> pin_memory, Where where) {
  DeviceScope scope(device.value_or(default_device()));
  return call1("linspace", {number("linspace", "start", start), number("linspace", "end", end), steps.expr(), optional(dtype), std::monostate{}, std::monostate{}, optional(pin_memory)}, where);
}
Tensor linspace(const Tensor& start, const Tensor& end, const SymInt& steps, std::optional<DType> dtype, std::optional<bool> pin_memory, Where where) {
  return call1("linspace.Tensor_Tensor", {start, end, steps.expr(), optional(dtype), std::monostate{}, std::monostate{}, optional(pin_memory)}, where);
}
Tensor linspace(const Tensor& start, const Operand& end, const SymInt& steps, std::optional<DType> dtype, std::optional<bool> pin_memory, Where where) {
  return call1("linspace.Tensor_Scalar", {start, number("linspace.Tensor_Scalar", "end", end), steps.expr(), optional(dtype), std::monostate{}, std::monostate{}, optional(pin_memory)}, where);
}
Tensor linspace(const Operand& start, const Tensor& end, const SymInt& steps, std::optional<DType> dtype, std::optional<bool> pin_memory, Where where) {
  return call1("linspace.Scalar_Tensor", {number("linspace.Scalar_Tensor", "start", start), end, steps.expr(), optional(dtype), std::monostate{}, std::monostate{}, optional(pin_memory)}, where);
}
Tensor logspace(const Operand& start, const Operand& end, const SymInt& steps, double base, std::optional<DType> dtype, std::optional<Device> device, std::optional<bool> pin_memory, Where where) {
  DeviceScope scope(device.value_or(default_device()));
  return call1("logspace", {number("logspace", "start", start), number("logspace", "end", end), steps.expr(), base, optional(dtype), std::monostate{}, std::monostate{}, optional(pin_memory)}, where);
}
Tensor logspace(const Tensor& start, const Tensor& end, const SymInt& steps, double base, std::optional<DType> dtype, std::optional<bool> pin_memory, Where where) {
  return call1("logspace.Tensor_Tensor", {start, end, steps.expr(), base, optional(dtype), std::monostate{}, std::monostate{}, optional(pin_memory)}, where);
}
Tensor logspace(const Tensor& start, const Operand& end, const SymInt& steps, double base, std::optional<DType> dtype, std::optional<bool> pin_memory, Where where) {
  return call1("logspace.Tensor_Scalar", {start, number("logspace.Tensor_Scalar", "end", end), steps.expr(), base, optional(dtype), std::monostate{}, std::monostate{}, optional(pin_memory)}, where);
}
Tensor logspace(const Operand& start, const Tensor& end, const SymInt& steps, double base, std::optional<DType> dtype, std::optional<bool> pin_memory, Where where) {
  return call1("logspace.Scalar_Tensor", {number("logspace.Scalar_Tensor", "start", start), end, steps.expr(), base, optional(dtype), std::monostate{}, std::monostate{}, optional(pin_memory)}, where);
}
Tensor tril_indices(const SymInt& row, const SymInt& col, const SymInt& offset, std::optional<DType> dtype, std::optional<Device> device, std::optional<bool> pin_memory, Where where) {
  DeviceScope scope(device.value_or(default_device()));
  return call1("tril_indices", {row.expr(), col.expr(), offset.expr(), optional(dtype), std::monostate{}, std::monostate{}, optional(pin_memory)}, where);
}
Tensor triu_indices(const SymInt& row, const SymInt& col, const SymInt& offset, std::optional<DType> dtype, std::optional<Device> device, std::optional<bool> pin_memory, Where where) {
  DeviceScope scope(device.value_or(default_device()));
  return call1("triu_indices", {row.expr(), col.expr(), offset.expr(), optional(dtype), std::monostate{}, std::monostate{}, optional(pin_memory)}, where);
}
Tensor hann_window(const SymInt& window_length, std::optional<DType> dtype, std::optional<Device> device, std::optional<bool> pin_memory, Where where) {
  DeviceScope scope(device.value_or(default_device()));
  return call1("hann_window", {window_length.expr(), optional(dtype), std::monostate{}, std::monostate{}, optional(pin_memory)}, where);
}
Tensor hann_window(const SymInt& window_length, bool periodic, std::optional<DType> dtype, std::optional<Device> device, std::optional<bool> pin_memory, Where where) {
  DeviceScope scope(device.value_or(default_device()));
  return call1("hann_window.periodic", {window_length.expr(), periodic, optional(dtype), std::monostate{}, std::monostate{}, optional(pin_memory)}, where);
}
Tensor hamming_window(const SymInt& window_length, std::optional<DType> dtype, std::optional<Device> device, std::optional<bool> pin_memory, Where where) {
  DeviceScope scope(device.value_or(default_device()));
  return call1("hamming_window", {window_length.expr(), optional(dtype), std::monostate{}, std::monostate{}, optional(pin_memory)}, where);
}
Tensor hamming_window(const SymInt& window_length, bool periodic, std::optional<DType> dtype, std::optional<Device> device, std::optional<bool> pin_memory, Where where) {
  DeviceScope scope(device.value_or(default_device()));
  return call1("hamming_window.periodic", {window_length.expr(), periodic, optional(dtype), std::monostate{}, std::monostate{}, optional(pin_memory)}, where);
}
Tensor hamming_window(const SymInt& window_length, bool periodic, double alpha, std::optional<DType> dtype, std::optional<Device> device, std::optional<bool> pin_memory, Where where) {
  DeviceScope scope(device.value_or(default_device()));
  return call1("hamming_window.periodic_alpha", {window_length.expr(), periodic, alpha, optional(dtype), std::monostate{}, std::monostate{}, optional(pin_memory)}, where);
}
Tensor hamming_window(const SymInt& window_length, bool periodic, double alpha, double beta, std::optional<DType> dtype, std::optional<Device> device, std::optional<bool> pin_memory, Where where) {
  DeviceScope scope(device.value_or(default_device()));
  return call1("hamming_window.periodic_alpha_beta", {window_length.expr(), periodic, alpha, beta, optional(dtype), std::monostate{}, std::monostate{}, optional(pin_memory)}, where);
}
Tensor blackman_window(const SymInt& window_length, std::optional<DType> dtype, std::optional<Device> device, std::optional<bool> pin_memory, Where where) {
  DeviceScope scope(device.value_or(default_device()));
  return call1("blackman_window", {window_length.expr(), optional(dtype), std::monostate{}, std::monostate{}, optional(pin_memory)}, where);
}
Tensor blackman_window(const SymInt& window_length, bool periodic, std::optional<DType> dtype, std::optional<Device> device, std::optional<bool> pin_memory, Where where) {
  DeviceScope scope(device.value_or(default_device()));
  return call1("blackman_window.periodic", {window_length.expr(), periodic, optional(dtype), std::monostate{}, std::monostate{}, optional(pin_memory)}, where);
}
Tensor bartlett_window(const SymInt& window_length, std::optional<DType> dtype, std::optional<Device> device, std::optional<bool> pin_memory, Where where) {
  DeviceScope scope(device.value_or(default_device()));
  return call1("bartlett_window", {window_length.expr(), optional(dtype), std::monostate{}, std::monostate{}, optional(pin_memory)}, where);
}
Tensor bartlett_window(const SymInt& window_length, bool periodic, std::optional<DType> dtype, std::optional<Device> device, std::optional<bool> pin_memory, Where where) {
  DeviceScope scope(device.value_or(default_device()));
  return call1("bartlett_window.periodic", {window_length.expr(), periodic, optional(dtype), std::monostate{}, std::monostate{}, optional(pin_memory)}, where);
}
Tensor kaiser_window(const SymInt& window_length, std::optional<DType> dtype, std::optional<Device> device, std::optional<bool> pin_memory, Where where) {
  DeviceScope scope(device.value_or(default_device()));
  return call1("kaiser_window", {window_length.expr(), optional(dtype), std::monostate{}, std::monostate{}, optional(pin_memory)}, where);
}
Tensor kaiser_window(const SymInt& window_length, bool periodic, std::optional<DType> dtype, std::optional<Device> device, std::optional<bool> pin_memory, Where where) {
  DeviceScope scope(device.value_or(default_device()));
  return call1("kaiser_window.periodic", {window_length.expr(), periodic, optional(dtype), std::monostate{}, std::monostate{}, optional(pin_memory)}, where);
}
Tensor kaiser_window(const SymInt& window_length, bool periodic, double beta, std::optional<DType> dtype, std::optional<Device> device, std::optional<bool> pin_memory, Where where) {
  DeviceScope scope(device.value_or(default_device()));
  return call1("kaiser_window.beta", {window_length.expr(), periodic, beta, optional(dtype), std::monostate{}, std::monostate{}, optional(pin_memory)}, where);
}
Tensor fft_fftfreq(const SymInt& n, double d, std::optional<DType> dtype, std::optional<Device> device, std::optional<bool> pin_memory, Where where) {
  DeviceScope scope(device.value_or(default_device()));
  return call1("fft_fftfreq", {n.expr(), d, optional(dtype), std::monostate{}, std::monostate{}, optional(pin_memory)}, where);
}
Tensor fft_rfftfreq(const SymInt& n, double d, std::optional<DType> dtype, std::optional<Device> device, std::optional<bool> pin_memory, Where where) {
  DeviceScope scope(device.value_or(default_device()));
  return call1("fft_rfftfreq", {n.expr(), d, optional(dtype), std::monostate{}, std::monostate{}, optional(pin_memory)}, where);
}
Tensor hash_tensor(const Tensor& self, const Dims& dim, bool keepdim, const SymInt& mode, Where where) {
  return call1("hash_tensor", {self, numbers(dim), keepdim, mode.expr()}, where);
}
Tensor cov(const Tensor& self, const SymInt& correction, const Tensor& fweights, const Tensor& aweights, Where where) {
  return call1("cov", {self, correction.expr(), maybe(fweights), maybe(aweights)}, where);
}
Tensor corrcoef(const Tensor& self, Where where) {
  return call1("corrcoef", {self}, where);
}
Tensor max(const Tensor& self, const Tensor& other, Where where) {
  return call1("max.other", {self, other}, where);
}
Tensor min(const Tensor& self, const Tensor& other, Where where) {
  return call1("min.other", {self, other}, where);
}
std::pair<Tensor, Tensor> aminmax(const Tensor& self, std::optional<int64_t> dim, bool keepdim, Where where) {
  return two(ops::get("aminmax"), {self, optional(dim), keepdim}, where);
}
Tensor special_softmax(const Tensor& self, int64_t dim, std::optional<DType> dtype, Where where) {
  return call1("special_softmax", {self, Expr(dim), optional(dtype)}, where);
}
Tensor special_log_softmax(const Tensor& self, int64_t dim, std::optional<DType> dtype, Where where) {
  return call1("special_log_softmax", {self, Expr(dim), optional(dtype)}, where);
}
Tensor nansum(const Tensor& self, const Dims& dim, bool keepdim, std::optional<DType> dtype, Where where) {
  return call1("nansum", {self, dims_or_none(dim), keepdim, optional(dtype)}, where);
}
Tensor nanmean(const Tensor& self, const Dims& dim, bool keepdim, std::optional<DType> dtype, Where where) {
  return call1("nanmean", {self, dims_or_none(dim), keepdim, optional(dtype)}, where);
}
Tensor count_nonzero(const Tensor& self, std::optional<int64_t> dim, Where where) {
  return call1("count_nonzero", {self, optional(dim)}, where);
}
Tensor count_nonzero_dim_IntList(const Tensor& self, const Dims& dim, Where where) {
  return call1("count_nonzero.dim_IntList", {self, numbers(dim)}, where);
}
Tensor matrix_trace(const Tensor& self, Where where) {
  return call1("trace", {self}, where);
}
Tensor linalg_vector_norm(const Tensor& self, const Operand& ord, const Dims& dim, bool keepdim, std::optional<DType> dtype, Where where) {
  return call1("linalg_vector_norm", {self, number("linalg_vector_norm", "ord", ord), dims_or_none(dim), keepdim, optional(dtype)}, where);
}
Tensor dist(const Tensor& self, const Tensor& other, const Operand& p, Where where) {
  return call1("dist", {self, other, number("dist", "p", p)}, where);
}
Tensor cdist(const Tensor& x1, const Tensor& x2, double p, const std::optional<SymInt>& compute_mode, Where where) {
  return call1("cdist", {x1, x2, p, optional(compute_mode)}, where);
}
Tensor pdist(const Tensor& self, double p, Where where) {
  return call1("pdist", {self, p}, where);
}
Tensor cosine_similarity(const Tensor& x1, const Tensor& x2, int64_t dim, double eps, Where where) {
  return call1("cosine_similarity", {x1, x2, Expr(dim), eps}, where);
}
Tensor pairwise_distance(const Tensor& x1, const Tensor& x2, double p, double eps, bool keepdim, Where where) {
  return call1("pairwise_distance", {x1, x2, p, eps, keepdim}, where);
}
Tensor median(const Tensor& self, Where where) {
  return call1("median", {self}, where);
}
std::pair<Tensor, Tensor> median(const Tensor& self, int64_t dim, bool keepdim, Where where) {
  return two(ops::get("median.dim"), {self, Expr(dim), keepdim}, where);
}
Tensor nanmedian(const Tensor& self, Where where) {
  return call1("nanmedian", {self}, where);
}
std::pair<Tensor, Tensor> nanmedian(const Tensor& self, int64_t dim, bool keepdim, Where where) {
  return two(ops::get("nanmedian.dim"), {self, Expr(dim), keepdim}, where);
}
std::pair<Tensor, Tensor> mode(const Tensor& self, int64_t dim, bool keepdim, Where where) {
  return two(ops::get("mode"), {self, Expr(dim), keepdim}, where);
}
std::pair<Tensor, Tensor> kthvalue(const Tensor& self, const SymInt& k, int64_t dim, bool keepdim, Where where) {
  return two(ops::get("kthvalue"), {self, k.expr(), Expr(dim), keepdim}, where);
}
Tensor quantile(const Tensor& self, const Tensor& q, std::optional<int64_t> dim, bool keepdim, Word interpolation, Where where) {
  return call1("quantile", {self, q, optional(dim), keepdim, std::string(interpolation)}, where);
}
Tensor quantile(const Tensor& self, double q, std::optional<int64_t> dim, bool keepdim, Word interpolation, Where where) {
  return call1("quantile.scalar", {self, q, optional(dim), keepdim, std::string(interpolation)}, where);
}
Tensor nanquantile(const Tensor& self, const Tensor& q, std::optional<int64_t> dim, bool keepdim, Word interpolation, Where where) {
  return call1("nanquantile", {self, q, optional(dim), keepdim, std::string(interpolation)}, where);
}
Tensor nanquantile(const Tensor& self, double q, std::optional<int64_t> dim, bool keepdim, Word interpolation, Where where) {
  return call1("nanquantile.scalar", {self, q, optional(dim), keepdim, std::string(interpolation)}, where);
}
Tensor histc(const Tensor& self, const SymInt& bins, const Operand& min, const Operand& max, Where where) {
  return call1("histc", {self, bins.expr(), number("histc", "min", min), number("histc", "max", max)}, where);
}
Tensor bincount(const Tensor& self, const Tensor& weights, const SymInt& minlength, Where where) {
  return call1("bincount", {self, maybe(weights), minlength.expr()}, where);
}
std::pair<Tensor, Tensor> histogram(const Tensor& self, const SymInt& bins, std::optional<std::vector<double>> range, const Tensor& weight, bool density, Where where) {
  return two(ops::get("histogram.bin_ct"), {self, bins.expr(), optional(range), maybe(weight), density}, where);
}
std::pair<Tensor, Tensor> histogram(const Tensor& self, const Tensor& bins, const Tensor& weight, bool density, Where where) {
  return two(ops::get("histogram.bins_tensor"), {self, bins, maybe(weight), density}, where);
}
Tensor l1_loss(const Tensor& self, const Tensor& target, Reduction reduction, Where where) {
  return call1("l1_loss", {self, target, Expr(reduction.number("l1_loss", where))}, where);
}
Tensor smooth_l1_loss(const Tensor& self, const Tensor& target, Reduction reduction, double beta, Where where) {
  return call1("smooth_l1_loss", {self, target, Expr(reduction.number("smooth_l1_loss", where)), beta}, where);
}
Tensor huber_loss(const Tensor& self, const Tensor& target, Reduction reduction, double delta, Where where) {
  return call1("huber_loss", {self, target, Expr(reduction.number("huber_loss", where)), delta}, where);
}
Tensor soft_margin_loss(const Tensor& self, const Tensor& target, Reduction reduction, Where where) {
  return call1("soft_margin_loss", {self, target, Expr(reduction.number("soft_margin_loss", where))}, where);
}
Tensor margin_ranking_loss(const Tensor& input1, const Tensor& input2, const Tensor& target, double margin, Reduction reduction, Where where) {
  return call1("margin_ranking_loss", {input1, input2, target, margin, Expr(reduction.number("margin_ranking_loss", where))}, where);
}
Tensor hinge_embedding_loss(const Tensor& self, const Tensor& target, double margin, Reduction reduction, Where where) {
  return call1("hinge_embedding_loss", {self, target, margin, Expr(reduction.number("hinge_embedding_loss", where))}, where);
}
Tensor cosine_embedding_loss(const Tensor& input1, const Tensor& input2, const Tensor& target, double margin, Reduction reduction, Where where) {
  return call1("cosine_embedding_loss", {input1, input2, target, margin, Expr(reduction.number("cosine_embedding_loss", where))}, where);
}
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative, double margin, double p, double eps, bool swap, Reduction reduction, Where where) {
  return call1("triplet_margin_loss", {anchor, positive, negative, margin, p, eps, swap, Expr(reduction.number("triplet_margin_loss", where))}, where);
}
Tensor multi_margin_loss(const Tensor& self, const Tensor& target, const Operand& p, const Operand& margin, const Tensor& weight, Reduction reduction, Where where) {
  return call1("multi_margin_loss", {self, target, number("multi_margin_loss", "p", p), number("multi_margin_loss", "margin", margin), maybe(weight), Expr(reduction.number("multi_margin_loss", where))}, where);
}
Tensor multilabel_margin_loss(const Tensor& self, const Tensor& target, Reduction reduction, Where where) {
  return call1("multilabel_margin_loss", {self, target, Expr(reduction.number("multilabel_margin_loss", where))}, where);
}
Tensor binary_cross_entropy(const Tensor& self, const Tensor& target, const Tensor& weight, Reduction reduction, Where where) {
  return call1("binary_cross_entropy", {self, target, maybe(weight), Expr(reduction.number("binary_cross_entropy", where))}, where);
}
Tensor binary_cross_entropy_with_logits(const Tensor& self, const Tensor& target, const Tensor& weight, const Tensor& pos_weight, Reduction reduction, Where where) {
  return call1("binary_cross_entropy_with_logits", {self, target, maybe(weight), maybe(pos_weight), Expr(reduction.number("binary_cross_entropy_with_logits", where))}, where);
}
Tensor nll_loss(const Tensor& self, const Tensor& target, const Tensor& weight, Reduction reduction, const SymInt& ignore_index, Where where) {
  return call1("nll_loss", {self, target, maybe(weight), Expr(reduction.number("nll_loss", where)), ignore_index.expr()}, where);
}
Tensor nll_loss2d(const Tensor& self, const Tensor& target, const Tensor& weight, Reduction reduction, const SymInt& ignore_index, Where where) {
  return call1("nll_loss2d", {self, target, maybe(weight), Expr(reduction.number("nll_loss2d", where)), ignore_index.expr()}, where);
}
Tensor nll_loss_nd(const Tensor& self, const Tensor& target, const Tensor& weight, Reduction reduction, const SymInt& ignore_index, Where where) {
  return call1("nll_loss_nd", {self, target, maybe(weight), Expr(reduction.number("nll_loss_nd", where)), ignore_index.expr()}, where);
}
std::pair<Tensor, Tensor> nll_loss_forward(const Tensor& self, const Tensor& target, const Tensor& weight, Reduction reduction, const SymInt& ignore_index, Where where) {
  return two(ops::get("nll_loss_forward"), {self, target, maybe(weight), Expr(reduction.number("nll_loss_forward", where)), ignore_index.expr()}, where);
}
std::pair<Tensor, Tensor> nll_loss2d_forward(const Tensor& self, const Tensor& target, const Tensor& weight, Reduction reduction, const SymInt& ignore_index, Where where) {
  return two(ops::get("nll_loss2d_forward"), {self, target, maybe(weight), Expr(reduction.number("nll_loss2d_forward", where)), ignore_index.expr()}, where);
}
Tensor cross_entropy_loss(const Tensor& self, const Tensor& target, const Tensor& weight, Reduction reduction, const SymInt& ignore_index, double label_smoothing, Where where) {
  return call1("cross_entropy_loss", {self, target, maybe(weight), Expr(reduction.number("cross_entropy_loss", where)), ignore_index.expr(), label_smoothing}, where);
}
std::pair<Tensor, Tensor> cummax(const Tensor& self, int64_t dim, Where where) {
  return two(ops::get("cummax"), {self, Expr(dim)}, where);
}
std::pair<Tensor, Tensor> cummin(const Tensor& self, int64_t dim, Where where) {
  return two(ops::get("cummin"), {self, Expr(dim)}, where);
}
Tensor logcumsumexp(const Tensor& self, int64_t dim, Where where) {
  return call1("logcumsumexp", {self, Expr(dim)}, where);
}
std::pair<Tensor, Tensor> sort(const Tensor& self, std::optional<bool> stable, int64_t dim, bool descending, Where where) {
  return two(ops::get("sort.stable"), {self, optional(stable), Expr(dim), descending}, where);
}
Tensor msort(const Tensor& self, Where where) {
  return call1("msort", {self}, where);
}
Tensor searchsorted(const Tensor& sorted_sequence, const Tensor& self, bool out_int32, bool right, std::optional<Word> side, const Tensor& sorter, Where where) {
  return call1("searchsorted.Tensor", {sorted_sequence, self, out_int32, right, optional(side), maybe(sorter)}, where);
}
Tensor searchsorted(const Tensor& sorted_sequence, const Operand& self, bool out_int32, bool right, std::optional<Word> side, const Tensor& sorter, Where where) {
  return call1("searchsorted.Scalar", {sorted_sequence, number("searchsorted.Scalar", "self", self), out_int32, right, optional(side), maybe(sorter)}, where);
}
Tensor bucketize(const Tensor& self, const Tensor& boundaries, bool out_int32, bool right, Where where) {
  return call1("bucketize.Tensor", {self, boundaries, out_int32, right}, where);
}
Tensor bucketize(const Operand& self, const Tensor& boundaries, bool out_int32, bool right, Where where) {
  return call1("bucketize.Scalar", {number("bucketize.Scalar", "self", self), boundaries, out_int32, right}, where);
}
std::tuple<Tensor, Tensor, Tensor> unique_dim(const Tensor& self, int64_t dim, bool sorted, bool return_inverse, bool return_counts, Where where) {
  return three(ops::get("unique_dim"), {self, Expr(dim), sorted, return_inverse, return_counts}, where);
}
std::tuple<Tensor, Tensor, Tensor> unique_consecutive(const Tensor& self, bool return_inverse, bool return_counts, std::optional<int64_t> dim, Where where) {
  return three(ops::get("unique_consecutive"), {self, return_inverse, return_counts, optional(dim)}, where);
}
Tensor index_fill(const Tensor& self, int64_t dim, const Tensor& index, const Operand& value, Where where) {
  return call1("index_fill.int_Scalar", {self, Expr(dim), index, number("index_fill.int_Scalar", "value", value)}, where);
}
Tensor index_fill(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& value, Where where) {
  return call1("index_fill.int_Tensor", {self, Expr(dim), index, value}, where);
}
Tensor take(const Tensor& self, const Tensor& index, Where where) {
  return call1("take", {self, index}, where);
}
Tensor put(const Tensor& self, const Tensor& index, const Tensor& source, bool accumulate, Where where) {
  return call1("put", {self, index, source, accumulate}, where);
}
Tensor masked_select(const Tensor& self, const Tensor& mask, Where where) {
  return call1("masked_select", {self, mask}, where);
}
Tensor masked_scatter(const Tensor& self, const Tensor& mask, const Tensor& source, Where where) {
  return call1("masked_scatter", {self, mask, source}, where);
}
Tensor scatter_reduce(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, Word reduce, bool include_self, Where where) {
  return call1("scatter_reduce.two", {self, Expr(dim), index, src, std::string(reduce), include_self}, where);
}
Tensor scatter(const Tensor& self, int64_t dim, const Tensor& index, const Operand& value, Where where) {
  return call1("scatter.value", {self, Expr(dim), index, number("scatter.value", "value", value)}, where);
}
Tensor scatter(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, Word reduce, Where where) {
  return call1("scatter.reduce", {self, Expr(dim), index, src, std::string(reduce)}, where);
}
Tensor scatter(const Tensor& self, int64_t dim, const Tensor& index, const Operand& value, Word reduce, Where where) {
  return call1("scatter.value_reduce", {self, Expr(dim), index, number("scatter.value_reduce", "value", value), std::string(reduce)}, where);
}
Tensor index_reduce(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, Word reduce, bool include_self, Where where) {
  return call1("index_reduce", {self, Expr(dim), index, source, std::string(reduce), include_self}, where);
}
Tensor take_along_dim(const Tensor& self, const Tensor& indices, std::optional<int64_t> dim, Where where) {
  return call1("take_along_dim", {self, indices, optional(dim)}, where);
}
Tensor concat(const std::vector<Tensor>& tensors, int64_t dim, Where where) {
  return call1("concat", {tensors, Expr(dim)}, where);
}
Tensor concatenate(const std::vector<Tensor>& tensors, int64_t dim, Where where) {
  return call1("concatenate", {tensors, Expr(dim)}, where);
}
Tensor constant_pad_nd(const Tensor& self, const SizeList& pad, const Operand& value, Where where) {
  return call1("constant_pad_nd", {self, exprs(pad), number("constant_pad_nd", "value", value)}, where);
}
Tensor hstack(const std::vector<Tensor>& tensors, Where where) {
  return call1("hstack", {tensors}, where);
}
Tensor vstack(const std::vector<Tensor>& tensors, Where where) {
  return call1("vstack", {tensors}, where);
}
Tensor row_stack(const std::vector<Tensor>& tensors, Where where) {
  return call1("row_stack", {tensors}, where);
}
Tensor dstack(const std::vector<Tensor>& tensors, Where where) {
  return call1("dstack", {tensors}, where);
}
Tensor column_stack(const std::vector<Tensor>& tensors, Where where) {
  return call1("column_stack", {tensors}, where);
}
Tensor block_diag(const std::vector<Tensor>& tensors, Where where) {
  return call1("block_diag", {tensors}, where);
}
std::vector<Tensor> embedding_bag(const Tensor& weight, const Tensor& indices, const Tensor& offsets, bool scale_grad_by_freq, const SymInt& mode, bool sparse, const Tensor& per_sample_weights, bool include_last_offset, Where where) {
  return call("embedding_bag", {weight, indices, offsets, scale_grad_by_freq, mode.expr(), sparse, maybe(per_sample_weights), include_last_offset}, where);
}
std::vector<Tensor> embedding_bag(const Tensor& weight, const Tensor& indices, const Tensor& offsets, bool scale_grad_by_freq, const SymInt& mode, bool sparse, const Tensor& per_sample_weights, bool include_last_offset, const std::optional<SymInt>& padding_idx, Where where) {
  return call("embedding_bag.padding_idx", {weight, indices, offsets, scale_grad_by_freq, mode.expr(), sparse, maybe(per_sample_weights), include_last_offset, optional(padding_idx)}, where);
}
Tensor embedding_renorm(const Tensor& self, const Tensor& indices, double max_norm, double norm_type, Where where) {
  return call1("embedding_renorm", {self, indices, max_norm, norm_type}, where);
}
Tensor segment_reduce(const Tensor& data, Word reduce, const Tensor& lengths, const Tensor& indices, const Tensor& offsets, int64_t axis, bool unsafe, const std::optional<Operand>& initial, Where where) {
  return call1("segment_reduce", {data, std::string(reduce), maybe(lengths), maybe(indices), maybe(offsets), Expr(axis), unsafe, number("segment_reduce", "initial", initial)}, where);
}
Tensor argwhere(const Tensor& self, Where where) {
  return call1("argwhere", {self}, where);
}
std::vector<Tensor> nonzero_numpy(const Tensor& self, Where where) {
  return call("nonzero_numpy", {self}, where);
}
Tensor nonzero_static(const Tensor& self, const SymInt& size, const SymInt& fill_value, Where where) {
  return call1("nonzero_static", {self, size.expr(), fill_value.expr()}, where);
}
Tensor combinations(const Tensor& self, const SymInt& r, bool with_replacement, Where where) {
  return call1("combinations", {self, r.expr(), with_replacement}, where);
}
std::vector<Tensor> broadcast_tensors(const std::vector<Tensor>& tensors, Where where) {
  return call("broadcast_tensors", {tensors}, where);
}
std::vector<Tensor> meshgrid(const std::vector<Tensor>& tensors, Where where) {
  return call("meshgrid", {tensors}, where);
}
std::vector<Tensor> meshgrid(const std::vector<Tensor>& tensors, Word indexing, Where where) {
  return call("meshgrid.indexing", {tensors, std::string(indexing)}, where);
}
Tensor diff(const Tensor& self, const SymInt& n, int64_t dim, const Tensor& prepend, const Tensor& append, Where where) {
  return call1("diff", {self, n.expr(), Expr(dim), maybe(prepend), maybe(append)}, where);
}
Tensor trapezoid(const Tensor& y, const Tensor& x, int64_t dim, Where where) {
  return call1("trapezoid.x", {y, x, Expr(dim)}, where);
}
Tensor trapezoid(const Tensor& y, const Operand& dx, int64_t dim, Where where) {
  return call1("trapezoid.dx", {y, number("trapezoid.dx", "dx", dx), Expr(dim)}, where);
}
Tensor cumulative_trapezoid(const Tensor& y, const Tensor& x, int64_t dim, Where where) {
  return call1("cumulative_trapezoid.x", {y, x, Expr(dim)}, where);
}
Tensor cumulative_trapezoid(const Tensor& y, const Operand& dx, int64_t dim, Where where) {
  return call1("cumulative_trapezoid.dx", {y, number("cumulative_trapezoid.dx", "dx", dx), Expr(dim)}, where);
}
Tensor diag_embed(const Tensor& self, const SymInt& offset, int64_t dim1, int64_t dim2, Where where) {
  return call1("diag_embed", {self, offset.expr(), Expr(dim1), Expr(dim2)}, where);
}
Tensor diag(const Tensor& self, const SymInt& diagonal, Where where) {
  return call1("diag", {self, diagonal.expr()}, where);
}
Tensor diagflat(const Tensor& self, const SymInt& offset, Where where) {
  return call1("diagflat", {self, offset.expr()}, where);
}
Tensor pad_sequence(const std::vector<Tensor>& sequences, bool batch_first, double padding_value, Word padding_side, Where where) {
  return call1("pad_sequence", {sequences, batch_first, padding_value, std::string(padding_side)}, where);
}
Tensor isin(const Tensor& elements, const Tensor& test_elements, bool assume_unique, bool invert, Where where) {
  return call1("isin.Tensor_Tensor", {elements, test_elements, assume_unique, invert}, where);
}
Tensor isin(const Tensor& elements, const Operand& test_element, bool assume_unique, bool invert, Where where) {
  return call1("isin.Tensor_Scalar", {elements, number("isin.Tensor_Scalar", "test_element", test_element), assume_unique, invert}, where);
}
Tensor isin(const Operand& element, const Tensor& test_elements, bool assume_unique, bool invert, Where where) {
  return call1("isin.Scalar_Tensor", {number("isin.Scalar_Tensor", "element", element), test_elements, assume_unique, invert}, where);
}
std::vector<Tensor> unsafe_split(const Tensor& self, const SymInt& split_size, int64_t dim, Where where) {
  return call("unsafe_split.Tensor", {self, split_size.expr(), Expr(dim)}, where);
}
std::vector<Tensor> unsafe_split_with_sizes(const Tensor& self, const SizeList& split_sizes, int64_t dim, Where where) {
  return call("unsafe_split_with_sizes", {self, exprs(split_sizes), Expr(dim)}, where);
}
Tensor addbmm(const Tensor& self, const Tensor& batch1, const Tensor& batch2, const Operand& beta, const Operand& alpha, Where where) {
  return call1("addbmm", {self, batch1, batch2, number("addbmm", "beta", beta), number("addbmm", "alpha", alpha)}, where);
}
Tensor addmv(const Tensor& self, const Tensor& mat, const Tensor& vec, const Operand& beta, const Operand& alpha, Where where) {
  return call1("addmv", {self, mat, vec, number("addmv", "beta", beta), number("addmv", "alpha", alpha)}, where);
}
Tensor addr(const Tensor& self, const Tensor& vec1, const Tensor& vec2, const Operand& beta, const Operand& alpha, Where where) {
  return call1("addr", {self, vec1, vec2, number("addr", "beta", beta), number("addr", "alpha", alpha)}, where);
}
Tensor vdot(const Tensor& self, const Tensor& other, Where where) {
  return call1("vdot", {self, other}, where);
}
Tensor linalg_matmul(const Tensor& self, const Tensor& other, Where where) {
  return call1("linalg_matmul", {self, other}, where);
}
Tensor bilinear(const Tensor& input1, const Tensor& input2, const Tensor& weight, const Tensor& bias, Where where) {
  return call1("bilinear", {input1, input2, weight, maybe(bias)}, where);
}
Tensor ger(const Tensor& self, const Tensor& vec2, Where where) {
  return call1("ger", {self, vec2}, where);
}
Tensor inner(const Tensor& self, const Tensor& other, Where where) {
  return call1("inner", {self, other}, where);
}
Tensor kron(const Tensor& self, const Tensor& other, Where where) {
  return call1("kron", {self, other}, where);
}
Tensor chain_matmul(const std::vector<Tensor>& matrices, Where where) {
  return call1("chain_matmul", {matrices}, where);
}
Tensor linalg_multi_dot(const std::vector<Tensor>& tensors, Where where) {
  return call1("linalg_multi_dot", {tensors}, where);
}
Tensor linalg_matrix_power(const Tensor& self, const SymInt& n, Where where) {
  return call1("linalg_matrix_power", {self, n.expr()}, where);
}
Tensor matrix_power(const Tensor& self, const SymInt& n, Where where) {
  return call1("matrix_power", {self, n.expr()}, where);
}
Tensor tensordot(const Tensor& self, const Tensor& other, const Dims& dims_self, const Dims& dims_other, Where where) {
  return call1("tensordot", {self, other, numbers(dims_self), numbers(dims_other)}, where);
}
Tensor convolution(const Tensor& input, const Tensor& weight, const Tensor& bias, const SizeList& stride, const SizeList& padding, const SizeList& dilation, bool transposed, const SizeList& output_padding, const SymInt& groups, Where where) {
  return call1("convolution", {input, weight, maybe(bias), exprs(stride), exprs(padding), exprs(dilation), transposed, exprs(output_padding), groups.expr()}, where);
}
Tensor conv_transpose1d(const Tensor& input, const Tensor& weight, const Tensor& bias, const SizeList& stride, const SizeList& padding, const SizeList& output_padding, const SymInt& groups, const SizeList& dilation, Where where) {
  return call1("conv_transpose1d", {input, weight, maybe(bias), exprs(stride), exprs(padding), exprs(output_padding), groups.expr(), exprs(dilation)}, where);
}
Tensor conv3d(const Tensor& input, const Tensor& weight, const Tensor& bias, const SizeList& stride, const SizeList& padding, const SizeList& dilation, const SymInt& groups, Where where) {
  return call1("conv3d", {input, weight, maybe(bias), exprs(stride), exprs(padding), exprs(dilation), groups.expr()}, where);
}
Tensor conv3d(const Tensor& input, const Tensor& weight, const Tensor& bias, const SizeList& stride, Word padding, const SizeList& dilation, const SymInt& groups, Where where) {
  return call1("conv3d.padding", {input, weight, maybe(bias), exprs(stride), std::string(padding), exprs(dilation), groups.expr()}, where);
}
Tensor conv_transpose3d(const Tensor& input, const Tensor& weight, const Tensor& bias, const SizeList& stride, const SizeList& padding, const SizeList& output_padding, const SymInt& groups, const SizeList& dilation, Where where) {
  return call1("conv_transpose3d.input", {input, weight, maybe(bias), exprs(stride), exprs(padding), exprs(output_padding), groups.expr(), exprs(dilation)}, where);
}
Tensor im2col(const Tensor& self, const SizeList& kernel_size, const SizeList& dilation, const SizeList& padding, const SizeList& stride, Where where) {
  return call1("im2col", {self, exprs(kernel_size), exprs(dilation), exprs(padding), exprs(stride)}, where);
}
Tensor col2im(const Tensor& self, const SizeList& output_size, const SizeList& kernel_size, const SizeList& dilation, const SizeList& padding, const SizeList& stride, Where where) {
  return call1("col2im", {self, exprs(output_size), exprs(kernel_size), exprs(dilation), exprs(padding), exprs(stride)}, where);
}
Tensor avg_pool1d(const Tensor& self, const SizeList& kernel_size, const SizeList& stride, const SizeList& padding, bool ceil_mode, bool count_include_pad, Where where) {
  return call1("avg_pool1d", {self, exprs(kernel_size), exprs(stride), exprs(padding), ceil_mode, count_include_pad}, where);
}
Tensor max_pool1d(const Tensor& self, const SizeList& kernel_size, const SizeList& stride, const SizeList& padding, const SizeList& dilation, bool ceil_mode, Where where) {
  return call1("max_pool1d", {self, exprs(kernel_size), exprs(stride), exprs(padding), exprs(dilation), ceil_mode}, where);
}
std::pair<Tensor, Tensor> max_pool1d_with_indices(const Tensor& self, const SizeList& kernel_size, const SizeList& stride, const SizeList& padding, const SizeList& dilation, bool ceil_mode, Where where) {
  return two(ops::get("max_pool1d_with_indices"), {self, exprs(kernel_size), exprs(stride), exprs(padding), exprs(dilation), ceil_mode}, where);
}
std::pair<Tensor, Tensor> max_pool2d_with_indices(const Tensor& self, const SizeList& kernel_size, const SizeList& stride, const SizeList& padding, const SizeList& dilation, bool ceil_mode, Where where) {
  return two(ops::get("max_pool2d_with_indices"), {self, exprs(kernel_size), exprs(stride), exprs(padding), exprs(dilation), ceil_mode}, where);
}
Tensor max_pool2d_with_indices_backward(const Tensor& grad_output, const Tensor& self, const SizeList& kernel_size, const SizeList& stride, const SizeList& padding, const SizeList& dilation, bool ceil_mode, const Tensor& indices, Where where) {
  return call1("max_pool2d_with_indices_backward", {grad_output, self, exprs(kernel_size), exprs(stride), exprs(padding), exprs(dilation), ceil_mode, indices}, where);
}
Tensor adaptive_max_pool2d_backward(const Tensor& grad_output, const Tensor& self, const Tensor& indices, Where where) {
  return call1("adaptive_max_pool2d_backward", {grad_output, self, indices}, where);
}
Tensor max_unpool2d(const Tensor& self, const Tensor& indices, const SizeList& output_size, Where where) {
  return call1("max_unpool2d", {self, indices, exprs(output_size)}, where);
}
Tensor avg_pool3d(const Tensor& self, const SizeList& kernel_size, const SizeList& stride, const SizeList& padding, bool ceil_mode, bool count_include_pad, const std::optional<SymInt>& divisor_override, Where where) {
  return call1("avg_pool3d", {self, exprs(kernel_size), exprs(stride), exprs(padding), ceil_mode, count_include_pad, optional(divisor_override)}, where);
}
Tensor max_pool3d(const Tensor& self, const SizeList& kernel_size, const SizeList& stride, const SizeList& padding, const SizeList& dilation, bool ceil_mode, Where where) {
  return call1("max_pool3d", {self, exprs(kernel_size), exprs(stride), exprs(padding), exprs(dilation), ceil_mode}, where);
}
std::pair<Tensor, Tensor> max_pool3d_with_indices(const Tensor& self, const SizeList& kernel_size, const SizeList& stride, const SizeList& padding, const SizeList& dilation, bool ceil_mode, Where where) {
  return two(ops::get("max_pool3d_with_indices"), {self, exprs(kernel_size), exprs(stride), exprs(padding), exprs(dilation), ceil_mode}, where);
}
Tensor max_pool3d_with_indices_backward(const Tensor& grad_output, const Tensor& self, const SizeList& kernel_size, const SizeList& stride, const SizeList& padding, const SizeList& dilation, bool ceil_mode, const Tensor& indices, Where where) {
  return call1("max_pool3d_with_indices_backward", {grad_output, self, exprs(kernel_size), exprs(stride), exprs(padding), exprs(dilation), ceil_mode, indices}, where);
}
Tensor adaptive_max_pool3d_backward(const Tensor& grad_output, const Tensor& self, const Tensor& indices, Where where) {
  return call1("adaptive_max_pool3d_backward", {grad_output, self, indices}, where);
}
Tensor max_unpool3d(const Tensor& self, const Tensor& indices, const SizeList& output_size, const SizeList& stride, const SizeList& padding, Where where) {
  return call1("max_unpool3d", {self, indices, exprs(output_size), exprs(stride), exprs(padding)}, where);
}
Tensor adaptive_avg_pool1d(const Tensor& self, const SizeList& output_size, Where where) {
  return call1("adaptive_avg_pool1d", {self, exprs(output_size)}, where);
}
std::pair<Tensor, Tensor> adaptive_max_pool1d(const Tensor& self, const SizeList& output_size, Where where) {
  return two(ops::get("adaptive_max_pool1d"), {self, exprs(output_size)}, where);
}
std::pair<Tensor, Tensor> adaptive_max_pool2d(const Tensor& self, const SizeList& output_size, Where where) {
  return two(ops::get("adaptive_max_pool2d"), {self, exprs(output_size)}, where);
}
std::pair<Tensor, Tensor> fractional_max_pool2d(const Tensor& self, const SizeList& kernel_size, const SizeList& output_size, const Tensor& random_samples, Where where) {
  return two(ops::get("fractional_max_pool2d"), {self, exprs(kernel_size), exprs(output_size), random_samples}, where);
}
Tensor adaptive_avg_pool3d(const Tensor& self, const SizeList& output_size, Where where) {
  return call1("adaptive_avg_pool3d", {self, exprs(output_size)}, where);
}
std::pair<Tensor, Tensor> adaptive_max_pool3d(const Tensor& self, const SizeList& output_size, Where where) {
  return two(ops::get("adaptive_max_pool3d"), {self, exprs(output_size)}, where);
}
std::pair<Tensor, Tensor> fractional_max_pool3d(const Tensor& self, const SizeList& kernel_size, const SizeList& output_size, const Tensor& random_samples, Where where) {
  return two(ops::get("fractional_max_pool3d"), {self, exprs(kernel_size), exprs(output_size), random_samples}, where);
}
std::tuple<Tensor, Tensor, Tensor> native_layer_norm(const Tensor& input, const SizeList& normalized_shape, const Tensor& weight, const Tensor& bias, double eps, Where where) {
  return three(ops::get("native_layer_norm"), {input, exprs(normalized_shape), maybe(weight), maybe(bias), eps}, where);
}
std::tuple<Tensor, Tensor, Tensor> native_group_norm(const Tensor& input, const Tensor& weight, const Tensor& bias, const SymInt& N, const SymInt& C, const SymInt& HxW, const SymInt& group, double eps, Where where) {
  return three(ops::get("native_group_norm"), {input, maybe(weight), maybe(bias), N.expr(), C.expr(), HxW.expr(), group.expr(), eps}, where);
}
std::tuple<Tensor, Tensor, Tensor> native_batch_norm(const Tensor& input, const Tensor& weight, const Tensor& bias, const Tensor& running_mean, const Tensor& running_var, bool training, double momentum, double eps, Where where) {
  return three(ops::get("native_batch_norm"), {input, maybe(weight), maybe(bias), maybe(running_mean), maybe(running_var), training, momentum, eps}, where);
}
Tensor instance_norm(const Tensor& input, const Tensor& weight, const Tensor& bias, const Tensor& running_mean, const Tensor& running_var, bool use_input_stats, double momentum, double eps, bool cudnn_enabled, Where where) {
  return call1("instance_norm", {input, maybe(weight), maybe(bias), maybe(running_mean), maybe(running_var), use_input_stats, momentum, eps, cudnn_enabled}, where);
}
Tensor norm_except_dim(const Tensor& v, const SymInt& pow, int64_t dim, Where where) {
  return call1("norm_except_dim", {v, pow.expr(), Expr(dim)}, where);
}
Tensor renorm(const Tensor& self, const Operand& p, int64_t dim, const Operand& maxnorm, Where where) {
  return call1("renorm", {self, number("renorm", "p", p), Expr(dim), number("renorm", "maxnorm", maxnorm)}, where);
}
Tensor upsample_nearest1d(const Tensor& self, const SizeList& output_size, std::optional<double> scales, Where where) {
  return call1("upsample_nearest1d", {self, exprs(output_size), optional(scales)}, where);
}
Tensor upsample_nearest1d_vec(const Tensor& input, const std::optional<SizeList>& output_size, std::optional<std::vector<double>> scale_factors, Where where) {
  return call1("upsample_nearest1d.vec", {input, optional(output_size), optional(scale_factors)}, where);
}
Tensor upsample_nearest2d(const Tensor& self, const SizeList& output_size, std::optional<double> scales_h, std::optional<double> scales_w, Where where) {
  return call1("upsample_nearest2d", {self, exprs(output_size), optional(scales_h), optional(scales_w)}, where);
}
Tensor upsample_nearest2d_vec(const Tensor& input, const std::optional<SizeList>& output_size, std::optional<std::vector<double>> scale_factors, Where where) {
  return call1("upsample_nearest2d.vec", {input, optional(output_size), optional(scale_factors)}, where);
}
Tensor upsample_nearest3d(const Tensor& self, const SizeList& output_size, std::optional<double> scales_d, std::optional<double> scales_h, std::optional<double> scales_w, Where where) {
  return call1("upsample_nearest3d", {self, exprs(output_size), optional(scales_d), optional(scales_h), optional(scales_w)}, where);
}
Tensor upsample_nearest3d_vec(const Tensor& input, const std::optional<SizeList>& output_size, std::optional<std::vector<double>> scale_factors, Where where) {
  return call1("upsample_nearest3d.vec", {input, optional(output_size), optional(scale_factors)}, where);
}
Tensor upsample_linear1d(const Tensor& self, const SizeList& output_size, bool align_corners, std::optional<double> scales, Where where) {
  return call1("upsample_linear1d", {self, exprs(output_size), align_corners, optional(scales)}, where);
}
Tensor upsample_linear1d_vec(const Tensor& input, const std::optional<SizeList>& output_size, bool align_corners, std::optional<std::vector<double>> scale_factors, Where where) {
  return call1("upsample_linear1d.vec", {input, optional(output_size), align_corners, optional(scale_factors)}, where);
}
Tensor upsample_bilinear2d(const Tensor& self, const SizeList& output_size, bool align_corners, std::optional<double> scales_h, std::optional<double> scales_w, Where where) {
  return call1("upsample_bilinear2d", {self, exprs(output_size), align_corners, optional(scales_h), optional(scales_w)}, where);
}
Tensor upsample_bilinear2d_vec(const Tensor& input, const std::optional<SizeList>& output_size, bool align_corners, std::optional<std::vector<double>> scale_factors, Where where) {
  return call1("upsample_bilinear2d.vec", {input, optional(output_size), align_corners, optional(scale_factors)}, where);
}
Tensor upsample_trilinear3d(const Tensor& self, const SizeList& output_size, bool align_corners, std::optional<double> scales_d, std::optional<double> scales_h, std::optional<double> scales_w, Where where) {
  return call1("upsample_trilinear3d", {self, exprs(output_size), align_corners, optional(scales_d), optional(scales_h), optional(scales_w)}, where);
}
Tensor upsample_trilinear3d_vec(const Tensor& input, const std::optional<SizeList>& output_size, bool align_corners, std::optional<std::vector<double>> scale_factors, Where where) {
  return call1("upsample_trilinear3d.vec", {input, optional(output_size), align_corners, optional(scale_factors)}, where);
}
Tensor upsample_bicubic2d(const Tensor& self, const SizeList& output_size, bool align_corners, std::optional<double> scales_h, std::optional<double> scales_w, Where where) {
  return call1("upsample_bicubic2d", {self, exprs(output_size), align_corners, optional(scales_h), optional(scales_w)}, where);
}
Tensor upsample_bicubic2d_vec(const Tensor& input, const std::optional<SizeList>& output_size, bool align_corners, std::optional<std::vector<double>> scale_factors, Where where) {
  return call1("upsample_bicubic2d.vec", {input, optional(output_size), align_corners, optional(scale_factors)}, where);
}
Tensor pixel_shuffle(const Tensor& self, const SymInt& upscale_factor, Where where) {
  return call1("pixel_shuffle", {self, upscale_factor.expr()}, where);
}
Tensor pixel_unshuffle(const Tensor& self, const SymInt& downscale_factor, Where where) {
  return call1("pixel_unshuffle", {self, downscale_factor.expr()}, where);
}
Tensor channel_shuffle(const Tensor& self, const SymInt& groups, Where where) {
  return call1("channel_shuffle", {self, groups.expr()}, where);
}
Tensor native_channel_shuffle(const Tensor& self, const SymInt& groups, Where where) {
  return call1("native_channel_shuffle", {self, groups.expr()}, where);
}
Tensor grid_sampler_2d(const Tensor& input, const Tensor& grid, const SymInt& interpolation_mode, const SymInt& padding_mode, bool align_corners, Where where) {
  return call1("grid_sampler_2d", {input, grid, interpolation_mode.expr(), padding_mode.expr(), align_corners}, where);
}
Tensor grid_sampler_3d(const Tensor& input, const Tensor& grid, const SymInt& interpolation_mode, const SymInt& padding_mode, bool align_corners, Where where) {
  return call1("grid_sampler_3d", {input, grid, interpolation_mode.expr(), padding_mode.expr(), align_corners}, where);
}
Tensor grid_sampler(const Tensor& input, const Tensor& grid, const SymInt& interpolation_mode, const SymInt& padding_mode, bool align_corners, Where where) {
  return call1("grid_sampler", {input, grid, interpolation_mode.expr(), padding_mode.expr(), align_corners}, where);
}
Tensor affine_grid_generator(const Tensor& theta, const SizeList& size, bool align_corners, Where where) {
  return call1("affine_grid_generator", {theta, exprs(size), align_corners}, where);
}
std::tuple<Tensor, Tensor, Tensor> linalg_lu_factor_ex(const Tensor& A, bool pivot, bool check_errors, Where where) {
  return three(ops::get("linalg_lu_factor_ex"), {A, pivot, check_errors}, where);
}
std::tuple<Tensor, Tensor, Tensor> lu_unpack(const Tensor& LU_data, const Tensor& LU_pivots, bool unpack_data, bool unpack_pivots, Where where) {
  return three(ops::get("lu_unpack"), {LU_data, LU_pivots, unpack_data, unpack_pivots}, where);
}
std::pair<Tensor, Tensor> linalg_cholesky_ex(const Tensor& self, bool upper, bool check_errors, Where where) {
  return two(ops::get("linalg_cholesky_ex"), {self, upper, check_errors}, where);
}
Tensor cholesky_inverse(const Tensor& self, bool upper, Where where) {
  return call1("cholesky_inverse", {self, upper}, where);
}
std::pair<Tensor, Tensor> linalg_qr(const Tensor& A, Word mode, Where where) {
  return two(ops::get("linalg_qr"), {A, std::string(mode)}, where);
}
std::pair<Tensor, Tensor> geqrf(const Tensor& self, Where where) {
  return two(ops::get("geqrf"), {self}, where);
}
Tensor linalg_householder_product(const Tensor& input, const Tensor& tau, Where where) {
  return call1("linalg_householder_product", {input, tau}, where);
}
Tensor orgqr(const Tensor& self, const Tensor& input2, Where where) {
  return call1("orgqr", {self, input2}, where);
}
Tensor ormqr(const Tensor& self, const Tensor& input2, const Tensor& input3, bool left, bool transpose, Where where) {
  return call1("ormqr", {self, input2, input3, left, transpose}, where);
}
Tensor linalg_solve_triangular(const Tensor& self, const Tensor& B, bool upper, bool left, bool unitriangular, Where where) {
  return call1("linalg_solve_triangular", {self, B, upper, left, unitriangular}, where);
}
Tensor linalg_lu_solve(const Tensor& LU, const Tensor& pivots, const Tensor& B, bool left, bool adjoint, Where where) {
  return call1("linalg_lu_solve", {LU, pivots, B, left, adjoint}, where);
}
std::pair<Tensor, Tensor> linalg_inv_ex(const Tensor& A, bool check_errors, Where where) {
  return two(ops::get("linalg_inv_ex"), {A, check_errors}, where);
}
std::pair<Tensor, Tensor> linalg_eig(const Tensor& self, Where where) {
  return two(ops::get("linalg_eig"), {self}, where);
}
std::tuple<Tensor, Tensor, Tensor> linalg_ldl_factor_ex(const Tensor& self, bool hermitian, bool check_errors, Where where) {
  return three(ops::get("linalg_ldl_factor_ex"), {self, hermitian, check_errors}, where);
}
Tensor linalg_ldl_solve(const Tensor& LD, const Tensor& pivots, const Tensor& B, bool hermitian, Where where) {
  return call1("linalg_ldl_solve", {LD, pivots, B, hermitian}, where);
}
Tensor linalg_matrix_exp(const Tensor& self, Where where) {
  return call1("linalg_matrix_exp", {self}, where);
}
Tensor linalg_pinv(const Tensor& self, double rcond, bool hermitian, Where where) {
  return call1("linalg_pinv", {self, rcond, hermitian}, where);
}
Tensor linalg_pinv(const Tensor& self, const Tensor& rcond, bool hermitian, Where where) {
  return call1("linalg_pinv.rcond_tensor", {self, rcond, hermitian}, where);
}
Tensor linalg_pinv(const Tensor& self, const Tensor& atol, const Tensor& rtol, bool hermitian, Where where) {
  return call1("linalg_pinv.atol_rtol_tensor", {self, maybe(atol), maybe(rtol), hermitian}, where);
}
Tensor linalg_pinv(const Tensor& self, std::optional<double> atol, std::optional<double> rtol, bool hermitian, Where where) {
  return call1("linalg_pinv.atol_rtol_float", {self, optional(atol), optional(rtol), hermitian}, where);
}
Tensor pinverse(const Tensor& self, double rcond, Where where) {
  return call1("pinverse", {self, rcond}, where);
}
Tensor linalg_matrix_sqrth(const Tensor& self, Where where) {
  return call1("linalg_matrix_sqrth", {self}, where);
}
std::pair<Tensor, Tensor> linalg_polar(const Tensor& A, Where where) {
  return two(ops::get("linalg_polar"), {A}, where);
}
Tensor cholesky_solve(const Tensor& self, const Tensor& input2, bool upper, Where where) {
  return call1("cholesky_solve", {self, input2, upper}, where);
}
std::pair<Tensor, Tensor> triangular_solve(const Tensor& self, const Tensor& A, bool upper, bool transpose, bool unitriangular, Where where) {
  return two(ops::get("triangular_solve"), {self, A, upper, transpose, unitriangular}, where);
}
Tensor linalg_cross(const Tensor& self, const Tensor& other, int64_t dim, Where where) {
  return call1("linalg_cross", {self, other, Expr(dim)}, where);
}
Tensor cross(const Tensor& self, const Tensor& other, std::optional<int64_t> dim, Where where) {
  return call1("cross", {self, other, optional(dim)}, where);
}
Tensor vander(const Tensor& x, const std::optional<SymInt>& N, bool increasing, Where where) {
  return call1("vander", {x, optional(N), increasing}, where);
}
Tensor linalg_vander(const Tensor& x, const std::optional<SymInt>& N, Where where) {
  return call1("linalg_vander", {x, optional(N)}, where);
}
Tensor linalg_vecdot(const Tensor& x, const Tensor& y, int64_t dim, Where where) {
  return call1("linalg_vecdot", {x, y, Expr(dim)}, where);
}
Tensor linalg_inv(const Tensor& A, Where where) {
  return call1("linalg_inv", {A}, where);
}
Tensor inverse(const Tensor& self, Where where) {
  return call1("inverse", {self}, where);
}
Tensor linalg_det(const Tensor& A, Where where) {
  return call1("linalg_det", {A}, where);
}
Tensor det(const Tensor& self, Where where) {
  return call1("det", {self}, where);
}
std::pair<Tensor, Tensor> linalg_slogdet(const Tensor& A, Where where) {
  return two(ops::get("linalg_slogdet"), {A}, where);
}
std::pair<Tensor, Tensor> slogdet(const Tensor& self, Where where) {
  return two(ops::get("slogdet"), {self}, where);
}
Tensor logdet(const Tensor& self, Where where) {
  return call1("logdet", {self}, where);
}
Tensor linalg_solve(const Tensor& A, const Tensor& B, bool left, Where where) {
  return call1("linalg_solve", {A, B, left}, where);
}
std::pair<Tensor, Tensor> linalg_lu_factor(const Tensor& A, bool pivot, Where where) {
  return two(ops::get("linalg_lu_factor"), {A, pivot}, where);
}
std::tuple<Tensor, Tensor, Tensor> linalg_lu(const Tensor& A, bool pivot, Where where) {
  return three(ops::get("linalg_lu"), {A, pivot}, where);
}
Tensor linalg_cholesky(const Tensor& self, bool upper, Where where) {
  return call1("linalg_cholesky", {self, upper}, where);
}
Tensor cholesky(const Tensor& self, bool upper, Where where) {
  return call1("cholesky", {self, upper}, where);
}
std::tuple<Tensor, Tensor, Tensor> linalg_svd(const Tensor& A, bool full_matrices, std::optional<Word> driver, Where where) {
  return three(ops::get("linalg_svd"), {A, full_matrices, optional(driver)}, where);
}
Tensor linalg_svdvals(const Tensor& A, std::optional<Word> driver, Where where) {
  return call1("linalg_svdvals", {A, optional(driver)}, where);
}
std::pair<Tensor, Tensor> linalg_eigh(const Tensor& self, Word UPLO, Where where) {
  return two(ops::get("linalg_eigh"), {self, std::string(UPLO)}, where);
}
Tensor linalg_eigvalsh(const Tensor& self, Word UPLO, Where where) {
  return call1("linalg_eigvalsh", {self, std::string(UPLO)}, where);
}
Tensor linalg_eigvals(const Tensor& self, Where where) {
  return call1("linalg_eigvals", {self}, where);
}
Tensor matrix_exp(const Tensor& self, Where where) {
  return call1("matrix_exp", {self}, where);
}
Tensor linalg_norm(const Tensor& self, const std::optional<Operand>& ord, const Dims& dim, bool keepdim, std::optional<DType> dtype, Where where) {
  return call1("linalg_norm", {self, number("linalg_norm", "ord", ord), dims_or_none(dim), keepdim, optional(dtype)}, where);
}
Tensor linalg_norm(const Tensor& self, Word ord, const Dims& dim, bool keepdim, std::optional<DType> dtype, Where where) {
  return call1("linalg_norm.ord_str", {self, std::string(ord), dims_or_none(dim), keepdim, optional(dtype)}, where);
}
Tensor linalg_matrix_norm(const Tensor& self, const Operand& ord, const Dims& dim, bool keepdim, std::optional<DType> dtype, Where where) {
  return call1("linalg_matrix_norm", {self, number("linalg_matrix_norm", "ord", ord), numbers(dim), keepdim, optional(dtype)}, where);
}
Tensor linalg_matrix_norm(const Tensor& self, Word ord, const Dims& dim, bool keepdim, std::optional<DType> dtype, Where where) {
  return call1("linalg_matrix_norm.str_ord", {self, std::string(ord), numbers(dim), keepdim, optional(dtype)}, where);
}
Tensor complex(const Tensor& real, const Tensor& imag, Where where) {
  return call1("complex", {real, imag}, where);
}
Tensor view_as_real(const Tensor& self, Where where) {
  return call1("view_as_real", {self}, where);
}
Tensor view_as_complex(const Tensor& self, Where where) {
  return call1("view_as_complex", {self}, where);
}
Tensor real(const Tensor& self, Where where) {
  return call1("real", {self}, where);
}
Tensor imag(const Tensor& self, Where where) {
  return call1("imag", {self}, where);
}
Tensor conj(const Tensor& self, Where where) {
  return call1("conj", {self}, where);
}
Tensor conj_physical(const Tensor& self, Where where) {
  return call1("conj_physical", {self}, where);
}
Tensor resolve_conj(const Tensor& self, Where where) {
  return call1("resolve_conj", {self}, where);
}
Tensor resolve_neg(const Tensor& self, Where where) {
  return call1("resolve_neg", {self}, where);
}
Tensor polar(const Tensor& abs, const Tensor& angle, Where where) {
  return call1("polar", {abs, angle}, where);
}
Tensor fft_fft(const Tensor& self, const std::optional<SymInt>& n, int64_t dim, std::optional<Word> norm, Where where) {
  return call1("fft_fft", {self, optional(n), Expr(dim), optional(norm)}, where);
}
Tensor fft_ifft(const Tensor& self, const std::optional<SymInt>& n, int64_t dim, std::optional<Word> norm, Where where) {
  return call1("fft_ifft", {self, optional(n), Expr(dim), optional(norm)}, where);
}
Tensor fft_rfft(const Tensor& self, const std::optional<SymInt>& n, int64_t dim, std::optional<Word> norm, Where where) {
  return call1("fft_rfft", {self, optional(n), Expr(dim), optional(norm)}, where);
}
Tensor fft_ihfft(const Tensor& self, const std::optional<SymInt>& n, int64_t dim, std::optional<Word> norm, Where where) {
  return call1("fft_ihfft", {self, optional(n), Expr(dim), optional(norm)}, where);
}
Tensor fft_irfft(const Tensor& self, const std::optional<SymInt>& n, int64_t dim, std::optional<Word> norm, Where where) {
  return call1("fft_irfft", {self, optional(n), Expr(dim), optional(norm)}, where);
}
Tensor fft_hfft(const Tensor& self, const std::optional<SymInt>& n, int64_t dim, std::optional<Word> norm, Where where) {
  return call1("fft_hfft", {self, optional(n), Expr(dim), optional(norm)}, where);
}
Tensor fft_fft2(const Tensor& self, const std::optional<SizeList>& s, const Dims& dim, std::optional<Word> norm, Where where) {
  return call1("fft_fft2", {self, optional(s), numbers(dim), optional(norm)}, where);
}
Tensor fft_ifft2(const Tensor& self, const std::optional<SizeList>& s, const Dims& dim, std::optional<Word> norm, Where where) {
  return call1("fft_ifft2", {self, optional(s), numbers(dim), optional(norm)}, where);
}
Tensor fft_rfft2(const Tensor& self, const std::optional<SizeList>& s, const Dims& dim, std::optional<Word> norm, Where where) {
  return call1("fft_rfft2", {self, optional(s), numbers(dim), optional(norm)}, where);
}
Tensor fft_ihfft2(const Tensor& self, const std::optional<SizeList>& s, const Dims& dim, std::optional<Word> norm, Where where) {
  return call1("fft_ihfft2", {self, optional(s), numbers(dim), optional(norm)}, where);
}
Tensor fft_irfft2(const Tensor& self, const std::optional<SizeList>& s, const Dims& dim, std::optional<Word> norm, Where where) {
  return call1("fft_irfft2", {self, optional(s), numbers(dim), optional(norm)}, where);
}
Tensor fft_hfft2(const Tensor& self, const std::optional<SizeList>& s, const Dims& dim, std::optional<Word> norm, Where where) {
  return call1("fft_hfft2", {self, optional(s), numbers(dim), optional(norm)}, where);
}
Tensor fft_fftn(const Tensor& self, const std::optional<SizeList>& s, const Dims& dim, std::optional<Word> norm, Where where) {
  return call1("fft_fftn", {self, optional(s), dims_or_none(dim), optional(norm)}, where);
}
Tensor fft_ifftn(const Tensor& self, const std::optional<SizeList>& s, const Dims& dim, std::optional<Word> norm, Where where) {
  return call1("fft_ifftn", {self, optional(s), dims_or_none(dim), optional(norm)}, where);
}
Tensor fft_rfftn(const Tensor& self, const std::optional<SizeList>& s, const Dims& dim, std::optional<Word> norm, Where where) {
  return call1("fft_rfftn", {self, optional(s), dims_or_none(dim), optional(norm)}, where);
}
Tensor fft_ihfftn(const Tensor& self, const std::optional<SizeList>& s, const Dims& dim, std::optional<Word> norm, Where where) {
  return call1("fft_ihfftn", {self, optional(s), dims_or_none(dim), optional(norm)}, where);
}
Tensor fft_irfftn(const Tensor& self, const std::optional<SizeList>& s, const Dims& dim, std::optional<Word> norm, Where where) {
  return call1("fft_irfftn", {self, optional(s), dims_or_none(dim), optional(norm)}, where);
}
Tensor fft_hfftn(const Tensor& self, const std::optional<SizeList>& s, const Dims& dim, std::optional<Word> norm, Where where) {
  return call1("fft_hfftn", {self, optional(s), dims_or_none(dim), optional(norm)}, where);
}
Tensor fft_fftshift(const Tensor& self, const Dims& dim, Where where) {
  return call1("fft_fftshift", {self, dims_or_none(dim)}, where);
}
Tensor fft_ifftshift(const Tensor& self, const Dims& dim, Where where) {
  return call1("fft_ifftshift", {self, dims_or_none(dim)}, where);
}
Tensor istft(const Tensor& self, const SymInt& n_fft, const std::optional<SymInt>& hop_length, const std::optional<SymInt>& win_length, const Tensor& window, bool center, bool normalized, std::optional<bool> onesided, const std::optional<SymInt>& length, bool return_complex, Where where) {
  return call1("istft", {self, n_fft.expr(), optional(hop_length), optional(win_length), maybe(window), center, normalized, optional(onesided), optional(length), return_complex}, where);
}
Tensor randint_like(const Tensor& self, const SymInt& high, std::optional<DType> dtype, std::optional<bool> pin_memory, Where where) {
  return call1("randint_like", {self, high.expr(), optional(dtype), std::monostate{}, std::monostate{}, optional(pin_memory), std::monostate{}}, where);
}
Tensor randint_like(const Tensor& self, const SymInt& low, const SymInt& high, std::optional<DType> dtype, std::optional<bool> pin_memory, Where where) {
  return call1("randint_like.low_dtype", {self, low.expr(), high.expr(), optional(dtype), std::monostate{}, std::monostate{}, optional(pin_memory), std::monostate{}}, where);
}
Tensor random(const Tensor& self, const SymInt& from, const std::optional<SymInt>& to, Where where) {
  return call1("random.from", {self, from.expr(), optional(to), std::monostate{}}, where);
}
Tensor random(const Tensor& self, const SymInt& to, Where where) {
  return call1("random.to", {self, to.expr(), std::monostate{}}, where);
}
Tensor randperm(const SymInt& n, std::optional<DType> dtype, std::optional<Device> device, std::optional<bool> pin_memory, Where where) {
  DeviceScope scope(device.value_or(default_device()));
  return call1("randperm", {n.expr(), optional(dtype), std::monostate{}, std::monostate{}, optional(pin_memory)}, where);
}
Tensor bernoulli(const Tensor& self, double p, Where where) {
  return call1("bernoulli.p", {self, p, std::monostate{}}, where);
}
Tensor bernoulli(const Tensor& self, const Tensor& p, Where where) {
  return call1("bernoulli.Tensor", {self, p, std::monostate{}}, where);
}
Tensor normal(const Tensor& mean, double std, Where where) {
  return call1("normal.Tensor_float", {mean, std, std::monostate{}}, where);
}
Tensor normal(double mean, const Tensor& std, Where where) {
  return call1("normal.float_Tensor", {mean, std, std::monostate{}}, where);
}
Tensor normal(const Tensor& mean, const Tensor& std, Where where) {
  return call1("normal.Tensor_Tensor", {mean, std, std::monostate{}}, where);
}
Tensor normal(double mean, double std, const SizeList& size, std::optional<DType> dtype, std::optional<Device> device, std::optional<bool> pin_memory, Where where) {
  DeviceScope scope(device.value_or(default_device()));
  return call1("normal.float_float", {mean, std, exprs(size), std::monostate{}, optional(dtype), std::monostate{}, std::monostate{}, optional(pin_memory)}, where);
}
Tensor normal(const Tensor& self, double mean, double std, Where where) {
  return call1("normal", {self, mean, std, std::monostate{}}, where);
}
Tensor normal_functional(const Tensor& self, double mean, double std, Where where) {
  return call1("normal_functional", {self, mean, std, std::monostate{}}, where);
}
Tensor log_normal(const Tensor& self, double mean, double std, Where where) {
  return call1("log_normal", {self, mean, std, std::monostate{}}, where);
}
Tensor uniform(const Tensor& self, double from, double to, Where where) {
  return call1("uniform", {self, from, to, std::monostate{}}, where);
}
Tensor exponential(const Tensor& self, double lambd, Where where) {
  return call1("exponential", {self, lambd, std::monostate{}}, where);
}
Tensor cauchy(const Tensor& self, double median, double sigma, Where where) {
  return call1("cauchy", {self, median, sigma, std::monostate{}}, where);
}
Tensor geometric(const Tensor& self, double p, Where where) {
  return call1("geometric", {self, p, std::monostate{}}, where);
}
Tensor multinomial(const Tensor& self, const SymInt& num_samples, bool replacement, Where where) {
  return call1("multinomial", {self, num_samples.expr(), replacement, std::monostate{}}, where);
}
std::pair<Tensor, Tensor> native_dropout(const Tensor& input, double p, std::optional<bool> train, Where where) {
  return two(ops::get("native_dropout"), {input, p, optional(train)}, where);
}
Tensor native_dropout_backward(const Tensor& grad_output, const Tensor& mask, double scale, Where where) {
  return call1("native_dropout_backward", {grad_output, mask, scale}, where);
}
Tensor feature_dropout(const Tensor& input, double p, bool train, Where where) {
  return call1("feature_dropout", {input, p, train}, where);
}
Tensor alpha_dropout(const Tensor& input, double p, bool train, Where where) {
  return call1("alpha_dropout", {input, p, train}, where);
}
Tensor feature_alpha_dropout(const Tensor& input, double p, bool train, Where where) {
  return call1("feature_alpha_dropout", {input, p, train}, where);
}
Tensor rrelu(const Tensor& self, const Operand& lower, const Operand& upper, bool training, Where where) {
  return call1("rrelu", {self, number("rrelu", "lower", lower), number("rrelu", "upper", upper), training, std::monostate{}}, where);
}
std::pair<Tensor, Tensor> rrelu_with_noise_functional(const Tensor& self, const Tensor& noise, const Operand& lower, const Operand& upper, bool training, Where where) {
  return two(ops::get("rrelu_with_noise_functional"), {self, noise, number("rrelu_with_noise_functional", "lower", lower), number("rrelu_with_noise_functional", "upper", upper), training, std::monostate{}}, where);
}
std::pair<Tensor, Tensor> gru(const Tensor& input, const Tensor& hx, const std::vector<Tensor>& params, bool has_biases, const SymInt& num_layers, double dropout, bool train, bool bidirectional, bool batch_first, Where where) {
  return two(ops::get("gru.input"), {input, hx, params, has_biases, num_layers.expr(), dropout, train, bidirectional, batch_first}, where);
}
std::pair<Tensor, Tensor> rnn_tanh(const Tensor& input, const Tensor& hx, const std::vector<Tensor>& params, bool has_biases, const SymInt& num_layers, double dropout, bool train, bool bidirectional, bool batch_first, Where where) {
  return two(ops::get("rnn_tanh.input"), {input, hx, params, has_biases, num_layers.expr(), dropout, train, bidirectional, batch_first}, where);
}
std::pair<Tensor, Tensor> rnn_relu(const Tensor& input, const Tensor& hx, const std::vector<Tensor>& params, bool has_biases, const SymInt& num_layers, double dropout, bool train, bool bidirectional, bool batch_first, Where where) {
  return two(ops::get("rnn_relu.input"), {input, hx, params, has_biases, num_layers.expr(), dropout, train, bidirectional, batch_first}, where);
}
std::tuple<Tensor, Tensor, Tensor> lstm(const Tensor& input, const std::vector<Tensor>& hx, const std::vector<Tensor>& params, bool has_biases, const SymInt& num_layers, double dropout, bool train, bool bidirectional, bool batch_first, Where where) {
  return three(ops::get("lstm.input"), {input, hx, params, has_biases, num_layers.expr(), dropout, train, bidirectional, batch_first}, where);
}
Tensor gru_cell(const Tensor& input, const Tensor& hx, const Tensor& w_ih, const Tensor& w_hh, const Tensor& b_ih, const Tensor& b_hh, Where where) {
  return call1("gru_cell", {input, hx, w_ih, w_hh, maybe(b_ih), maybe(b_hh)}, where);
}
Tensor rnn_tanh_cell(const Tensor& input, const Tensor& hx, const Tensor& w_ih, const Tensor& w_hh, const Tensor& b_ih, const Tensor& b_hh, Where where) {
  return call1("rnn_tanh_cell", {input, hx, w_ih, w_hh, maybe(b_ih), maybe(b_hh)}, where);
}
Tensor rnn_relu_cell(const Tensor& input, const Tensor& hx, const Tensor& w_ih, const Tensor& w_hh, const Tensor& b_ih, const Tensor& b_hh, Where where) {
  return call1("rnn_relu_cell", {input, hx, w_ih, w_hh, maybe(b_ih), maybe(b_hh)}, where);
}
std::pair<Tensor, Tensor> lstm_cell(const Tensor& input, const std::vector<Tensor>& hx, const Tensor& w_ih, const Tensor& w_hh, const Tensor& b_ih, const Tensor& b_hh, Where where) {
  return two(ops::get("lstm_cell"), {input, hx, w_ih, w_hh, maybe(b_ih), maybe(b_hh)}, where);
}
std::tuple<Tensor, Tensor, Tensor> convolution_backward(const Tensor& grad_output, const Tensor& input, const Tensor& weight, const std::optional<SizeList>& bias_sizes, const SizeList& stride, const SizeList& padding, const SizeList& dilation, bool transposed, const SizeList& output_padding, const SymInt& groups, std::vector<bool> output_mask, Where where) {
  return three(ops::get("convolution_backward"), {grad_output, input, weight, optional(bias_sizes), exprs(stride), exprs(padding), exprs(dilation), transposed, exprs(output_padding), groups.expr(), output_mask}, where);
}
Tensor avg_pool2d_backward(const Tensor& grad_output, const Tensor& self, const SizeList& kernel_size, const SizeList& stride, const SizeList& padding, bool ceil_mode, bool count_include_pad, const std::optional<SymInt>& divisor_override, Where where) {
  return call1("avg_pool2d_backward", {grad_output, self, exprs(kernel_size), exprs(stride), exprs(padding), ceil_mode, count_include_pad, optional(divisor_override)}, where);
}
Tensor avg_pool3d_backward(const Tensor& grad_output, const Tensor& self, const SizeList& kernel_size, const SizeList& stride, const SizeList& padding, bool ceil_mode, bool count_include_pad, const std::optional<SymInt>& divisor_override, Where where) {
  return call1("avg_pool3d_backward", {grad_output, self, exprs(kernel_size), exprs(stride), exprs(padding), ceil_mode, count_include_pad, optional(divisor_override)}, where);
}
std::pair<Tensor, Tensor> grid_sampler_2d_backward(const Tensor& grad_output, const Tensor& input, const Tensor& grid, const SymInt& interpolation_mode, const SymInt& padding_mode, bool align_corners, std::vector<bool> output_mask, Where where) {
  return two(ops::get("grid_sampler_2d_backward"), {grad_output, input, grid, interpolation_mode.expr(), padding_mode.expr(), align_corners, output_mask}, where);
}
std::pair<Tensor, Tensor> grid_sampler_3d_backward(const Tensor& grad_output, const Tensor& input, const Tensor& grid, const SymInt& interpolation_mode, const SymInt& padding_mode, bool align_corners, std::vector<bool> output_mask, Where where) {
  return two(ops::get("grid_sampler_3d_backward"), {grad_output, input, grid, interpolation_mode.expr(), padding_mode.expr(), align_corners, output_mask}, where);
}
Tensor replication_pad1d_backward(const Tensor& grad_output, const Tensor& self, const SizeList& padding, Where where) {
  return call1("replication_pad1d_backward", {grad_output, self, exprs(padding)}, where);
}
Tensor replication_pad2d_backward(const Tensor& grad_output, const Tensor& self, const SizeList& padding, Where where) {
  return call1("replication_pad2d_backward", {grad_output, self, exprs(padding)}, where);
}
Tensor replication_pad3d_backward(const Tensor& grad_output, const Tensor& self, const SizeList& padding, Where where) {
  return call1("replication_pad3d_backward", {grad_output, self, exprs(padding)}, where);
}
Tensor masked_scatter_backward(const Tensor& grad_output, const Tensor& mask, const SizeList& sizes, Where where) {
  return call1("masked_scatter_backward", {grad_output, mask, exprs(sizes)}, where);
}
Tensor subtract_(const Tensor& self, const Operand& other, const Operand& alpha, Where where) {
  return call1("subtract_.Tensor", {self, argument(other), number("subtract_.Tensor", "alpha", alpha)}, where);
}
Tensor rsub_(const Tensor& self, const Operand& other, const Operand& alpha, Where where) {
  return call1("rsub_.Tensor", {self, argument(other), number("rsub_.Tensor", "alpha", alpha)}, where);
}
Tensor multiply_(const Tensor& self, const Operand& other, Where where) {
  return call1("multiply_.Tensor", {self, argument(other)}, where);
}
Tensor divide_(const Tensor& self, const Operand& other, Where where) {
  return call1("divide_.Tensor", {self, argument(other)}, where);
}
Tensor divide_(const Tensor& self, const Tensor& other, std::optional<Word> rounding_mode, Where where) {
  return call1("divide_.Tensor_mode", {self, other, optional(rounding_mode)}, where);
}
Tensor divide_(const Tensor& self, const Operand& other, std::optional<Word> rounding_mode, Where where) {
  return call1("divide_.Scalar_mode", {self, number("divide_.Scalar_mode", "other", other), optional(rounding_mode)}, where);
}
Tensor true_divide_(const Tensor& self, const Operand& other, Where where) {
  return call1("true_divide_.Tensor", {self, argument(other)}, where);
}
Tensor floor_divide_(const Tensor& self, const Operand& other, Where where) {
  return call1("floor_divide_", {self, argument(other)}, where);
}
Tensor floor_divide__Tensor(const Tensor& self, const Operand& other, Where where) {
  return call1("floor_divide_.Tensor", {self, argument(other)}, where);
}
Tensor div_(const Tensor& self, const Tensor& other, std::optional<Word> rounding_mode, Where where) {
  return call1("div_.Tensor_mode", {self, other, optional(rounding_mode)}, where);
}
Tensor div_(const Tensor& self, const Operand& other, std::optional<Word> rounding_mode, Where where) {
  return call1("div_.Scalar_mode", {self, number("div_.Scalar_mode", "other", other), optional(rounding_mode)}, where);
}
Tensor remainder_(const Tensor& self, const Operand& other, Where where) {
  return call1("remainder_.Tensor", {self, argument(other)}, where);
}
Tensor fmod_(const Tensor& self, const Operand& other, Where where) {
  return call1("fmod_.Tensor", {self, argument(other)}, where);
}
Tensor pow_(const Tensor& self, const Operand& exponent, Where where) {
  return call1("pow_.Tensor_Tensor", {self, argument(exponent)}, where);
}
Tensor pow__Tensor(const Tensor& self, const Operand& exponent, Where where) {
  return call1("pow_.Tensor", {self, argument(exponent)}, where);
}
Tensor float_power_(const Tensor& self, const Tensor& exponent, Where where) {
  return call1("float_power_.Tensor_Tensor", {self, exponent}, where);
}
Tensor float_power_(const Tensor& self, const Operand& exponent, Where where) {
  return call1("float_power_.Tensor_Scalar", {self, number("float_power_.Tensor_Scalar", "exponent", exponent)}, where);
}
Tensor float_power__Scalar(const Tensor& self, const Operand& exponent, Where where) {
  return call1("float_power_.Scalar", {self, number("float_power_.Scalar", "exponent", exponent)}, where);
}
Tensor float_power__Tensor(const Tensor& self, const Tensor& exponent, Where where) {
  return call1("float_power_.Tensor", {self, exponent}, where);
}
Tensor ldexp_(const Tensor& self, const Tensor& other, Where where) {
  return call1("ldexp_.Tensor", {self, other}, where);
}
Tensor ldexp__(const Tensor& self, const Tensor& other, Where where) {
  return call1("ldexp_", {self, other}, where);
}
Tensor maximum_(const Tensor& self, const Operand& other, Where where) {
  return call1("maximum_", {self, argument(other)}, where);
}
Tensor minimum_(const Tensor& self, const Operand& other, Where where) {
  return call1("minimum_", {self, argument(other)}, where);
}
Tensor fmax_(const Tensor& self, const Operand& other, Where where) {
  return call1("fmax_", {self, argument(other)}, where);
}
Tensor fmin_(const Tensor& self, const Operand& other, Where where) {
  return call1("fmin_", {self, argument(other)}, where);
}
Tensor atan2_(const Tensor& self, const Operand& other, Where where) {
  return call1("atan2_", {self, argument(other)}, where);
}
Tensor arctan2_(const Tensor& self, const Operand& other, Where where) {
  return call1("arctan2_", {self, argument(other)}, where);
}
Tensor hypot_(const Tensor& self, const Operand& other, Where where) {
  return call1("hypot_", {self, argument(other)}, where);
}
Tensor copysign_(const Tensor& self, const Operand& other, Where where) {
  return call1("copysign_.Tensor", {self, argument(other)}, where);
}
Tensor nextafter_(const Tensor& self, const Operand& other, Where where) {
  return call1("nextafter_", {self, argument(other)}, where);
}
Tensor heaviside_(const Tensor& self, const Operand& values, Where where) {
  return call1("heaviside_", {self, argument(values)}, where);
}
Tensor xlogy_(const Tensor& self, const Operand& other, Where where) {
  return call1("xlogy_.Tensor", {self, argument(other)}, where);
}
Tensor special_xlogy_(const Tensor& self, const Operand& other, Where where) {
  return call1("special_xlogy_", {self, argument(other)}, where);
}
Tensor logaddexp_(const Tensor& self, const Operand& other, Where where) {
  return call1("logaddexp_", {self, argument(other)}, where);
}
Tensor logaddexp2_(const Tensor& self, const Operand& other, Where where) {
  return call1("logaddexp2_", {self, argument(other)}, where);
}
Tensor gcd_(const Tensor& self, const Operand& other, Where where) {
  return call1("gcd_", {self, argument(other)}, where);
}
Tensor lcm_(const Tensor& self, const Operand& other, Where where) {
  return call1("lcm_", {self, argument(other)}, where);
}
Tensor eq_(const Tensor& self, const Operand& other, Where where) {
  return call1("eq_.Tensor", {self, argument(other)}, where);
}
Tensor ne_(const Tensor& self, const Operand& other, Where where) {
  return call1("ne_.Tensor", {self, argument(other)}, where);
}
Tensor not_equal_(const Tensor& self, const Operand& other, Where where) {
  return call1("not_equal_.Tensor", {self, argument(other)}, where);
}
Tensor lt_(const Tensor& self, const Operand& other, Where where) {
  return call1("lt_.Tensor", {self, argument(other)}, where);
}
Tensor less_(const Tensor& self, const Operand& other, Where where) {
  return call1("less_.Tensor", {self, argument(other)}, where);
}
Tensor le_(const Tensor& self, const Operand& other, Where where) {
  return call1("le_.Tensor", {self, argument(other)}, where);
}
Tensor less_equal_(const Tensor& self, const Operand& other, Where where) {
  return call1("less_equal_.Tensor", {self, argument(other)}, where);
}
Tensor gt_(const Tensor& self, const Operand& other, Where where) {
  return call1("gt_.Tensor", {self, argument(other)}, where);
}
Tensor greater_(const Tensor& self, const Operand& other, Where where) {
  return call1("greater_.Tensor", {self, argument(other)}, where);
}
Tensor ge_(const Tensor& self, const Operand& other, Where where) {
  return call1("ge_.Tensor", {self, argument(other)}, where);
}
Tensor greater_equal_(const Tensor& self, const Operand& other, Where where) {
  return call1("greater_equal_.Tensor", {self, argument(other)}, where);
}
Tensor logical_and_(const Tensor& self, const Operand& other, Where where) {
  return call1("logical_and_", {self, argument(other)}, where);
}
Tensor logical_or_(const Tensor& self, const Operand& other, Where where) {
  return call1("logical_or_", {self, argument(other)}, where);
}
Tensor logical_xor_(const Tensor& self, const Operand& other, Where where) {
  return call1("logical_xor_", {self, argument(other)}, where);
}
Tensor logical_not_(const Tensor& self, Where where) {
  return call1("logical_not_", {self}, where);
}
Tensor bitwise_and_(const Tensor& self, const Operand& other, Where where) {
  return call1("bitwise_and_.Tensor", {self, argument(other)}, where);
}
Tensor bitwise_or_(const Tensor& self, const Operand& other, Where where) {
  return call1("bitwise_or_.Tensor", {self, argument(other)}, where);
}
Tensor bitwise_xor_(const Tensor& self, const Operand& other, Where where) {
  return call1("bitwise_xor_.Tensor", {self, argument(other)}, where);
}
Tensor bitwise_not_(const Tensor& self, Where where) {
  return call1("bitwise_not_", {self}, where);
}
Tensor bitwise_left_shift_(const Tensor& self, const Operand& other, Where where) {
  return call1("bitwise_left_shift_.Tensor", {self, argument(other)}, where);
}
Tensor bitwise_right_shift_(const Tensor& self, const Operand& other, Where where) {
  return call1("bitwise_right_shift_.Tensor", {self, argument(other)}, where);
}
Tensor isclose_(const Tensor& self, const Operand& other, double rtol, double atol, bool equal_nan, Where where) {
  return call1("isclose_", {self, argument(other), rtol, atol, equal_nan}, where);
}
Tensor rsqrt_(const Tensor& self, Where where) {
  return call1("rsqrt_", {self}, where);
}
Tensor reciprocal_(const Tensor& self, Where where) {
  return call1("reciprocal_", {self}, where);
}
Tensor exp2_(const Tensor& self, Where where) {
  return call1("exp2_", {self}, where);
}
Tensor special_exp2_(const Tensor& self, Where where) {
  return call1("special_exp2_", {self}, where);
}
Tensor expm1_(const Tensor& self, Where where) {
  return call1("expm1_", {self}, where);
}
Tensor special_expm1_(const Tensor& self, Where where) {
  return call1("special_expm1_", {self}, where);
}
Tensor log_(const Tensor& self, Where where) {
  return call1("log_", {self}, where);
}
Tensor log2_(const Tensor& self, Where where) {
  return call1("log2_", {self}, where);
}
Tensor log10_(const Tensor& self, Where where) {
  return call1("log10_", {self}, where);
}
Tensor log1p_(const Tensor& self, Where where) {
  return call1("log1p_", {self}, where);
}
Tensor special_log1p_(const Tensor& self, Where where) {
  return call1("special_log1p_", {self}, where);
}
Tensor sin_(const Tensor& self, Where where) {
  return call1("sin_", {self}, where);
}
Tensor cos_(const Tensor& self, Where where) {
  return call1("cos_", {self}, where);
}
Tensor tan_(const Tensor& self, Where where) {
  return call1("tan_", {self}, where);
}
Tensor asin_(const Tensor& self, Where where) {
  return call1("asin_", {self}, where);
}
Tensor arcsin_(const Tensor& self, Where where) {
  return call1("arcsin_", {self}, where);
}
Tensor acos_(const Tensor& self, Where where) {
  return call1("acos_", {self}, where);
}
Tensor arccos_(const Tensor& self, Where where) {
  return call1("arccos_", {self}, where);
}
Tensor atan_(const Tensor& self, Where where) {
  return call1("atan_", {self}, where);
}
Tensor arctan_(const Tensor& self, Where where) {
  return call1("arctan_", {self}, where);
}
Tensor sinh_(const Tensor& self, Where where) {
  return call1("sinh_", {self}, where);
}
Tensor cosh_(const Tensor& self, Where where) {
  return call1("cosh_", {self}, where);
}
Tensor asinh_(const Tensor& self, Where where) {
  return call1("asinh_", {self}, where);
}
Tensor arcsinh_(const Tensor& self, Where where) {
  return call1("arcsinh_", {self}, where);
}
Tensor acosh_(const Tensor& self, Where where) {
  return call1("acosh_", {self}, where);
}
Tensor arccosh_(const Tensor& self, Where where) {
  return call1("arccosh_", {self}, where);
}
Tensor atanh_(const Tensor& self, Where where) {
  return call1("atanh_", {self}, where);
}
Tensor arctanh_(const Tensor& self, Where where) {
  return call1("arctanh_", {self}, where);
}
Tensor special_expit_(const Tensor& self, Where where) {
  return call1("special_expit_", {self}, where);
}
Tensor erf_(const Tensor& self, Where where) {
  return call1("erf_", {self}, where);
}
Tensor special_erf_(const Tensor& self, Where where) {
  return call1("special_erf_", {self}, where);
}
Tensor erfc_(const Tensor& self, Where where) {
  return call1("erfc_", {self}, where);
}
Tensor special_erfc_(const Tensor& self, Where where) {
  return call1("special_erfc_", {self}, where);
}
Tensor erfinv_(const Tensor& self, Where where) {
  return call1("erfinv_", {self}, where);
}
Tensor special_erfinv_(const Tensor& self, Where where) {
  return call1("special_erfinv_", {self}, where);
}
Tensor deg2rad_(const Tensor& self, Where where) {
  return call1("deg2rad_", {self}, where);
}
Tensor rad2deg_(const Tensor& self, Where where) {
  return call1("rad2deg_", {self}, where);
}
Tensor sinc_(const Tensor& self, Where where) {
  return call1("sinc_", {self}, where);
}
Tensor special_sinc_(const Tensor& self, Where where) {
  return call1("special_sinc_", {self}, where);
}
Tensor logit_(const Tensor& self, std::optional<double> eps, Where where) {
  return call1("logit_", {self, optional(eps)}, where);
}
Tensor special_logit_(const Tensor& self, std::optional<double> eps, Where where) {
  return call1("special_logit_", {self, optional(eps)}, where);
}
Tensor neg_(const Tensor& self, Where where) {
  return call1("neg_", {self}, where);
}
Tensor negative_(const Tensor& self, Where where) {
  return call1("negative_", {self}, where);
}
Tensor abs_(const Tensor& self, Where where) {
  return call1("abs_", {self}, where);
}
Tensor absolute_(const Tensor& self, Where where) {
  return call1("absolute_", {self}, where);
}
Tensor angle_(const Tensor& self, Where where) {
  return call1("angle_", {self}, where);
}
Tensor sign_(const Tensor& self, Where where) {
  return call1("sign_", {self}, where);
}
Tensor sgn_(const Tensor& self, Where where) {
  return call1("sgn_", {self}, where);
}
Tensor square_(const Tensor& self, Where where) {
  return call1("square_", {self}, where);
}
Tensor floor_(const Tensor& self, Where where) {
  return call1("floor_", {self}, where);
}
Tensor ceil_(const Tensor& self, Where where) {
  return call1("ceil_", {self}, where);
}
Tensor trunc_(const Tensor& self, Where where) {
  return call1("trunc_", {self}, where);
}
Tensor fix_(const Tensor& self, Where where) {
  return call1("fix_", {self}, where);
}
Tensor round_(const Tensor& self, Where where) {
  return call1("round_", {self}, where);
}
Tensor round_(const Tensor& self, const SymInt& decimals, Where where) {
  return call1("round_.decimals", {self, decimals.expr()}, where);
}
Tensor frac_(const Tensor& self, Where where) {
  return call1("frac_", {self}, where);
}
Tensor special_round_(const Tensor& self, const SymInt& decimals, Where where) {
  return call1("special_round_", {self, decimals.expr()}, where);
}
Tensor isnan_(const Tensor& self, Where where) {
  return call1("isnan_", {self}, where);
}
Tensor isinf_(const Tensor& self, Where where) {
  return call1("isinf_", {self}, where);
}
Tensor isfinite_(const Tensor& self, Where where) {
  return call1("isfinite_", {self}, where);
}
Tensor isreal_(const Tensor& self, Where where) {
  return call1("isreal_", {self}, where);
}
Tensor isposinf_(const Tensor& self, Where where) {
  return call1("isposinf_", {self}, where);
}
Tensor isneginf_(const Tensor& self, Where where) {
  return call1("isneginf_", {self}, where);
}
Tensor signbit_(const Tensor& self, Where where) {
  return call1("signbit_", {self}, where);
}
Tensor relu6_(const Tensor& self, Where where) {
  return call1("relu6_", {self}, where);
}
Tensor leaky_relu_(const Tensor& self, const Operand& negative_slope, Where where) {
  return call1("leaky_relu_", {self, number("leaky_relu_", "negative_slope", negative_slope)}, where);
}
Tensor elu_(const Tensor& self, const Operand& alpha, const Operand& scale, const Operand& input_scale, Where where) {
  return call1("elu_", {self, number("elu_", "alpha", alpha), number("elu_", "scale", scale), number("elu_", "input_scale", input_scale)}, where);
}
Tensor selu_(const Tensor& self, Where where) {
  return call1("selu_", {self}, where);
}
Tensor celu_(const Tensor& self, const Operand& alpha, Where where) {
  return call1("celu_", {self, number("celu_", "alpha", alpha)}, where);
}
Tensor threshold_(const Tensor& self, const Operand& threshold, const Operand& value, Where where) {
  return call1("threshold_", {self, number("threshold_", "threshold", threshold), number("threshold_", "value", value)}, where);
}
Tensor hardtanh_(const Tensor& self, const Operand& min_val, const Operand& max_val, Where where) {
  return call1("hardtanh_", {self, number("hardtanh_", "min_val", min_val), number("hardtanh_", "max_val", max_val)}, where);
}
Tensor gelu_(const Tensor& self, Word approximate, Where where) {
  return call1("gelu_", {self, std::string(approximate)}, where);
}
Tensor silu_(const Tensor& self, Where where) {
  return call1("silu_", {self}, where);
}
Tensor mish_(const Tensor& self, Where where) {
  return call1("mish_", {self}, where);
}
Tensor hardswish_(const Tensor& self, Where where) {
  return call1("hardswish_", {self}, where);
}
Tensor hardsigmoid_(const Tensor& self, Where where) {
  return call1("hardsigmoid_", {self}, where);
}
Tensor softplus_(const Tensor& self, const Operand& beta, const Operand& threshold, Where where) {
  return call1("softplus_", {self, number("softplus_", "beta", beta), number("softplus_", "threshold", threshold)}, where);
}
Tensor softshrink_(const Tensor& self, const Operand& lambd, Where where) {
  return call1("softshrink_", {self, number("softshrink_", "lambd", lambd)}, where);
}
Tensor hardshrink_(const Tensor& self, const Operand& lambd, Where where) {
  return call1("hardshrink_", {self, number("hardshrink_", "lambd", lambd)}, where);
}
Tensor log_sigmoid_(const Tensor& self, Where where) {
  return call1("log_sigmoid_", {self}, where);
}
Tensor clip_(const Tensor& self, const std::optional<Operand>& min, const std::optional<Operand>& max, Where where) {
  return call1("clip_", {self, number("clip_", "min", min), number("clip_", "max", max)}, where);
}
Tensor clip_(const Tensor& self, const Tensor& min, const Tensor& max, Where where) {
  return call1("clip_.Tensor", {self, maybe(min), maybe(max)}, where);
}
Tensor clamp_min_(const Tensor& self, const Operand& min, Where where) {
  return call1("clamp_min_.Tensor", {self, argument(min)}, where);
}
Tensor clamp_max_(const Tensor& self, const Operand& max, Where where) {
  return call1("clamp_max_.Tensor", {self, argument(max)}, where);
}
Tensor nan_to_num_(const Tensor& self, std::optional<double> nan, std::optional<double> posinf, std::optional<double> neginf, Where where) {
  return call1("nan_to_num_", {self, optional(nan), optional(posinf), optional(neginf)}, where);
}
Tensor lerp_(const Tensor& self, const Operand& end, const Operand& weight, Where where) {
  return call1("lerp_.Scalar", {self, argument(end), number("lerp_.Scalar", "weight", weight)}, where);
}
Tensor lerp_(const Tensor& self, const Tensor& end, const Tensor& weight, Where where) {
  return call1("lerp_.Tensor", {self, end, weight}, where);
}
Tensor clone_(const Tensor& self, Where where) {
  return call1("clone_", {self, std::monostate{}}, where);
}
Tensor lift_fresh_copy_(const Tensor& self, Where where) {
  return call1("lift_fresh_copy_", {self}, where);
}
Tensor fake_quantize_per_tensor_affine_(const Tensor& self, double scale, const SymInt& zero_point, const SymInt& quant_min, const SymInt& quant_max, Where where) {
  return call1("fake_quantize_per_tensor_affine_", {self, scale, zero_point.expr(), quant_min.expr(), quant_max.expr()}, where);
}
Tensor lgamma_(const Tensor& self, Where where) {
  return call1("lgamma_", {self}, where);
}
Tensor special_gammaln_(const Tensor& self, Where where) {
  return call1("special_gammaln_", {self}, where);
}
Tensor digamma_(const Tensor& self, Where where) {
  return call1("digamma_", {self}, where);
}
Tensor special_digamma_(const Tensor& self, Where where) {
  return call1("special_digamma_", {self}, where);
}
Tensor special_psi_(const Tensor& self, Where where) {
  return call1("special_psi_", {self}, where);
}
Tensor mvlgamma_(const Tensor& self, const SymInt& p, Where where) {
  return call1("mvlgamma_", {self, p.expr()}, where);
}
Tensor special_multigammaln_(const Tensor& self, const SymInt& p, Where where) {
  return call1("special_multigammaln_", {self, p.expr()}, where);
}
Tensor igamma_(const Tensor& self, const Operand& other, Where where) {
  return call1("igamma_", {self, argument(other)}, where);
}
Tensor special_gammainc_(const Tensor& self, const Operand& other, Where where) {
  return call1("special_gammainc_", {self, argument(other)}, where);
}
Tensor igammac_(const Tensor& self, const Operand& other, Where where) {
  return call1("igammac_", {self, argument(other)}, where);
}
Tensor special_gammaincc_(const Tensor& self, const Operand& other, Where where) {
  return call1("special_gammaincc_", {self, argument(other)}, where);
}
Tensor i0_(const Tensor& self, Where where) {
  return call1("i0_", {self}, where);
}
Tensor special_i0_(const Tensor& self, Where where) {
  return call1("special_i0_", {self}, where);
}
Tensor special_i0e_(const Tensor& self, Where where) {
  return call1("special_i0e_", {self}, where);
}
Tensor special_i1_(const Tensor& self, Where where) {
  return call1("special_i1_", {self}, where);
}
Tensor special_i1e_(const Tensor& self, Where where) {
  return call1("special_i1e_", {self}, where);
}
Tensor special_bessel_j0_(const Tensor& self, Where where) {
  return call1("special_bessel_j0_", {self}, where);
}
Tensor special_bessel_j1_(const Tensor& self, Where where) {
  return call1("special_bessel_j1_", {self}, where);
}
Tensor special_bessel_y0_(const Tensor& self, Where where) {
  return call1("special_bessel_y0_", {self}, where);
}
Tensor special_bessel_y1_(const Tensor& self, Where where) {
  return call1("special_bessel_y1_", {self}, where);
}
Tensor special_modified_bessel_i0_(const Tensor& self, Where where) {
  return call1("special_modified_bessel_i0_", {self}, where);
}
Tensor special_modified_bessel_i1_(const Tensor& self, Where where) {
  return call1("special_modified_bessel_i1_", {self}, where);
}
Tensor special_modified_bessel_k0_(const Tensor& self, Where where) {
  return call1("special_modified_bessel_k0_", {self}, where);
}
Tensor special_modified_bessel_k1_(const Tensor& self, Where where) {
  return call1("special_modified_bessel_k1_", {self}, where);
}
Tensor special_scaled_modified_bessel_k0_(const Tensor& self, Where where) {
  return call1("special_scaled_modified_bessel_k0_", {self}, where);
}
Tensor special_scaled_modified_bessel_k1_(const Tensor& self, Where where) {
  return call1("special_scaled_modified_bessel_k1_", {self}, where);
}
Tensor special_spherical_bessel_j0_(const Tensor& self, Where where) {
  return call1("special_spherical_bessel_j0_", {self}, where);
}
Tensor special_airy_ai_(const Tensor& self, Where where) {
  return call1("special_airy_ai_", {self}, where);
}
Tensor special_erfcx_(const Tensor& self, Where where) {
  return call1("special_erfcx_", {self}, where);
}
Tensor special_ndtri_(const Tensor& self, Where where) {
  return call1("special_ndtri_", {self}, where);
}
Tensor special_log_ndtr_(const Tensor& self, Where where) {
  return call1("special_log_ndtr_", {self}, where);
}
Tensor special_ndtr_(const Tensor& self, Where where) {
  return call1("special_ndtr_", {self}, where);
}
Tensor special_entr_(const Tensor& self, Where where) {
  return call1("special_entr_", {self}, where);
}
Tensor special_zeta_(const Tensor& self, const Operand& other, Where where) {
  return call1("special_zeta_", {self, argument(other)}, where);
}
Tensor special_xlog1py_(const Tensor& self, const Operand& other, Where where) {
  return call1("special_xlog1py_", {self, argument(other)}, where);
}
Tensor special_chebyshev_polynomial_t_(const Tensor& self, const Operand& n, Where where) {
  return call1("special_chebyshev_polynomial_t_", {self, argument(n)}, where);
}
Tensor special_chebyshev_polynomial_u_(const Tensor& self, const Operand& n, Where where) {
  return call1("special_chebyshev_polynomial_u_", {self, argument(n)}, where);
}
Tensor special_chebyshev_polynomial_v_(const Tensor& self, const Operand& n, Where where) {
  return call1("special_chebyshev_polynomial_v_", {self, argument(n)}, where);
}
Tensor special_chebyshev_polynomial_w_(const Tensor& self, const Operand& n, Where where) {
  return call1("special_chebyshev_polynomial_w_", {self, argument(n)}, where);
}
Tensor special_shifted_chebyshev_polynomial_t_(const Tensor& self, const Operand& n, Where where) {
  return call1("special_shifted_chebyshev_polynomial_t_", {self, argument(n)}, where);
}
Tensor special_shifted_chebyshev_polynomial_u_(const Tensor& self, const Operand& n, Where where) {
  return call1("special_shifted_chebyshev_polynomial_u_", {self, argument(n)}, where);
}
Tensor special_shifted_chebyshev_polynomial_v_(const Tensor& self, const Operand& n, Where where) {
  return call1("special_shifted_chebyshev_polynomial_v_", {self, argument(n)}, where);
}
Tensor special_shifted_chebyshev_polynomial_w_(const Tensor& self, const Operand& n, Where where) {
  return call1("special_shifted_chebyshev_polynomial_w_", {self, argument(n)}, where);
}
Tensor special_hermite_polynomial_h_(const Tensor& self, const Operand& n, Where where) {
  return call1("special_hermite_polynomial_h_", {self, argument(n)}, where);
}
Tensor special_hermite_polynomial_he_(const Tensor& self, const Operand& n, Where where) {
  return call1("special_hermite_polynomial_he_", {self, argument(n)}, where);
}
Tensor special_laguerre_polynomial_l_(const Tensor& self, const Operand& n, Where where) {
  return call1("special_laguerre_polynomial_l_", {self, argument(n)}, where);
}
Tensor special_legendre_polynomial_p_(const Tensor& self, const Operand& n, Where where) {
  return call1("special_legendre_polynomial_p_", {self, argument(n)}, where);
}
Tensor cumsum_(const Tensor& self, int64_t dim, std::optional<DType> dtype, Where where) {
  return call1("cumsum_", {self, Expr(dim), optional(dtype)}, where);
}
Tensor cumprod_(const Tensor& self, int64_t dim, std::optional<DType> dtype, Where where) {
  return call1("cumprod_", {self, Expr(dim), optional(dtype)}, where);
}
Tensor index_fill_(const Tensor& self, int64_t dim, const Tensor& index, const Operand& value, Where where) {
  return call1("index_fill_.int_Scalar", {self, Expr(dim), index, number("index_fill_.int_Scalar", "value", value)}, where);
}
Tensor index_fill_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& value, Where where) {
  return call1("index_fill_.int_Tensor", {self, Expr(dim), index, value}, where);
}
Tensor put_(const Tensor& self, const Tensor& index, const Tensor& source, bool accumulate, Where where) {
  return call1("put_", {self, index, source, accumulate}, where);
}
Tensor masked_scatter_(const Tensor& self, const Tensor& mask, const Tensor& source, Where where) {
  return call1("masked_scatter_", {self, mask, source}, where);
}
Tensor tril_(const Tensor& self, const SymInt& diagonal, Where where) {
  return call1("tril_", {self, diagonal.expr()}, where);
}
Tensor triu_(const Tensor& self, const SymInt& diagonal, Where where) {
  return call1("triu_", {self, diagonal.expr()}, where);
}
Tensor scatter_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, Where where) {
  return call1("scatter_.src", {self, Expr(dim), index, src}, where);
}
Tensor scatter_(const Tensor& self, int64_t dim, const Tensor& index, const Operand& value, Where where) {
  return call1("scatter_.value", {self, Expr(dim), index, number("scatter_.value", "value", value)}, where);
}
Tensor scatter_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, Word reduce, Where where) {
  return call1("scatter_.reduce", {self, Expr(dim), index, src, std::string(reduce)}, where);
}
Tensor scatter_(const Tensor& self, int64_t dim, const Tensor& index, const Operand& value, Word reduce, Where where) {
  return call1("scatter_.value_reduce", {self, Expr(dim), index, number("scatter_.value_reduce", "value", value), std::string(reduce)}, where);
}
Tensor scatter_reduce_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, Word reduce, bool include_self, Where where) {
  return call1("scatter_reduce_.two", {self, Expr(dim), index, src, std::string(reduce), include_self}, where);
}
Tensor index_reduce_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, Word reduce, bool include_self, Where where) {
  return call1("index_reduce_", {self, Expr(dim), index, source, std::string(reduce), include_self}, where);
}
Tensor addmm_(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Operand& beta, const Operand& alpha, Where where) {
  return call1("addmm_", {self, mat1, mat2, number("addmm_", "beta", beta), number("addmm_", "alpha", alpha)}, where);
}
Tensor baddbmm_(const Tensor& self, const Tensor& batch1, const Tensor& batch2, const Operand& beta, const Operand& alpha, Where where) {
  return call1("baddbmm_", {self, batch1, batch2, number("baddbmm_", "beta", beta), number("baddbmm_", "alpha", alpha)}, where);
}
Tensor addbmm_(const Tensor& self, const Tensor& batch1, const Tensor& batch2, const Operand& beta, const Operand& alpha, Where where) {
  return call1("addbmm_", {self, batch1, batch2, number("addbmm_", "beta", beta), number("addbmm_", "alpha", alpha)}, where);
}
Tensor addmv_(const Tensor& self, const Tensor& mat, const Tensor& vec, const Operand& beta, const Operand& alpha, Where where) {
  return call1("addmv_", {self, mat, vec, number("addmv_", "beta", beta), number("addmv_", "alpha", alpha)}, where);
}
Tensor addr_(const Tensor& self, const Tensor& vec1, const Tensor& vec2, const Operand& beta, const Operand& alpha, Where where) {
  return call1("addr_", {self, vec1, vec2, number("addr_", "beta", beta), number("addr_", "alpha", alpha)}, where);
}
Tensor renorm_(const Tensor& self, const Operand& p, int64_t dim, const Operand& maxnorm, Where where) {
  return call1("renorm_", {self, number("renorm_", "p", p), Expr(dim), number("renorm_", "maxnorm", maxnorm)}, where);
}
Tensor conj_physical_(const Tensor& self, Where where) {
  return call1("conj_physical_", {self}, where);
}
Tensor random_(const Tensor& self, const SymInt& from, const std::optional<SymInt>& to, Where where) {
  return call1("random_.from", {self, from.expr(), optional(to), std::monostate{}}, where);
}
Tensor random_(const Tensor& self, const SymInt& to, Where where) {
  return call1("random_.to", {self, to.expr(), std::monostate{}}, where);
}
Tensor bernoulli_(const Tensor& self, double p, Where where) {
  return call1("bernoulli_.float", {self, p, std::monostate{}}, where);
}
Tensor bernoulli_(const Tensor& self, const Tensor& p, Where where) {
  return call1("bernoulli_.Tensor", {self, p, std::monostate{}}, where);
}
Tensor normal_(const Tensor& self, double mean, double std, Where where) {
  return call1("normal_", {self, mean, std, std::monostate{}}, where);
}
Tensor log_normal_(const Tensor& self, double mean, double std, Where where) {
  return call1("log_normal_", {self, mean, std, std::monostate{}}, where);
}
Tensor uniform_(const Tensor& self, double from, double to, Where where) {
  return call1("uniform_", {self, from, to, std::monostate{}}, where);
}
Tensor exponential_(const Tensor& self, double lambd, Where where) {
  return call1("exponential_", {self, lambd, std::monostate{}}, where);
}
Tensor cauchy_(const Tensor& self, double median, double sigma, Where where) {
  return call1("cauchy_", {self, median, sigma, std::monostate{}}, where);
}
Tensor geometric_(const Tensor& self, double p, Where where) {
  return call1("geometric_", {self, p, std::monostate{}}, where);
}
Tensor dropout_(const Tensor& self, double p, bool train, Where where) {
  return call1("dropout_", {self, p, train}, where);
}
Tensor feature_dropout_(const Tensor& self, double p, bool train, Where where) {
  return call1("feature_dropout_", {self, p, train}, where);
}
Tensor alpha_dropout_(const Tensor& self, double p, bool train, Where where) {
  return call1("alpha_dropout_", {self, p, train}, where);
}
Tensor feature_alpha_dropout_(const Tensor& self, double p, bool train, Where where) {
  return call1("feature_alpha_dropout_", {self, p, train}, where);
}
Tensor rrelu_(const Tensor& self, const Operand& lower, const Operand& upper, bool training, Where where) {
  return call1("rrelu_", {self, number("rrelu_", "lower", lower), number("rrelu_", "upper", upper), training, std::monostate{}}, where);
}

}  // namespace toroid
// clang-format on
