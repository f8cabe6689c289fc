// Which activities of a GPU were which steps of a call.
#include "exec/call_trace.h"

#include <gtest/gtest.h>

#include "exec/plans.h"

namespace toroid::exec {
namespace {

using device::cuda::Activity;

Activity kernel(const std::string& name, int64_t start, int64_t end) { return {Activity::Kind::Kernel, name, start, end, 0}; }

TEST(CallTrace, KernelsAreStepsByName) {
  Plan p = chain(3, false);
  std::get<Launch>(p.steps[1]).name = "other";
  const std::vector<Activity> call = {kernel("add_one", 0, 5),
                                      {Activity::Kind::Copy, "add_one", 5, 6, 64},
                                      kernel("library", 6, 7),
                                      kernel("add_one", 7, 9),
                                      kernel("other", 8, 12)};
  EXPECT_EQ(steps_of(p, call), (std::vector<int>{0, -1, -1, 2, 1}));
}

TEST(CallTrace, NothingIsSaidOfCallsThatAreNotThePlans) {
  const Plan p = chain(2, false);
  EXPECT_TRUE(steps_of(p, std::vector{kernel("add_one", 0, 1)}).empty());
  EXPECT_TRUE(steps_of(p, std::vector{kernel("add_one", 0, 1), kernel("add_one", 1, 2), kernel("add_one", 2, 3)}).empty());
}

TEST(CallTrace, WhatOverlapsCountsOnce) {
  EXPECT_EQ(added_ns(std::vector{kernel("a", 10, 20), kernel("b", 12, 15), kernel("c", 18, 25), kernel("d", 30, 31)}),
            (std::vector<int64_t>{10, 0, 5, 1}));
}

}  // namespace
}  // namespace toroid::exec
