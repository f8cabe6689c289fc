// Compiled functions and eager operations within a graph by hand.
#include <gtest/gtest.h>

#include "toroid/compile.h"
#include "toroid/device_error.h"
#include "toroid/device_graph.h"
#include "toroid/tensor_copy.h"

namespace toroid {
namespace {

Tensor ramp(double start) {
  std::vector<double> values;
  for (int i = 0; i < 64; ++i) values.push_back(start + 0.25 * i - 7);
  return Tensor::of(values, std::vector<int64_t>{8, 8});
}

TEST(ManualGraph, ReplaysCompiledFunctionsAndEagerOperations) {
  for (bool warm : {true, false}) {
    auto f = compile([](const Tensor& x, const Tensor& w) { return relu(matmul(x, w)) + 1; });
    const Tensor w = ramp(0.5);
    Tensor x = ramp(1), y;
    if (warm) f(x, w);
    CudaGraph g(Device::cpu(), true);
    g.capture([&] { y = f(x, w) * 2; });
    EXPECT_GE(g.node_count(), 2u) << g.dot();
    for (double start : {2.0, -3.0}) {
      copy_async(x, ramp(start));
      g.replay();
      EXPECT_EQ(y.to_vector(), (f(x, w) * 2).to_vector()) << start << (warm ? "" : " compiled within the capture");
    }
  }
}

TEST(ManualGraph, ReadingAResultIsRefused) {
  auto f = compile([](const Tensor& x) { return sum(x).item() > 0 ? x + 1 : x - 1; });
  Tensor x = ramp(1);
  CudaGraph g(Device::cpu());
  EXPECT_THROW(g.capture([&] { f(x); }), DeviceError);
  f(x);
  EXPECT_THROW(g.capture([&] { f(x); }), DeviceError);
  EXPECT_FALSE(is_current_stream_capturing(Device::cpu()));
  EXPECT_EQ(f(x).to_vector(), (x + 1).to_vector());
}

}  // namespace
}  // namespace toroid
