// Fourier transforms of every small size, of primes and of large sizes, along any dimension, against the definition in long double.
#include "ops/rows/fft_transform.h"

#include <gtest/gtest.h>

#include <cmath>

namespace toroid::ops {
namespace {

using Numbers = std::vector<std::complex<double>>;

Numbers numbers(int64_t count) {
  Numbers out;
  uint32_t state = 12345;
  auto next = [&] { return static_cast<double>((state = state * 1664525 + 1013904223) >> 8) / (1 << 23) - 1; };
  for (int64_t i = 0; i < count; ++i) {
    double re = next(), im = next();
    out.emplace_back(re, im);
  }
  return out;
}

using Exact = std::complex<long double>;

std::vector<Exact> roots(int64_t n, int sign) {
  std::vector<Exact> out;
  for (int64_t k = 0; k < n; ++k)
    out.push_back(std::polar(1.0L, sign * 6.283185307179586476925L * static_cast<long double>(k) / static_cast<long double>(n)));
  return out;
}

// Result j of the transform of numbers that are `apart` from each other.
std::complex<double> by_definition(const std::complex<double>* x, const std::vector<Exact>& roots, int64_t apart, int64_t j) {
  long double re = 0, im = 0;
  const auto n = static_cast<int64_t>(roots.size());
  for (int64_t k = 0; k < n; ++k) {
    const Exact w = roots[static_cast<size_t>(j * k % n)];
    const long double a = x[k * apart].real(), b = x[k * apart].imag();
    re += a * w.real() - b * w.imag();
    im += a * w.imag() + b * w.real();
  }
  return {static_cast<double>(re), static_cast<double>(im)};
}

// The largest error of `checked` results of each transform, in units of the root of the sum of squares: what rounding makes it grow by.
double worst_error(int64_t outer, int64_t n, int64_t inner, int sign, int64_t checked) {
  Numbers x = numbers(outer * n * inner), y = x;
  fourier_transform(y, outer, n, inner, sign);
  const std::vector<Exact> w = roots(n, sign);
  double worst = 0;
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < inner; ++i) {
      const int64_t from = o * n * inner + i;
      for (int64_t s = 0; s < checked; ++s) {
        const int64_t j = checked == n ? s : s * (n - 1) / (checked - 1);
        const auto expected = by_definition(&x[static_cast<size_t>(from)], w, inner, j);
        worst = std::max(worst, std::abs(y[static_cast<size_t>(from + j * inner)] - expected));
      }
    }
  }
  return worst / std::sqrt(static_cast<double>(n));
}

TEST(FourierTransform, EverySmallSizeIsAsAccurateAsItsNumbers) {
  for (int64_t n = 1; n <= 200; ++n)
    for (int sign : {-1, 1}) EXPECT_LT(worst_error(1, n, 1, sign, n), 3e-15) << n << " numbers, sign " << sign;
}

TEST(FourierTransform, LargeSizesAndPrimes) {
  for (int64_t n : {256, 997, 1000, 1009, 1024, 2 * 1009, 4096, 3 * 5 * 7 * 11, 7919, 1 << 15, 31 * 31 * 29})
    EXPECT_LT(worst_error(1, n, 1, -1, 7), 1e-14) << n << " numbers";
}

// More columns than are transformed at once, and a rest.
TEST(FourierTransform, AnyDimensionOfAnyBatch) {
  for (int64_t n : {2, 12, 37, 64, 600}) {
    EXPECT_LT(worst_error(3, n, 7, 1, std::min<int64_t>(n, 9)), 1e-14) << n;
    EXPECT_LT(worst_error(37, n, 1, -1, std::min<int64_t>(n, 9)), 1e-14) << n;
    EXPECT_LT(worst_error(1, n, 35, -1, std::min<int64_t>(n, 9)), 1e-14) << n;
  }
}

// One column's NaN is no other column's, although they are transformed together.
TEST(FourierTransform, ColumnsDoNotMix) {
  for (int64_t n : {8, 37}) {
    Numbers x = numbers(n * 5);
    x[2] = {NAN, 0};
    fourier_transform(x, 1, n, 5, -1);
    for (int64_t i = 0; i < n * 5; ++i) EXPECT_EQ(std::isnan(x[static_cast<size_t>(i)].real()), i % 5 == 2) << i;
  }
}

TEST(FourierTransform, NoNumbersAreNoTransform) {
  Numbers none;
  fourier_transform(none, 0, 5, 3, 1);
  EXPECT_TRUE(none.empty());
}

}  // namespace
}  // namespace toroid::ops
