// Sizes and dimensions in braces may be integers of any type.
#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <sstream>

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

// A bool would be dimension 1, as in sort(x, true), which reads as sort's `descending` or `stable`.
template <class T>
constexpr bool is_dim = requires(Tensor x, T dim) {
  sort(x, dim);
};
template <class T>
constexpr bool is_dim_with_more = requires(Tensor x, T dim) {
  sort(x, dim, 2);
};
template <class T>
constexpr bool is_optional_dim = requires(Tensor x, T dim) {
  argmax(x, dim);
};
template <class T>
constexpr bool is_dim_or_tensor = requires(Tensor x, T dim) {
  max(x, dim);
};
static_assert(is_dim<int> && is_dim<size_t> && is_dim_with_more<int> && is_optional_dim<int> && is_dim_or_tensor<int>);
static_assert(!is_dim<bool> && !is_dim_with_more<bool> && !is_optional_dim<bool> && !is_dim_or_tensor<bool>);
static_assert(is_dim_or_tensor<Tensor> && requires(Tensor x) { sort(x, true, 0, false); });

std::string words_of(const char* header) {
  std::ostringstream text;
  text << std::ifstream(std::string(TOROID_SOURCE_DIR) + "/include/toroid/" + header).rdbuf();
  return std::regex_replace(text.str(), std::regex("\\s+"), " ");
}

TEST(Dims, AreNoBools) {
  const std::string refused = words_of("ops_dims.h");
  const std::regex with_dim("(\\w+)\\(const Tensor& \\w+, (std::optional<int64_t>|int64_t) (dim|axis|start|source)");
  int looked_at = 0;
  for (const char* header : {"ops.h", "ops_table.h"}) {
    const std::string text = words_of(header);
    for (std::sregex_iterator at(text.begin(), text.end(), with_dim), end; at != end; ++at, ++looked_at) {
      const std::string name = (*at)[1];
      EXPECT_TRUE(test::contains(refused, "(" + name + ")") || name == "sort") << "toroid/ops_dims.h lacks " << name;
    }
  }
  EXPECT_GT(looked_at, 50);
}

}  // namespace
}  // namespace toroid
