// Tensors as text: rows, widths, what is left out of large ones.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <limits>
#include <numeric>
#include <sstream>

#include "toroid/tensor.h"

namespace toroid {
namespace {

std::string printed(const Tensor& t) {
  std::ostringstream out;
  out << t;
  return out.str();
}

Tensor count_to(std::vector<int64_t> sizes, DType dtype = DType::F32) {
  std::vector<double> values(static_cast<size_t>(std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>())));
  std::iota(values.begin(), values.end(), 0);
  return Tensor::of(values, sizes, dtype);
}

TEST(Print, RowsOnLinesOfTheirOwn) {
  EXPECT_EQ(printed(count_to({2, 3})), "f32[2, 3]\n{{0, 1, 2},\n {3, 4, 5}}");
  EXPECT_EQ(printed(count_to({2, 2, 2})), "f32[2, 2, 2]\n{{{0, 1},\n  {2, 3}},\n {{4, 5},\n  {6, 7}}}");
}

TEST(Print, OneRowStaysOnTheLine) {
  EXPECT_EQ(printed(count_to({3})), "f32[3] {0, 1, 2}");
  EXPECT_EQ(printed(count_to({1, 3})), "f32[1, 3] {{0, 1, 2}}");
  EXPECT_EQ(printed(count_to({})), "f32[] {0}");
  EXPECT_EQ(printed(Tensor()), "undefined");
}

TEST(Print, ColumnsHaveOneWidth) {
  const Tensor t = Tensor::from_vector(std::vector<double>{-1.5, 2, 100, 0.25}, {2, 2});
  EXPECT_EQ(printed(t), "f64[2, 2]\n{{-1.5,    2},\n { 100, 0.25}}");
}

TEST(Print, OfAnyStridesAndDtype) {
  EXPECT_EQ(printed(count_to({2, 3}).as_strided(std::vector<int64_t>{3, 2}, std::vector<int64_t>{1, 3})),
            "f32[3, 2]\n{{0, 3},\n {1, 4},\n {2, 5}}");
  EXPECT_EQ(printed(Tensor::from_vector(std::vector<int64_t>{INT64_MAX, -1}, {2})), "i64[2] {9223372036854775807, -1}");
  EXPECT_EQ(printed(Tensor::from_vector(std::vector<uint64_t>{UINT64_MAX}, {1})), "u64[1] {18446744073709551615}");
  EXPECT_EQ(printed(Tensor::from_vector(std::vector<std::complex<float>>{{1, -2}, {0, 0.5}}, {2})), "c64[2] {1-2i, 0+0.5i}");
  EXPECT_EQ(printed(count_to({2}, DType::Bool)), "bool[2] {0, 1}");
}

TEST(Print, WithoutElements) {
  EXPECT_EQ(printed(count_to({0})), "f32[0] {}");
  EXPECT_EQ(printed(count_to({0, 3})), "f32[0, 3]\n{}");
  EXPECT_EQ(printed(count_to({2, 0})), "f32[2, 0]\n{{},\n {}}");
}

TEST(Print, OfLargeOnesTheEnds) {
  EXPECT_EQ(printed(count_to({1000})).find("..."), std::string::npos);
  EXPECT_EQ(printed(count_to({1001})), "f32[1001] {0, 1, 2, ..., 998, 999, 1000}");
  EXPECT_EQ(printed(count_to({7, 200})),
            "f32[7, 200]\n"
            "{{   0,    1,    2, ...,  197,  198,  199},\n"
            " { 200,  201,  202, ...,  397,  398,  399},\n"
            " { 400,  401,  402, ...,  597,  598,  599},\n"
            " ...,\n"
            " { 800,  801,  802, ...,  997,  998,  999},\n"
            " {1000, 1001, 1002, ..., 1197, 1198, 1199},\n"
            " {1200, 1201, 1202, ..., 1397, 1398, 1399}}");
}

TEST(Print, ToStringIsOneLine) {
  EXPECT_EQ(to_string(count_to({2, 3})), "f32[2, 3] {0, 1, 2, 3, 4, 5}");
  EXPECT_EQ(to_string(count_to({3, 3})), "f32[3, 3] {0, 1, 2, 3, 4, 5, 6, 7, ...}");
}

TEST(Print, NaNHasNoSign) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(to_string(Tensor::of({std::copysign(nan, -1), std::copysign(nan, 1), -0.0}, {3}, DType::F64)), "f64[3] {nan, nan, -0}");
}

}  // namespace
}  // namespace toroid
