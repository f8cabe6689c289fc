// A choice for a range of sizes is judged over it.
#include "tune/measure/across.h"

#include <gtest/gtest.h>

#include "errors.h"

namespace toroid::tune {
namespace {

// The default and three that are faster at the usual size; the first of them wins there.
Verdict verdict() {
  Verdict v;
  for (double ratio : {1.0, 0.5, 0.6, 0.7}) {
    Measured m;
    m.ratio = ratio, m.ratio_low = ratio * 0.99, m.ratio_high = ratio * 1.01, m.rounds = 20, m.median_ns = 1e4 * ratio;
    v.candidates.push_back(m);
  }
  v.winner = 1;
  return v;
}

Verdict judged(const std::vector<double>& elsewhere) {  // of each candidate, at a second size
  Verdict v = verdict();
  judge_across(v, 0.99, [&](size_t best) { return std::vector<RatioAt>{{"s0=512", elsewhere[best]}}; });
  return v;
}

TEST(Across, WhoWinsAtOneSizeMustWinOverTheRange) {
  const Verdict stays = judged({1, 0.72, 0, 0});
  EXPECT_EQ(stays.winner, 1u);
  EXPECT_NEAR(stays.candidates[1].ratio, 0.6, 1e-9) << "the geometric mean";
  const Verdict next = judged({1, 3, 0.9, 0.9});
  EXPECT_EQ(next.winner, 2u);
  EXPECT_TRUE(test::contains(next.candidates[1].status, "its ratio is 0.500 at the usual sizes, 3.000 at s0=512"));
  EXPECT_GT(next.candidates[1].ratio, 1) << "as it is remembered";
  EXPECT_EQ(judged({1, 3, 3, 3}).winner, 0u);
}

TEST(Across, WithoutTimeTheVerdictStays) {
  Verdict v = verdict();
  judge_across(v, 0.99, [](size_t) { return std::vector<RatioAt>(); });
  EXPECT_EQ(v.winner, 1u);
}

}  // namespace
}  // namespace toroid::tune
