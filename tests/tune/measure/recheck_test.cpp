// Verdicts near the edge are measured again.
#include "tune/measure/recheck.h"

#include <gtest/gtest.h>

namespace toroid::tune {
namespace {

Verdict verdict(double ratio, size_t winner) {
  Verdict v;
  v.candidates.resize(2);
  v.candidates[0].median_ns = 1e4, v.candidates[0].rounds = v.candidates[1].rounds = 20;
  v.candidates[0].ratio = 1, v.candidates[1].ratio = ratio;
  v.winner = winner;
  return v;
}

MeasureOptions options() {
  MeasureOptions o;
  o.between = 0.01;
  return o;
}

// The verdict after the first one, with what others would say.
Verdict rechecked(double first, size_t winner, double other, int& times, MeasureOptions how = options()) {
  Verdict v = verdict(first, winner);
  times = 0;
  recheck(
      v,
      [&](size_t best) {
        EXPECT_EQ(best, 1u);
        ++times;
        return verdict(other, 0);
      },
      how);
  return v;
}

TEST(Recheck, NearTheEdgeTheMedianDecides) {
  int times = 0;
  const Verdict lost = rechecked(0.985, 0, 0.96, times);
  EXPECT_EQ(times, 2);
  EXPECT_EQ(lost.winner, 1u);
  EXPECT_NEAR(lost.candidates[1].ratio, 0.96, 1e-3);
  EXPECT_EQ(rechecked(0.97, 1, 0.999, times).winner, 0u);
  EXPECT_GE(times, 2);
  EXPECT_EQ(rechecked(0.96, 1, 0.96, times).winner, 1u);  // clear at once
  EXPECT_EQ(times, 1);
}

TEST(Recheck, TheNearerTheMoreDoubt) {
  int times = 0;
  const double near = rechecked(0.99, 0, 0.99, times).flip, far = rechecked(0.96, 1, 0.955, times).flip;
  EXPECT_GT(near, 0.4);
  EXPECT_LT(far, 0.06);
  EXPECT_GE(far, options().risk);
}

// The first at 1 % beyond where the decision turns, the others around `centre`.
int measurements_that_scatter(double centre, double by, size_t& winner) {
  Verdict v = verdict(0.98, 0);
  int times = 0;
  recheck(
      v, [&](size_t) { return verdict(centre + (times++ % 2 == 0 ? by : -by), 0); }, options());
  winner = v.winner;
  return 1 + times;
}

TEST(Recheck, TheMoreTheyScatterTheMoreAreMade) {
  size_t winner = 9;
  EXPECT_EQ(measurements_that_scatter(0.965, 0.001, winner), 3);
  EXPECT_EQ(winner, 1u);
  EXPECT_GE(measurements_that_scatter(0.975, 0.02, winner), 5);
  EXPECT_EQ(winner, 1u);
  EXPECT_EQ(measurements_that_scatter(0.991, 0.02, winner), 7);  // for ever undecided
}

TEST(Recheck, WhatIsClearStays) {
  int times = 0;
  EXPECT_EQ(rechecked(0.85, 1, 1.2, times).winner, 1u);
  EXPECT_EQ(times, 0);
  EXPECT_EQ(rechecked(1.1, 0, 0.5, times).winner, 0u);
  EXPECT_EQ(times, 0);
  EXPECT_EQ(rechecked(1.06, 0, 0.96, times).winner, 1u);  // slower, as it seemed
  EXPECT_GE(times, 2);
  MeasureOptions none;  // a clock that does not differ from tuning to tuning
  EXPECT_EQ(rechecked(0.985, 0, 0.9, times, none).winner, 0u);
  EXPECT_EQ(times, 0);
}

TEST(Recheck, FailuresDecideNothing) {
  Verdict v = verdict(0.985, 0);
  recheck(
      v,
      [](size_t) {
        Verdict w = verdict(0.9, 1);
        w.candidates[1].failed = true;
        return w;
      },
      options());
  EXPECT_EQ(v.winner, 0u);
  EXPECT_EQ(v.candidates[1].ratio, 0.985);
}

}  // namespace
}  // namespace toroid::tune
