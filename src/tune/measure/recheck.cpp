#include "tune/measure/recheck.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tune/measure/statistics.h"

namespace toroid::tune {
namespace {

constexpr double kFar = 0.1;       // a logarithm: one measurement in some hundreds is off by nearly that much
constexpr double kDeviations = 2;  // of a median, from where the decision turns
constexpr size_t kMost = 7;        // measurements, with the first
constexpr double kAssumed = 3;     // measurements that the assumed deviation counts as, beside those that were made

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
  return {median(seen), kOfMedians * one / std::sqrt(k)};
}

double normal_tail(double deviations) { return 0.5 * std::erfc(deviations / std::sqrt(2.0)); }

}  // namespace

void recheck(Verdict& v, const MeasureAgain& again, const MeasureOptions& options) {
  const size_t best = fastest(v);
  const double usual_ns = v.candidates.front().median_ns;
  if (best == 0 || options.between <= 0 || usual_ns <= 0 || (v.winner != 0 && v.winner != best)) return;
  const double grain = options.grain_ns / usual_ns, between = std::max(options.between, grain / 3);
  const double band = std::log1p(std::max(options.tie_band, grain)), asked = std::log(options.speedup);
  const double needed = asked > band ? asked : band / 2;  // as in measure()
  std::vector<double> seen = {std::log(v.candidates[best].ratio)};
  Centre c;
  if (std::fabs(seen.front() + needed) > kFar) return;
  do {
    const Verdict w = again(best);
    v.spent_ms += w.spent_ms;
    if (!w.problem.empty() || w.candidates[1].failed || !(w.candidates[1].ratio > 0)) break;
    seen.push_back(std::log(w.candidates[1].ratio));
    c = centre_of(seen, between);
  } while (std::fabs(c.at + needed) <= kDeviations * c.deviation && seen.size() < kMost);
  if (seen.size() == 1) return;
  v.winner = c.at < -needed ? best : 0;
  Measured& m = v.candidates[best];
  m.ratio = std::exp(c.at), m.ratio_low = std::exp(c.at - 2 * c.deviation), m.ratio_high = std::exp(c.at + 2 * c.deviation);
  v.flip = std::min(1.0, options.risk + normal_tail(std::fabs(c.at + needed) / (c.deviation * std::sqrt(2.0))));
  const double behind = v.winner == best ? c.at : -c.at;
  v.regret = std::expm1(std::max(0.0, behind));
  v.regret_bound = std::max(v.regret, std::expm1(std::max(0.0, behind + 2 * c.deviation)));
}

}  // namespace toroid::tune
