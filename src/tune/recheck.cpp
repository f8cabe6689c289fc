#include "tune/recheck.h"

#include <algorithm>
#include <cmath>

namespace toroid::tune {
namespace {

constexpr double kDeviations = 2.5;  // from where the decision turns
constexpr int kTimes = 3;            // with the first

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
  // A deviation narrower, as in measure(): the true regret is within the band.
  const double of_mean = between / std::sqrt(kTimes), needed = margin - std::min(of_mean, margin / 2);
  double sum = std::log(v.candidates[best].ratio);
  if (std::fabs(sum + needed) > kDeviations * between) return;
  for (int k = 1; k < kTimes; ++k) {
    const Verdict w = again(best);
    v.spent_ms += w.spent_ms;
    if (!w.problem.empty() || w.candidates[1].failed || !(w.candidates[1].ratio > 0)) return;
    sum += std::log(w.candidates[1].ratio);
  }
  const double mean = sum / kTimes;
  v.winner = mean < -needed ? best : 0;
  Measured& m = v.candidates[best];
  m.ratio = std::exp(mean), m.ratio_low = std::exp(mean - 2 * of_mean), m.ratio_high = std::exp(mean + 2 * of_mean);
  v.flip = std::min(1.0, options.risk + normal_tail(std::fabs(mean + needed) / (of_mean * std::sqrt(2.0))));
  v.regret = std::expm1(std::max(0.0, v.winner == best ? mean : -mean));
  v.regret_bound = std::max(v.regret, std::expm1(std::max(0.0, (v.winner == best ? mean : -mean) + 2 * of_mean)));
}

}  // namespace toroid::tune
