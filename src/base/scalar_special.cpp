// The part of the scalar vocabulary that is functions by name, and random numbers.
#include <cmath>

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

}  // namespace

std::string_view function_name(ScalarOp op) {
  switch (op) {
#define TOROID_NAME(Op, text) \
  case ScalarOp::Op: \
    return text;
    TOROID_NAME(Sqrt, "sqrt")
    TOROID_NAME(Rsqrt, "rsqrt") TOROID_NAME(Exp, "exp") TOROID_NAME(Exp2, "exp2") TOROID_NAME(Expm1, "expm1") TOROID_NAME(Log, "log")
        TOROID_NAME(Log2, "log2") TOROID_NAME(Log10, "log10") TOROID_NAME(Log1p, "log1p") TOROID_NAME(Pow, "pow") TOROID_NAME(
            Hypot, "hypot") TOROID_NAME(Sin, "sin") TOROID_NAME(Cos, "cos") TOROID_NAME(Tan, "tan") TOROID_NAME(Asin, "asin")
            TOROID_NAME(Acos, "acos") TOROID_NAME(Atan, "atan") TOROID_NAME(Atan2, "atan2") TOROID_NAME(Sinh, "sinh") TOROID_NAME(
                Cosh, "cosh") TOROID_NAME(Tanh, "tanh") TOROID_NAME(Asinh, "asinh") TOROID_NAME(Acosh, "acosh") TOROID_NAME(Atanh, "atanh")
                TOROID_NAME(Sigmoid, "sigmoid") TOROID_NAME(Erf, "erf") TOROID_NAME(Erfc, "erfc") TOROID_NAME(Erfinv, "erfinv")
                    TOROID_NAME(Gcd, "gcd") TOROID_NAME(Lcm, "lcm") TOROID_NAME(Lgamma, "lgamma") TOROID_NAME(Digamma, "digamma")
                        TOROID_NAME(Polygamma, "polygamma") TOROID_NAME(Zeta, "zeta") TOROID_NAME(Igamma, "igamma")
                            TOROID_NAME(Igammac, "igammac") TOROID_NAME(I0, "i0") TOROID_NAME(I0e, "i0e") TOROID_NAME(I1, "i1")
                                TOROID_NAME(I1e, "i1e") TOROID_NAME(Ndtri, "ndtri") TOROID_NAME(LogNdtr, "log_ndtr")
                                    TOROID_NAME(Erfcx, "erfcx") TOROID_NAME(BesselJ0, "j0") TOROID_NAME(BesselJ1, "j1")
                                        TOROID_NAME(BesselY0, "y0") TOROID_NAME(BesselY1, "y1") TOROID_NAME(ModifiedBesselI0, "i0")
                                            TOROID_NAME(ModifiedBesselI1, "i1") TOROID_NAME(ModifiedBesselK0, "k0")
                                                TOROID_NAME(ModifiedBesselK1, "k1") TOROID_NAME(ScaledModifiedBesselK0, "k0e")
                                                    TOROID_NAME(ScaledModifiedBesselK1, "k1e")
                                                        TOROID_NAME(SphericalBesselJ0, "spherical_j0") TOROID_NAME(AiryAi, "airy_ai")
                                                            TOROID_NAME(ChebyshevT, "chebyshev_t") TOROID_NAME(ChebyshevU, "chebyshev_u")
                                                                TOROID_NAME(ChebyshevV, "chebyshev_v")
                                                                    TOROID_NAME(ChebyshevW, "chebyshev_w")
                                                                        TOROID_NAME(ShiftedChebyshevT, "shifted_chebyshev_t")
                                                                            TOROID_NAME(ShiftedChebyshevU, "shifted_chebyshev_u")
                                                                                TOROID_NAME(ShiftedChebyshevV, "shifted_chebyshev_v")
                                                                                    TOROID_NAME(ShiftedChebyshevW, "shifted_chebyshev_w")
                                                                                        TOROID_NAME(HermiteH, "hermite_h")
                                                                                            TOROID_NAME(HermiteHe, "hermite_he")
                                                                                                TOROID_NAME(LaguerreL, "laguerre_l")
                                                                                                    TOROID_NAME(LegendreP, "legendre_p")
#undef TOROID_NAME
                                                                                                        default : return {};
  }
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
