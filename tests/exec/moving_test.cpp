// What a replay looks at: buffers that are elsewhere than at the replay before, and the launches that take them.
#include "exec/record/moving.h"

#include <gtest/gtest.h>

namespace toroid::exec {
namespace {

struct Taker {
  std::vector<void*> pointers;
  int changes = 0;
};

class MovingTest : public testing::Test {
 protected:
  // Launch 0 takes buffers 0 and 1, launch 1 buffer 1 twice.
  MovingTest() {
    moving_.add(0, place(0), &launches_[0], 0);
    moving_.add(1, place(1), &launches_[0], 1);
    moving_.add(1, place(1), &launches_[1], 0);
    moving_.add(1, place(1), &launches_[1], 1);
  }
  void* place(int i) { return memory_ + i; }
  // A replay with the two buffers at these places: the changes of each launch.
  std::vector<int> follow(int first, int second) {
    const std::vector<void*> at{place(first), place(second)};
    for (Taker& t : launches_) t.changes = 0;
    moving_.follow(
        at, [](Taker& t, size_t position, void* now) { t.pointers[position] = now; }, [](Taker& t) { ++t.changes; });
    EXPECT_EQ(launches_[0].pointers, (std::vector<void*>{place(first), place(second)}));
    EXPECT_EQ(launches_[1].pointers, (std::vector<void*>{place(second), place(second)}));
    return {launches_[0].changes, launches_[1].changes};
  }

  std::byte memory_[8];
  Taker launches_[2] = {{{place(0), place(1)}}, {{place(1), place(1)}}};
  Moving<Taker> moving_;
};

TEST_F(MovingTest, WhatIsWhereItWasChangesNothing) {
  EXPECT_EQ(follow(0, 1), (std::vector{0, 0}));
  EXPECT_EQ(follow(2, 1), (std::vector{1, 0}));
  EXPECT_EQ(follow(2, 1), (std::vector{0, 0}));
}

TEST_F(MovingTest, ALaunchIsToldOnceOfAllThatMoved) {
  EXPECT_EQ(follow(2, 3), (std::vector{1, 1}));
  EXPECT_EQ(follow(0, 3), (std::vector{1, 0}));
  EXPECT_EQ(follow(0, 1), (std::vector{1, 1}));
}

TEST_F(MovingTest, PointersThatWereSetMeanwhileAreSetAgain) {
  EXPECT_EQ(follow(0, 2), (std::vector{1, 1}));
  launches_[1].pointers = {place(5), place(5)};  // as when the arena moved while control flow had its results elsewhere
  moving_.forget();
  EXPECT_EQ(follow(0, 2), (std::vector{1, 1}));
  EXPECT_EQ(follow(0, 2), (std::vector{0, 0}));
}

}  // namespace
}  // namespace toroid::exec
