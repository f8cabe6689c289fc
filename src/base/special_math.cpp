#include "base/special_math.h"

#include <cmath>
#include <iterator>

namespace toroid {
namespace {

using std::acos, std::acosh, std::cos, std::cosh, std::erf, std::erfc, std::exp, std::expm1, std::fabs, std::floor, std::fmod, std::log,
    std::log1p, std::pow, std::sin, std::sinh, std::sqrt, std::tan, std::trunc;

// lgamma writes the global signgam; the reentrant form does not.
double lgamma(double x) {
  int sign = 0;
  return ::lgamma_r(x, &sign);
}

#define SPECIAL_FN inline
#define TOROID_SPECIAL(name, ...) __VA_ARGS__
#include "base/special_functions.inc"
#undef TOROID_SPECIAL
#undef SPECIAL_FN

#define TOROID_SPECIAL(name, ...) {#name, #__VA_ARGS__},
constexpr SpecialText kTexts[] = {
#include "base/special_functions.inc"
};
#undef TOROID_SPECIAL

double sp_lgamma(double x) { return lgamma(x); }

struct UnaryRow {
  std::string_view name;
  SpecialUnary fn;
};
struct BinaryRow {
  std::string_view name;
  SpecialBinary fn;
};

#define ROW(name) \
  { #name, sp_##name }
constexpr UnaryRow kUnary[] = {ROW(airy_ai), ROW(digamma),  ROW(erfcx), ROW(erfinv), ROW(i0),           ROW(i0e), ROW(i1),
                               ROW(i1e),     ROW(j0),       ROW(j1),    ROW(k0),     ROW(k0e),          ROW(k1),  ROW(k1e),
                               ROW(lgamma),  ROW(log_ndtr), ROW(ndtr),  ROW(ndtri),  ROW(spherical_j0), ROW(y0),  ROW(y1)};
constexpr BinaryRow kBinary[] = {ROW(chebyshev_t),
                                 ROW(chebyshev_u),
                                 ROW(chebyshev_v),
                                 ROW(chebyshev_w),
                                 ROW(hermite_h),
                                 ROW(hermite_he),
                                 ROW(igamma),
                                 ROW(igammac),
                                 ROW(laguerre_l),
                                 ROW(legendre_p),
                                 ROW(polygamma),
                                 ROW(shifted_chebyshev_t),
                                 ROW(shifted_chebyshev_u),
                                 ROW(shifted_chebyshev_v),
                                 ROW(shifted_chebyshev_w),
                                 ROW(zeta)};
#undef ROW

template <class Row, size_t N>
struct Names {
  std::string_view at[N];
  explicit constexpr Names(const Row (&rows)[N]) : at{} {
    for (size_t i = 0; i < N; ++i) at[i] = rows[i].name;
  }
};
constexpr Names kUnaryNames(kUnary);
constexpr Names kBinaryNames(kBinary);

}  // namespace

std::span<const SpecialText> special_texts() { return kTexts; }

SpecialUnary find_special_unary(std::string_view name) {
  for (const UnaryRow& r : kUnary)
    if (r.name == name) return r.fn;
  return nullptr;
}

SpecialBinary find_special_binary(std::string_view name) {
  for (const BinaryRow& r : kBinary)
    if (r.name == name) return r.fn;
  return nullptr;
}

std::span<const std::string_view> special_unary_names() { return kUnaryNames.at; }
std::span<const std::string_view> special_binary_names() { return kBinaryNames.at; }

int64_t special_gcd(int64_t a, int64_t b) { return sp_gcd(a, b); }
int64_t special_lcm(int64_t a, int64_t b) { return sp_lcm(a, b); }

}  // namespace toroid
