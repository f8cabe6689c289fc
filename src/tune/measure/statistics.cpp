#include "tune/measure/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace toroid::tune {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double nth(std::vector<double>& v, size_t k) {
  std::nth_element(v.begin(), v.begin() + static_cast<long>(k), v.end());
  return v[k];
}

double median_of(std::vector<double>& v) {
  if (v.empty()) return std::numeric_limits<double>::quiet_NaN();
  const double upper = nth(v, v.size() / 2);
  if (v.size() % 2 == 1) return upper;
  return (*std::max_element(v.begin(), v.begin() + static_cast<long>(v.size() / 2)) + upper) / 2;
}

std::vector<double> walsh_averages(std::span<const double> values) {
  std::vector<double> out;
  out.reserve(values.size() * (values.size() + 1) / 2);
  for (size_t i = 0; i < values.size(); ++i)
    for (size_t j = 0; j <= i; ++j) out.push_back((values[i] + values[j]) / 2);
  return out;
}

// How many of the smallest Walsh averages may be left out below the interval: the largest c with P(W < c) <= risk, W being the signed-rank
// statistic of n values; 0 where even P(W = 0) = 2^-n is more.
size_t outside(size_t n, double risk) {
  constexpr size_t kExact = 30;
  const size_t pairs = n * (n + 1) / 2;
  if (n > kExact) {
    // One-sided normal quantile by bisection of erfc: exact enough, and no table.
    double lo = 0, hi = 10;
    for (int i = 0; i < 60; ++i) {
      const double z = (lo + hi) / 2;
      (std::erfc(z / std::sqrt(2.0)) / 2 > risk ? lo : hi) = z;
    }
    const double count = static_cast<double>(n), mean = count * (count + 1) / 4;
    const double c = mean - 0.5 - hi * std::sqrt(mean * (2 * count + 1) / 6);
    return c < 1 ? 0 : static_cast<size_t>(c);
  }
  // counts[s]: subsets of the ranks 1 to n with the sum s.
  std::vector<double> counts(pairs + 1, 0);
  counts[0] = 1;
  for (size_t rank = 1; rank <= n; ++rank)
    for (size_t s = pairs; s >= rank; --s) counts[s] += counts[s - rank];
  const double most = risk * std::ldexp(1.0, static_cast<int>(n));
  double below = 0;
  size_t c = 0;
  while (c < pairs && below + counts[c] <= most) below += counts[c++];
  return c;
}

}  // namespace

double median(std::span<const double> values) {
  std::vector<double> v(values.begin(), values.end());
  return median_of(v);
}

double median_deviation(std::span<const double> values) {
  const double middle = median(values);
  std::vector<double> v;
  for (double x : values) v.push_back(std::fabs(x - middle));
  return median_of(v);
}

double hodges_lehmann(std::span<const double> values) {
  std::vector<double> v = walsh_averages(values);
  return median_of(v);
}

Estimate estimate(std::span<const double> values, double risk) {
  std::vector<double> v = walsh_averages(values);
  Estimate e{median_of(v), -kInfinity, kInfinity};
  if (const size_t c = outside(values.size(), risk); c > 0) {
    e.low = nth(v, c - 1);
    e.high = nth(v, v.size() - c);
  }
  return e;
}

}  // namespace toroid::tune
