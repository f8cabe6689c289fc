// The tape on every device: gradients are those of the CPU, operation by operation and through compiled functions, replayed as well.
#include <gtest/gtest.h>

#include "front/harness.h"
#include "toroid/autograd.h"
#include "toroid/device.h"
#include "toroid/grad.h"

namespace toroid::device_tapes {
namespace {

class TapeOnDevices : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    device_ = device_from_name(GetParam());
    if (device_.is_cuda() && cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  }
  static void expect_near(const Tensor& got, const Tensor& want) {
    ASSERT_TRUE(got.defined());
    EXPECT_EQ(got.device(), want.device());
    const std::vector<double> a = got.to_vector(), b = want.to_vector();
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 2e-5 * (1 + std::fabs(b[i]))) << "element " << i;
  }
  Device device_;
  const Tensor x_ = Tensor::of({1, -2, 0.5, 3, 2, -1}, {2, 3}), w_ = Tensor::of({0.5, 1, -1, 2, 0.25, -0.5}, {3, 2});
};

Tensor loss(const Tensor& x, const Tensor& w) {
  const Tensor y = tanh(matmul(x, w));
  return sum(y * y * 0.5);
}

TEST_P(TapeOnDevices, LeavesOnTheHostGetTheirGradientsThere) {
  const Tensor w = (w_ + 0).requires_grad_();
  const auto expected = value_and_gradients([&] { return loss(x_, w_); }, {w_});
  for (int times = 1; times <= 2; ++times) {
    const Tensor value = loss(x_.to(device_), w.to(device_));
    EXPECT_EQ(value.device(), device_);
    value.backward();
    expect_near(w.grad(), expected.second[0] * times);
  }
}

TEST_P(TapeOnDevices, WritesInPlaceAndViews) {
  auto f = [](const Tensor& x) {
    Tensor y = x * 2;
    mul_(select(y, 0, 1), select(x, 0, 0));
    return sum(y * y);
  };
  const auto expected = value_and_gradients([&] { return f(x_); }, {x_});
  const Tensor x = x_.to(device_).requires_grad_();
  f(x).backward();
  expect_near(x.grad().to(Device::cpu()), expected.second[0]);
}

// What is brought to a device within a NoGrad has no gradient, in a function that is differentiated as by the tape.
TEST_P(TapeOnDevices, CopiesWithinANoGrad) {
  const auto f = [&](const Tensor& x) {
    Tensor factor;
    {
      const NoGrad no_gradients;
      factor = x.to(device_);
    }
    return sum(factor * x.to(device_));
  };
  const Tensor x = (x_ + 0).requires_grad_();
  f(x).backward();
  const auto inside = [&](const Tensor& y) { return value_and_gradients([&] { return f(y); }, {y}).second[0]; };
  expect_near(inside(x_), x.grad());
  expect_near(compile(inside)(x_), x.grad());
  const Tensor y = (x_ + 0).requires_grad_();
  compile(f)(y).backward();
  expect_near(y.grad(), x.grad());
}

// A gradient is the caller's own: replays that come later leave it as it is.
TEST_P(TapeOnDevices, CompiledFunctions) {
  for (Mode mode : {Mode::Default, Mode::ReduceOverhead}) {
    const Tensor w = w_.to(device_).requires_grad_();
    auto f = compile([&](const Tensor& x) { return loss(x, w); }, {.mode = mode, .fullgraph = true});
    std::vector<Tensor> got, want;
    for (double scale : {1.0, 0.5, 0.25, 2.0}) {
      const Tensor x = x_ * scale;
      f(x.to(device_)).backward();
      got.push_back(w.grad());
      w.zero_grad();
      want.push_back(value_and_gradients([&] { return loss(x, w_); }, {w_}).second[0]);
    }
    for (size_t i = 0; i < got.size(); ++i) expect_near(got[i].to(Device::cpu()), want[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(All, TapeOnDevices, testing::Values("cpu", "cuda"), [](auto& i) { return std::string(i.param); });

}  // namespace
}  // namespace toroid::device_tapes
