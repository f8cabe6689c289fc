// What is wrong with a tensor is told with the line that asked.
#include "errors.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>

#include "toroid/tensor.h"

namespace toroid {
namespace {

TEST(TensorErrors, QuestionsOfAnUndefinedTensorNameTheLine) {
  const Tensor none;
  struct Question {
    const char* name;
    int line;  // 0: it is not told
    std::function<void()> ask;
  };
  const std::vector<Question> questions = {
      {"dtype()", 0, [&] { none.dtype(); }},
      {"device()", 0, [&] { none.device(); }},
      {"dim()", 0, [&] { none.dim(); }},
      {"size()", __LINE__, [&] { none.size(0); }},
      {"sym_sizes()", 0, [&] { none.sym_sizes(); }},
      {"sizes()", 0, [&] { none.sizes(); }},
      {"numel()", 0, [&] { none.numel(); }},
      {"strides()", __LINE__, [&] { none.strides(); }},
      {"is_contiguous()", __LINE__, [&] { none.is_contiguous(); }},
      {"to_vector()", __LINE__, [&] { none.to_vector(); }},
      {"to()", __LINE__, [&] { none.to(Device::cpu()); }},
  };
  for (auto& q : questions)
    EXPECT_EQ(test::user_error(q.ask), fmt::format("{} of an undefined tensor, which has no value yet", q.name) +
                                           (q.line > 0 ? fmt::format(" (called at errors_test.cpp:{})", q.line) : ""));
}

TEST(TensorErrors, ADimensionThatIsNotThere) {
  const Tensor x = Tensor::full({2, 3}, 1);
  EXPECT_EQ(x.size(-2), 2);
  int64_t d = 0;
  const int line = __LINE__ + 1;
  const auto ask = [&] { x.size(d); };
  for (int64_t outside : {int64_t{2}, int64_t{-3}, INT64_MIN, INT64_MAX}) {
    d = outside;
    EXPECT_EQ(
        test::user_error(ask),
        fmt::format("size({}): expected a dimension from -2 to 1 of a tensor of 2 dimensions (called at errors_test.cpp:{})", d, line));
  }
}

// The calls stand outside of macros, within which compilers differ in what the line is.
TEST(TensorErrors, ACountThatIsNotThatOfTheSizes) {
  const std::vector<float> three = {1, 2, 3};
  const std::vector<double> two = {1, 2};
  const std::vector<int64_t> four = {2, 2}, row = {3};
  const int line = __LINE__ + 1;
  const std::string of_three = test::user_error([&] { Tensor::from_vector(three, four); });
  const std::string of_two = test::user_error([&] { Tensor::of(two, row); });
  EXPECT_EQ(of_three, fmt::format("3 numbers were given for a tensor of 4 elements (called at errors_test.cpp:{})", line));
  EXPECT_EQ(of_two, fmt::format("2 numbers were given for a tensor of 3 elements (called at errors_test.cpp:{})", line + 1));
}

}  // namespace
}  // namespace toroid
