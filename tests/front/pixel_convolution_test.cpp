// Convolutions of single pixels, whose weights have gradients that are products over all pixels of all images.
#include <gtest/gtest.h>

#include <cmath>

#include "toroid/compile.h"
#include "toroid/grad.h"
#include "toroid/nn/init.h"
#include "toroid/nn/layers.h"

namespace toroid {
namespace {

TEST(PixelConvolution, GradientsAreThoseOfEagerCalls) {
  const nn::Init init(1);
  nn::Conv2d first(3, 16, 3, {.padding = {1, 1}}, init), pixels(16, 24, 1, {}, init), strided(24, 8, 1, {.stride = {2, 2}}, init);
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{4, 3, 6, 8}, {1, 3, 5, 5}, {2, 3, 1, 1}}) {
    const Tensor x = init.normal(sizes, 0, 1);
    const auto step = [&](const Tensor& images) {
      return value_and_gradients([&] { return mean(square(strided.forward(relu(pixels.forward(relu(first.forward(images))))))); },
                                 {first.weight, pixels.weight, strided.weight})
          .second;
    };
    const auto expected = step(x), made = compile(step)(x);
    for (size_t i = 0; i < expected.size(); ++i) {
      const auto a = expected[i].to_vector(), b = made[i].to_vector();
      ASSERT_EQ(expected[i].sizes(), made[i].sizes());
      double largest = 0;
      for (double v : a) largest = std::max(largest, std::abs(v));
      for (size_t k = 0; k < a.size(); ++k) ASSERT_NEAR(a[k], b[k], 1e-4 * largest) << "weight " << i << ", element " << k;
    }
  }
}

}  // namespace
}  // namespace toroid
