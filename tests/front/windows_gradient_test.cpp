// Gradients of what looks through windows: convolutions of few channels in halves, and pools of values that are computed, or -inf alone.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "toroid/compile.h"
#include "toroid/grad.h"
#include "toroid/nn/init.h"
#include "toroid/ops.h"

namespace toroid {
namespace {

double largest_of(const std::vector<double>& values) {
  double out = 0;
  for (double v : values) out = std::max(out, std::abs(v));
  return out;
}

struct Seen {
  std::vector<int64_t> image, window;  // [n, channels, h, w]; [h, w]
  int64_t stride, padding, dilation;
};

// Rounded to halves nowhere but in operands and results, the gradient is that of the same numbers in f32, up to its own rounding.
TEST(WindowsGradient, OfFewChannelsInHalves) {
  const nn::Init init(3);
  const Seen cases[] = {{{2, 3, 18, 16}, {3, 3}, 1, 1, 1}, {{2, 3, 21, 16}, {7, 7}, 2, 3, 1}, {{3, 1, 9, 20}, {5, 3}, 1, 2, 2},
                        {{2, 4, 12, 13}, {2, 3}, 3, 0, 2}, {{2, 5, 18, 16}, {3, 3}, 2, 1, 1}, {{1, 2, 7, 8}, {1, 3}, 1, 1, 1}};
  DType half = DType::F16;
  for (const Seen& c : cases) {
    half = half == DType::F16 ? DType::BF16 : DType::F16;
    const Tensor x = init.normal(c.image, 0, 1).to(half), w = init.normal({8, c.image[1], c.window[0], c.window[1]}, 0, 0.5).to(half);
    const auto step = [&](const Tensor& images, const Tensor& weight) {
      return value_and_grad([&](const Tensor& i,
                                const Tensor& k) { return sum(square(to(conv2d(i, k, {}, c.stride, c.padding, c.dilation), DType::F32))); },
                            {0, 1})(images, weight)
          .second;
    };
    const auto wanted = step(x.to(DType::F32), w.to(DType::F32)), eager = step(x, w), made = compile(step)(x, w);
    for (size_t k = 0; k < wanted.size(); ++k) {
      const auto want = wanted[k].to_vector();
      for (const auto& got : {eager[k], made[k]}) {
        EXPECT_EQ(got.dtype(), half);
        ASSERT_EQ(got.sizes(), wanted[k].sizes());
        const auto values = got.to_vector();
        for (size_t i = 0; i < want.size(); ++i)
          ASSERT_NEAR(values[i], want[i], (half == DType::BF16 ? 3e-2 : 4e-3) * largest_of(want)) << "gradient " << k << ", element " << i;
      }
    }
  }
}

// The gradient goes where the indices that the pool gives say, also from windows of equal elements and of -inf alone, whose first element
// may be padding.
TEST(WindowsGradient, OfMaximaGoToTheirIndices) {
  const nn::Init init(4);
  const Seen cases[] = {{{2, 3, 8, 9}, {3, 3}, 2, 1, 1},
                        {{1, 2, 7, 7}, {2, 3}, 1, 1, 2},
                        {{2, 1, 9, 5}, {4, 2}, 3, 1, 1},
                        {{1, 1, 19, 18}, {17, 16}, 1, 8, 1}};
  bool ceil = false;
  for (const Seen& c : cases)
    for (const double some : {0.0, 0.5, 2.0}) {  // which of the elements become -inf
      ceil = !ceil;
      const Tensor drawn = init.normal(c.image, 0, 1), x = where(lt(abs(drawn), some), Tensor::full(c.image, -INFINITY), round(drawn));
      const auto pooled = max_pool2d_with_indices(x, c.window, c.stride, c.padding, c.dilation, ceil);
      const Tensor weight = init.normal(std::vector<int64_t>(pooled.first.sizes().begin(), pooled.first.sizes().end()), 0, 1);
      const auto wanted =
          max_pool2d_with_indices_backward(weight, x, c.window, c.stride, c.padding, c.dilation, ceil, pooled.second).to_vector();
      const auto step = [&](const Tensor& images) {
        const auto pool = [&] { return std::vector{max_pool2d(images, c.window, c.stride, c.padding, c.dilation, ceil)}; };
        return vjp(pool, std::vector{images}, std::vector{weight}).second[0];
      };
      const auto eager = step(x).to_vector(), made = compile(step)(x).to_vector();
      for (size_t i = 0; i < wanted.size(); ++i) {
        ASSERT_NEAR(eager[i], wanted[i], 1e-5) << i;
        ASSERT_NEAR(made[i], wanted[i], 1e-5) << i;
      }
    }
}

// What several windows see is computed once, or several times: with and without padding, and windows that are views of windows.
TEST(WindowsGradient, OfWhatIsComputedBelow) {
  const nn::Init init(5);
  const Tensor x = init.normal({2, 4, 10, 12}, 0, 1), a = init.normal({4, 1, 1}, 0, 1), b = init.normal({4, 1, 1}, 0, 1);
  for (const int64_t padding : {0, 1})
    for (const bool mean : {false, true}) {
      const auto step = [&](const Tensor& images) {
        return grad([&](const Tensor& i) {
          const Tensor below = relu(tanh(i * a + b) * a - b);
          const Tensor pooled = mean ? avg_pool2d(below, 3, 2, padding) : max_pool2d(below, 3, 2, padding);
          return sum(square(pooled)) + sum(below);
        })(images);
      };
      const auto want = step(x).to_vector(), got = compile(step)(x).to_vector();
      for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-4 * largest_of(want)) << i;
    }
}

}  // namespace
}  // namespace toroid
