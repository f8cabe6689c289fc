// Sizes and dimensions in braces may be integers of any type.
#include <gtest/gtest.h>

#include "errors.h"
#include "ops/reference.h"
#include "toroid/ops.h"

namespace toroid {
namespace {

using Values = std::vector<double>;

TEST(Dims, TakeIntegersOfAnyType) {
  const int first = 0, last = -1;
  const size_t second = 1;
  const unsigned char byte = 0;
  const int64_t wide = 1;
  EXPECT_EQ(Dims({first, last}).values(), (std::vector<int64_t>{0, -1}));
  EXPECT_EQ(Dims({first, second}).values(), (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(Dims({byte, wide}).values(), (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(Dims({0, -1}).values(), (std::vector<int64_t>{0, -1}));
  EXPECT_EQ(Dims({}).values(), std::vector<int64_t>());
  EXPECT_EQ(Dims(std::vector<int64_t>{2}).values(), std::vector<int64_t>{2});
  EXPECT_EQ(Dims(second).values(), std::vector<int64_t>{1});
  EXPECT_THROW(Dims({static_cast<size_t>(-1)}), UserError) << "beyond int64_t";
}

TEST(Dims, OfOperationsInBraces) {
  ops::ReferenceDispatcher reference;
  const DispatchScope scope(reference);
  const Tensor x = Tensor::of({0, 1, 2, 3, 4, 5}, {2, 3});
  const size_t columns = 1, rows = 3;
  const int negative = -2;
  EXPECT_EQ(sum(x, {columns}).to_vector(), (Values{3, 12}));
  EXPECT_EQ(sum(x, {negative, columns}).to_vector(), Values{15});
  EXPECT_EQ(amax(x, {0}).to_vector(), (Values{3, 4, 5}));
  EXPECT_EQ(sum(x, {}).to_vector(), Values{15});
  EXPECT_EQ(sum(x, {0, 1}, true).dim(), 2);
  EXPECT_EQ(permute(x, {columns, 0}).sizes(), (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(flip(x, {columns}).to_vector(), (Values{2, 1, 0, 5, 4, 3}));
  EXPECT_EQ(reshape(x, {rows, -1}).sizes(), (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(reshape(x, {negative + 3, 6u}).sizes(), (std::vector<int64_t>{1, 6}));
}

}  // namespace
}  // namespace toroid
