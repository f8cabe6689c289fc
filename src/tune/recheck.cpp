#include "tune/recheck.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tune/statistics.h"

namespace toroid::tune {
namespace {

// Deviations from where the decision turns, of one measurement (one in some hundreds is off by several) and of a median.
constexpr double kOfFirst = 4, kOfMedian = 2;
constexpr size_t kLeast = 3, kMost = 7;  // measurements, with the first
constexpr double kAssumed = 3;           // measurements that the assumed deviation counts as, beside those that were made

// The fastest that was measured but for the default; 0 where there is none.
size_t fastest(const Verdict& v) {
  size_t best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (size_t i = 1; i < v.candidates.size(); ++i)
    if (const Measured& m = v.candidates[i]; !m.failed && m.rounds > 0 && m.ratio > 0 && m.ratio < least) best = i, least = m.ratio;
  return best;
}

// The median of what was seen, and its deviation.
struct Centre {
  double at = 0, deviation = 0;
};
Centre centre_of(const std::vector<double>& seen, double between) {
  constexpr double kOfNormal = 1.4826, kOfMedians = 1.2533;  // deviation by the median one; of a median by that of a mean
  const double k = static_cast<double>(seen.size()), shown = kOfNormal * median_deviation(seen);
  const double one = std::sqrt((kAssumed * between * between + (k - 1) * shown * shown) / (kAssumed + k - 1));
  return {median(seen), seen.size() > 1 ? kOfMedians * one / std::sqrt(k) : one};
}

double normal_tail(double deviations) { return 0.5 * std::erfc(deviations / std::sqrt(2.0)); }

}  // namespace

void recheck(Verdict& v, const MeasureAgain& again, const MeasureOptions& options) {
  const size_t best = fastest(v);
  const double usual_ns = v.candidates.front().median_ns;
  if (best == 0 || options.between <= 0 || usual_ns <= 0 || (v.winner != 0 && v.winner != best)) return;
  const double grain = options.grain_ns / usual_ns, between = std::max(options.between, grain / 3);
  const double margin = std::max(std::log1p(std::max(options.tie_band, grain)), std::log(options.speedup));
  std::vector<double> seen = {std::log(v.candidates[best].ratio)};
  Centre c;
  double needed = 0;
  const auto is_near = [&] {
    c = centre_of(seen, between);
    needed = margin - std::min(2 * c.deviation, margin / 2);  // narrower, so that the true regret is within the margin
    return std::fabs(c.at + needed) <= (seen.size() > 1 ? kOfMedian : kOfFirst) * c.deviation;
  };
  bool near = is_near();
  if (!near) return;
  while (seen.size() < kLeast || (near && seen.size() < kMost)) {
    const Verdict w = again(best);
    v.spent_ms += w.spent_ms;
    if (!w.problem.empty() || w.candidates[1].failed || !(w.candidates[1].ratio > 0)) break;
    seen.push_back(std::log(w.candidates[1].ratio));
    near = is_near();
  }
  if (seen.size() < kLeast) return;
  v.winner = c.at < -needed ? best : 0;
  Measured& m = v.candidates[best];
  m.ratio = std::exp(c.at), m.ratio_low = std::exp(c.at - 2 * c.deviation), m.ratio_high = std::exp(c.at + 2 * c.deviation);
  v.flip = std::min(1.0, options.risk + normal_tail(std::fabs(c.at + needed) / (c.deviation * std::sqrt(2.0))));
  const double behind = v.winner == best ? c.at : -c.at;
  v.regret = std::expm1(std::max(0.0, behind));
  v.regret_bound = std::max(v.regret, std::expm1(std::max(0.0, behind + 2 * c.deviation)));
}

}  // namespace toroid::tune
