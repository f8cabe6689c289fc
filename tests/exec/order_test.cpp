// The order of launches by the memory that they touch, on graphs drawn by hand.
#include "exec/record/order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace toroid::exec {
namespace {

std::vector<std::byte> memory(1024);

Touched reads(int at, int64_t bytes = 16) { return {memory.data() + at, bytes, Access::Reads}; }
Touched writes(int at, int64_t bytes = 16) { return {memory.data() + at, bytes, Access::Writes}; }
Touched adds(int at, int64_t bytes = 16) { return {memory.data() + at, bytes, Access::Adds}; }

TEST(Order, AChainIsAChain) {
  const std::vector<std::vector<Touched>> launches{{writes(0)}, {reads(0), writes(16)}, {reads(0), reads(16), writes(32)}};
  EXPECT_EQ(order_of(launches), (Order{{}, {0}, {1}})) << "the last follows the first through the second";
  EXPECT_EQ(width_of(order_of(launches)), 1);
}

TEST(Order, BranchesThatMeet) {
  const std::vector<std::vector<Touched>> launches{
      {writes(0)}, {reads(0), writes(16)}, {reads(0), writes(32)}, {reads(32), writes(48)}, {reads(16), reads(48), writes(64)}};
  EXPECT_EQ(order_of(launches), (Order{{}, {0}, {0}, {2}, {3, 1}}));
  EXPECT_EQ(width_of(order_of(launches)), 2);
}

TEST(Order, MemoryThatIsUsedAgainIsNotOverwrittenEarly) {
  const std::vector<std::vector<Touched>> launches{{writes(0)}, {reads(0), writes(16)}, {writes(8)}};
  EXPECT_EQ(order_of(launches), (Order{{}, {0}, {1}})) << "the third writes part of what the second reads";
  const std::vector<std::vector<Touched>> twice{{writes(0)}, {writes(0)}};
  EXPECT_EQ(order_of(twice), (Order{{}, {0}}));
}

TEST(Order, WhatIsAddedIsReadBehindAllWhoAdd) {
  const std::vector<std::vector<Touched>> launches{{writes(0)}, {adds(0)}, {adds(8)}, {reads(0, 24)}, {adds(0)}, {writes(0, 24)}};
  EXPECT_EQ(order_of(launches), (Order{{}, {0}, {0}, {2, 1}, {3}, {4}}));
}

// Whether each launch follows, at once or by way of others, just those that it must by the memory of the two alone; and whether no launch
// is named that another one named follows.
void expect_right(const std::vector<std::vector<Touched>>& launches) {
  const Order order = order_of(launches);
  const size_t n = launches.size();
  ASSERT_EQ(order.size(), n);
  auto conflict = [](const Touched& a, const Touched& b) {
    const auto* first = std::max(a.at, b.at);
    return (a.access != b.access || a.access == Access::Writes) && first < a.at + a.bytes && first < b.at + b.bytes;
  };
  auto closure = [n](auto&& direct) {
    std::vector<std::vector<bool>> follows(n, std::vector<bool>(n, false));
    for (size_t j = 0; j < n; ++j)
      for (size_t i = 0; i < j; ++i)
        if (direct(i, j)) {
          follows[j][i] = true;
          for (size_t k = 0; k < i; ++k) follows[j][k] = follows[j][k] || follows[i][k];
        }
    return follows;
  };
  const auto wanted = closure([&](size_t i, size_t j) {
    for (auto& a : launches[i])
      for (auto& b : launches[j])
        if (conflict(a, b)) return true;
    return false;
  });
  auto names = [&](size_t j, size_t i) { return std::find(order[j].begin(), order[j].end(), i) != order[j].end(); };
  EXPECT_TRUE(closure([&](size_t i, size_t j) { return names(j, i); }) == wanted);
  for (size_t j = 0; j < n; ++j) {
    EXPECT_TRUE(std::is_sorted(order[j].rbegin(), order[j].rend()));
    for (size_t i : order[j])
      for (size_t k : order[j]) EXPECT_FALSE(wanted[i][k]) << j << " follows " << k << " by way of " << i;
  }
}

TEST(Order, OfDrawnLaunchesIsThatOfEachTwo) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    auto below = [&](size_t n) { return static_cast<int>(random() % n); };
    const int scale = 1 + below(200);
    std::vector<std::vector<Touched>> launches(static_cast<size_t>(below(40)));
    for (auto& l : launches)
      for (int t = below(5); t >= 0; --t)
        l.push_back({memory.data() + below(600), below(4) == 0 ? 0 : below(static_cast<size_t>(scale)), static_cast<Access>(below(3))});
    SCOPED_TRACE(seed);
    expect_right(launches);
  }
}

TEST(Order, ReadersOfTheSameMemoryAndNeighboursAreFree) {
  const std::vector<std::vector<Touched>> launches{{reads(0), writes(16)}, {reads(0), writes(32)}, {reads(0), writes(48)}};
  EXPECT_EQ(order_of(launches), (Order{{}, {}, {}}));
  EXPECT_EQ(width_of(order_of(launches)), 3);
  EXPECT_EQ(width_of({}), 0);
}

}  // namespace
}  // namespace toroid::exec
