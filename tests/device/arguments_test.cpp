// What a launch on a GPU is given, without one.
#include "device/cuda/arguments.h"

#include <gtest/gtest.h>

namespace toroid::device::cuda {
namespace {

const auto value = [](const Expr& e) { return e.constant(); };

TEST(Arguments, EachPointerIsAParameter) {
  int memory[3] = {};
  Arguments a({}, {5, 6}, 3, value);
  ASSERT_EQ(a.list().size(), 5u);
  const std::vector<void*> pointers{&memory[0], &memory[1], &memory[2]};
  EXPECT_TRUE(a.set_pointers(pointers));
  EXPECT_FALSE(a.set_pointers(pointers)) << "they are those already";
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(*static_cast<void* const*>(a.list()[i]), pointers[i]);
  EXPECT_EQ(*static_cast<const int64_t*>(a.list()[4]), 6);
}

TEST(Arguments, PointersTogetherAreOneParameter) {
  int memory[3] = {};
  Arguments a({}, {5, 6}, 3, value, true);
  ASSERT_EQ(a.list().size(), 3u);
  const std::vector<void*> pointers{&memory[2], &memory[1], &memory[0]};
  EXPECT_TRUE(a.set_pointers(pointers));
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(static_cast<void* const*>(a.list()[0])[i], pointers[i]);
  EXPECT_EQ(*static_cast<const int64_t*>(a.list()[1]), 5);
}

TEST(Arguments, NoneTogetherAreNoParameter) { EXPECT_EQ(Arguments({}, {7}, 0, value, true).list().size(), 1u); }

}  // namespace
}  // namespace toroid::device::cuda
