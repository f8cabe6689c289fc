#include "tune/measure/across.h"

#include <fmt/format.h>

#include <cmath>

namespace toroid::tune {
namespace {

// The fastest that is surely faster than the default, and by enough; 0 where there is none.
size_t next_best(const Verdict& v, double least_ratio) {
  size_t next = 0;
  for (size_t i = 1; i < v.candidates.size(); ++i) {
    const Measured& m = v.candidates[i];
    const bool may_win = m.status.empty() && !m.failed && m.ratio > 0 && m.ratio < least_ratio && m.ratio_high < 1;
    if (may_win && (next == 0 || m.ratio < v.candidates[next].ratio)) next = i;
  }
  return next;
}

}  // namespace

std::string judge_across(Verdict& v, double least_ratio, const RatiosAcross& ratios) {
  constexpr int kMostJudged = 3;
  if (!v.problem.empty() || v.candidates.front().failed) return "";
  for (int judged = 0; v.winner != 0 && judged < kMostJudged; ++judged) {
    const std::vector<RatioAt> elsewhere = ratios(v.winner);
    if (elsewhere.empty()) return "";
    Measured& m = v.candidates[v.winner];
    double sum = std::log(m.ratio);
    std::string says = fmt::format("its ratio is {:.3f} at the usual sizes", m.ratio);
    for (auto& [sizes, ratio] : elsewhere) sum += std::log(ratio), says += fmt::format(", {:.3f} at {}", ratio, sizes);
    const double mean = std::exp(sum / static_cast<double>(elsewhere.size() + 1)), scale = mean / m.ratio;
    m.ratio = mean, m.ratio_low *= scale, m.ratio_high *= scale;
    if (mean < least_ratio) return fmt::format("the mean over its range of sizes: {}", says);
    m.status = "not faster over its range of sizes: " + says;
    v.winner = next_best(v, least_ratio);
  }
  v.winner = 0;
  return "";
}

}  // namespace toroid::tune
