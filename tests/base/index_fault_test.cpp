// What the record of a kernel's failed check says.
#include "base/index_fault.h"

#include <gtest/gtest.h>

#include "errors.h"

namespace toroid {
namespace {

const IndexSite kSum = {"all_reduce of 8 elements", "model.cpp:7", IndexSite::kRank, false};

TEST(IndexFaults, OfRanksThatDoNotCome) {
  EXPECT_EQ(test::environment_error([] { fail_at(kSum, {.index = 1, .size = 500}); }),
            "all_reduce of 8 elements: rank 1 has not come within 500 ms (called at model.cpp:7)");
}

TEST(IndexFaults, OfRanksThatRunSomethingElse) {
  EXPECT_EQ(test::user_error([] { fail_at(kSum, {.index = 1, .size = -1}); }),
            "all_reduce of 8 elements: rank 1 runs another operation, data type, size or reduction at this point (called at model.cpp:7)");
}

TEST(IndexFaults, OfIndices) {
  EXPECT_EQ(test::user_error([] {
              fail_at({"embedding", "", 0, false}, {.index = 50, .size = 10});
            }),
            "embedding: index 50 is out of range for dimension 0 of size 10");
  EXPECT_EQ(test::user_error([] {
              fail_at({"take", "m.cpp:1", -1, true}, {.index = -2, .size = 10});
            }),
            "take: index -12 is out of range for a tensor of 10 elements (called at m.cpp:1)");
  EXPECT_EQ(test::user_error([] {
              fail_at({"remainder", "", IndexSite::kDivisor, false}, {});
            }),
            "remainder: division of integers by zero");
}

}  // namespace
}  // namespace toroid
