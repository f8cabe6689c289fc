// The order of launches by the memory that they touch, on graphs drawn by hand.
#include "exec/record/order.h"

#include <gtest/gtest.h>

namespace toroid::exec {
namespace {

std::vector<std::byte> memory(1024);

Touched reads(int at, int64_t bytes = 16) { return {memory.data() + at, bytes, false}; }
Touched writes(int at, int64_t bytes = 16) { return {memory.data() + at, bytes, true}; }

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

TEST(Order, ReadersOfTheSameMemoryAndNeighboursAreFree) {
  const std::vector<std::vector<Touched>> launches{{reads(0), writes(16)}, {reads(0), writes(32)}, {reads(0), writes(48)}};
  EXPECT_EQ(order_of(launches), (Order{{}, {}, {}}));
  EXPECT_EQ(width_of(order_of(launches)), 3);
  EXPECT_EQ(width_of({}), 0);
}

}  // namespace
}  // namespace toroid::exec
