#include "base/crowding.h"

#include <gtest/gtest.h>

namespace toroid {
namespace {

constexpr int64_t kMs = Crowding::kMs;

struct CrowdingTest : ::testing::Test {
  int left_out() {
    return crowding.left_out([this] { return now; });
  }
  // A slice of the scheduler that a helper lost and a caller waited for.
  void stall(int threads, int64_t ns = Crowding::kTooMuch) {
    crowding.called(now, ns, 0, threads);
    crowding.helped(now, 0, ns, threads);
  }
  Crowding crowding;
  int64_t now = 1'000'000 * kMs;
};

TEST_F(CrowdingTest, HelpersThatDoMoreThanTheyCostStay) {
  for (int threads : {2, 4, 64}) {
    Crowding of_so_many;
    for (int i = 0; i < 1000; ++i) {
      of_so_many.helped(now += 10 * kMs, 10 * kMs * (threads - 1), 2 * kMs, threads);
      of_so_many.called(now, 2 * kMs, 2 * kMs, threads);
      EXPECT_EQ(of_so_many.left_out([this] { return now; }), 0) << threads;
    }
  }
}

TEST_F(CrowdingTest, UnevenTasksAreNoHarm) {
  for (int i = 0; i < 1000; ++i) {
    crowding.called(now += 10 * kMs, 9 * kMs, 0, 2);  // long waits, and nobody lost anything
    crowding.helped(now, 9 * kMs, 0, 2);
    EXPECT_EQ(left_out(), 0);
  }
}

TEST_F(CrowdingTest, HelpersThatLoseWhileNobodyWaitsAreNoHarm) {
  for (int i = 0; i < 1000; ++i) {
    crowding.helped(now += 10 * kMs, kMs, 9 * kMs, 2);
    EXPECT_EQ(left_out(), 0);
  }
}

TEST_F(CrowdingTest, AStallLeavesAThreadOutForAWhile) {
  stall(4, Crowding::kTooMuch - 1);
  EXPECT_EQ(left_out(), 0);
  stall(4, 1);
  EXPECT_EQ(left_out(), 1);
  now += Crowding::kFirstHold - 1;
  EXPECT_EQ(left_out(), 1);
  now += 1;
  EXPECT_EQ(left_out(), 0);
}

TEST_F(CrowdingTest, ACallersOwnLossIsHarm) {
  crowding.called(now, 0, Crowding::kTooMuch, 2);
  EXPECT_EQ(left_out(), 1);
}

TEST_F(CrowdingTest, WhatThreadsLostBeforeTheyWereLeftOutCountsOnce) {
  for (int i = 0; i < 5; ++i) now += kMs / 2, stall(64);
  EXPECT_EQ(left_out(), 1);
}

TEST_F(CrowdingTest, MoreAreLeftOutWhileStallsGoOnAndOneStays) {
  for (int expected : {1, 2, 4, 7, 7}) {
    now += 10 * kMs;
    stall(8);
    EXPECT_EQ(left_out(), expected);
  }
  stall(1);
  EXPECT_EQ(left_out(), 7);
}

TEST_F(CrowdingTest, ThreadsComeBackByHalves) {
  for (int i = 0; i < 3; ++i) now += 10 * kMs, stall(8);
  for (int expected : {4, 2, 1, 0, 0}) {
    EXPECT_EQ(left_out(), expected);
    now += Crowding::kLongestHold;
  }
}

TEST_F(CrowdingTest, ThreadsThatAreTriedInVainAreTriedMoreSeldom) {
  int64_t last = 0;
  for (int i = 0; i < 10; ++i) {
    stall(2);
    const int64_t start = now;
    while (left_out() > 0) now += kMs;
    EXPECT_GE(now - start, last);
    EXPECT_LE(now - start, Crowding::kLongestHold);
    last = now - start;
    now += Crowding::kAtOnce / 2;
  }
  EXPECT_EQ(last, Crowding::kLongestHold);
  now += Crowding::kAtOnce;  // a time in which they were of use
  stall(2);
  now += Crowding::kFirstHold;
  EXPECT_EQ(left_out(), 0);
}

}  // namespace
}  // namespace toroid
