// Operations over raw memory: eager, interpreted, compiled and replayed alike.
#include "toroid/opaque_op.h"

#include <gtest/gtest.h>

#include <numeric>

#include "front/harness.h"
#include "toroid/ops.h"

namespace toroid {
namespace {

using Values = std::vector<double>;

// Sums up to each element, of rows.
auto& cumulate() {
  static auto op = opaque_op(
      "opaque_test::cumulate(Tensor x, float by=1.0) -> Tensor", [](const MemoryType& x, double) { return x; },
      [](InputMemory x, double by, OutputMemory y) {
        const auto from = x.as<float>();
        const auto to = y.as<float>();
        const auto row = static_cast<size_t>(x.size(-1));
        for (size_t begin = 0; begin < from.size(); begin += row) {
          float sum = 0;
          for (size_t i = begin; i < begin + row; ++i) to[i] = sum += static_cast<float>(by) * from[i];
        }
      });
  return op;
}

TEST(OpaqueOp, IsCalled) {
  const Tensor x = Tensor::of({1, 2, 3, 4}, {2, 2});
  EXPECT_EQ(cumulate()(x).to_vector(), (Values{1, 3, 3, 7}));
  auto f = compile([](const Tensor& x) { return relu(cumulate()(x * 2, 0.5) - 1) * 2; }, {.fullgraph = true});
  EXPECT_EQ(f(x).to_vector(), (Values{0, 4, 4, 12}));
}

}  // namespace
}  // namespace toroid
