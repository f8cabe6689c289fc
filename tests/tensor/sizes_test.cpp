// Sizes and plain integers of any type, with the header of tensors alone.
#include <gtest/gtest.h>

#include "toroid/tensor.h"

namespace toroid {
namespace {

template <class I>
void expect_integers() {
  const Tensor x = Tensor::full({6, 4}, 1);
  const I four = 4, two = 2;
  EXPECT_TRUE(x.size(1) == four && four == x.size(1) && x.size(0) != four && x.size(0) > four && two < x.size(1) && x.size(1) >= four);
  EXPECT_EQ(int64_t(x.size(0) * two + four - x.size(1) / two), 14);
  EXPECT_EQ(int64_t(four * x.size(0) % x.size(1)), 0);
  EXPECT_EQ(int64_t(-x.size(0) + four), -2);
}

TEST(SymInt, MeetsIntegersOfAnyType) {
  expect_integers<char>();
  expect_integers<int8_t>();
  expect_integers<uint16_t>();
  expect_integers<int>();
  expect_integers<unsigned>();
  expect_integers<int64_t>();
  expect_integers<size_t>();
  expect_integers<long long>();
  EXPECT_EQ(Tensor::full({6, 4}, 1).size(0), 6);
}

TEST(SymInt, HasNoRoomForMoreThanSizesHave) {
  const Tensor x = Tensor::full({6}, 1);
  EXPECT_THROW((void)(x.size(0) == SIZE_MAX), UserError);
}

}  // namespace
}  // namespace toroid
