#include "tune/recheck.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace toroid::tune {
namespace {

// Deviations from where the decision turns: of the first measurement, which flatters as the best of many candidates', and of a mean.
constexpr double kOfFirst = 2.5, kOfMean = 2;
constexpr size_t kLeast = 3, kMost = 7;  // measurements, with the first
constexpr double kAssumed = 3;           // measurements that the assumed deviation counts as, beside those that were made

// The fastest that was measured; 0 where none is faster than the default.
size_t fastest(const Verdict& v) {
  size_t best = 0;
  double least = 1;
  for (size_t i = 1; i < v.candidates.size(); ++i)
    if (const Measured& m = v.candidates[i]; !m.failed && m.rounds > 0 && m.ratio > 0 && m.ratio < least) best = i, least = m.ratio;
  return best;
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
  double mean = 0, of_mean = 0, needed = 0;
  const auto is_near = [&] {
    const double k = static_cast<double>(seen.size());
    double squares = kAssumed * between * between;
    mean = std::accumulate(seen.begin(), seen.end(), 0.0) / k;
    for (double x : seen) squares += (x - mean) * (x - mean);
    of_mean = std::sqrt(squares / (kAssumed + k - 1) / k);
    // Narrower than the margin by two deviations, so that the true regret is within it.
    needed = margin - std::min(2 * of_mean, margin / 2);
    return std::fabs(mean + needed) <= (seen.size() == 1 ? kOfFirst : kOfMean) * of_mean;
  };
  if (!is_near()) return;
  while (seen.size() < kLeast || (seen.size() < kMost && is_near())) {
    const Verdict w = again(best);
    v.spent_ms += w.spent_ms;
    if (!w.problem.empty() || w.candidates[1].failed || !(w.candidates[1].ratio > 0)) {
      if (seen.size() < kLeast) return;
      break;
    }
    seen.push_back(std::log(w.candidates[1].ratio));
  }
  is_near();
  v.winner = mean < -needed ? best : 0;
  Measured& m = v.candidates[best];
  m.ratio = std::exp(mean), m.ratio_low = std::exp(mean - 2 * of_mean), m.ratio_high = std::exp(mean + 2 * of_mean);
  v.flip = std::min(1.0, options.risk + normal_tail(std::fabs(mean + needed) / (of_mean * std::sqrt(2.0))));
  v.regret = std::expm1(std::max(0.0, v.winner == best ? mean : -mean));
  v.regret_bound = std::max(v.regret, std::expm1(std::max(0.0, (v.winner == best ? mean : -mean) + 2 * of_mean)));
}

}  // namespace toroid::tune
