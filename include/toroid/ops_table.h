// The operations of the table that toroid/ops.h does not declare by hand, under their PyTorch names; toroid/ops.h includes it.
// Generated from the operation table by tests/ops/generate.cpp (scripts/generate.sh); do not edit.
#pragma once

#include <limits>
#include <tuple>

#include "toroid/ops_arguments.h"

// clang-format off
namespace toroid {

// self - alpha * other, broadcast.
Tensor subtract(const Operand& self, const Operand& other, const Operand& alpha = 1, Where where = Where::current());
// other - alpha * self, broadcast.
Tensor rsub(const Operand& self, const Operand& other, const Operand& alpha = 1, Where where = Where::current());
// The product of the elements, broadcast.
Tensor multiply(const Operand& self, const Operand& other, Where where = Where::current());
// The quotient of the elements; integers give floats unless rounding_mode is "trunc" or "floor".
Tensor divide(const Operand& self, const Operand& other, Where where = Where::current());
Tensor divide(const Tensor& self, const Tensor& other, std::optional<Word> rounding_mode = {}, Where where = Where::current());
Tensor divide(const Tensor& self, const Operand& other, std::optional<Word> rounding_mode = {}, Where where = Where::current());
// The quotient of the elements; integers give floats unless rounding_mode is "trunc" or "floor".
Tensor true_divide(const Operand& self, const Operand& other, Where where = Where::current());
// The quotient of the elements; integers give floats unless rounding_mode is "trunc" or "floor".
Tensor div(const Tensor& self, const Tensor& other, std::optional<Word> rounding_mode, Where where = Where::current());
Tensor div(const Tensor& self, const Operand& other, std::optional<Word> rounding_mode, Where where = Where::current());
// The remainder of the division, with the sign of the dividend.
Tensor fmod(const Operand& self, const Operand& other, Where where = Where::current());
// The power, computed in double precision.
Tensor float_power(const Tensor& self, const Tensor& exponent, Where where = Where::current());
Tensor float_power(const Tensor& self, const Operand& exponent, Where where = Where::current());
Tensor float_power(const Operand& self, const Tensor& exponent, Where where = Where::current());
// self * 2 ** other.
Tensor ldexp(const Tensor& self, const Tensor& other, Where where = Where::current());
// The larger of two elements; where one is NaN, the other.
Tensor fmax(const Operand& self, const Operand& other, Where where = Where::current());
// The smaller of two elements; where one is NaN, the other.
Tensor fmin(const Operand& self, const Operand& other, Where where = Where::current());
// The angle of the point (other, self) in radians, in (-pi, pi].
Tensor arctan2(const Operand& self, const Operand& other, Where where = Where::current());
// sqrt(self ** 2 + other ** 2) without overflow.
Tensor hypot(const Operand& self, const Operand& other, Where where = Where::current());
// The magnitude of self with the sign of other.
Tensor copysign(const Operand& self, const Operand& other, Where where = Where::current());
// The next representable value after self towards other.
Tensor nextafter(const Operand& self, const Operand& other, Where where = Where::current());
// 0 where self is negative, 1 where it is positive, and values where it is zero.
Tensor heaviside(const Operand& self, const Operand& values, Where where = Where::current());
// self * log(other), and 0 where self is 0.
Tensor xlogy(const Operand& self, const Operand& other, Where where = Where::current());
// self * log(other), and 0 where self is 0.
Tensor special_xlogy(const Operand& self, const Operand& other, Where where = Where::current());
// log(exp(self) + exp(other)) without overflow.
Tensor logaddexp(const Operand& self, const Operand& other, Where where = Where::current());
// log2(2 ** self + 2 ** other) without overflow.
Tensor logaddexp2(const Operand& self, const Operand& other, Where where = Where::current());
// The greatest common divisor of integers.
Tensor gcd(const Operand& self, const Operand& other, Where where = Where::current());
// The least common multiple of integers.
Tensor lcm(const Operand& self, const Operand& other, Where where = Where::current());
// Whether the elements differ, as Bool.
Tensor not_equal(const Operand& self, const Operand& other, Where where = Where::current());
// Whether self < other, as Bool.
Tensor less(const Operand& self, const Operand& other, Where where = Where::current());
// Whether self <= other, as Bool.
Tensor less_equal(const Operand& self, const Operand& other, Where where = Where::current());
// Whether self > other, as Bool.
Tensor greater(const Operand& self, const Operand& other, Where where = Where::current());
// Whether self >= other, as Bool.
Tensor greater_equal(const Operand& self, const Operand& other, Where where = Where::current());
// The bitwise and of integers or Bool.
Tensor bitwise_and(const Operand& self, const Operand& other, Where where = Where::current());
// The bitwise or of integers or Bool.
Tensor bitwise_or(const Operand& self, const Operand& other, Where where = Where::current());
// The bitwise exclusive or of integers or Bool.
Tensor bitwise_xor(const Operand& self, const Operand& other, Where where = Where::current());
// self shifted left by other bits.
Tensor bitwise_left_shift(const Operand& self, const Operand& other, Where where = Where::current());
// self shifted right by other bits; the sign is kept.
Tensor bitwise_right_shift(const Operand& self, const Operand& other, Where where = Where::current());
// Whether abs(self - other) <= atol + rtol * abs(other).
Tensor isclose(const Operand& self, const Operand& other, double rtol = 1e-05, double atol = 1e-08, bool equal_nan = false, Where where = Where::current());
// 2 to the power of self.
Tensor special_exp2(const Tensor& self, Where where = Where::current());
// exp(self) - 1, exact near 0.
Tensor special_expm1(const Tensor& self, Where where = Where::current());
// log(1 + self), exact near 0.
Tensor special_log1p(const Tensor& self, Where where = Where::current());
// The inverse sine, in radians.
Tensor arcsin(const Tensor& self, Where where = Where::current());
// The inverse cosine, in radians.
Tensor arccos(const Tensor& self, Where where = Where::current());
// The inverse tangent, in radians.
Tensor arctan(const Tensor& self, Where where = Where::current());
// The inverse hyperbolic sine.
Tensor asinh(const Tensor& self, Where where = Where::current());
// The inverse hyperbolic sine.
Tensor arcsinh(const Tensor& self, Where where = Where::current());
// The inverse hyperbolic cosine.
Tensor acosh(const Tensor& self, Where where = Where::current());
// The inverse hyperbolic cosine.
Tensor arccosh(const Tensor& self, Where where = Where::current());
// The inverse hyperbolic tangent.
Tensor atanh(const Tensor& self, Where where = Where::current());
// The inverse hyperbolic tangent.
Tensor arctanh(const Tensor& self, Where where = Where::current());
// 1 / (1 + exp(-self)).
Tensor special_expit(const Tensor& self, Where where = Where::current());
// The error function.
Tensor special_erf(const Tensor& self, Where where = Where::current());
// 1 - erf(self), exact for large arguments.
Tensor special_erfc(const Tensor& self, Where where = Where::current());
// The inverse of the error function on (-1, 1).
Tensor erfinv(const Tensor& self, Where where = Where::current());
// The inverse of the error function on (-1, 1).
Tensor special_erfinv(const Tensor& self, Where where = Where::current());
// Degrees as radians.
Tensor deg2rad(const Tensor& self, Where where = Where::current());
// Radians as degrees.
Tensor rad2deg(const Tensor& self, Where where = Where::current());
// sin(pi * self) / (pi * self), and 1 at 0.
Tensor sinc(const Tensor& self, Where where = Where::current());
// sin(pi * self) / (pi * self), and 1 at 0.
Tensor special_sinc(const Tensor& self, Where where = Where::current());
// log(self / (1 - self)); with eps, self is clamped to [eps, 1 - eps] first.
Tensor logit(const Tensor& self, std::optional<double> eps = {}, Where where = Where::current());
// log(self / (1 - self)); with eps, self is clamped to [eps, 1 - eps] first.
Tensor special_logit(const Tensor& self, std::optional<double> eps = {}, Where where = Where::current());
// The gradient of logit: grad_output / (self * (1 - self)), and 0 where eps clamps self.
Tensor logit_backward(const Operand& grad_output, const Operand& self, std::optional<double> eps = {}, Where where = Where::current());
// -self.
Tensor negative(const Tensor& self, Where where = Where::current());
// The absolute value; of complex numbers the magnitude.
Tensor absolute(const Tensor& self, Where where = Where::current());
// The argument of complex numbers in radians; of reals 0, or pi where they are negative.
Tensor angle(const Tensor& self, Where where = Where::current());
// The sign; of complex numbers self / abs(self), and 0 at 0.
Tensor sgn(const Tensor& self, Where where = Where::current());
// self as it is.
Tensor positive(const Tensor& self, Where where = Where::current());
// self rounded towards zero.
Tensor fix(const Tensor& self, Where where = Where::current());
// self - trunc(self).
Tensor frac(const Tensor& self, Where where = Where::current());
// self rounded to the nearest integer, halves to even; with decimals, to that many decimal places.
Tensor round(const Tensor& self, const SymInt& decimals, Where where = Where::current());
// self rounded to the nearest integer, halves to even; with decimals, to that many decimal places.
Tensor special_round(const Tensor& self, const SymInt& decimals = 0, Where where = Where::current());
// Whether the imaginary part is 0.
Tensor isreal(const Tensor& self, Where where = Where::current());
// Whether the element is positive infinity.
Tensor isposinf(const Tensor& self, Where where = Where::current());
// Whether the element is negative infinity.
Tensor isneginf(const Tensor& self, Where where = Where::current());
// Whether the sign bit is set.
Tensor signbit(const Tensor& self, Where where = Where::current());
// Mantissas in [0.5, 1) and integer exponents: self = mantissa * 2 ** exponent.
std::pair<Tensor, Tensor> frexp(const Tensor& self, Where where = Where::current());
// self where it is positive, weight * self elsewhere; weight has one element or one for each channel.
Tensor prelu(const Tensor& self, const Tensor& weight, Where where = Where::current());
// self where it is positive, alpha * (exp(self / alpha) - 1) elsewhere.
Tensor celu(const Tensor& self, const Operand& alpha = 1, Where where = Where::current());
// self where it is above the threshold, value elsewhere.
Tensor threshold(const Tensor& self, const Operand& threshold, const Operand& value, Where where = Where::current());
// The gradient of gelu by self.
Tensor gelu_backward(const Operand& grad_output, const Operand& self, Word approximate = "none", Where where = Where::current());
// self moved towards 0 by lambd, and 0 within [-lambd, lambd].
Tensor softshrink(const Tensor& self, const Operand& lambd = 0.5, Where where = Where::current());
// self, and 0 within [-lambd, lambd].
Tensor hardshrink(const Tensor& self, const Operand& lambd = 0.5, Where where = Where::current());
// log(sigmoid(self)), and a buffer for its gradient.
std::pair<Tensor, Tensor> log_sigmoid_forward(const Tensor& self, Where where = Where::current());
// self, with value where mask holds.
Tensor masked_fill(const Tensor& self, const Tensor& mask, const Tensor& value, Where where = Where::current());
// self limited to [min, max]; a limit that is absent does not count.
Tensor clamp(const Tensor& self, const Tensor& min, const Tensor& max, Where where = Where::current());
// self limited to [min, max]; a limit that is absent does not count.
Tensor clip(const Tensor& self, const std::optional<Operand>& min = {}, const std::optional<Operand>& max = {}, Where where = Where::current());
Tensor clip(const Tensor& self, const Tensor& min, const Tensor& max = {}, Where where = Where::current());
// max(self, min).
Tensor clamp_min(const Operand& self, const Operand& min, Where where = Where::current());
// min(self, max).
Tensor clamp_max(const Operand& self, const Operand& max, Where where = Where::current());
// self with the dtype of other.
Tensor type_as(const Tensor& self, const Tensor& other, Where where = Where::current());
// self; a constant enters a traced graph.
Tensor lift_fresh(const Tensor& self, Where where = Where::current());
// A tensor of self's sizes and dtype with every element the value.
Tensor fill(const Operand& self, const Operand& value, Where where = Where::current());
// A tensor of self's sizes and dtype with every element 0.
Tensor zero(const Tensor& self, Where where = Where::current());
// Asserts that a size lies in [min, max].
void sym_constrain_range(const Operand& size, const std::optional<SymInt>& min = {}, const std::optional<SymInt>& max = {}, Where where = Where::current());
// Asserts that a size lies in [min, max].
void sym_constrain_range_for_size(const Operand& size, const std::optional<SymInt>& min = {}, const std::optional<SymInt>& max = {}, Where where = Where::current());
// (clamp(round(self / scale) + zero_point, quant_min, quant_max) - zero_point) * scale; its gradient is 1 where nothing was clamped, else 0, and none goes to scale and zero point.
Tensor fake_quantize_per_tensor_affine(const Tensor& self, double scale, const SymInt& zero_point, const SymInt& quant_min, const SymInt& quant_max, Where where = Where::current());
Tensor fake_quantize_per_tensor_affine(const Tensor& self, const Tensor& scale, const Tensor& zero_point, const SymInt& quant_min, const SymInt& quant_max, Where where = Where::current());
// self as integers would keep it, by a scale and a zero point of each index along axis; see fake_quantize_per_tensor_affine.
Tensor fake_quantize_per_channel_affine(const Tensor& self, const Tensor& scale, const Tensor& zero_point, int64_t axis, const SymInt& quant_min, const SymInt& quant_max, Where where = Where::current());
// fake_quantize_per_tensor_affine, and where its gradient is 1.
std::pair<Tensor, Tensor> fake_quantize_per_tensor_affine_cachemask(const Tensor& self, double scale, const SymInt& zero_point, const SymInt& quant_min, const SymInt& quant_max, Where where = Where::current());
// fake_quantize_per_channel_affine, and where its gradient is 1.
std::pair<Tensor, Tensor> fake_quantize_per_channel_affine_cachemask(const Tensor& self, const Tensor& scale, const Tensor& zero_point, int64_t axis, const SymInt& quant_min, const SymInt& quant_max, Where where = Where::current());
// The logarithm of the absolute value of the gamma function.
Tensor special_gammaln(const Tensor& self, Where where = Where::current());
// The derivative of lgamma.
Tensor digamma(const Tensor& self, Where where = Where::current());
// The derivative of lgamma.
Tensor special_digamma(const Tensor& self, Where where = Where::current());
// The derivative of lgamma.
Tensor special_psi(const Tensor& self, Where where = Where::current());
// The n-th derivative of digamma.
Tensor polygamma(const SymInt& n, const Tensor& self, Where where = Where::current());
// The n-th derivative of digamma.
Tensor special_polygamma(const SymInt& n, const Tensor& self, Where where = Where::current());
// The logarithm of the multivariate gamma function of dimension p.
Tensor mvlgamma(const Tensor& self, const SymInt& p, Where where = Where::current());
// The logarithm of the multivariate gamma function of dimension p.
Tensor special_multigammaln(const Tensor& self, const SymInt& p, Where where = Where::current());
// The regularized lower incomplete gamma function.
Tensor igamma(const Operand& self, const Operand& other, Where where = Where::current());
// The regularized lower incomplete gamma function.
Tensor special_gammainc(const Operand& self, const Operand& other, Where where = Where::current());
// The regularized upper incomplete gamma function.
Tensor igammac(const Operand& self, const Operand& other, Where where = Where::current());
// The regularized upper incomplete gamma function.
Tensor special_gammaincc(const Operand& self, const Operand& other, Where where = Where::current());
// The modified Bessel function of the first kind of order 0.
Tensor i0(const Tensor& self, Where where = Where::current());
// The modified Bessel function of the first kind of order 0.
Tensor special_i0(const Tensor& self, Where where = Where::current());
// i0 times exp(-abs(self)).
Tensor special_i0e(const Tensor& self, Where where = Where::current());
// The modified Bessel function of the first kind of order 1.
Tensor special_i1(const Tensor& self, Where where = Where::current());
// special_i1 times exp(-abs(self)).
Tensor special_i1e(const Tensor& self, Where where = Where::current());
// The Bessel function of the first kind of order 0.
Tensor special_bessel_j0(const Tensor& self, Where where = Where::current());
// The Bessel function of the first kind of order 1.
Tensor special_bessel_j1(const Tensor& self, Where where = Where::current());
// The Bessel function of the second kind of order 0.
Tensor special_bessel_y0(const Tensor& self, Where where = Where::current());
// The Bessel function of the second kind of order 1.
Tensor special_bessel_y1(const Tensor& self, Where where = Where::current());
// The modified Bessel function of the first kind of order 0.
Tensor special_modified_bessel_i0(const Tensor& self, Where where = Where::current());
// The modified Bessel function of the first kind of order 1.
Tensor special_modified_bessel_i1(const Tensor& self, Where where = Where::current());
// The modified Bessel function of the second kind of order 0.
Tensor special_modified_bessel_k0(const Tensor& self, Where where = Where::current());
// The modified Bessel function of the second kind of order 1.
Tensor special_modified_bessel_k1(const Tensor& self, Where where = Where::current());
// exp(x) times the modified Bessel function of the second kind of order 0.
Tensor special_scaled_modified_bessel_k0(const Tensor& x, Where where = Where::current());
// exp(x) times the modified Bessel function of the second kind of order 1.
Tensor special_scaled_modified_bessel_k1(const Tensor& x, Where where = Where::current());
// The spherical Bessel function of the first kind of order 0: sin(x) / x.
Tensor special_spherical_bessel_j0(const Tensor& x, Where where = Where::current());
// The Airy function Ai.
Tensor special_airy_ai(const Tensor& x, Where where = Where::current());
// exp(self ** 2) * erfc(self).
Tensor special_erfcx(const Tensor& self, Where where = Where::current());
// The inverse of the normal distribution function.
Tensor special_ndtri(const Tensor& self, Where where = Where::current());
// The logarithm of the normal distribution function.
Tensor special_log_ndtr(const Tensor& self, Where where = Where::current());
// The normal distribution function.
Tensor special_ndtr(const Tensor& self, Where where = Where::current());
// -self * log(self), 0 at 0 and negative infinity below.
Tensor special_entr(const Tensor& self, Where where = Where::current());
// The Hurwitz zeta function of exponent self and offset other.
Tensor special_zeta(const Operand& self, const Operand& other, Where where = Where::current());
// self * log1p(other), and 0 where self is 0.
Tensor special_xlog1py(const Operand& self, const Operand& other, Where where = Where::current());
// The Chebyshev polynomial of the first kind of degree n at x.
Tensor special_chebyshev_polynomial_t(const Operand& x, const Operand& n, Where where = Where::current());
// The Chebyshev polynomial of the second kind of degree n at x.
Tensor special_chebyshev_polynomial_u(const Operand& x, const Operand& n, Where where = Where::current());
// The Chebyshev polynomial of the third kind of degree n at x.
Tensor special_chebyshev_polynomial_v(const Operand& x, const Operand& n, Where where = Where::current());
// The Chebyshev polynomial of the fourth kind of degree n at x.
Tensor special_chebyshev_polynomial_w(const Operand& x, const Operand& n, Where where = Where::current());
// The Chebyshev polynomial of the first kind of degree n at 2 * x - 1.
Tensor special_shifted_chebyshev_polynomial_t(const Operand& x, const Operand& n, Where where = Where::current());
// The Chebyshev polynomial of the second kind of degree n at 2 * x - 1.
Tensor special_shifted_chebyshev_polynomial_u(const Operand& x, const Operand& n, Where where = Where::current());
// The Chebyshev polynomial of the third kind of degree n at 2 * x - 1.
Tensor special_shifted_chebyshev_polynomial_v(const Operand& x, const Operand& n, Where where = Where::current());
// The Chebyshev polynomial of the fourth kind of degree n at 2 * x - 1.
Tensor special_shifted_chebyshev_polynomial_w(const Operand& x, const Operand& n, Where where = Where::current());
// The physicist's Hermite polynomial of degree n at x.
Tensor special_hermite_polynomial_h(const Operand& x, const Operand& n, Where where = Where::current());
// The probabilist's Hermite polynomial of degree n at x.
Tensor special_hermite_polynomial_he(const Operand& x, const Operand& n, Where where = Where::current());
// The Laguerre polynomial of degree n at x.
Tensor special_laguerre_polynomial_l(const Operand& x, const Operand& n, Where where = Where::current());
// The Legendre polynomial of degree n at x.
Tensor special_legendre_polynomial_p(const Operand& x, const Operand& n, Where where = Where::current());
// A view of all elements.
Tensor alias(const Tensor& self, Where where = Where::current());
// The same elements under other sizes (or another dtype of the same bits), without a copy.
Tensor view(const Tensor& self, DType dtype, Where where = Where::current());
// self under the sizes of other, without a copy.
Tensor view_as(const Tensor& self, const Tensor& other, Where where = Where::current());
// self under the sizes of other.
Tensor reshape_as(const Tensor& self, const Tensor& other, Where where = Where::current());
// All elements in one dimension.
Tensor ravel(const Tensor& self, Where where = Where::current());
// self with at least one dimension.
Tensor atleast_1d(const Tensor& self, Where where = Where::current());
// self with at least two dimensions.
Tensor atleast_2d(const Tensor& self, Where where = Where::current());
// self with at least three dimensions.
Tensor atleast_3d(const Tensor& self, Where where = Where::current());
// self under other sizes; elements beyond the old ones are unspecified.
Tensor resize(const Tensor& self, const SizeList& size, Where where = Where::current());
// src with the dtype and sizes of self.
Tensor copy(const Tensor& self, const Tensor& src, bool non_blocking = false, Where where = Where::current());
// The diagonal of the last two dimensions (or of those given), as the last dimension.
Tensor linalg_diagonal(const Tensor& self, const SymInt& offset = 0, int64_t dim1 = -2, int64_t dim2 = -1, Where where = Where::current());
// All windows of size elements along a dimension, step apart; the windows are the last dimension.
Tensor unfold(const Tensor& self, int64_t dimension, const SymInt& size, const SymInt& step, Where where = Where::current());
// A view with the given sizes, strides and offset, in elements.
Tensor as_strided(const Tensor& self, const SizeList& size, const SizeList& stride, const std::optional<SymInt>& storage_offset = {}, Where where = Where::current());
// Pieces along dim: so many of nearly equal size, or cut at the given indices.
std::vector<Tensor> tensor_split(const Tensor& self, const SymInt& sections, int64_t dim = 0, Where where = Where::current());
std::vector<Tensor> tensor_split(const Tensor& self, const std::vector<SymInt>& indices, int64_t dim = 0, Where where = Where::current());
inline std::vector<Tensor> tensor_split(const Tensor& self, std::initializer_list<SymInt> indices, int64_t dim = 0, Where where = Where::current()) { return tensor_split(self, std::vector<SymInt>(indices), dim, where); }
// tensor_split along dimension 1 (0 for one dimension).
std::vector<Tensor> hsplit(const Tensor& self, const std::vector<SymInt>& indices, Where where = Where::current());
inline std::vector<Tensor> hsplit(const Tensor& self, std::initializer_list<SymInt> indices, Where where = Where::current()) { return hsplit(self, std::vector<SymInt>(indices), where); }
std::vector<Tensor> hsplit(const Tensor& self, const SymInt& sections, Where where = Where::current());
// tensor_split along dimension 0.
std::vector<Tensor> vsplit(const Tensor& self, const std::vector<SymInt>& indices, Where where = Where::current());
inline std::vector<Tensor> vsplit(const Tensor& self, std::initializer_list<SymInt> indices, Where where = Where::current()) { return vsplit(self, std::vector<SymInt>(indices), where); }
std::vector<Tensor> vsplit(const Tensor& self, const SymInt& sections, Where where = Where::current());
// tensor_split along dimension 2.
std::vector<Tensor> dsplit(const Tensor& self, const std::vector<SymInt>& indices, Where where = Where::current());
inline std::vector<Tensor> dsplit(const Tensor& self, std::initializer_list<SymInt> indices, Where where = Where::current()) { return dsplit(self, std::vector<SymInt>(indices), where); }
std::vector<Tensor> dsplit(const Tensor& self, const SymInt& sections, Where where = Where::current());
// Two dimensions swapped.
Tensor swapdims(const Tensor& self, int64_t dim0, int64_t dim1, Where where = Where::current());
// Two dimensions swapped.
Tensor swapaxes(const Tensor& self, int64_t axis0, int64_t axis1, Where where = Where::current());
// The dimensions in reverse order.
Tensor numpy_T(const Tensor& self, Where where = Where::current());
// The last two dimensions swapped.
Tensor mT(const Tensor& self, Where where = Where::current());
// Dimensions moved from source to destination; the others keep their order.
Tensor movedim(const Tensor& self, int64_t source, int64_t destination, Where where = Where::current());
Tensor movedim_intlist(const Tensor& self, const Dims& source, const Dims& destination, Where where = Where::current());
// Dimensions moved from source to destination; the others keep their order.
Tensor moveaxis(const Tensor& self, int64_t source, int64_t destination, Where where = Where::current());
Tensor moveaxis_intlist(const Tensor& self, const Dims& source, const Dims& destination, Where where = Where::current());
// The conjugate of the matrix with the last two dimensions swapped.
Tensor adjoint(const Tensor& self, Where where = Where::current());
// The conjugate of the matrix with the last two dimensions swapped.
Tensor mH(const Tensor& self, Where where = Where::current());
// The conjugate of the matrix with the last two dimensions swapped.
Tensor matrix_H(const Tensor& self, Where where = Where::current());
// Dimensions of size 1 repeated to the given sizes, without a copy; -1 keeps a size.
Tensor broadcast_to(const Tensor& self, const SizeList& size, Where where = Where::current());
// self expanded to the sizes of other.
Tensor expand_as(const Tensor& self, const Tensor& other, Where where = Where::current());
// The order reversed along dimension 1.
Tensor fliplr(const Tensor& self, Where where = Where::current());
// The order reversed along dimension 0.
Tensor flipud(const Tensor& self, Where where = Where::current());
// The tensor repeated along each dimension.
Tensor tile(const Tensor& self, const Dims& dims, Where where = Where::current());
// Padded by the elements mirrored at the edge; widths from the last dimension backwards.
Tensor reflection_pad1d(const Tensor& self, const SizeList& padding, Where where = Where::current());
// Padded by the edge's elements; widths from the last dimension backwards.
Tensor replication_pad1d(const Tensor& self, const SizeList& padding, Where where = Where::current());
// Padded by the elements mirrored at the edge; widths from the last dimension backwards.
Tensor reflection_pad2d(const Tensor& self, const SizeList& padding, Where where = Where::current());
// Padded by the edge's elements; widths from the last dimension backwards.
Tensor replication_pad2d(const Tensor& self, const SizeList& padding, Where where = Where::current());
// Padded by the elements mirrored at the edge; widths from the last dimension backwards.
Tensor reflection_pad3d(const Tensor& self, const SizeList& padding, Where where = Where::current());
// Padded by the edge's elements; widths from the last dimension backwards.
Tensor replication_pad3d(const Tensor& self, const SizeList& padding, Where where = Where::current());
// Rotated by k quarter turns in the plane of two dimensions.
Tensor rot90(const Tensor& self, const SymInt& k = 1, const Dims& dims = {0, 1}, Where where = Where::current());
// self with src at index along dim.
Tensor select_scatter(const Tensor& self, const Tensor& src, int64_t dim, const SymInt& index, Where where = Where::current());
// self with src at the slice along dim.
Tensor slice_scatter(const Tensor& self, const Tensor& src, int64_t dim = 0, const std::optional<SymInt>& start = {}, const std::optional<SymInt>& end = {}, const SymInt& step = 1, Where where = Where::current());
// self with src on the diagonal.
Tensor diagonal_scatter(const Tensor& self, const Tensor& src, const SymInt& offset = 0, int64_t dim1 = 0, int64_t dim2 = 1, Where where = Where::current());
// self with src at the strided view.
Tensor as_strided_scatter(const Tensor& self, const Tensor& src, const SizeList& size, const SizeList& stride, const std::optional<SymInt>& storage_offset = {}, Where where = Where::current());
// As self, with every element fill_value.
Tensor new_full(const Tensor& self, const SizeList& size, const Operand& fill_value, std::optional<DType> dtype = {}, std::optional<bool> pin_memory = {}, Where where = Where::current());
// A new tensor whose elements are unspecified.
Tensor empty(const SizeList& size, std::optional<DType> dtype = {}, std::optional<Device> device = {}, std::optional<bool> pin_memory = {}, Where where = Where::current());
// A new tensor whose elements are unspecified.
Tensor empty_strided(const SizeList& size, const SizeList& stride, std::optional<DType> dtype = {}, std::optional<Device> device = {}, std::optional<bool> pin_memory = {}, Where where = Where::current());
// A new tensor whose elements are unspecified.
Tensor empty_permuted(const SizeList& size, const SizeList& physical_layout, std::optional<DType> dtype = {}, std::optional<Device> device = {}, std::optional<bool> pin_memory = {}, Where where = Where::current());
// As self, with every element 0.
Tensor new_zeros(const Tensor& self, const SizeList& size, std::optional<DType> dtype = {}, std::optional<bool> pin_memory = {}, Where where = Where::current());
// As self, with unspecified elements.
Tensor new_empty(const Tensor& self, const SizeList& size, std::optional<DType> dtype = {}, std::optional<bool> pin_memory = {}, Where where = Where::current());
// As self, with unspecified elements.
Tensor new_empty_strided(const Tensor& self, const SizeList& size, const SizeList& stride, std::optional<DType> dtype = {}, std::optional<bool> pin_memory = {}, Where where = Where::current());
// As self, with every element 1.
Tensor new_ones(const Tensor& self, const SizeList& size, std::optional<DType> dtype = {}, std::optional<bool> pin_memory = {}, Where where = Where::current());
// steps numbers from start to end, evenly spaced.
Tensor linspace(const Operand& start, const Operand& end, const SymInt& steps, std::optional<DType> dtype = {}, std::optional<Device> device = {}, std::optional<bool> pin_memory = {}, Where where = Where::current());
Tensor linspace(const Tensor& start, const Tensor& end, const SymInt& steps, std::optional<DType> dtype = {}, std::optional<bool> pin_memory = {}, Where where = Where::current());
Tensor linspace(const Tensor& start, const Operand& end, const SymInt& steps, std::optional<DType> dtype = {}, std::optional<bool> pin_memory = {}, Where where = Where::current());
Tensor linspace(const Operand& start, const Tensor& end, const SymInt& steps, std::optional<DType> dtype = {}, std::optional<bool> pin_memory = {}, Where where = Where::current());
// base to the powers that linspace gives.
Tensor logspace(const Operand& start, const Operand& end, const SymInt& steps, double base = 10, std::optional<DType> dtype = {}, std::optional<Device> device = {}, std::optional<bool> pin_memory = {}, Where where = Where::current());
Tensor logspace(const Tensor& start, const Tensor& end, const SymInt& steps, double base = 10, std::optional<DType> dtype = {}, std::optional<bool> pin_memory = {}, Where where = Where::current());
Tensor logspace(const Tensor& start, const Operand& end, const SymInt& steps, double base = 10, std::optional<DType> dtype = {}, std::optional<bool> pin_memory = {}, Where where = Where::current());
Tensor logspace(const Operand& start, const Tensor& end, const SymInt& steps, double base = 10, std::optional<DType> dtype = {}, std::optional<bool> pin_memory = {}, Where where = Where::current());
// The indices [2, count] of a matrix's lower triangle.
Tensor tril_indices(const SymInt& row, const SymInt& col, const SymInt& offset = 0, std::optional<DType> dtype = {}, std::optional<Device> device = {}, std::optional<bool> pin_memory = {}, Where where = Where::current());
// The indices [2, count] of a matrix's upper triangle.
Tensor triu_indices(const SymInt& row, const SymInt& col, const SymInt& offset = 0, std::optional<DType> dtype = {}, std::optional<Device> device = {}, std::optional<bool> pin_memory = {}, Where where = Where::current());
// The Hann window.
Tensor hann_window(const SymInt& window_length, std::optional<DType> dtype = {}, std::optional<Device> device = {}, std::optional<bool> pin_memory = {}, Where where = Where::current());
Tensor hann_window(const SymInt& window_length, bool periodic, std::optional<DType> dtype = {}, std::optional<Device> device = {}, std::optional<bool> pin_memory = {}, Where where = Where::current());
// The Hamming window.
Tensor hamming_window(const SymInt& window_length, std::optional<DType> dtype = {}, std::optional<Device> device = {}, std::optional<bool> pin_memory = {}, Where where = Where::current());
Tensor hamming_window(const SymInt& window_length, bool periodic, std::optional<DType> dtype = {}, std::optional<Device> device = {}, std::optional<bool> pin_memory = {}, Where where = Where::current());
Tensor hamming_window(const SymInt& window_length, bool periodic, double alpha, std::optional<DType> dtype = {}, std::optional<Device> device = {}, std::optional<bool> pin_memory = {}, Where where = Where::current());
Tensor hamming_window(const SymInt& window_length, bool periodic, double alpha, double beta, std::optional<DType> dtype = {}, std::optional<Device> device = {}, std::optional<bool> pin_memory = {}, Where where = Where::current());
// The Blackman window.
Tensor blackman_window(const SymInt& window_length, std::optional<DType> dtype = {}, std::optional<Device> device = {}, std::optional<bool> pin_memory = {}, Where where = Where::current());
Tensor blackman_window(const SymInt& window_length, bool periodic, std::optional<DType> dtype = {}, std::optional<Device> device = {}, std::optional<bool> pin_memory = {}, Where where = Where::current());
// The triangular Bartlett window.
Tensor bartlett_window(const SymInt& window_length, std::optional<DType> dtype = {}, std::optional<Device> device = {}, std::optional<bool> pin_memory = {}, Where where = Where::current());
Tensor bartlett_window(const SymInt& window_length, bool periodic, std::optional<DType> dtype = {}, std::optional<Device> device = {}, std::optional<bool> pin_memory = {}, Where where = Where::current());
// The Kaiser window of shape beta.
Tensor kaiser_window(const SymInt& window_length, std::optional<DType> dtype = {}, std::optional<Device> device = {}, std::optional<bool> pin_memory = {}, Where where = Where::current());
Tensor kaiser_window(const SymInt& window_length, bool periodic, std::optional<DType> dtype = {}, std::optional<Device> device = {}, std::optional<bool> pin_memory = {}, Where where = Where::current());
Tensor kaiser_window(const SymInt& window_length, bool periodic, double beta, std::optional<DType> dtype = {}, std::optional<Device> device = {}, std::optional<bool> pin_memory = {}, Where where = Where::current());
// The frequencies of fft's n results for sample spacing d.
Tensor fft_fftfreq(const SymInt& n, double d = 1, std::optional<DType> dtype = {}, std::optional<Device> device = {}, std::optional<bool> pin_memory = {}, Where where = Where::current());
// The frequencies of rfft's n / 2 + 1 results for sample spacing d.
Tensor fft_rfftfreq(const SymInt& n, double d = 1, std::optional<DType> dtype = {}, std::optional<Device> device = {}, std::optional<bool> pin_memory = {}, Where where = Where::current());
// A hash of the elements, over all or along dimensions.
Tensor hash_tensor(const Tensor& self, const Dims& dim = {}, bool keepdim = false, const SymInt& mode = 0, Where where = Where::current());
// The covariances of the rows, whose elements are observations.
Tensor cov(const Tensor& self, const SymInt& correction = 1, const Tensor& fweights = {}, const Tensor& aweights = {}, Where where = Where::current());
// The correlations of the rows: cov over the deviations of both.
Tensor corrcoef(const Tensor& self, Where where = Where::current());
// The largest element; along dim also its index; of two tensors the larger elements.
Tensor max(const Tensor& self, const Tensor& other, Where where = Where::current());
// The smallest element; along dim also its index; of two tensors the smaller elements.
Tensor min(const Tensor& self, const Tensor& other, Where where = Where::current());
// The smallest and the largest element.
std::pair<Tensor, Tensor> aminmax(const Tensor& self, std::optional<int64_t> dim = {}, bool keepdim = false, Where where = Where::current());
// exp(self) divided by its sum along dim.
Tensor special_softmax(const Tensor& self, int64_t dim, std::optional<DType> dtype = {}, Where where = Where::current());
// The logarithm of the softmax along dim.
Tensor special_log_softmax(const Tensor& self, int64_t dim, std::optional<DType> dtype = {}, Where where = Where::current());
// The sum, NaN counted as 0.
Tensor nansum(const Tensor& self, const Dims& dim = {}, bool keepdim = false, std::optional<DType> dtype = {}, Where where = Where::current());
// The mean of the elements that are not NaN.
Tensor nanmean(const Tensor& self, const Dims& dim = {}, bool keepdim = false, std::optional<DType> dtype = {}, Where where = Where::current());
// The number of nonzero elements.
Tensor count_nonzero(const Tensor& self, std::optional<int64_t> dim = {}, Where where = Where::current());
Tensor count_nonzero_dim_IntList(const Tensor& self, const Dims& dim, Where where = Where::current());
// The sum of a matrix's diagonal.
Tensor matrix_trace(const Tensor& self, Where where = Where::current());
// The p-norm of the elements along dimensions.
Tensor linalg_vector_norm(const Tensor& self, const Operand& ord = 2, const Dims& dim = {}, bool keepdim = false, std::optional<DType> dtype = {}, Where where = Where::current());
// The p-norm of self - other.
Tensor dist(const Tensor& self, const Tensor& other, const Operand& p = 2, Where where = Where::current());
// The p-norm distances between the rows of two batches, [..., m, n].
Tensor cdist(const Tensor& x1, const Tensor& x2, double p = 2, const std::optional<SymInt>& compute_mode = {}, Where where = Where::current());
// The p-norm distances between all pairs of rows, in one dimension.
Tensor pdist(const Tensor& self, double p = 2, Where where = Where::current());
// The cosine of the angle between vectors along dim.
Tensor cosine_similarity(const Tensor& x1, const Tensor& x2, int64_t dim = 1, double eps = 1e-08, Where where = Where::current());
// The p-norm of x1 - x2 + eps along the last dimension.
Tensor pairwise_distance(const Tensor& x1, const Tensor& x2, double p = 2, double eps = 1e-06, bool keepdim = false, Where where = Where::current());
// The lower median; along dim also its index.
Tensor median(const Tensor& self, Where where = Where::current());
std::pair<Tensor, Tensor> median(const Tensor& self, int64_t dim, bool keepdim = false, Where where = Where::current());
// The lower median of the elements that are not NaN; along dim also its index.
Tensor nanmedian(const Tensor& self, Where where = Where::current());
std::pair<Tensor, Tensor> nanmedian(const Tensor& self, int64_t dim, bool keepdim = false, Where where = Where::current());
// The most frequent value along dim, and its index.
std::pair<Tensor, Tensor> mode(const Tensor& self, int64_t dim = -1, bool keepdim = false, Where where = Where::current());
// The k-th smallest value along dim, and its index.
std::pair<Tensor, Tensor> kthvalue(const Tensor& self, const SymInt& k, int64_t dim = -1, bool keepdim = false, Where where = Where::current());
// The q-th quantiles along dim, interpolated.
Tensor quantile(const Tensor& self, const Tensor& q, std::optional<int64_t> dim = {}, bool keepdim = false, Word interpolation = "linear", Where where = Where::current());
Tensor quantile(const Tensor& self, double q, std::optional<int64_t> dim = {}, bool keepdim = false, Word interpolation = "linear", Where where = Where::current());
// The q-th quantiles of the elements that are not NaN.
Tensor nanquantile(const Tensor& self, const Tensor& q, std::optional<int64_t> dim = {}, bool keepdim = false, Word interpolation = "linear", Where where = Where::current());
Tensor nanquantile(const Tensor& self, double q, std::optional<int64_t> dim = {}, bool keepdim = false, Word interpolation = "linear", Where where = Where::current());
// Counts of the elements in equal bins between min and max.
Tensor histc(const Tensor& self, const SymInt& bins = 100, const Operand& min = 0, const Operand& max = 0, Where where = Where::current());
// How often each nonnegative integer occurs, or the sums of its weights.
Tensor bincount(const Tensor& self, const Tensor& weights = {}, const SymInt& minlength = 0, Where where = Where::current());
// Counts or densities in bins, and the bins' edges.
std::pair<Tensor, Tensor> histogram(const Tensor& self, const SymInt& bins = 100, std::optional<std::vector<double>> range = {}, const Tensor& weight = {}, bool density = false, Where where = Where::current());
std::pair<Tensor, Tensor> histogram(const Tensor& self, const Tensor& bins, const Tensor& weight = {}, bool density = false, Where where = Where::current());
// The absolute difference; reduction 0 none, 1 mean, 2 sum.
Tensor l1_loss(const Tensor& self, const Tensor& target, Reduction reduction = "mean", Where where = Where::current());
// Squared below beta and absolute above; reduction 0 none, 1 mean, 2 sum.
Tensor smooth_l1_loss(const Tensor& self, const Tensor& target, Reduction reduction = "mean", double beta = 1, Where where = Where::current());
// delta times the smooth absolute difference; reduction 0 none, 1 mean, 2 sum.
Tensor huber_loss(const Tensor& self, const Tensor& target, Reduction reduction = "mean", double delta = 1, Where where = Where::current());
// log(1 + exp(-target * self)); reduction 0 none, 1 mean, 2 sum.
Tensor soft_margin_loss(const Tensor& self, const Tensor& target, Reduction reduction = "mean", Where where = Where::current());
// max(0, margin - target * (input1 - input2)).
Tensor margin_ranking_loss(const Tensor& input1, const Tensor& input2, const Tensor& target, double margin = 0, Reduction reduction = "mean", Where where = Where::current());
// self where target is 1, max(0, margin - self) where it is -1.
Tensor hinge_embedding_loss(const Tensor& self, const Tensor& target, double margin = 1, Reduction reduction = "mean", Where where = Where::current());
// 1 - cosine where target is 1, max(0, cosine - margin) where it is -1.
Tensor cosine_embedding_loss(const Tensor& input1, const Tensor& input2, const Tensor& target, double margin = 0, Reduction reduction = "mean", Where where = Where::current());
// max(0, distance to the positive - distance to the negative + margin).
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative, double margin = 1, double p = 2, double eps = 1e-06, bool swap = false, Reduction reduction = "mean", Where where = Where::current());
// The mean over classes of max(0, margin - score of the target + score)^p, the target aside; reduction 0 none, 1 mean, 2 sum.
Tensor multi_margin_loss(const Tensor& self, const Tensor& target, const Operand& p = 1, const Operand& margin = 1, const Tensor& weight = {}, Reduction reduction = "mean", Where where = Where::current());
// The mean over classes of max(0, 1 - wanted score + other score) of all pairs; a row of targets ends at its first negative number; reduction 0 none, 1 mean, 2 sum.
Tensor multilabel_margin_loss(const Tensor& self, const Tensor& target, Reduction reduction = "mean", Where where = Where::current());
// The cross entropy of probabilities and targets in [0, 1].
Tensor binary_cross_entropy(const Tensor& self, const Tensor& target, const Tensor& weight = {}, Reduction reduction = "mean", Where where = Where::current());
// The cross entropy of logits and targets in [0, 1].
Tensor binary_cross_entropy_with_logits(const Tensor& self, const Tensor& target, const Tensor& weight = {}, const Tensor& pos_weight = {}, Reduction reduction = "mean", Where where = Where::current());
// The negated log probability of the target class, weighted.
Tensor nll_loss(const Tensor& self, const Tensor& target, const Tensor& weight = {}, Reduction reduction = "mean", const SymInt& ignore_index = -100, Where where = Where::current());
// The negated log probability of the target class, weighted.
Tensor nll_loss2d(const Tensor& self, const Tensor& target, const Tensor& weight = {}, Reduction reduction = "mean", const SymInt& ignore_index = -100, Where where = Where::current());
// The negated log probability of the target class, weighted.
Tensor nll_loss_nd(const Tensor& self, const Tensor& target, const Tensor& weight = {}, Reduction reduction = "mean", const SymInt& ignore_index = -100, Where where = Where::current());
// The negated log probability of the target class, and the sum of weights.
std::pair<Tensor, Tensor> nll_loss_forward(const Tensor& self, const Tensor& target, const Tensor& weight, Reduction reduction, const SymInt& ignore_index, Where where = Where::current());
// The negated log probability of the target class, and the sum of weights.
std::pair<Tensor, Tensor> nll_loss2d_forward(const Tensor& self, const Tensor& target, const Tensor& weight, Reduction reduction, const SymInt& ignore_index, Where where = Where::current());
// The cross entropy of logits and classes, or of class probabilities.
Tensor cross_entropy_loss(const Tensor& self, const Tensor& target, const Tensor& weight = {}, Reduction reduction = "mean", const SymInt& ignore_index = -100, double label_smoothing = 0, Where where = Where::current());
// The running maximum along dim, and its indices.
std::pair<Tensor, Tensor> cummax(const Tensor& self, int64_t dim, Where where = Where::current());
// The running minimum along dim, and its indices.
std::pair<Tensor, Tensor> cummin(const Tensor& self, int64_t dim, Where where = Where::current());
// The logarithm of the running sum of exponentials along dim.
Tensor logcumsumexp(const Tensor& self, int64_t dim, Where where = Where::current());
// The elements in order along dim, and where they stood.
std::pair<Tensor, Tensor> sort(const Tensor& self, std::optional<bool> stable, int64_t dim, bool descending, Where where = Where::current());
// The elements in order along dimension 0.
Tensor msort(const Tensor& self, Where where = Where::current());
// Where each value would be inserted into a sorted sequence.
Tensor searchsorted(const Tensor& sorted_sequence, const Tensor& self, bool out_int32 = false, bool right = false, std::optional<Word> side = {}, const Tensor& sorter = {}, Where where = Where::current());
Tensor searchsorted(const Tensor& sorted_sequence, const Operand& self, bool out_int32 = false, bool right = false, std::optional<Word> side = {}, const Tensor& sorter = {}, Where where = Where::current());
// The bucket of each element between sorted boundaries.
Tensor bucketize(const Tensor& self, const Tensor& boundaries, bool out_int32 = false, bool right = false, Where where = Where::current());
Tensor bucketize(const Operand& self, const Tensor& boundaries, bool out_int32 = false, bool right = false, Where where = Where::current());
// The distinct slices along dim; their inverse and counts.
std::tuple<Tensor, Tensor, Tensor> unique_dim(const Tensor& self, int64_t dim, bool sorted = true, bool return_inverse = false, bool return_counts = false, Where where = Where::current());
// The elements without repetitions side by side; their inverse and counts.
std::tuple<Tensor, Tensor, Tensor> unique_consecutive(const Tensor& self, bool return_inverse = false, bool return_counts = false, std::optional<int64_t> dim = {}, Where where = Where::current());
// self with a value at the slices of index along dim.
Tensor index_fill(const Tensor& self, int64_t dim, const Tensor& index, const Operand& value, Where where = Where::current());
Tensor index_fill(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& value, Where where = Where::current());
// Elements at indices into the flattened tensor.
Tensor take(const Tensor& self, const Tensor& index, Where where = Where::current());
// self with source at indices into the flattened tensor.
Tensor put(const Tensor& self, const Tensor& index, const Tensor& source, bool accumulate = false, Where where = Where::current());
// The elements where mask holds, in one dimension.
Tensor masked_select(const Tensor& self, const Tensor& mask, Where where = Where::current());
// self with the elements of source, in order, where mask holds.
Tensor masked_scatter(const Tensor& self, const Tensor& mask, const Tensor& source, Where where = Where::current());
// self with src reduced into index along dim: "sum", "prod", "mean", "amax" or "amin".
Tensor scatter_reduce(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, Word reduce, bool include_self = true, Where where = Where::current());
// self with src at index along dim, for each position of index.
Tensor scatter(const Tensor& self, int64_t dim, const Tensor& index, const Operand& value, Where where = Where::current());
Tensor scatter(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, Word reduce, Where where = Where::current());
Tensor scatter(const Tensor& self, int64_t dim, const Tensor& index, const Operand& value, Word reduce, Where where = Where::current());
// self with the slices of source reduced into those of index along dim.
Tensor index_reduce(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, Word reduce, bool include_self = true, Where where = Where::current());
// Elements at indices along dim, broadcast.
Tensor take_along_dim(const Tensor& self, const Tensor& indices, std::optional<int64_t> dim = {}, Where where = Where::current());
// The tensors one after the other along dim.
Tensor concat(const std::vector<Tensor>& tensors, int64_t dim = 0, Where where = Where::current());
// The tensors one after the other along dim.
Tensor concatenate(const std::vector<Tensor>& tensors, int64_t dim = 0, Where where = Where::current());
// Padded by a constant; widths from the last dimension backwards.
Tensor constant_pad_nd(const Tensor& self, const SizeList& pad, const Operand& value = 0, Where where = Where::current());
// The tensors side by side: along dimension 1 (0 for one dimension).
Tensor hstack(const std::vector<Tensor>& tensors, Where where = Where::current());
// The tensors one above the other, along dimension 0.
Tensor vstack(const std::vector<Tensor>& tensors, Where where = Where::current());
// The tensors one above the other, along dimension 0.
Tensor row_stack(const std::vector<Tensor>& tensors, Where where = Where::current());
// The tensors along dimension 2.
Tensor dstack(const std::vector<Tensor>& tensors, Where where = Where::current());
// The tensors as columns.
Tensor column_stack(const std::vector<Tensor>& tensors, Where where = Where::current());
// A matrix with the tensors on its diagonal.
Tensor block_diag(const std::vector<Tensor>& tensors, Where where = Where::current());
// Sums, means or maxima of rows of weight over bags of indices.
std::vector<Tensor> embedding_bag(const Tensor& weight, const Tensor& indices, const Tensor& offsets, bool scale_grad_by_freq = false, const SymInt& mode = 0, bool sparse = false, const Tensor& per_sample_weights = {}, bool include_last_offset = false, Where where = Where::current());
std::vector<Tensor> embedding_bag(const Tensor& weight, const Tensor& indices, const Tensor& offsets, bool scale_grad_by_freq, const SymInt& mode, bool sparse, const Tensor& per_sample_weights, bool include_last_offset, const std::optional<SymInt>& padding_idx, Where where = Where::current());
// self, with the rows of the indices scaled to a norm of at most max_norm.
Tensor embedding_renorm(const Tensor& self, const Tensor& indices, double max_norm, double norm_type, Where where = Where::current());
// Reductions of data over segments along axis.
Tensor segment_reduce(const Tensor& data, Word reduce, const Tensor& lengths = {}, const Tensor& indices = {}, const Tensor& offsets = {}, int64_t axis = 0, bool unsafe = false, const std::optional<Operand>& initial = {}, Where where = Where::current());
// The indices of the nonzero elements, [count, dimensions].
Tensor argwhere(const Tensor& self, Where where = Where::current());
// The indices of the nonzero elements, one tensor a dimension.
std::vector<Tensor> nonzero_numpy(const Tensor& self, Where where = Where::current());
// The indices of the first size nonzero elements, filled up.
Tensor nonzero_static(const Tensor& self, const SymInt& size, const SymInt& fill_value = -1, Where where = Where::current());
// The combinations of r elements of a vector, each a row; with_replacement: an element may be there several times.
Tensor combinations(const Tensor& self, const SymInt& r = 2, bool with_replacement = false, Where where = Where::current());
// The tensors expanded to common sizes.
std::vector<Tensor> broadcast_tensors(const std::vector<Tensor>& tensors, Where where = Where::current());
// The coordinates of a grid, one tensor a dimension.
std::vector<Tensor> meshgrid(const std::vector<Tensor>& tensors, Where where = Where::current());
std::vector<Tensor> meshgrid(const std::vector<Tensor>& tensors, Word indexing, Where where = Where::current());
// The n-th differences along dim.
Tensor diff(const Tensor& self, const SymInt& n = 1, int64_t dim = -1, const Tensor& prepend = {}, const Tensor& append = {}, Where where = Where::current());
// The integral by the trapezoid rule along dim.
Tensor trapezoid(const Tensor& y, const Tensor& x, int64_t dim = -1, Where where = Where::current());
Tensor trapezoid(const Tensor& y, const Operand& dx = 1, int64_t dim = -1, Where where = Where::current());
// The running integral by the trapezoid rule along dim.
Tensor cumulative_trapezoid(const Tensor& y, const Tensor& x, int64_t dim = -1, Where where = Where::current());
Tensor cumulative_trapezoid(const Tensor& y, const Operand& dx = 1, int64_t dim = -1, Where where = Where::current());
// The last dimension as the diagonal of matrices.
Tensor diag_embed(const Tensor& self, const SymInt& offset = 0, int64_t dim1 = -2, int64_t dim2 = -1, Where where = Where::current());
// A matrix of a diagonal, or the diagonal of a matrix.
Tensor diag(const Tensor& self, const SymInt& diagonal = 0, Where where = Where::current());
// A matrix with all elements on its diagonal.
Tensor diagflat(const Tensor& self, const SymInt& offset = 0, Where where = Where::current());
// Sequences padded to the longest and stacked.
Tensor pad_sequence(const std::vector<Tensor>& sequences, bool batch_first = false, double padding_value = 0, Word padding_side = "right", Where where = Where::current());
// Whether each element is among the test elements.
Tensor isin(const Tensor& elements, const Tensor& test_elements, bool assume_unique = false, bool invert = false, Where where = Where::current());
Tensor isin(const Tensor& elements, const Operand& test_element, bool assume_unique = false, bool invert = false, Where where = Where::current());
Tensor isin(const Operand& element, const Tensor& test_elements, bool assume_unique = false, bool invert = false, Where where = Where::current());
// Pieces of split_size along dim; the last may be smaller.
std::vector<Tensor> unsafe_split(const Tensor& self, const SymInt& split_size, int64_t dim = 0, Where where = Where::current());
// Pieces of the given sizes along dim.
std::vector<Tensor> unsafe_split_with_sizes(const Tensor& self, const SizeList& split_sizes, int64_t dim = 0, Where where = Where::current());
// beta * self + alpha times the sum of the products of the batches.
Tensor addbmm(const Tensor& self, const Tensor& batch1, const Tensor& batch2, const Operand& beta = 1, const Operand& alpha = 1, Where where = Where::current());
// beta * self + alpha * mat * vec.
Tensor addmv(const Tensor& self, const Tensor& mat, const Tensor& vec, const Operand& beta = 1, const Operand& alpha = 1, Where where = Where::current());
// beta * self + alpha times the outer product of two vectors.
Tensor addr(const Tensor& self, const Tensor& vec1, const Tensor& vec2, const Operand& beta = 1, const Operand& alpha = 1, Where where = Where::current());
// The scalar product of two vectors, the first conjugated.
Tensor vdot(const Tensor& self, const Tensor& other, Where where = Where::current());
// The product of vectors, matrices or batches of matrices, as numpy's matmul.
Tensor linalg_matmul(const Tensor& self, const Tensor& other, Where where = Where::current());
// input1 * weight[o] * input2 for each output o, plus bias.
Tensor bilinear(const Tensor& input1, const Tensor& input2, const Tensor& weight, const Tensor& bias = {}, Where where = Where::current());
// The outer product of two vectors.
Tensor ger(const Tensor& self, const Tensor& vec2, Where where = Where::current());
// The product over the last dimensions.
Tensor inner(const Tensor& self, const Tensor& other, Where where = Where::current());
// The Kronecker product.
Tensor kron(const Tensor& self, const Tensor& other, Where where = Where::current());
// The product of all the matrices, in the order that costs least.
Tensor chain_matmul(const std::vector<Tensor>& matrices, Where where = Where::current());
// The product of all the matrices, in the order that costs least.
Tensor linalg_multi_dot(const std::vector<Tensor>& tensors, Where where = Where::current());
// The n-th power of square matrices; a negative n inverts.
Tensor linalg_matrix_power(const Tensor& self, const SymInt& n, Where where = Where::current());
// The n-th power of square matrices; a negative n inverts.
Tensor matrix_power(const Tensor& self, const SymInt& n, Where where = Where::current());
// The product summed over the given dimensions of both.
Tensor tensordot(const Tensor& self, const Tensor& other, const Dims& dims_self, const Dims& dims_other, Where where = Where::current());
// A convolution of one to three dimensions, or its transpose.
Tensor convolution(const Tensor& input, const Tensor& weight, const Tensor& bias, const SizeList& stride, const SizeList& padding, const SizeList& dilation, bool transposed, const SizeList& output_padding, const SymInt& groups, Where where = Where::current());
// The transpose of a convolution; weight [in, out / groups, kernel ...].
Tensor conv_transpose1d(const Tensor& input, const Tensor& weight, const Tensor& bias = {}, const SizeList& stride = {1}, const SizeList& padding = {0}, const SizeList& output_padding = {0}, const SymInt& groups = 1, const SizeList& dilation = {1}, Where where = Where::current());
// input [n, in, depth, height, width], weight [out, in / groups, kernel ...].
Tensor conv3d(const Tensor& input, const Tensor& weight, const Tensor& bias = {}, const SizeList& stride = {1, 1, 1}, const SizeList& padding = {0, 0, 0}, const SizeList& dilation = {1, 1, 1}, const SymInt& groups = 1, Where where = Where::current());
Tensor conv3d(const Tensor& input, const Tensor& weight, const Tensor& bias, const SizeList& stride, Word padding, const SizeList& dilation = {1, 1, 1}, const SymInt& groups = 1, Where where = Where::current());
// The transpose of a convolution; weight [in, out / groups, kernel ...].
Tensor conv_transpose3d(const Tensor& input, const Tensor& weight, const Tensor& bias = {}, const SizeList& stride = {1, 1, 1}, const SizeList& padding = {0, 0, 0}, const SizeList& output_padding = {0, 0, 0}, const SymInt& groups = 1, const SizeList& dilation = {1, 1, 1}, Where where = Where::current());
// The patches that a kernel sees, as columns [n, channels * kernel, patches].
Tensor im2col(const Tensor& self, const SizeList& kernel_size, const SizeList& dilation, const SizeList& padding, const SizeList& stride, Where where = Where::current());
// The sum of patches, as columns, back into images.
Tensor col2im(const Tensor& self, const SizeList& output_size, const SizeList& kernel_size, const SizeList& dilation, const SizeList& padding, const SizeList& stride, Where where = Where::current());
// The mean of each window; no stride means the kernel size.
Tensor avg_pool1d(const Tensor& self, const SizeList& kernel_size, const SizeList& stride = {}, const SizeList& padding = {0}, bool ceil_mode = false, bool count_include_pad = true, Where where = Where::current());
// The maximum of each window; no stride means the kernel size.
Tensor max_pool1d(const Tensor& self, const SizeList& kernel_size, const SizeList& stride = {}, const SizeList& padding = {0}, const SizeList& dilation = {1}, bool ceil_mode = false, Where where = Where::current());
// The maximum of each window and its index within the channel.
std::pair<Tensor, Tensor> max_pool1d_with_indices(const Tensor& self, const SizeList& kernel_size, const SizeList& stride = {}, const SizeList& padding = {0}, const SizeList& dilation = {1}, bool ceil_mode = false, Where where = Where::current());
// The maximum of each window and its index within the channel.
std::pair<Tensor, Tensor> max_pool2d_with_indices(const Tensor& self, const SizeList& kernel_size, const SizeList& stride = {}, const SizeList& padding = {0, 0}, const SizeList& dilation = {1, 1}, bool ceil_mode = false, Where where = Where::current());
// The gradient of max pooling: grad_output added at the indices.
Tensor max_pool2d_with_indices_backward(const Tensor& grad_output, const Tensor& self, const SizeList& kernel_size, const SizeList& stride, const SizeList& padding, const SizeList& dilation, bool ceil_mode, const Tensor& indices, Where where = Where::current());
// The gradient of adaptive max pooling: grad_output added at the indices.
Tensor adaptive_max_pool2d_backward(const Tensor& grad_output, const Tensor& self, const Tensor& indices, Where where = Where::current());
// The elements at their indices in a larger channel, 0 elsewhere.
Tensor max_unpool2d(const Tensor& self, const Tensor& indices, const SizeList& output_size, Where where = Where::current());
// The mean of each window; no stride means the kernel size.
Tensor avg_pool3d(const Tensor& self, const SizeList& kernel_size, const SizeList& stride = {}, const SizeList& padding = {0, 0, 0}, bool ceil_mode = false, bool count_include_pad = true, const std::optional<SymInt>& divisor_override = {}, Where where = Where::current());
// The maximum of each window; no stride means the kernel size.
Tensor max_pool3d(const Tensor& self, const SizeList& kernel_size, const SizeList& stride = {}, const SizeList& padding = {0, 0, 0}, const SizeList& dilation = {1, 1, 1}, bool ceil_mode = false, Where where = Where::current());
// The maximum of each window and its index within the channel.
std::pair<Tensor, Tensor> max_pool3d_with_indices(const Tensor& self, const SizeList& kernel_size, const SizeList& stride = {}, const SizeList& padding = {0, 0, 0}, const SizeList& dilation = {1, 1, 1}, bool ceil_mode = false, Where where = Where::current());
// The gradient of max pooling: grad_output added at the indices.
Tensor max_pool3d_with_indices_backward(const Tensor& grad_output, const Tensor& self, const SizeList& kernel_size, const SizeList& stride, const SizeList& padding, const SizeList& dilation, bool ceil_mode, const Tensor& indices, Where where = Where::current());
// The gradient of adaptive max pooling: grad_output added at the indices.
Tensor adaptive_max_pool3d_backward(const Tensor& grad_output, const Tensor& self, const Tensor& indices, Where where = Where::current());
// The elements at their indices in a larger channel, 0 elsewhere.
Tensor max_unpool3d(const Tensor& self, const Tensor& indices, const SizeList& output_size, const SizeList& stride, const SizeList& padding, Where where = Where::current());
// The means of windows that give output_size.
Tensor adaptive_avg_pool1d(const Tensor& self, const SizeList& output_size, Where where = Where::current());
// The maxima of windows that give output_size, and their indices.
std::pair<Tensor, Tensor> adaptive_max_pool1d(const Tensor& self, const SizeList& output_size, Where where = Where::current());
// The maxima of windows that give output_size, and their indices.
std::pair<Tensor, Tensor> adaptive_max_pool2d(const Tensor& self, const SizeList& output_size, Where where = Where::current());
// The maxima of windows at random places that give output_size, and their indices.
std::pair<Tensor, Tensor> fractional_max_pool2d(const Tensor& self, const SizeList& kernel_size, const SizeList& output_size, const Tensor& random_samples, Where where = Where::current());
// The means of windows that give output_size.
Tensor adaptive_avg_pool3d(const Tensor& self, const SizeList& output_size, Where where = Where::current());
// The maxima of windows that give output_size, and their indices.
std::pair<Tensor, Tensor> adaptive_max_pool3d(const Tensor& self, const SizeList& output_size, Where where = Where::current());
// The maxima of windows at random places that give output_size, and their indices.
std::pair<Tensor, Tensor> fractional_max_pool3d(const Tensor& self, const SizeList& kernel_size, const SizeList& output_size, const Tensor& random_samples, Where where = Where::current());
// layer_norm, its means and reciprocal deviations.
std::tuple<Tensor, Tensor, Tensor> native_layer_norm(const Tensor& input, const SizeList& normalized_shape, const Tensor& weight, const Tensor& bias, double eps, Where where = Where::current());
// group_norm, its means and reciprocal deviations.
std::tuple<Tensor, Tensor, Tensor> native_group_norm(const Tensor& input, const Tensor& weight, const Tensor& bias, const SymInt& N, const SymInt& C, const SymInt& HxW, const SymInt& group, double eps, Where where = Where::current());
// batch_norm, its means and reciprocal deviations.
std::tuple<Tensor, Tensor, Tensor> native_batch_norm(const Tensor& input, const Tensor& weight, const Tensor& bias, const Tensor& running_mean, const Tensor& running_var, bool training, double momentum, double eps, Where where = Where::current());
// Normalized by channel of each sample.
Tensor instance_norm(const Tensor& input, const Tensor& weight, const Tensor& bias, const Tensor& running_mean, const Tensor& running_var, bool use_input_stats, double momentum, double eps, bool cudnn_enabled, Where where = Where::current());
// The norm over all dimensions but one.
Tensor norm_except_dim(const Tensor& v, const SymInt& pow = 2, int64_t dim = 0, Where where = Where::current());
// The slices along dim scaled to a p-norm of at most maxnorm.
Tensor renorm(const Tensor& self, const Operand& p, int64_t dim, const Operand& maxnorm, Where where = Where::current());
// Resized to output_size by the nearest element.
Tensor upsample_nearest1d(const Tensor& self, const SizeList& output_size, std::optional<double> scales = {}, Where where = Where::current());
Tensor upsample_nearest1d_vec(const Tensor& input, const std::optional<SizeList>& output_size, std::optional<std::vector<double>> scale_factors, Where where = Where::current());
// Resized to output_size by the nearest element.
Tensor upsample_nearest2d(const Tensor& self, const SizeList& output_size, std::optional<double> scales_h = {}, std::optional<double> scales_w = {}, Where where = Where::current());
Tensor upsample_nearest2d_vec(const Tensor& input, const std::optional<SizeList>& output_size, std::optional<std::vector<double>> scale_factors, Where where = Where::current());
// Resized to output_size by the nearest element.
Tensor upsample_nearest3d(const Tensor& self, const SizeList& output_size, std::optional<double> scales_d = {}, std::optional<double> scales_h = {}, std::optional<double> scales_w = {}, Where where = Where::current());
Tensor upsample_nearest3d_vec(const Tensor& input, const std::optional<SizeList>& output_size, std::optional<std::vector<double>> scale_factors, Where where = Where::current());
// Resized to output_size by linear interpolation.
Tensor upsample_linear1d(const Tensor& self, const SizeList& output_size, bool align_corners, std::optional<double> scales = {}, Where where = Where::current());
Tensor upsample_linear1d_vec(const Tensor& input, const std::optional<SizeList>& output_size, bool align_corners, std::optional<std::vector<double>> scale_factors, Where where = Where::current());
// Resized to output_size by bilinear interpolation.
Tensor upsample_bilinear2d(const Tensor& self, const SizeList& output_size, bool align_corners, std::optional<double> scales_h = {}, std::optional<double> scales_w = {}, Where where = Where::current());
Tensor upsample_bilinear2d_vec(const Tensor& input, const std::optional<SizeList>& output_size, bool align_corners, std::optional<std::vector<double>> scale_factors, Where where = Where::current());
// Resized to output_size by trilinear interpolation.
Tensor upsample_trilinear3d(const Tensor& self, const SizeList& output_size, bool align_corners, std::optional<double> scales_d = {}, std::optional<double> scales_h = {}, std::optional<double> scales_w = {}, Where where = Where::current());
Tensor upsample_trilinear3d_vec(const Tensor& input, const std::optional<SizeList>& output_size, bool align_corners, std::optional<std::vector<double>> scale_factors, Where where = Where::current());
// Resized to output_size by bicubic interpolation.
Tensor upsample_bicubic2d(const Tensor& self, const SizeList& output_size, bool align_corners, std::optional<double> scales_h = {}, std::optional<double> scales_w = {}, Where where = Where::current());
Tensor upsample_bicubic2d_vec(const Tensor& input, const std::optional<SizeList>& output_size, bool align_corners, std::optional<std::vector<double>> scale_factors, Where where = Where::current());
// [..., c * r * r, h, w] as [..., c, h * r, w * r].
Tensor pixel_shuffle(const Tensor& self, const SymInt& upscale_factor, Where where = Where::current());
// [..., c, h * r, w * r] as [..., c * r * r, h, w].
Tensor pixel_unshuffle(const Tensor& self, const SymInt& downscale_factor, Where where = Where::current());
// The channels of the groups interleaved.
Tensor channel_shuffle(const Tensor& self, const SymInt& groups, Where where = Where::current());
// The channels of the groups interleaved.
Tensor native_channel_shuffle(const Tensor& self, const SymInt& groups, Where where = Where::current());
// input at the coordinates of grid, in [-1, 1], interpolated.
Tensor grid_sampler_2d(const Tensor& input, const Tensor& grid, const SymInt& interpolation_mode, const SymInt& padding_mode, bool align_corners, Where where = Where::current());
// input at the coordinates of grid, in [-1, 1], interpolated.
Tensor grid_sampler_3d(const Tensor& input, const Tensor& grid, const SymInt& interpolation_mode, const SymInt& padding_mode, bool align_corners, Where where = Where::current());
// input at the coordinates of grid, in [-1, 1], interpolated.
Tensor grid_sampler(const Tensor& input, const Tensor& grid, const SymInt& interpolation_mode, const SymInt& padding_mode, bool align_corners, Where where = Where::current());
// The sampling grid of affine maps theta.
Tensor affine_grid_generator(const Tensor& theta, const SizeList& size, bool align_corners, Where where = Where::current());
// LU and pivots of square or rectangular matrices, and an error code a matrix.
std::tuple<Tensor, Tensor, Tensor> linalg_lu_factor_ex(const Tensor& A, bool pivot = true, bool check_errors = false, Where where = Where::current());
// P, L and U of LU and pivots.
std::tuple<Tensor, Tensor, Tensor> lu_unpack(const Tensor& LU_data, const Tensor& LU_pivots, bool unpack_data = true, bool unpack_pivots = true, Where where = Where::current());
// The Cholesky factor, and an error code a matrix.
std::pair<Tensor, Tensor> linalg_cholesky_ex(const Tensor& self, bool upper = false, bool check_errors = false, Where where = Where::current());
// The inverse of a matrix by its Cholesky factor.
Tensor cholesky_inverse(const Tensor& self, bool upper = false, Where where = Where::current());
// Q and R; mode is "reduced", "complete" or "r".
std::pair<Tensor, Tensor> linalg_qr(const Tensor& A, Word mode = "reduced", Where where = Where::current());
// The QR factorization as Householder reflectors and their factors.
std::pair<Tensor, Tensor> geqrf(const Tensor& self, Where where = Where::current());
// The first columns of the product of Householder reflectors.
Tensor linalg_householder_product(const Tensor& input, const Tensor& tau, Where where = Where::current());
// The first columns of the product of Householder reflectors.
Tensor orgqr(const Tensor& self, const Tensor& input2, Where where = Where::current());
// The product of Householder reflectors with a matrix.
Tensor ormqr(const Tensor& self, const Tensor& input2, const Tensor& input3, bool left = true, bool transpose = false, Where where = Where::current());
// The solution of a triangular system.
Tensor linalg_solve_triangular(const Tensor& self, const Tensor& B, bool upper, bool left = true, bool unitriangular = false, Where where = Where::current());
// The solution of A X = B by the LU of A.
Tensor linalg_lu_solve(const Tensor& LU, const Tensor& pivots, const Tensor& B, bool left = true, bool adjoint = false, Where where = Where::current());
// The inverse, and an error code a matrix.
std::pair<Tensor, Tensor> linalg_inv_ex(const Tensor& A, bool check_errors = false, Where where = Where::current());
// Eigenvalues and eigenvectors of square matrices, complex.
std::pair<Tensor, Tensor> linalg_eig(const Tensor& self, Where where = Where::current());
// The LDL factorization, pivots, and an error code a matrix.
std::tuple<Tensor, Tensor, Tensor> linalg_ldl_factor_ex(const Tensor& self, bool hermitian = false, bool check_errors = false, Where where = Where::current());
// The solution of A X = B by the LDL factorization.
Tensor linalg_ldl_solve(const Tensor& LD, const Tensor& pivots, const Tensor& B, bool hermitian = false, Where where = Where::current());
// The matrix exponential.
Tensor linalg_matrix_exp(const Tensor& self, Where where = Where::current());
// The pseudoinverse.
Tensor linalg_pinv(const Tensor& self, double rcond, bool hermitian = false, Where where = Where::current());
Tensor linalg_pinv(const Tensor& self, const Tensor& rcond, bool hermitian = false, Where where = Where::current());
Tensor linalg_pinv(const Tensor& self, const Tensor& atol, const Tensor& rtol, bool hermitian = false, Where where = Where::current());
Tensor linalg_pinv(const Tensor& self, std::optional<double> atol, std::optional<double> rtol, bool hermitian, Where where = Where::current());
// The pseudoinverse.
Tensor pinverse(const Tensor& self, double rcond = 1e-15, Where where = Where::current());
// The square root of symmetric positive matrices.
Tensor linalg_matrix_sqrth(const Tensor& self, Where where = Where::current());
// The polar decomposition: a unitary and a positive matrix.
std::pair<Tensor, Tensor> linalg_polar(const Tensor& A, Where where = Where::current());
// The solution of A X = self by the Cholesky factor of A.
Tensor cholesky_solve(const Tensor& self, const Tensor& input2, bool upper = false, Where where = Where::current());
// The solution of a triangular system, and A.
std::pair<Tensor, Tensor> triangular_solve(const Tensor& self, const Tensor& A, bool upper = true, bool transpose = false, bool unitriangular = false, Where where = Where::current());
// The vector product along a dimension of size 3.
Tensor linalg_cross(const Tensor& self, const Tensor& other, int64_t dim = -1, Where where = Where::current());
// The vector product along a dimension of size 3.
Tensor cross(const Tensor& self, const Tensor& other, std::optional<int64_t> dim = {}, Where where = Where::current());
// The Vandermonde matrix of a vector's powers.
Tensor vander(const Tensor& x, const std::optional<SymInt>& N = {}, bool increasing = false, Where where = Where::current());
// The Vandermonde matrix of a vector's powers.
Tensor linalg_vander(const Tensor& x, const std::optional<SymInt>& N = {}, Where where = Where::current());
// The scalar product of vectors along dim, those of x conjugated.
Tensor linalg_vecdot(const Tensor& x, const Tensor& y, int64_t dim = -1, Where where = Where::current());
// The inverse of square matrices.
Tensor linalg_inv(const Tensor& A, Where where = Where::current());
// The inverse of square matrices.
Tensor inverse(const Tensor& self, Where where = Where::current());
// The determinant.
Tensor linalg_det(const Tensor& A, Where where = Where::current());
// The determinant.
Tensor det(const Tensor& self, Where where = Where::current());
// The determinant's sign and the logarithm of its absolute value.
std::pair<Tensor, Tensor> linalg_slogdet(const Tensor& A, Where where = Where::current());
// The determinant's sign and the logarithm of its absolute value.
std::pair<Tensor, Tensor> slogdet(const Tensor& self, Where where = Where::current());
// The logarithm of the determinant.
Tensor logdet(const Tensor& self, Where where = Where::current());
// The solution of A X = B.
Tensor linalg_solve(const Tensor& A, const Tensor& B, bool left = true, Where where = Where::current());
// LU and pivots.
std::pair<Tensor, Tensor> linalg_lu_factor(const Tensor& A, bool pivot = true, Where where = Where::current());
// P, L and U.
std::tuple<Tensor, Tensor, Tensor> linalg_lu(const Tensor& A, bool pivot = true, Where where = Where::current());
// The Cholesky factor of positive definite matrices.
Tensor linalg_cholesky(const Tensor& self, bool upper = false, Where where = Where::current());
// The Cholesky factor of positive definite matrices.
Tensor cholesky(const Tensor& self, bool upper = false, Where where = Where::current());
// U, the singular values and V^H.
std::tuple<Tensor, Tensor, Tensor> linalg_svd(const Tensor& A, bool full_matrices = true, std::optional<Word> driver = {}, Where where = Where::current());
// The singular values, descending.
Tensor linalg_svdvals(const Tensor& A, std::optional<Word> driver = {}, Where where = Where::current());
// Eigenvalues, ascending, and eigenvectors of symmetric matrices.
std::pair<Tensor, Tensor> linalg_eigh(const Tensor& self, Word UPLO = "L", Where where = Where::current());
// Eigenvalues, ascending, of symmetric matrices.
Tensor linalg_eigvalsh(const Tensor& self, Word UPLO = "L", Where where = Where::current());
// Eigenvalues of square matrices, complex.
Tensor linalg_eigvals(const Tensor& self, Where where = Where::current());
// The matrix exponential.
Tensor matrix_exp(const Tensor& self, Where where = Where::current());
// A vector norm, or a matrix norm where ord asks for one.
Tensor linalg_norm(const Tensor& self, const std::optional<Operand>& ord = {}, const Dims& dim = {}, bool keepdim = false, std::optional<DType> dtype = {}, Where where = Where::current());
Tensor linalg_norm(const Tensor& self, Word ord, const Dims& dim = {}, bool keepdim = false, std::optional<DType> dtype = {}, Where where = Where::current());
// A norm of the matrices of two dimensions; ord is a number, "fro" or "nuc".
Tensor linalg_matrix_norm(const Tensor& self, const Operand& ord, const Dims& dim = {-2, -1}, bool keepdim = false, std::optional<DType> dtype = {}, Where where = Where::current());
Tensor linalg_matrix_norm(const Tensor& self, Word ord = "fro", const Dims& dim = {-2, -1}, bool keepdim = false, std::optional<DType> dtype = {}, Where where = Where::current());
// Complex numbers of real and imaginary parts.
Tensor complex(const Tensor& real, const Tensor& imag, Where where = Where::current());
// Complex numbers as pairs in a last dimension of size 2.
Tensor view_as_real(const Tensor& self, Where where = Where::current());
// Pairs in a last dimension of size 2 as complex numbers.
Tensor view_as_complex(const Tensor& self, Where where = Where::current());
// The real parts.
Tensor real(const Tensor& self, Where where = Where::current());
// The imaginary parts.
Tensor imag(const Tensor& self, Where where = Where::current());
// The complex conjugates.
Tensor conj(const Tensor& self, Where where = Where::current());
// The complex conjugates.
Tensor conj_physical(const Tensor& self, Where where = Where::current());
// self; no conjugation or negation is pending in Toroid.
Tensor resolve_conj(const Tensor& self, Where where = Where::current());
// self; no conjugation or negation is pending in Toroid.
Tensor resolve_neg(const Tensor& self, Where where = Where::current());
// Complex numbers of magnitudes and angles.
Tensor polar(const Tensor& abs, const Tensor& angle, Where where = Where::current());
// The discrete Fourier transform along one, two or all dimensions.
Tensor fft_fft(const Tensor& self, const std::optional<SymInt>& n = {}, int64_t dim = -1, std::optional<Word> norm = {}, Where where = Where::current());
// The inverse discrete Fourier transform.
Tensor fft_ifft(const Tensor& self, const std::optional<SymInt>& n = {}, int64_t dim = -1, std::optional<Word> norm = {}, Where where = Where::current());
// The Fourier transform of reals: the nonnegative frequencies of the last dimension.
Tensor fft_rfft(const Tensor& self, const std::optional<SymInt>& n = {}, int64_t dim = -1, std::optional<Word> norm = {}, Where where = Where::current());
// The inverse of the Fourier transform of Hermitian signals.
Tensor fft_ihfft(const Tensor& self, const std::optional<SymInt>& n = {}, int64_t dim = -1, std::optional<Word> norm = {}, Where where = Where::current());
// The inverse of the Fourier transform of reals.
Tensor fft_irfft(const Tensor& self, const std::optional<SymInt>& n = {}, int64_t dim = -1, std::optional<Word> norm = {}, Where where = Where::current());
// The Fourier transform of signals with Hermitian symmetry: real results.
Tensor fft_hfft(const Tensor& self, const std::optional<SymInt>& n = {}, int64_t dim = -1, std::optional<Word> norm = {}, Where where = Where::current());
// The discrete Fourier transform along one, two or all dimensions.
Tensor fft_fft2(const Tensor& self, const std::optional<SizeList>& s = {}, const Dims& dim = {-2, -1}, std::optional<Word> norm = {}, Where where = Where::current());
// The inverse discrete Fourier transform.
Tensor fft_ifft2(const Tensor& self, const std::optional<SizeList>& s = {}, const Dims& dim = {-2, -1}, std::optional<Word> norm = {}, Where where = Where::current());
// The Fourier transform of reals: the nonnegative frequencies of the last dimension.
Tensor fft_rfft2(const Tensor& self, const std::optional<SizeList>& s = {}, const Dims& dim = {-2, -1}, std::optional<Word> norm = {}, Where where = Where::current());
// The inverse of the Fourier transform of Hermitian signals.
Tensor fft_ihfft2(const Tensor& self, const std::optional<SizeList>& s = {}, const Dims& dim = {-2, -1}, std::optional<Word> norm = {}, Where where = Where::current());
// The inverse of the Fourier transform of reals.
Tensor fft_irfft2(const Tensor& self, const std::optional<SizeList>& s = {}, const Dims& dim = {-2, -1}, std::optional<Word> norm = {}, Where where = Where::current());
// The Fourier transform of signals with Hermitian symmetry: real results.
Tensor fft_hfft2(const Tensor& self, const std::optional<SizeList>& s = {}, const Dims& dim = {-2, -1}, std::optional<Word> norm = {}, Where where = Where::current());
// The discrete Fourier transform along one, two or all dimensions.
Tensor fft_fftn(const Tensor& self, const std::optional<SizeList>& s = {}, const Dims& dim = {}, std::optional<Word> norm = {}, Where where = Where::current());
// The inverse discrete Fourier transform.
Tensor fft_ifftn(const Tensor& self, const std::optional<SizeList>& s = {}, const Dims& dim = {}, std::optional<Word> norm = {}, Where where = Where::current());
// The Fourier transform of reals: the nonnegative frequencies of the last dimension.
Tensor fft_rfftn(const Tensor& self, const std::optional<SizeList>& s = {}, const Dims& dim = {}, std::optional<Word> norm = {}, Where where = Where::current());
// The inverse of the Fourier transform of Hermitian signals.
Tensor fft_ihfftn(const Tensor& self, const std::optional<SizeList>& s = {}, const Dims& dim = {}, std::optional<Word> norm = {}, Where where = Where::current());
// The inverse of the Fourier transform of reals.
Tensor fft_irfftn(const Tensor& self, const std::optional<SizeList>& s = {}, const Dims& dim = {}, std::optional<Word> norm = {}, Where where = Where::current());
// The Fourier transform of signals with Hermitian symmetry: real results.
Tensor fft_hfftn(const Tensor& self, const std::optional<SizeList>& s = {}, const Dims& dim = {}, std::optional<Word> norm = {}, Where where = Where::current());
// The frequency 0 moved to the middle.
Tensor fft_fftshift(const Tensor& self, const Dims& dim = {}, Where where = Where::current());
// The frequency 0 moved back to the start.
Tensor fft_ifftshift(const Tensor& self, const Dims& dim = {}, Where where = Where::current());
// The signal of a short-time Fourier transform.
Tensor istft(const Tensor& self, const SymInt& n_fft, const std::optional<SymInt>& hop_length = {}, const std::optional<SymInt>& win_length = {}, const Tensor& window = {}, bool center = true, bool normalized = false, std::optional<bool> onesided = {}, const std::optional<SymInt>& length = {}, bool return_complex = false, Where where = Where::current());
// Random integers in [low, high).
Tensor randint_like(const Tensor& self, const SymInt& high, std::optional<DType> dtype = {}, std::optional<bool> pin_memory = {}, Where where = Where::current());
Tensor randint_like(const Tensor& self, const SymInt& low, const SymInt& high, std::optional<DType> dtype = {}, std::optional<bool> pin_memory = {}, Where where = Where::current());
// As self, random integers from `from` to before `to`.
Tensor random(const Tensor& self, const SymInt& from, const std::optional<SymInt>& to, Where where = Where::current());
Tensor random(const Tensor& self, const SymInt& to, Where where = Where::current());
// A random order of the integers below n.
Tensor randperm(const SymInt& n, std::optional<DType> dtype = {}, std::optional<Device> device = {}, std::optional<bool> pin_memory = {}, Where where = Where::current());
// 1 with the given probability, 0 otherwise.
Tensor bernoulli(const Tensor& self, double p, Where where = Where::current());
Tensor bernoulli(const Tensor& self, const Tensor& p, Where where = Where::current());
// Normal random numbers of the given mean and deviation.
Tensor normal(const Tensor& mean, double std = 1, Where where = Where::current());
Tensor normal(double mean, const Tensor& std, Where where = Where::current());
Tensor normal(const Tensor& mean, const Tensor& std, Where where = Where::current());
Tensor normal(double mean, double std, const SizeList& size, std::optional<DType> dtype = {}, std::optional<Device> device = {}, std::optional<bool> pin_memory = {}, Where where = Where::current());
Tensor normal(const Tensor& self, double mean, double std, Where where = Where::current());
// Normal random numbers of the given mean and deviation.
Tensor normal_functional(const Tensor& self, double mean = 0, double std = 1, Where where = Where::current());
// Exponentials of normal random numbers.
Tensor log_normal(const Tensor& self, double mean = 1, double std = 2, Where where = Where::current());
// As self, uniform random numbers in [from, to).
Tensor uniform(const Tensor& self, double from = 0, double to = 1, Where where = Where::current());
// As self, random numbers of the exponential distribution of rate lambd.
Tensor exponential(const Tensor& self, double lambd = 1, Where where = Where::current());
// As self, random numbers of the Cauchy distribution.
Tensor cauchy(const Tensor& self, double median = 0, double sigma = 1, Where where = Where::current());
// As self, random numbers of the geometric distribution of probability p.
Tensor geometric(const Tensor& self, double p, Where where = Where::current());
// Indices drawn with probabilities proportional to the rows of self.
Tensor multinomial(const Tensor& self, const SymInt& num_samples, bool replacement = false, Where where = Where::current());
// dropout, and the mask of the elements that stay.
std::pair<Tensor, Tensor> native_dropout(const Tensor& input, double p, std::optional<bool> train, Where where = Where::current());
// grad_output * mask * scale.
Tensor native_dropout_backward(const Tensor& grad_output, const Tensor& mask, double scale, Where where = Where::current());
// dropout of whole channels.
Tensor feature_dropout(const Tensor& input, double p, bool train, Where where = Where::current());
// dropout that keeps mean and variance for selu.
Tensor alpha_dropout(const Tensor& input, double p, bool train, Where where = Where::current());
// alpha_dropout of whole channels.
Tensor feature_alpha_dropout(const Tensor& input, double p, bool train, Where where = Where::current());
// leaky_relu whose slope is random in [lower, upper] when training, their mean otherwise.
Tensor rrelu(const Tensor& self, const Operand& lower = 0.125, const Operand& upper = 0.3333333333333333, bool training = false, Where where = Where::current());
// rrelu, and the slopes that it drew.
std::pair<Tensor, Tensor> rrelu_with_noise_functional(const Tensor& self, const Tensor& noise, const Operand& lower = 0.125, const Operand& upper = 0.3333333333333333, bool training = false, Where where = Where::current());
// A recurrent network of several layers: outputs of all steps, and the last states.
std::pair<Tensor, Tensor> gru(const Tensor& input, const Tensor& hx, const std::vector<Tensor>& params, bool has_biases, const SymInt& num_layers, double dropout, bool train, bool bidirectional, bool batch_first, Where where = Where::current());
// A recurrent network of several layers: outputs of all steps, and the last states.
std::pair<Tensor, Tensor> rnn_tanh(const Tensor& input, const Tensor& hx, const std::vector<Tensor>& params, bool has_biases, const SymInt& num_layers, double dropout, bool train, bool bidirectional, bool batch_first, Where where = Where::current());
// A recurrent network of several layers: outputs of all steps, and the last states.
std::pair<Tensor, Tensor> rnn_relu(const Tensor& input, const Tensor& hx, const std::vector<Tensor>& params, bool has_biases, const SymInt& num_layers, double dropout, bool train, bool bidirectional, bool batch_first, Where where = Where::current());
// A long short-term memory of several layers: outputs of all steps, last states and last cells.
std::tuple<Tensor, Tensor, Tensor> lstm(const Tensor& input, const std::vector<Tensor>& hx, const std::vector<Tensor>& params, bool has_biases, const SymInt& num_layers, double dropout, bool train, bool bidirectional, bool batch_first, Where where = Where::current());
// One step of a recurrent network: the next state.
Tensor gru_cell(const Tensor& input, const Tensor& hx, const Tensor& w_ih, const Tensor& w_hh, const Tensor& b_ih = {}, const Tensor& b_hh = {}, Where where = Where::current());
// One step of a recurrent network: the next state.
Tensor rnn_tanh_cell(const Tensor& input, const Tensor& hx, const Tensor& w_ih, const Tensor& w_hh, const Tensor& b_ih = {}, const Tensor& b_hh = {}, Where where = Where::current());
// One step of a recurrent network: the next state.
Tensor rnn_relu_cell(const Tensor& input, const Tensor& hx, const Tensor& w_ih, const Tensor& w_hh, const Tensor& b_ih = {}, const Tensor& b_hh = {}, Where where = Where::current());
// One step of a long short-term memory: the next state and cell.
std::pair<Tensor, Tensor> lstm_cell(const Tensor& input, const std::vector<Tensor>& hx, const Tensor& w_ih, const Tensor& w_hh, const Tensor& b_ih = {}, const Tensor& b_hh = {}, Where where = Where::current());
// The gradients of convolution by input, weight and bias: those that output_mask names, the others without elements.
std::tuple<Tensor, Tensor, Tensor> convolution_backward(const Tensor& grad_output, const Tensor& input, const Tensor& weight, const std::optional<SizeList>& bias_sizes, const SizeList& stride, const SizeList& padding, const SizeList& dilation, bool transposed, const SizeList& output_padding, const SymInt& groups, std::vector<bool> output_mask, Where where = Where::current());
// The gradient of avg_pool2d by self.
Tensor avg_pool2d_backward(const Tensor& grad_output, const Tensor& self, const SizeList& kernel_size, const SizeList& stride, const SizeList& padding, bool ceil_mode, bool count_include_pad, const std::optional<SymInt>& divisor_override, Where where = Where::current());
// The gradient of avg_pool3d by self.
Tensor avg_pool3d_backward(const Tensor& grad_output, const Tensor& self, const SizeList& kernel_size, const SizeList& stride, const SizeList& padding, bool ceil_mode, bool count_include_pad, const std::optional<SymInt>& divisor_override, Where where = Where::current());
// The gradients of grid_sampler_2d by input and grid: those that output_mask names, the others without elements.
std::pair<Tensor, Tensor> grid_sampler_2d_backward(const Tensor& grad_output, const Tensor& input, const Tensor& grid, const SymInt& interpolation_mode, const SymInt& padding_mode, bool align_corners, std::vector<bool> output_mask, Where where = Where::current());
// The gradients of grid_sampler_3d by input and grid: those that output_mask names, the others without elements.
std::pair<Tensor, Tensor> grid_sampler_3d_backward(const Tensor& grad_output, const Tensor& input, const Tensor& grid, const SymInt& interpolation_mode, const SymInt& padding_mode, bool align_corners, std::vector<bool> output_mask, Where where = Where::current());
// The gradient of replication_pad1d by self.
Tensor replication_pad1d_backward(const Tensor& grad_output, const Tensor& self, const SizeList& padding, Where where = Where::current());
// The gradient of replication_pad2d by self.
Tensor replication_pad2d_backward(const Tensor& grad_output, const Tensor& self, const SizeList& padding, Where where = Where::current());
// The gradient of replication_pad3d by self.
Tensor replication_pad3d_backward(const Tensor& grad_output, const Tensor& self, const SizeList& padding, Where where = Where::current());
// The gradient of masked_scatter by source, which has these sizes.
Tensor masked_scatter_backward(const Tensor& grad_output, const Tensor& mask, const SizeList& sizes, Where where = Where::current());
// In place: self - alpha * other, broadcast.
Tensor subtract_(const Tensor& self, const Operand& other, const Operand& alpha = 1, Where where = Where::current());
// In place: other - alpha * self, broadcast.
Tensor rsub_(const Tensor& self, const Operand& other, const Operand& alpha = 1, Where where = Where::current());
// In place: The product of the elements, broadcast.
Tensor multiply_(const Tensor& self, const Operand& other, Where where = Where::current());
// In place: The quotient of the elements; integers give floats unless rounding_mode is "trunc" or "floor".
Tensor divide_(const Tensor& self, const Operand& other, Where where = Where::current());
Tensor divide_(const Tensor& self, const Tensor& other, std::optional<Word> rounding_mode = {}, Where where = Where::current());
Tensor divide_(const Tensor& self, const Operand& other, std::optional<Word> rounding_mode, Where where = Where::current());
// In place: The quotient of the elements; integers give floats unless rounding_mode is "trunc" or "floor".
Tensor true_divide_(const Tensor& self, const Operand& other, Where where = Where::current());
// In place: The quotient rounded towards negative infinity.
Tensor floor_divide_(const Tensor& self, const Operand& other, Where where = Where::current());
Tensor floor_divide__Tensor(const Tensor& self, const Operand& other, Where where = Where::current());
// In place: The quotient of the elements; integers give floats unless rounding_mode is "trunc" or "floor".
Tensor div_(const Tensor& self, const Tensor& other, std::optional<Word> rounding_mode, Where where = Where::current());
Tensor div_(const Tensor& self, const Operand& other, std::optional<Word> rounding_mode, Where where = Where::current());
// In place: The remainder of the division, with the sign of the divisor.
Tensor remainder_(const Tensor& self, const Operand& other, Where where = Where::current());
// In place: The remainder of the division, with the sign of the dividend.
Tensor fmod_(const Tensor& self, const Operand& other, Where where = Where::current());
// In place: self to the power of exponent, broadcast.
Tensor pow_(const Tensor& self, const Operand& exponent, Where where = Where::current());
Tensor pow__Tensor(const Tensor& self, const Operand& exponent, Where where = Where::current());
// In place: The power, computed in double precision.
Tensor float_power_(const Tensor& self, const Tensor& exponent, Where where = Where::current());
Tensor float_power_(const Tensor& self, const Operand& exponent, Where where = Where::current());
Tensor float_power__Scalar(const Tensor& self, const Operand& exponent, Where where = Where::current());
Tensor float_power__Tensor(const Tensor& self, const Tensor& exponent, Where where = Where::current());
// In place: self * 2 ** other.
Tensor ldexp_(const Tensor& self, const Tensor& other, Where where = Where::current());
Tensor ldexp__(const Tensor& self, const Tensor& other, Where where = Where::current());
// In place: The larger of two elements; NaN where either is NaN.
Tensor maximum_(const Tensor& self, const Operand& other, Where where = Where::current());
// In place: The smaller of two elements; NaN where either is NaN.
Tensor minimum_(const Tensor& self, const Operand& other, Where where = Where::current());
// In place: The larger of two elements; where one is NaN, the other.
Tensor fmax_(const Tensor& self, const Operand& other, Where where = Where::current());
// In place: The smaller of two elements; where one is NaN, the other.
Tensor fmin_(const Tensor& self, const Operand& other, Where where = Where::current());
// In place: The angle of the point (other, self) in radians, in (-pi, pi].
Tensor atan2_(const Tensor& self, const Operand& other, Where where = Where::current());
// In place: The angle of the point (other, self) in radians, in (-pi, pi].
Tensor arctan2_(const Tensor& self, const Operand& other, Where where = Where::current());
// In place: sqrt(self ** 2 + other ** 2) without overflow.
Tensor hypot_(const Tensor& self, const Operand& other, Where where = Where::current());
// In place: The magnitude of self with the sign of other.
Tensor copysign_(const Tensor& self, const Operand& other, Where where = Where::current());
// In place: The next representable value after self towards other.
Tensor nextafter_(const Tensor& self, const Operand& other, Where where = Where::current());
// In place: 0 where self is negative, 1 where it is positive, and values where it is zero.
Tensor heaviside_(const Tensor& self, const Operand& values, Where where = Where::current());
// In place: self * log(other), and 0 where self is 0.
Tensor xlogy_(const Tensor& self, const Operand& other, Where where = Where::current());
// In place: self * log(other), and 0 where self is 0.
Tensor special_xlogy_(const Tensor& self, const Operand& other, Where where = Where::current());
// In place: log(exp(self) + exp(other)) without overflow.
Tensor logaddexp_(const Tensor& self, const Operand& other, Where where = Where::current());
// In place: log2(2 ** self + 2 ** other) without overflow.
Tensor logaddexp2_(const Tensor& self, const Operand& other, Where where = Where::current());
// In place: The greatest common divisor of integers.
Tensor gcd_(const Tensor& self, const Operand& other, Where where = Where::current());
// In place: The least common multiple of integers.
Tensor lcm_(const Tensor& self, const Operand& other, Where where = Where::current());
// In place: Whether the elements are equal, as Bool.
Tensor eq_(const Tensor& self, const Operand& other, Where where = Where::current());
// In place: Whether the elements differ, as Bool.
Tensor ne_(const Tensor& self, const Operand& other, Where where = Where::current());
// In place: Whether the elements differ, as Bool.
Tensor not_equal_(const Tensor& self, const Operand& other, Where where = Where::current());
// In place: Whether self < other, as Bool.
Tensor lt_(const Tensor& self, const Operand& other, Where where = Where::current());
// In place: Whether self < other, as Bool.
Tensor less_(const Tensor& self, const Operand& other, Where where = Where::current());
// In place: Whether self <= other, as Bool.
Tensor le_(const Tensor& self, const Operand& other, Where where = Where::current());
// In place: Whether self <= other, as Bool.
Tensor less_equal_(const Tensor& self, const Operand& other, Where where = Where::current());
// In place: Whether self > other, as Bool.
Tensor gt_(const Tensor& self, const Operand& other, Where where = Where::current());
// In place: Whether self > other, as Bool.
Tensor greater_(const Tensor& self, const Operand& other, Where where = Where::current());
// In place: Whether self >= other, as Bool.
Tensor ge_(const Tensor& self, const Operand& other, Where where = Where::current());
// In place: Whether self >= other, as Bool.
Tensor greater_equal_(const Tensor& self, const Operand& other, Where where = Where::current());
// In place: Whether both elements are nonzero.
Tensor logical_and_(const Tensor& self, const Operand& other, Where where = Where::current());
// In place: Whether either element is nonzero.
Tensor logical_or_(const Tensor& self, const Operand& other, Where where = Where::current());
// In place: Whether exactly one of the elements is nonzero.
Tensor logical_xor_(const Tensor& self, const Operand& other, Where where = Where::current());
// In place: Whether the element is zero.
Tensor logical_not_(const Tensor& self, Where where = Where::current());
// In place: The bitwise and of integers or Bool.
Tensor bitwise_and_(const Tensor& self, const Operand& other, Where where = Where::current());
// In place: The bitwise or of integers or Bool.
Tensor bitwise_or_(const Tensor& self, const Operand& other, Where where = Where::current());
// In place: The bitwise exclusive or of integers or Bool.
Tensor bitwise_xor_(const Tensor& self, const Operand& other, Where where = Where::current());
// In place: The bitwise complement of integers; the negation of Bool.
Tensor bitwise_not_(const Tensor& self, Where where = Where::current());
// In place: self shifted left by other bits.
Tensor bitwise_left_shift_(const Tensor& self, const Operand& other, Where where = Where::current());
// In place: self shifted right by other bits; the sign is kept.
Tensor bitwise_right_shift_(const Tensor& self, const Operand& other, Where where = Where::current());
// In place: Whether abs(self - other) <= atol + rtol * abs(other).
Tensor isclose_(const Tensor& self, const Operand& other, double rtol = 1e-05, double atol = 1e-08, bool equal_nan = false, Where where = Where::current());
// In place: 1 / sqrt(self).
Tensor rsqrt_(const Tensor& self, Where where = Where::current());
// In place: 1 / self.
Tensor reciprocal_(const Tensor& self, Where where = Where::current());
// In place: 2 to the power of self.
Tensor exp2_(const Tensor& self, Where where = Where::current());
// In place: 2 to the power of self.
Tensor special_exp2_(const Tensor& self, Where where = Where::current());
// In place: exp(self) - 1, exact near 0.
Tensor expm1_(const Tensor& self, Where where = Where::current());
// In place: exp(self) - 1, exact near 0.
Tensor special_expm1_(const Tensor& self, Where where = Where::current());
// In place: The natural logarithm.
Tensor log_(const Tensor& self, Where where = Where::current());
// In place: The logarithm to base 2.
Tensor log2_(const Tensor& self, Where where = Where::current());
// In place: The logarithm to base 10.
Tensor log10_(const Tensor& self, Where where = Where::current());
// In place: log(1 + self), exact near 0.
Tensor log1p_(const Tensor& self, Where where = Where::current());
// In place: log(1 + self), exact near 0.
Tensor special_log1p_(const Tensor& self, Where where = Where::current());
// In place: The sine of radians.
Tensor sin_(const Tensor& self, Where where = Where::current());
// In place: The cosine of radians.
Tensor cos_(const Tensor& self, Where where = Where::current());
// In place: The tangent of radians.
Tensor tan_(const Tensor& self, Where where = Where::current());
// In place: The inverse sine, in radians.
Tensor asin_(const Tensor& self, Where where = Where::current());
// In place: The inverse sine, in radians.
Tensor arcsin_(const Tensor& self, Where where = Where::current());
// In place: The inverse cosine, in radians.
Tensor acos_(const Tensor& self, Where where = Where::current());
// In place: The inverse cosine, in radians.
Tensor arccos_(const Tensor& self, Where where = Where::current());
// In place: The inverse tangent, in radians.
Tensor atan_(const Tensor& self, Where where = Where::current());
// In place: The inverse tangent, in radians.
Tensor arctan_(const Tensor& self, Where where = Where::current());
// In place: The hyperbolic sine.
Tensor sinh_(const Tensor& self, Where where = Where::current());
// In place: The hyperbolic cosine.
Tensor cosh_(const Tensor& self, Where where = Where::current());
// In place: The inverse hyperbolic sine.
Tensor asinh_(const Tensor& self, Where where = Where::current());
// In place: The inverse hyperbolic sine.
Tensor arcsinh_(const Tensor& self, Where where = Where::current());
// In place: The inverse hyperbolic cosine.
Tensor acosh_(const Tensor& self, Where where = Where::current());
// In place: The inverse hyperbolic cosine.
Tensor arccosh_(const Tensor& self, Where where = Where::current());
// In place: The inverse hyperbolic tangent.
Tensor atanh_(const Tensor& self, Where where = Where::current());
// In place: The inverse hyperbolic tangent.
Tensor arctanh_(const Tensor& self, Where where = Where::current());
// In place: 1 / (1 + exp(-self)).
Tensor special_expit_(const Tensor& self, Where where = Where::current());
// In place: The error function.
Tensor erf_(const Tensor& self, Where where = Where::current());
// In place: The error function.
Tensor special_erf_(const Tensor& self, Where where = Where::current());
// In place: 1 - erf(self), exact for large arguments.
Tensor erfc_(const Tensor& self, Where where = Where::current());
// In place: 1 - erf(self), exact for large arguments.
Tensor special_erfc_(const Tensor& self, Where where = Where::current());
// In place: The inverse of the error function on (-1, 1).
Tensor erfinv_(const Tensor& self, Where where = Where::current());
// In place: The inverse of the error function on (-1, 1).
Tensor special_erfinv_(const Tensor& self, Where where = Where::current());
// In place: Degrees as radians.
Tensor deg2rad_(const Tensor& self, Where where = Where::current());
// In place: Radians as degrees.
Tensor rad2deg_(const Tensor& self, Where where = Where::current());
// In place: sin(pi * self) / (pi * self), and 1 at 0.
Tensor sinc_(const Tensor& self, Where where = Where::current());
// In place: sin(pi * self) / (pi * self), and 1 at 0.
Tensor special_sinc_(const Tensor& self, Where where = Where::current());
// In place: log(self / (1 - self)); with eps, self is clamped to [eps, 1 - eps] first.
Tensor logit_(const Tensor& self, std::optional<double> eps = {}, Where where = Where::current());
// In place: log(self / (1 - self)); with eps, self is clamped to [eps, 1 - eps] first.
Tensor special_logit_(const Tensor& self, std::optional<double> eps = {}, Where where = Where::current());
// In place: -self.
Tensor neg_(const Tensor& self, Where where = Where::current());
// In place: -self.
Tensor negative_(const Tensor& self, Where where = Where::current());
// In place: The absolute value; of complex numbers the magnitude.
Tensor abs_(const Tensor& self, Where where = Where::current());
// In place: The absolute value; of complex numbers the magnitude.
Tensor absolute_(const Tensor& self, Where where = Where::current());
// In place: The argument of complex numbers in radians; of reals 0, or pi where they are negative.
Tensor angle_(const Tensor& self, Where where = Where::current());
// In place: -1, 0 or 1 by the sign.
Tensor sign_(const Tensor& self, Where where = Where::current());
// In place: The sign; of complex numbers self / abs(self), and 0 at 0.
Tensor sgn_(const Tensor& self, Where where = Where::current());
// In place: self * self.
Tensor square_(const Tensor& self, Where where = Where::current());
// In place: The largest integer not above self.
Tensor floor_(const Tensor& self, Where where = Where::current());
// In place: The smallest integer not below self.
Tensor ceil_(const Tensor& self, Where where = Where::current());
// In place: self rounded towards zero.
Tensor trunc_(const Tensor& self, Where where = Where::current());
// In place: self rounded towards zero.
Tensor fix_(const Tensor& self, Where where = Where::current());
// In place: self rounded to the nearest integer, halves to even; with decimals, to that many decimal places.
Tensor round_(const Tensor& self, Where where = Where::current());
Tensor round_(const Tensor& self, const SymInt& decimals, Where where = Where::current());
// In place: self - trunc(self).
Tensor frac_(const Tensor& self, Where where = Where::current());
// In place: self rounded to the nearest integer, halves to even; with decimals, to that many decimal places.
Tensor special_round_(const Tensor& self, const SymInt& decimals = 0, Where where = Where::current());
// In place: Whether the element is NaN.
Tensor isnan_(const Tensor& self, Where where = Where::current());
// In place: Whether the element is infinite.
Tensor isinf_(const Tensor& self, Where where = Where::current());
// In place: Whether the element is neither infinite nor NaN.
Tensor isfinite_(const Tensor& self, Where where = Where::current());
// In place: Whether the imaginary part is 0.
Tensor isreal_(const Tensor& self, Where where = Where::current());
// In place: Whether the element is positive infinity.
Tensor isposinf_(const Tensor& self, Where where = Where::current());
// In place: Whether the element is negative infinity.
Tensor isneginf_(const Tensor& self, Where where = Where::current());
// In place: Whether the sign bit is set.
Tensor signbit_(const Tensor& self, Where where = Where::current());
// In place: self clamped to [0, 6].
Tensor relu6_(const Tensor& self, Where where = Where::current());
// In place: self where it is positive, negative_slope * self elsewhere.
Tensor leaky_relu_(const Tensor& self, const Operand& negative_slope = 0.01, Where where = Where::current());
// In place: scale * self where it is positive, scale * alpha * (exp(input_scale * self) - 1) elsewhere.
Tensor elu_(const Tensor& self, const Operand& alpha = 1, const Operand& scale = 1, const Operand& input_scale = 1, Where where = Where::current());
// In place: elu with the constants that normalise themselves.
Tensor selu_(const Tensor& self, Where where = Where::current());
// In place: self where it is positive, alpha * (exp(self / alpha) - 1) elsewhere.
Tensor celu_(const Tensor& self, const Operand& alpha = 1, Where where = Where::current());
// In place: self where it is above the threshold, value elsewhere.
Tensor threshold_(const Tensor& self, const Operand& threshold, const Operand& value, Where where = Where::current());
// In place: self clamped to [min_val, max_val].
Tensor hardtanh_(const Tensor& self, const Operand& min_val = -1, const Operand& max_val = 1, Where where = Where::current());
// In place: self times the normal distribution function of self; approximate is "none" (by erf) or "tanh".
Tensor gelu_(const Tensor& self, Word approximate = "none", Where where = Where::current());
// In place: self * sigmoid(self).
Tensor silu_(const Tensor& self, Where where = Where::current());
// In place: self * tanh(softplus(self)).
Tensor mish_(const Tensor& self, Where where = Where::current());
// In place: self * clamp(self + 3, 0, 6) / 6.
Tensor hardswish_(const Tensor& self, Where where = Where::current());
// In place: clamp(self + 3, 0, 6) / 6.
Tensor hardsigmoid_(const Tensor& self, Where where = Where::current());
// In place: log(1 + exp(beta * self)) / beta, and self where beta * self is above the threshold.
Tensor softplus_(const Tensor& self, const Operand& beta = 1, const Operand& threshold = 20, Where where = Where::current());
// In place: self moved towards 0 by lambd, and 0 within [-lambd, lambd].
Tensor softshrink_(const Tensor& self, const Operand& lambd = 0.5, Where where = Where::current());
// In place: self, and 0 within [-lambd, lambd].
Tensor hardshrink_(const Tensor& self, const Operand& lambd = 0.5, Where where = Where::current());
// In place: log(sigmoid(self)).
Tensor log_sigmoid_(const Tensor& self, Where where = Where::current());
// In place: self limited to [min, max]; a limit that is absent does not count.
Tensor clip_(const Tensor& self, const std::optional<Operand>& min = {}, const std::optional<Operand>& max = {}, Where where = Where::current());
Tensor clip_(const Tensor& self, const Tensor& min, const Tensor& max = {}, Where where = Where::current());
// In place: max(self, min).
Tensor clamp_min_(const Tensor& self, const Operand& min, Where where = Where::current());
// In place: min(self, max).
Tensor clamp_max_(const Tensor& self, const Operand& max, Where where = Where::current());
// In place: self with numbers instead of NaN and infinities; by default 0 and the dtype's extremes.
Tensor nan_to_num_(const Tensor& self, std::optional<double> nan = {}, std::optional<double> posinf = {}, std::optional<double> neginf = {}, Where where = Where::current());
// In place: self + weight * (end - self).
Tensor lerp_(const Tensor& self, const Operand& end, const Operand& weight, Where where = Where::current());
Tensor lerp_(const Tensor& self, const Tensor& end, const Tensor& weight, Where where = Where::current());
// In place: A copy.
Tensor clone_(const Tensor& self, Where where = Where::current());
// In place: 
Tensor lift_fresh_copy_(const Tensor& self, Where where = Where::current());
// In place: (clamp(round(self / scale) + zero_point, quant_min, quant_max) - zero_point) * scale; its gradient is 1 where nothing was clamped, else 0, and none goes to scale and zero point.
Tensor fake_quantize_per_tensor_affine_(const Tensor& self, double scale, const SymInt& zero_point, const SymInt& quant_min, const SymInt& quant_max, Where where = Where::current());
// In place: The logarithm of the absolute value of the gamma function.
Tensor lgamma_(const Tensor& self, Where where = Where::current());
// In place: The logarithm of the absolute value of the gamma function.
Tensor special_gammaln_(const Tensor& self, Where where = Where::current());
// In place: The derivative of lgamma.
Tensor digamma_(const Tensor& self, Where where = Where::current());
// In place: The derivative of lgamma.
Tensor special_digamma_(const Tensor& self, Where where = Where::current());
// In place: The derivative of lgamma.
Tensor special_psi_(const Tensor& self, Where where = Where::current());
// In place: The logarithm of the multivariate gamma function of dimension p.
Tensor mvlgamma_(const Tensor& self, const SymInt& p, Where where = Where::current());
// In place: The logarithm of the multivariate gamma function of dimension p.
Tensor special_multigammaln_(const Tensor& self, const SymInt& p, Where where = Where::current());
// In place: The regularized lower incomplete gamma function.
Tensor igamma_(const Tensor& self, const Operand& other, Where where = Where::current());
// In place: The regularized lower incomplete gamma function.
Tensor special_gammainc_(const Tensor& self, const Operand& other, Where where = Where::current());
// In place: The regularized upper incomplete gamma function.
Tensor igammac_(const Tensor& self, const Operand& other, Where where = Where::current());
// In place: The regularized upper incomplete gamma function.
Tensor special_gammaincc_(const Tensor& self, const Operand& other, Where where = Where::current());
// In place: The modified Bessel function of the first kind of order 0.
Tensor i0_(const Tensor& self, Where where = Where::current());
// In place: The modified Bessel function of the first kind of order 0.
Tensor special_i0_(const Tensor& self, Where where = Where::current());
// In place: i0 times exp(-abs(self)).
Tensor special_i0e_(const Tensor& self, Where where = Where::current());
// In place: The modified Bessel function of the first kind of order 1.
Tensor special_i1_(const Tensor& self, Where where = Where::current());
// In place: special_i1 times exp(-abs(self)).
Tensor special_i1e_(const Tensor& self, Where where = Where::current());
// In place: The Bessel function of the first kind of order 0.
Tensor special_bessel_j0_(const Tensor& self, Where where = Where::current());
// In place: The Bessel function of the first kind of order 1.
Tensor special_bessel_j1_(const Tensor& self, Where where = Where::current());
// In place: The Bessel function of the second kind of order 0.
Tensor special_bessel_y0_(const Tensor& self, Where where = Where::current());
// In place: The Bessel function of the second kind of order 1.
Tensor special_bessel_y1_(const Tensor& self, Where where = Where::current());
// In place: The modified Bessel function of the first kind of order 0.
Tensor special_modified_bessel_i0_(const Tensor& self, Where where = Where::current());
// In place: The modified Bessel function of the first kind of order 1.
Tensor special_modified_bessel_i1_(const Tensor& self, Where where = Where::current());
// In place: The modified Bessel function of the second kind of order 0.
Tensor special_modified_bessel_k0_(const Tensor& self, Where where = Where::current());
// In place: The modified Bessel function of the second kind of order 1.
Tensor special_modified_bessel_k1_(const Tensor& self, Where where = Where::current());
// In place: exp(x) times the modified Bessel function of the second kind of order 0.
Tensor special_scaled_modified_bessel_k0_(const Tensor& self, Where where = Where::current());
// In place: exp(x) times the modified Bessel function of the second kind of order 1.
Tensor special_scaled_modified_bessel_k1_(const Tensor& self, Where where = Where::current());
// In place: The spherical Bessel function of the first kind of order 0: sin(x) / x.
Tensor special_spherical_bessel_j0_(const Tensor& self, Where where = Where::current());
// In place: The Airy function Ai.
Tensor special_airy_ai_(const Tensor& self, Where where = Where::current());
// In place: exp(self ** 2) * erfc(self).
Tensor special_erfcx_(const Tensor& self, Where where = Where::current());
// In place: The inverse of the normal distribution function.
Tensor special_ndtri_(const Tensor& self, Where where = Where::current());
// In place: The logarithm of the normal distribution function.
Tensor special_log_ndtr_(const Tensor& self, Where where = Where::current());
// In place: The normal distribution function.
Tensor special_ndtr_(const Tensor& self, Where where = Where::current());
// In place: -self * log(self), 0 at 0 and negative infinity below.
Tensor special_entr_(const Tensor& self, Where where = Where::current());
// In place: The Hurwitz zeta function of exponent self and offset other.
Tensor special_zeta_(const Tensor& self, const Operand& other, Where where = Where::current());
// In place: self * log1p(other), and 0 where self is 0.
Tensor special_xlog1py_(const Tensor& self, const Operand& other, Where where = Where::current());
// In place: The Chebyshev polynomial of the first kind of degree n at x.
Tensor special_chebyshev_polynomial_t_(const Tensor& self, const Operand& n, Where where = Where::current());
// In place: The Chebyshev polynomial of the second kind of degree n at x.
Tensor special_chebyshev_polynomial_u_(const Tensor& self, const Operand& n, Where where = Where::current());
// In place: The Chebyshev polynomial of the third kind of degree n at x.
Tensor special_chebyshev_polynomial_v_(const Tensor& self, const Operand& n, Where where = Where::current());
// In place: The Chebyshev polynomial of the fourth kind of degree n at x.
Tensor special_chebyshev_polynomial_w_(const Tensor& self, const Operand& n, Where where = Where::current());
// In place: The Chebyshev polynomial of the first kind of degree n at 2 * x - 1.
Tensor special_shifted_chebyshev_polynomial_t_(const Tensor& self, const Operand& n, Where where = Where::current());
// In place: The Chebyshev polynomial of the second kind of degree n at 2 * x - 1.
Tensor special_shifted_chebyshev_polynomial_u_(const Tensor& self, const Operand& n, Where where = Where::current());
// In place: The Chebyshev polynomial of the third kind of degree n at 2 * x - 1.
Tensor special_shifted_chebyshev_polynomial_v_(const Tensor& self, const Operand& n, Where where = Where::current());
// In place: The Chebyshev polynomial of the fourth kind of degree n at 2 * x - 1.
Tensor special_shifted_chebyshev_polynomial_w_(const Tensor& self, const Operand& n, Where where = Where::current());
// In place: The physicist's Hermite polynomial of degree n at x.
Tensor special_hermite_polynomial_h_(const Tensor& self, const Operand& n, Where where = Where::current());
// In place: The probabilist's Hermite polynomial of degree n at x.
Tensor special_hermite_polynomial_he_(const Tensor& self, const Operand& n, Where where = Where::current());
// In place: The Laguerre polynomial of degree n at x.
Tensor special_laguerre_polynomial_l_(const Tensor& self, const Operand& n, Where where = Where::current());
// In place: The Legendre polynomial of degree n at x.
Tensor special_legendre_polynomial_p_(const Tensor& self, const Operand& n, Where where = Where::current());
// In place: The running sum along dim.
Tensor cumsum_(const Tensor& self, int64_t dim, std::optional<DType> dtype = {}, Where where = Where::current());
// In place: The running product along dim.
Tensor cumprod_(const Tensor& self, int64_t dim, std::optional<DType> dtype = {}, Where where = Where::current());
// In place: self with a value at the slices of index along dim.
Tensor index_fill_(const Tensor& self, int64_t dim, const Tensor& index, const Operand& value, Where where = Where::current());
Tensor index_fill_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& value, Where where = Where::current());
// In place: self with source at indices into the flattened tensor.
Tensor put_(const Tensor& self, const Tensor& index, const Tensor& source, bool accumulate = false, Where where = Where::current());
// In place: self with the elements of source, in order, where mask holds.
Tensor masked_scatter_(const Tensor& self, const Tensor& mask, const Tensor& source, Where where = Where::current());
// In place: The lower triangle of matrices, 0 elsewhere.
Tensor tril_(const Tensor& self, const SymInt& diagonal = 0, Where where = Where::current());
// In place: The upper triangle of matrices, 0 elsewhere.
Tensor triu_(const Tensor& self, const SymInt& diagonal = 0, Where where = Where::current());
// In place: self with src at index along dim, for each position of index.
Tensor scatter_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, Where where = Where::current());
Tensor scatter_(const Tensor& self, int64_t dim, const Tensor& index, const Operand& value, Where where = Where::current());
Tensor scatter_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, Word reduce, Where where = Where::current());
Tensor scatter_(const Tensor& self, int64_t dim, const Tensor& index, const Operand& value, Word reduce, Where where = Where::current());
// In place: self with src reduced into index along dim: "sum", "prod", "mean", "amax" or "amin".
Tensor scatter_reduce_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, Word reduce, bool include_self = true, Where where = Where::current());
// In place: self with the slices of source reduced into those of index along dim.
Tensor index_reduce_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, Word reduce, bool include_self = true, Where where = Where::current());
// In place: beta * self + alpha * mat1 * mat2.
Tensor addmm_(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Operand& beta = 1, const Operand& alpha = 1, Where where = Where::current());
// In place: beta * self + alpha * batch1 * batch2, batch by batch.
Tensor baddbmm_(const Tensor& self, const Tensor& batch1, const Tensor& batch2, const Operand& beta = 1, const Operand& alpha = 1, Where where = Where::current());
// In place: beta * self + alpha times the sum of the products of the batches.
Tensor addbmm_(const Tensor& self, const Tensor& batch1, const Tensor& batch2, const Operand& beta = 1, const Operand& alpha = 1, Where where = Where::current());
// In place: beta * self + alpha * mat * vec.
Tensor addmv_(const Tensor& self, const Tensor& mat, const Tensor& vec, const Operand& beta = 1, const Operand& alpha = 1, Where where = Where::current());
// In place: beta * self + alpha times the outer product of two vectors.
Tensor addr_(const Tensor& self, const Tensor& vec1, const Tensor& vec2, const Operand& beta = 1, const Operand& alpha = 1, Where where = Where::current());
// In place: The slices along dim scaled to a p-norm of at most maxnorm.
Tensor renorm_(const Tensor& self, const Operand& p, int64_t dim, const Operand& maxnorm, Where where = Where::current());
// In place: The complex conjugates.
Tensor conj_physical_(const Tensor& self, Where where = Where::current());
// In place: As self, random integers from `from` to before `to`.
Tensor random_(const Tensor& self, const SymInt& from, const std::optional<SymInt>& to, Where where = Where::current());
Tensor random_(const Tensor& self, const SymInt& to, Where where = Where::current());
// In place: 1 with the given probability, 0 otherwise.
Tensor bernoulli_(const Tensor& self, double p = 0.5, Where where = Where::current());
Tensor bernoulli_(const Tensor& self, const Tensor& p, Where where = Where::current());
// In place: Normal random numbers of the given mean and deviation.
Tensor normal_(const Tensor& self, double mean = 0, double std = 1, Where where = Where::current());
// In place: Exponentials of normal random numbers.
Tensor log_normal_(const Tensor& self, double mean = 1, double std = 2, Where where = Where::current());
// In place: As self, uniform random numbers in [from, to).
Tensor uniform_(const Tensor& self, double from = 0, double to = 1, Where where = Where::current());
// In place: As self, random numbers of the exponential distribution of rate lambd.
Tensor exponential_(const Tensor& self, double lambd = 1, Where where = Where::current());
// In place: As self, random numbers of the Cauchy distribution.
Tensor cauchy_(const Tensor& self, double median = 0, double sigma = 1, Where where = Where::current());
// In place: As self, random numbers of the geometric distribution of probability p.
Tensor geometric_(const Tensor& self, double p, Where where = Where::current());
// In place: Elements zeroed with probability p and the rest scaled by 1 / (1 - p), when training.
Tensor dropout_(const Tensor& self, double p, bool train, Where where = Where::current());
// In place: dropout of whole channels.
Tensor feature_dropout_(const Tensor& self, double p, bool train, Where where = Where::current());
// In place: dropout that keeps mean and variance for selu.
Tensor alpha_dropout_(const Tensor& self, double p, bool train, Where where = Where::current());
// In place: alpha_dropout of whole channels.
Tensor feature_alpha_dropout_(const Tensor& self, double p, bool train, Where where = Where::current());
// In place: leaky_relu whose slope is random in [lower, upper] when training, their mean otherwise.
Tensor rrelu_(const Tensor& self, const Operand& lower = 0.125, const Operand& upper = 0.3333333333333333, bool training = false, Where where = Where::current());

}  // namespace toroid
// clang-format on
