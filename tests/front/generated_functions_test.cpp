// Functions over tensors that are generated from the operation table (toroid/ops_table.h) run as those that are written by hand.
#include <gtest/gtest.h>

#include "toroid/error.h"
#include "toroid/ops.h"

namespace toroid {
namespace {

Tensor of(std::vector<double> v) {
  const int64_t sizes[] = {static_cast<int64_t>(v.size())};
  return Tensor::of(v, sizes);
}

TEST(GeneratedFunctions, FormulasTakeTensorsAndNumbers) {
  const Tensor x = of({-1, 0, 2});
  EXPECT_EQ(heaviside(x, 0.5).to_vector(), (std::vector<double>{0, 0.5, 1}));
  EXPECT_EQ(fmod(7.0, of({2, 4})).to_vector(), (std::vector<double>{1, 3}));
  EXPECT_EQ(clamp_min(x, 1).to_vector(), (std::vector<double>{1, 1, 2}));
  EXPECT_EQ(clamp_min(x, of({0, 3, 0})).to_vector(), (std::vector<double>{0, 3, 2}));
  EXPECT_THROW(heaviside(1.0, 2.0), UserError);
  EXPECT_THROW(threshold(x, x, 0), UserError);
}

TEST(GeneratedFunctions, ResultsAreAsManyAsTheSchemaSays) {
  const auto [mantissa, exponent] = frexp(of({8, 3}));
  EXPECT_EQ(mantissa.to_vector(), (std::vector<double>{0.5, 0.75}));
  const std::vector<Tensor> parts = tensor_split(of({1, 2, 3}), 2);
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[1].to_vector(), (std::vector<double>{3}));
}

}  // namespace
}  // namespace toroid
