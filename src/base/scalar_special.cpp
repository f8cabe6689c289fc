// The part of the scalar vocabulary that is functions by name, and random numbers.
#include <array>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/scalar.h"
#include "base/special_math.h"

namespace toroid {
namespace {

// Philox 4x32-10 (Salmon et al., 2011): two words of the block with key `seed` and counter `offset`.
void philox(uint64_t seed, uint64_t offset, uint32_t* w0, uint32_t* w1) {
  uint32_t c[4] = {static_cast<uint32_t>(offset), static_cast<uint32_t>(offset >> 32), 0, 0};
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    uint64_t p0 = uint64_t{c[0]} * 0xD2511F53u, p1 = uint64_t{c[2]} * 0xCD9E8D57u;
    uint32_t next[4] = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1), static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1,
                        static_cast<uint32_t>(p0)};
    std::copy(next, next + 4, c);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  *w0 = c[0];
  *w1 = c[1];
}

constexpr std::pair<ScalarOp, std::string_view> kFunctions[] = {
    {ScalarOp::Sqrt, "sqrt"},
    {ScalarOp::Rsqrt, "rsqrt"},
    {ScalarOp::Exp, "exp"},
    {ScalarOp::Exp2, "exp2"},
    {ScalarOp::Expm1, "expm1"},
    {ScalarOp::Log, "log"},
    {ScalarOp::Log2, "log2"},
    {ScalarOp::Log10, "log10"},
    {ScalarOp::Log1p, "log1p"},
    {ScalarOp::Pow, "pow"},
    {ScalarOp::Hypot, "hypot"},
    {ScalarOp::Sin, "sin"},
    {ScalarOp::Cos, "cos"},
    {ScalarOp::Tan, "tan"},
    {ScalarOp::Asin, "asin"},
    {ScalarOp::Acos, "acos"},
    {ScalarOp::Atan, "atan"},
    {ScalarOp::Atan2, "atan2"},
    {ScalarOp::Sinh, "sinh"},
    {ScalarOp::Cosh, "cosh"},
    {ScalarOp::Tanh, "tanh"},
    {ScalarOp::Asinh, "asinh"},
    {ScalarOp::Acosh, "acosh"},
    {ScalarOp::Atanh, "atanh"},
    {ScalarOp::Sigmoid, "sigmoid"},
    {ScalarOp::Erf, "erf"},
    {ScalarOp::Erfc, "erfc"},
    {ScalarOp::Erfinv, "erfinv"},
    {ScalarOp::Gcd, "gcd"},
    {ScalarOp::Lcm, "lcm"},
    {ScalarOp::Lgamma, "lgamma"},
    {ScalarOp::Digamma, "digamma"},
    {ScalarOp::Polygamma, "polygamma"},
    {ScalarOp::Zeta, "zeta"},
    {ScalarOp::Igamma, "igamma"},
    {ScalarOp::Igammac, "igammac"},
    {ScalarOp::I0, "i0"},
    {ScalarOp::I0e, "i0e"},
    {ScalarOp::I1, "i1"},
    {ScalarOp::I1e, "i1e"},
    {ScalarOp::Ndtri, "ndtri"},
    {ScalarOp::LogNdtr, "log_ndtr"},
    {ScalarOp::Erfcx, "erfcx"},
    {ScalarOp::BesselJ0, "j0"},
    {ScalarOp::BesselJ1, "j1"},
    {ScalarOp::BesselY0, "y0"},
    {ScalarOp::BesselY1, "y1"},
    {ScalarOp::ModifiedBesselI0, "i0"},
    {ScalarOp::ModifiedBesselI1, "i1"},
    {ScalarOp::ModifiedBesselK0, "k0"},
    {ScalarOp::ModifiedBesselK1, "k1"},
    {ScalarOp::ScaledModifiedBesselK0, "k0e"},
    {ScalarOp::ScaledModifiedBesselK1, "k1e"},
    {ScalarOp::SphericalBesselJ0, "spherical_j0"},
    {ScalarOp::AiryAi, "airy_ai"},
    {ScalarOp::ChebyshevT, "chebyshev_t"},
    {ScalarOp::ChebyshevU, "chebyshev_u"},
    {ScalarOp::ChebyshevV, "chebyshev_v"},
    {ScalarOp::ChebyshevW, "chebyshev_w"},
    {ScalarOp::ShiftedChebyshevT, "shifted_chebyshev_t"},
    {ScalarOp::ShiftedChebyshevU, "shifted_chebyshev_u"},
    {ScalarOp::ShiftedChebyshevV, "shifted_chebyshev_v"},
    {ScalarOp::ShiftedChebyshevW, "shifted_chebyshev_w"},
    {ScalarOp::HermiteH, "hermite_h"},
    {ScalarOp::HermiteHe, "hermite_he"},
    {ScalarOp::LaguerreL, "laguerre_l"},
    {ScalarOp::LegendreP, "legendre_p"},
};

}  // namespace

std::string_view function_name(ScalarOp op) {
  static const auto names = [] {
    std::array<std::string_view, kScalarOpCount> by_op;
    for (auto& [function, name] : kFunctions) by_op[static_cast<size_t>(function)] = name;
    return by_op;
  }();
  return names[static_cast<size_t>(op)];
}

double special_function(ScalarOp op, double a, double b) {
  if (op == ScalarOp::FrexpMantissa || op == ScalarOp::FrexpExponent) {
    int exponent = 0;
    double mantissa = std::frexp(a, &exponent);
    return op == ScalarOp::FrexpMantissa ? mantissa : exponent;
  }
  std::string_view name = function_name(op);
  if (arity_of(op) == 1) {
    if (auto f = find_special_unary(name)) return f(a);
  } else if (auto f = find_special_binary(name)) {
    return f(a, b);
  }
  fail<InternalError>("scalar op {} is not defined on floats", name_of(op));
}

double random_uniform(int64_t seed, int64_t offset) {
  uint32_t a, b;
  philox(static_cast<uint64_t>(seed), static_cast<uint64_t>(offset), &a, &b);
  return (a >> 8) * 0x1p-24;
}

double random_normal(int64_t seed, int64_t offset) {
  uint32_t a, b;
  philox(static_cast<uint64_t>(seed), static_cast<uint64_t>(offset), &a, &b);
  double u = ((a >> 8) + 1) * 0x1p-24, v = (b >> 8) * 0x1p-24;  // Box-Muller; u lies in (0, 1]
  return std::sqrt(-2 * std::log(u)) * std::cos(v * 6.283185307179586);
}

}  // namespace toroid
