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
    int line;
    std::function<void()> ask;
  };
  const std::vector<Question> questions = {
      {"dtype()", __LINE__, [&] { none.dtype(); }},
      {"device()", __LINE__, [&] { none.device(); }},
      {"dim()", __LINE__, [&] { none.dim(); }},
      {"size()", __LINE__, [&] { none.size(0); }},
      {"sym_sizes()", __LINE__, [&] { none.sym_sizes(); }},
      {"sizes()", __LINE__, [&] { none.sizes(); }},
      {"numel()", __LINE__, [&] { none.numel(); }},
      {"strides()", __LINE__, [&] { none.strides(); }},
      {"is_contiguous()", __LINE__, [&] { none.is_contiguous(); }},
      {"to_vector()", __LINE__, [&] { none.to_vector(); }},
      {"to()", __LINE__, [&] { none.to(Device::cpu()); }},
  };
  for (auto& q : questions)
    EXPECT_EQ(test::user_error(q.ask),
              fmt::format("{} of an undefined tensor, which has no value yet (called at errors_test.cpp:{})", q.name, q.line));
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

TEST(TensorErrors, ACountThatIsNotThatOfTheSizes) {
  const std::vector<float> three = {1, 2, 3};
  EXPECT_EQ(test::user_error([&] {
              Tensor::from_vector(three, {2, 2});
            }),
            fmt::format("3 numbers were given for a tensor of 4 elements (called at errors_test.cpp:{})", __LINE__ - 1));
  EXPECT_EQ(test::user_error([&] {
              Tensor::of({1, 2}, {3});
            }),
            fmt::format("2 numbers were given for a tensor of 3 elements (called at errors_test.cpp:{})", __LINE__ - 1));
}

}  // namespace
}  // namespace toroid
