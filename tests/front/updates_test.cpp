// Compiled updates of many tensors in place: an optimizer's, on the CPU and on a GPU.
#include <gtest/gtest.h>

#include <cmath>

#include "errors.h"
#include "front/harness.h"
#include "toroid/compile.h"
#include "toroid/device.h"
#include "toroid/grad.h"
#include "toroid/train/optimizers.h"

namespace toroid::updates {
namespace {

class Updates : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    device_ = device_from_name(GetParam());
    if (device_.is_cuda() && cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  }
  Tensor waves(int64_t count, double phase, DType dtype = DType::F32) const {
    std::vector<double> values;
    for (int64_t i = 0; i < count; ++i) values.push_back(std::sin(0.7 * static_cast<double>(i) + phase));
    return Tensor::of(values, std::vector<int64_t>{count}, dtype).to(device_);
  }
  Device device_;
};

// Sizes around those of vectors and blocks; one of the parameters is no vector.
TEST_P(Updates, OfParametersOfManySizes) {
  for (DType dtype : {DType::F32, DType::BF16}) {
    std::vector<Tensor> gradients, parameters[2];
    for (int64_t count : {0, 1, 2, 3, 4, 5, 7, 8, 9, 31, 255, 256, 257, 1023, 1024, 1025, 2047, 2049, 4099, 5000, 1, 4, 1024}) {
      gradients.push_back(waves(count, 0.1 * static_cast<double>(count), dtype));
      for (auto& list : parameters) list.push_back(waves(count, 1, dtype));
    }
    gradients.push_back(waves(12, 2, dtype).as_strided(std::vector<int64_t>{3, 4}, std::vector<int64_t>{1, 3}));
    for (auto& list : parameters) list.push_back(waves(12, 3, dtype).as_strided(std::vector<int64_t>{3, 4}, std::vector<int64_t>{4, 1}));
    const train::AdamW::Options options{.lr = 0.1, .weight_decay = 0.1, .amsgrad = true};
    train::AdamW eager(parameters[0], options), compiled(parameters[1], options);
    auto step = compile([&] { compiled.step(gradients); }, {.fullgraph = true});
    for (int i = 0; i < 3; ++i) {
      eager.step(gradients);
      step();
    }
    const double tolerance = dtype == DType::F32 ? 1e-5 : 0.02;
    for (size_t i = 0; i < gradients.size(); ++i) {
      const std::vector<double> want = parameters[0][i].to_vector(), got = parameters[1][i].to_vector();
      for (size_t k = 0; k < want.size(); ++k) ASSERT_NEAR(got[k], want[k], tolerance) << "element " << k << " of parameter " << i;
    }
  }
}

// Exchanges read what another element's update writes.
TEST_P(Updates, ThatReadOneAnother) {
  const Tensor a = waves(1000, 0), b = waves(1000, 1);
  const std::vector<double> first = a.to_vector(), second = b.to_vector();
  auto exchange = compile(
      [&] {
        const Tensor old = a * 1;
        copy_(a, flip(b, {0}));
        copy_(b, old);
      },
      {.fullgraph = true});
  exchange();
  EXPECT_EQ(b.to_vector(), first);
  EXPECT_EQ(a.to_vector(), std::vector<double>(second.rbegin(), second.rend()));
}

// A step that an index out of range ends leaves the parameters as they were.
TEST_P(Updates, NotAfterABadIndex) {
  const Tensor table = waves(40, 0).as_strided(std::vector<int64_t>{10, 4}, std::vector<int64_t>{4, 1}), bias = waves(4, 1);
  train::AdamW optimizer({table, bias}, {.lr = 0.1});
  auto step = compile(
      [&](const Tensor& rows) {
        auto [loss, gradients] = value_and_gradients([&] { return mean(tanh(embedding(table, rows) + bias)); }, {table, bias});
        optimizer.step(gradients);
        return loss;
      },
      {.mode = Mode::ReduceOverhead, .fullgraph = true});
  const Tensor good = Tensor::of({1, 2, 3}, {3}, DType::I64).to(device_), bad = Tensor::of({1, 20, 3}, {3}, DType::I64).to(device_);
  for (int i = 0; i < 4; ++i) step(good).to_vector();
  const std::vector<double> before = table.to_vector(), bias_before = bias.to_vector();
  EXPECT_TRUE(test::contains(test::user_error([&] {
                               step(bad).to_vector();
                               synchronize(device_);
                             }),
                             "index 20 is out of range"));
  EXPECT_EQ(table.to_vector(), before);
  EXPECT_EQ(bias.to_vector(), bias_before);
  step(good).to_vector();
  EXPECT_NE(table.to_vector(), before);
}

INSTANTIATE_TEST_SUITE_P(Devices, Updates, testing::Values("cpu", "cuda"));

}  // namespace
}  // namespace toroid::updates
