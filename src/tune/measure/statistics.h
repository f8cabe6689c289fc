// Estimates from few and noisy numbers that need no assumption on how the noise is distributed.
#pragma once

#include <span>
#include <vector>

namespace toroid::tune {

// Of an empty list: NaN.
double median(std::span<const double> values);
// Half of the values lie within the median plus and minus this (median absolute deviation).
double median_deviation(std::span<const double> values);

// Where the centre of symmetrically distributed values lies.
struct Estimate {
  double centre = 0;         // Hodges-Lehmann: the median of the means of all pairs
  double low = 0, high = 0;  // infinite where there are too few values for the confidence asked for
  double half() const { return (high - low) / 2; }
};

// The interval that inverts Wilcoxon's signed-rank test (Hollander, Wolfe, Chicken: Nonparametric Statistical Methods, 3rd edition, 3.1 to
// 3.3). Differences of runs that are made side by side are symmetric where both have the same noise, however skewed that is.
// risk: the probability that the centre lies below `low`, and that it lies above `high`; 0 to 0.5.
Estimate estimate(std::span<const double> values, double risk);
// The centre alone.
double hodges_lehmann(std::span<const double> values);

}  // namespace toroid::tune
