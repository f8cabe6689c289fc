// Special functions.
#include <cmath>

#include "base/check.h"
#include "ops/rows/pointwise.h"

namespace toroid::ops {
namespace {

template <ScalarOp kOp>
S unary(F f) {
  return apply(kOp, f[0]);
}

template <ScalarOp kOp>
S binary(F f) {
  return apply(kOp, lhs(f), rhs(f));
}

S entr_formula(F f) {
  S x = f[0];
  S value = select(x > 0.0, -(x * log(x)), select(x == 0.0, lit(x, 0), lit(x, -INFINITY)));
  return select(is_nan(x), x, value);
}

S ndtr_formula(F f) { return erfc(f[0] * -0.70710678118654752440) * 0.5; }

S xlog1py_formula(F f) {
  S x = lhs(f), y = rhs(f);
  return select(is_nan(y), y, select(x == 0.0, lit(x, 0), x * log1p(y)));
}

S polygamma_formula(F f) {
  int64_t n = f.integer("n");
  TOROID_USER_CHECK(n >= 0, "{}: the order n must not be negative, it is {}", f.op().name, n);
  S x = f[0];
  return n == 0 ? apply(ScalarOp::Digamma, x) : apply(ScalarOp::Polygamma, f.constant(static_cast<double>(n)), x);
}

// log of the multivariate gamma function: a sum of p one-variable ones.
S mvlgamma_formula(F f) {
  constexpr double kLogPi = 1.14472988584940017414;
  constexpr int64_t kMaxOrder = 1024;
  int64_t p = f.integer("p");
  TOROID_USER_CHECK(p >= 1 && p <= kMaxOrder, "{}: p must be in 1..{}, it is {}", f.op().name, kMaxOrder, p);
  S sum = f.constant(0.25 * static_cast<double>(p * (p - 1)) * kLogPi);
  for (int64_t i = 0; i < p; ++i) sum = sum + apply(ScalarOp::Lgamma, f[0] - 0.5 * static_cast<double>(i));
  return sum;
}

void add_gamma_rows(Table& t) {
  unary_rows(t, {"lgamma", "special_gammaln"}, Promote::Float, unary<ScalarOp::Lgamma>);
  unary_rows(t, {"digamma", "special_digamma", "special_psi"}, Promote::Float, unary<ScalarOp::Digamma>);
  t.pointwise("polygamma(int n, Tensor self) -> Tensor", Promote::Float, polygamma_formula);
  t.pointwise("special_polygamma(int n, Tensor self) -> Tensor", Promote::Float, polygamma_formula);
  t.pointwise("mvlgamma(Tensor self, int p) -> Tensor", Promote::Float, mvlgamma_formula);
  t.pointwise("special_multigammaln(Tensor self, int p) -> Tensor", Promote::Float, mvlgamma_formula);
  binary_rows(t, {"igamma", "special_gammainc"}, {""}, Promote::Float, binary<ScalarOp::Igamma>);
  binary_rows(t, {"igammac", "special_gammaincc"}, {""}, Promote::Float, binary<ScalarOp::Igammac>);
}

void add_bessel_rows(Table& t) {
  unary_rows(t, {"i0", "special_i0"}, Promote::Float, unary<ScalarOp::I0>);
  unary_rows(t, {"special_i0e"}, Promote::Float, unary<ScalarOp::I0e>);
  unary_rows(t, {"special_i1"}, Promote::Float, unary<ScalarOp::I1>);
  unary_rows(t, {"special_i1e"}, Promote::Float, unary<ScalarOp::I1e>);
  unary_rows(t, {"special_bessel_j0"}, Promote::Float, unary<ScalarOp::BesselJ0>);
  unary_rows(t, {"special_bessel_j1"}, Promote::Float, unary<ScalarOp::BesselJ1>);
  unary_rows(t, {"special_bessel_y0"}, Promote::Float, unary<ScalarOp::BesselY0>);
  unary_rows(t, {"special_bessel_y1"}, Promote::Float, unary<ScalarOp::BesselY1>);
  unary_rows(t, {"special_modified_bessel_i0"}, Promote::Float, unary<ScalarOp::ModifiedBesselI0>);
  unary_rows(t, {"special_modified_bessel_i1"}, Promote::Float, unary<ScalarOp::ModifiedBesselI1>);
  unary_rows(t, {"special_modified_bessel_k0"}, Promote::Float, unary<ScalarOp::ModifiedBesselK0>);
  unary_rows(t, {"special_modified_bessel_k1"}, Promote::Float, unary<ScalarOp::ModifiedBesselK1>);
  for (auto [name, formula] :
       {std::pair<const char*, Formula>{"special_scaled_modified_bessel_k0", unary<ScalarOp::ScaledModifiedBesselK0>},
        {"special_scaled_modified_bessel_k1", unary<ScalarOp::ScaledModifiedBesselK1>},
        {"special_spherical_bessel_j0", unary<ScalarOp::SphericalBesselJ0>},
        {"special_airy_ai", unary<ScalarOp::AiryAi>}})
    t.pointwise(fmt::format("{}(Tensor x) -> Tensor", name), Promote::Float, formula);
}

void add_error_function_rows(Table& t) {
  unary_rows(t, {"special_erfcx"}, Promote::Float, unary<ScalarOp::Erfcx>);
  unary_rows(t, {"special_ndtri"}, Promote::Float, unary<ScalarOp::Ndtri>);
  unary_rows(t, {"special_log_ndtr"}, Promote::Float, unary<ScalarOp::LogNdtr>);
  unary_rows(t, {"special_ndtr"}, Promote::Float, ndtr_formula);
  unary_rows(t, {"special_entr"}, Promote::Float, entr_formula);
}

// name(first, second), name.<first>_scalar and name.<second>_scalar.
void scalar_overloads(Table& t, const char* name, const char* first, const char* second, Formula formula) {
  t.pointwise(fmt::format("{}(Tensor {}, Tensor {}) -> Tensor", name, first, second), Promote::Float, formula);
  t.pointwise(fmt::format("{}.{}_scalar(Scalar {}, Tensor {}) -> Tensor", name, first, first, second), Promote::Float, formula);
  t.pointwise(fmt::format("{}.{}_scalar(Tensor {}, Scalar {}) -> Tensor", name, second, first, second), Promote::Float, formula);
}

void add_polynomial_rows(Table& t) {
  scalar_overloads(t, "special_zeta", "self", "other", binary<ScalarOp::Zeta>);
  scalar_overloads(t, "special_xlog1py", "self", "other", xlog1py_formula);
  scalar_overloads(t, "special_chebyshev_polynomial_t", "x", "n", binary<ScalarOp::ChebyshevT>);
  scalar_overloads(t, "special_chebyshev_polynomial_u", "x", "n", binary<ScalarOp::ChebyshevU>);
  scalar_overloads(t, "special_chebyshev_polynomial_v", "x", "n", binary<ScalarOp::ChebyshevV>);
  scalar_overloads(t, "special_chebyshev_polynomial_w", "x", "n", binary<ScalarOp::ChebyshevW>);
  scalar_overloads(t, "special_shifted_chebyshev_polynomial_t", "x", "n", binary<ScalarOp::ShiftedChebyshevT>);
  scalar_overloads(t, "special_shifted_chebyshev_polynomial_u", "x", "n", binary<ScalarOp::ShiftedChebyshevU>);
  scalar_overloads(t, "special_shifted_chebyshev_polynomial_v", "x", "n", binary<ScalarOp::ShiftedChebyshevV>);
  scalar_overloads(t, "special_shifted_chebyshev_polynomial_w", "x", "n", binary<ScalarOp::ShiftedChebyshevW>);
  scalar_overloads(t, "special_hermite_polynomial_h", "x", "n", binary<ScalarOp::HermiteH>);
  scalar_overloads(t, "special_hermite_polynomial_he", "x", "n", binary<ScalarOp::HermiteHe>);
  scalar_overloads(t, "special_laguerre_polynomial_l", "x", "n", binary<ScalarOp::LaguerreL>);
  scalar_overloads(t, "special_legendre_polynomial_p", "x", "n", binary<ScalarOp::LegendreP>);
}

}  // namespace

void add_special_rows(Table& t) {
  add_gamma_rows(t);
  add_bessel_rows(t);
  add_error_function_rows(t);
  add_polynomial_rows(t);
}

}  // namespace toroid::ops
