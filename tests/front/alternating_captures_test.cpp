// Captured variables that go back and forth, as a module does that trains and evaluates by turns: each state is compiled once.
#include <gtest/gtest.h>

#include "toroid/autograd.h"
#include "toroid/compile.h"
#include "toroid/nn.h"
#include "toroid/ops.h"
#include "toroid/random.h"

namespace toroid {
namespace {

TEST(AlternatingCaptures, EachStateIsCompiledOnce) {
  Watched<int64_t> state = 0;
  auto f = compile([&](const Tensor& x) {
    Tensor y = x;
    for (int64_t i = 0; i < state; ++i) y = y * 2.0;
    return y + 1.0;
  });
  const Tensor x = ones({3});
  for (int round = 0; round < 10; ++round)
    for (const int64_t s : {0, 1, 2}) {
      state = s;
      EXPECT_EQ(f(x).to_vector().at(1), static_cast<double>((1 << s) + 1)) << "round " << round;
    }
  const CompileReport r = f.report();
  EXPECT_EQ(r.compiles, 3);
  EXPECT_EQ(r.eager_calls, 0);
  EXPECT_EQ(r.entries, 1u);
}

// Weights that were replaced meanwhile are those of the program that comes back.
TEST(AlternatingCaptures, WithTheTensorsOfNow) {
  Watched<bool> twice = false;
  Tensor w = full({3}, 1.0);
  auto f = compile([&](const Tensor& x) { return twice ? x * w * 2.0 : x * w; });
  const Tensor x = ones({3});
  for (int i = 1; i <= 12; ++i) {
    twice = i % 2 == 0;
    w = full({3}, static_cast<double>(i));
    EXPECT_EQ(f(x).to_vector().at(0), (twice ? 2.0 : 1.0) * i);
  }
  EXPECT_EQ(f.report().compiles, 2);
}

// Sizes decide too: what comes back must fit the call.
TEST(AlternatingCaptures, AndTheSizesOfTheCall) {
  Watched<bool> on = false;
  CompileConfig config;
  config.dynamic = false;
  auto f = compile([&](const Tensor& x) { return on ? sum(x) : amax(x); }, config);
  for (int i = 0; i < 8; ++i)
    for (const int64_t n : {2, 3}) {
      on = i % 2 == 1;
      EXPECT_EQ(f(full({n}, 5.0)).item(), on ? 5.0 * static_cast<double>(n) : 5.0);
    }
  EXPECT_EQ(f.report().compiles, 4);
  EXPECT_EQ(f.report().eager_calls, 0);
}

struct Net : nn::Module {
  nn::Linear layer{4, 4};
  Net() { add_child("layer", layer); }
  Tensor forward(const Tensor& x) { return dropout(layer.forward(x), 0.5, is_training()); }
};

TEST(AlternatingCaptures, AModuleThatTrainsAndEvaluatesByTurns) {
  Net net;
  auto f = compile(net);
  const Tensor x = ones({2, 4});
  const NoGrad none;
  net.eval();
  const auto evaluated = f(x).to_vector();
  for (int i = 0; i < 20; ++i) {
    net.train(i % 2 == 0);
    const auto found = f(x).to_vector();
    if (i % 2)
      EXPECT_EQ(found, evaluated);
    else
      EXPECT_NE(found, evaluated);
  }
  EXPECT_EQ(f.report().compiles, 2);
  EXPECT_EQ(f.report().eager_calls, 0);
}

}  // namespace
}  // namespace toroid
