// value_and_gradients where tensors are not on the default device, and under autocast: as the tape, which runs the operations themselves.
#include <gtest/gtest.h>

#include <functional>

#include "front/harness.h"
#include "toroid/autocast.h"
#include "toroid/autograd.h"
#include "toroid/compile.h"
#include "toroid/device.h"
#include "toroid/grad.h"

namespace toroid::gradient_contexts {
namespace {

class GradientContexts : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    device_ = device_from_name(GetParam());
    if (device_.is_cuda() && cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  }
  Tensor parameter(const std::vector<double>& values, std::vector<int64_t> sizes) const {
    return Tensor::of(values, std::move(sizes)).to(device_).requires_grad_();
  }
  static void expect_near(const Tensor& got, const Tensor& want, double tolerance) {
    ASSERT_TRUE(got.defined());
    EXPECT_EQ(got.device(), want.device());
    EXPECT_EQ(got.dtype(), want.dtype());
    const std::vector<double> a = got.to_vector(), b = want.to_vector();
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance * (1 + std::fabs(b[i]))) << "element " << i;
  }
  // value_and_gradients of loss, by itself and compiled, beside what backward() says.
  static void expect_as_the_tape(const std::function<Tensor()>& loss, const std::vector<Tensor>& by, double tolerance = 1e-5) {
    const Tensor expected = loss();
    expected.backward();
    auto gradients = [&] {
      auto [value, all] = value_and_gradients(loss, by);
      all.insert(all.begin(), value);
      return all;
    };
    auto compiled = compile(gradients, {.fullgraph = true});
    for (const std::vector<Tensor>& got : {gradients(), compiled()}) {
      expect_near(got[0], expected.detach(), tolerance);
      for (size_t i = 0; i < by.size(); ++i) expect_near(got[i + 1], by[i].grad(), tolerance);
    }
  }
  Device device_;
};

TEST_P(GradientContexts, WhatRulesMakeIsWhereTheTensorsAre) {
  const Tensor x = parameter({1, -2, 0.5, 3, 2, -1}, {2, 3}), w = parameter({0.5, 1, -1, 2, 0.25, -0.5}, {3, 2});
  const Tensor labels = Tensor::of({1, 0}, {2}, DType::I64).to(device_), rows = Tensor::of({1, 1, 0}, {3}, DType::I64).to(device_);
  expect_as_the_tape([&] { return cross_entropy(matmul(x, w), labels); }, {x, w});
  const Tensor y = parameter({1, -2, 0.5, 3, 2, -1}, {2, 3}), table = parameter({0.5, 1, -1, 2, 0.25, -0.5}, {2, 3});
  expect_as_the_tape([&] { return sum(max(y, 1).first) * sum(index_select(table, 0, rows) * 2); }, {y, table});
}

TEST_P(GradientContexts, PartsOnTheHost) {
  const Tensor x = Tensor::of({1, -2, 0.5}, {3}).requires_grad_(), scale = parameter({2, 3, 4}, {3});
  const Tensor number = Tensor::full(std::vector<int64_t>{}, 0.5).requires_grad_();
  expect_as_the_tape([&] { return sum(tanh(x.to(device_)) * scale * number); }, {x, scale, number});
}

TEST_P(GradientContexts, AutocastWithinAndAround) {
  const Tensor x = parameter({1.001, -2.002, 0.503, 3.004, 2.005, -1.006}, {2, 3}),
               w = parameter({0.51, 1.02, -1.03, 2.04, 0.25, -0.56}, {3, 2});
  const auto product = [&] { return sum(tanh(matmul(x, w))); };
  const Tensor exact = product();
  const auto within = [&] {
    const autocast cast(device_.type, DType::BF16);
    return product();
  };
  EXPECT_NE(within().to(Device::cpu()).item(), exact.to(Device::cpu()).item());
  expect_as_the_tape(within, {x, w}, 1e-2);
  const auto rounded = value_and_gradients(within, {x, w});
  EXPECT_EQ(rounded.first.item(), within().item());  // the product is rounded there, too
  const autocast cast(device_.type, DType::BF16);
  const auto around = value_and_gradients(product, {x, w});
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(around.second[i].to_vector(), rounded.second[i].to_vector());
}

INSTANTIATE_TEST_SUITE_P(Devices, GradientContexts, testing::Values("cpu", "cuda"));

}  // namespace
}  // namespace toroid::gradient_contexts
