// What orders the launches of a recording beside the memory that they have at the time.
#include "exec/record/touched.h"

#include <gtest/gtest.h>

#include <numeric>

#include "exec/plans.h"

namespace toroid::exec {
namespace {

// A plan whose launches are written down as the buffers that they read and write; each buffer has memory of its own.
class Launches {
 public:
  int buffer(BufferRole role) {
    plan_.buffers.push_back({"b", DType::F32, 1, role, {}});
    memory_.emplace_back(64);
    at_.push_back(memory_.back().data());
    bound_.bytes.push_back(64);
    return static_cast<int>(at_.size()) - 1;
  }
  void add(const std::vector<int>& read, const std::vector<int>& written) {
    Launch l;
    for (auto* list : {&read, &written})
      for (int b : *list) l.buffers.push_back(b), l.written.push_back(list == &written);
    plan_.steps.emplace_back(l);
    bound_.steps.emplace_back();
  }
  Order order(const std::vector<int>& moving = {}) const {
    std::vector<size_t> steps(plan_.steps.size());
    std::iota(steps.begin(), steps.end(), 0);
    return order_of(
        touched_by(plan_, bound_, steps, {lane_, at_}, [&](int b) { return std::find(moving.begin(), moving.end(), b) != moving.end(); }));
  }

 private:
  Plan plan_;
  Bound bound_;
  Lane lane_;
  std::vector<std::vector<std::byte>> memory_;
  std::vector<void*> at_;
};

constexpr auto kInput = BufferRole::Input, kTemporary = BufferRole::Temporary, kOutput = BufferRole::Output;

TEST(Touched, BranchesOfAnInputAreFree) {
  Launches l;
  const int x = l.buffer(kInput), a = l.buffer(kTemporary), b = l.buffer(kTemporary), y = l.buffer(kOutput);
  l.add({x}, {a}), l.add({x}, {b}), l.add({a, b}, {y});
  EXPECT_EQ(l.order({x, y}), (Order{{}, {}, {1, 0}}));
}

// Two weights are updated beside each other: where they are is known.
TEST(Touched, UpdatesOfWhatStaysAreFree) {
  Launches l;
  const int v = l.buffer(kInput), w = l.buffer(kInput), x = l.buffer(kInput), y = l.buffer(kOutput);
  l.add({}, {v}), l.add({v}, {w}), l.add({w}, {y}), l.add({}, {v});
  EXPECT_EQ(l.order({x, y}), (Order{{}, {0}, {1}, {1}}));
}

// What a call is given may lie in the weights.
TEST(Touched, WhatMovesIsReadInItsTurn) {
  Launches l;
  const int w = l.buffer(kInput), x = l.buffer(kInput), y = l.buffer(kOutput), z = l.buffer(kOutput);
  l.add({x}, {y}), l.add({}, {w}), l.add({x}, {z});
  EXPECT_EQ(l.order({}), (Order{{}, {}, {}})) << "apart, where all stays";
  EXPECT_EQ(l.order({x}), (Order{{}, {0}, {1}}));
}

TEST(Touched, WhatMovesIsWrittenInItsTurn) {
  Launches l;
  const int v = l.buffer(kInput), w = l.buffer(kInput), x = l.buffer(kInput), y = l.buffer(kOutput), z = l.buffer(kOutput);
  l.add({v}, {y}), l.add({}, {x}), l.add({w}, {z}), l.add({}, {v}), l.add({}, {w});
  EXPECT_EQ(l.order({}), (Order{{}, {}, {}, {0}, {2}}));
  EXPECT_EQ(l.order({x}), (Order{{}, {0}, {1}, {1}, {2}})) << "behind a reader, before a reader, before updates";
  EXPECT_EQ(l.order({v, w, x}), (Order{{}, {0}, {1}, {2}, {3}}));
}

TEST(Touched, WhatBranchesGaveCountsAsMoving) {
  Launches l;
  const int given = l.buffer(BufferRole::Handed), w = l.buffer(kInput), y = l.buffer(kOutput);
  l.add({given}, {y}), l.add({}, {w});
  EXPECT_EQ(l.order({given}), (Order{{}, {0}}));
}

// Weights keep their values where an index is out of range.
TEST(Touched, UpdatesFollowEarlierChecks) {
  Launches l;
  const int faults = l.buffer(BufferRole::Faults), v = l.buffer(kInput), w = l.buffer(kInput), a = l.buffer(kTemporary),
            b = l.buffer(kTemporary);
  l.add({faults}, {a}), l.add({faults}, {b}), l.add({faults}, {v}), l.add({}, {w});
  EXPECT_EQ(l.order(), (Order{{}, {}, {1, 0}, {}})) << "checks are free, the update that looks at them follows, one that does not is free";
}

TEST(Touched, WhatRanksShareIsUsedInTurn) {
  Launches l;
  const int peers = l.buffer(BufferRole::Peers), a = l.buffer(kTemporary), b = l.buffer(kTemporary);
  l.add({peers}, {a}), l.add({peers}, {b});
  EXPECT_EQ(l.order(), (Order{{}, {0}}));
}

}  // namespace
}  // namespace toroid::exec
