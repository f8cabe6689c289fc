#include "base/crowding.h"

#include <gtest/gtest.h>

namespace toroid {
namespace {

constexpr int64_t kMs = Crowding::kMs;

struct CrowdingTest : ::testing::Test {
  int left_out() {
    return crowding.left_out([this] { return now; });
  }
  Crowding crowding;
  int64_t now = 1'000'000 * kMs;
};

TEST_F(CrowdingTest, WhatIsLostNowAndThenIsTolerated) {
  for (int i = 0; i < 1000; ++i) {
    crowding.lost(now += 10 * kMs, kMs / 6, 4);  // less than one part in kTolerated
    EXPECT_EQ(left_out(), 0) << i;
  }
}

TEST_F(CrowdingTest, ALostSliceLeavesAThreadOutForAWhile) {
  crowding.lost(now, 3 * kMs, 4);
  EXPECT_EQ(left_out(), 1);
  now += Crowding::kFirstHold - 1;
  EXPECT_EQ(left_out(), 1);
  now += 1;
  EXPECT_EQ(left_out(), 0);
}

TEST_F(CrowdingTest, WhatThreadsLostBeforeTheyWereLeftOutCountsOnce) {
  crowding.lost(now, 3 * kMs, 64);
  for (int i = 0; i < 5; ++i) crowding.lost(now += kMs / 2, 3 * kMs, 64);
  EXPECT_EQ(left_out(), 1);
}

TEST_F(CrowdingTest, MoreAreLeftOutWhileTimeIsLostAndOneStays) {
  for (int expected : {1, 2, 4, 7, 7}) {
    crowding.lost(now += 10 * kMs, 3 * kMs, 8);
    EXPECT_EQ(left_out(), expected);
  }
  crowding.lost(now += 10 * kMs, 3 * kMs, 1);
  EXPECT_EQ(left_out(), 7);
}

TEST_F(CrowdingTest, ThreadsComeBackByHalves) {
  for (int i = 0; i < 3; ++i) crowding.lost(now += 10 * kMs, 3 * kMs, 8);
  for (int expected : {4, 2, 1, 0, 0}) {
    EXPECT_EQ(left_out(), expected);
    now += Crowding::kLongestHold;
  }
}

// The share of the time for which threads are tried in vain falls.
TEST_F(CrowdingTest, ThreadsAreTriedEverMoreSeldomAndSoonAgainAfterAQuietTime) {
  int64_t last = 0;
  for (int i = 0; i < 10; ++i) {
    crowding.lost(now, 3 * kMs, 2);
    const int64_t start = now;
    while (left_out() > 0) now += kMs;
    EXPECT_GE(now - start, last);
    EXPECT_LE(now - start, Crowding::kLongestHold);
    last = now - start;
    now += 4 * kMs;
  }
  EXPECT_EQ(last, Crowding::kLongestHold);
  now += 3 * Crowding::kLongestHold;
  crowding.lost(now, 3 * kMs, 2);
  now += Crowding::kFirstHold;
  EXPECT_EQ(left_out(), 0);
}

}  // namespace
}  // namespace toroid
