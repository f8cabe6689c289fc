// Results of compiled functions on the tape.
#include <gtest/gtest.h>

#include "front/harness.h"
#include "toroid/autograd.h"
#include "toroid/grad.h"
#include "toroid/nn.h"
#include "toroid/random.h"

namespace toroid::compiled_tapes {
namespace {

using Values = std::vector<double>;

Values gradient(const Tensor& t) { return t.grad().defined() ? t.grad().to_vector() : Values{}; }

TEST(CompiledTape, GradientsOfArgumentsAndCaptures) {
  const Tensor w = Tensor::of({1, 2, 3, 4}, {2, 2}).requires_grad_(), x = Tensor::of({5, 6}, {1, 2}).requires_grad_();
  auto f = compile([&](const Tensor& t) { return tanh(matmul(t, w)) * 0.1; }, {.fullgraph = true});
  for (const double scale : {1.0, 0.5}) {
    w.zero_grad();
    x.zero_grad();
    const Tensor in = x * scale * 0.1;
    sum(f(in) * f(in)).backward();
    const auto expected = value_and_gradients(
        [&] {
          const Tensor y = tanh(matmul(x * scale * 0.1, w)) * 0.1;
          return sum(y * y);
        },
        {w, x});
    for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(gradient(w)[i], expected.second[0].to_vector()[i], 1e-6);
    for (size_t i = 0; i < 2; ++i) EXPECT_NEAR(gradient(x)[i], expected.second[1].to_vector()[i], 1e-6);
  }
  EXPECT_EQ(f.report().compiles, 1);
  EXPECT_FALSE(no_grad([&] { return f(x); }).requires_grad());
  EXPECT_EQ(f.report().compiles, 1);
}

TEST(CompiledTape, AnySize) {
  const Tensor w = Tensor::of({2}, {1}).requires_grad_();
  auto f = compile([&](const Tensor& t) { return sum(t * w * w); }, test::by_reference({.fullgraph = true, .dynamic = true}));
  for (int64_t n : {3, 4, 7}) {
    w.zero_grad();
    f(ones({n})).backward();
    EXPECT_EQ(gradient(w), (Values{4.0 * static_cast<double>(n)}));
  }
  EXPECT_EQ(f.report().compiles, 1);
}

TEST(CompiledTape, WritesAreRemembered) {
  const Tensor x = Tensor::of({1, 2}, {2}).requires_grad_();
  auto f = compile(
      [](const Tensor& t, const Tensor& by) {
        const Tensor before = sum(t * by);
        mul_(t, by);
        return before;
      },
      test::by_reference({.fullgraph = true}));
  Tensor y = x * 3;
  const Tensor before = f(y, x);  // 3 x^2, and y becomes 3 x^2
  EXPECT_EQ(y.to_vector(), (Values{3, 12}));
  (before * 10 + sum(y * y)).backward();
  EXPECT_EQ(gradient(x), (Values{60 + 4 * 9, 120 + 4 * 9 * 8}));
  EXPECT_THROW(f(x, y), UserError);
}

TEST(CompiledTape, ScopesWithinAFunctionAreItsOwn) {
  const Tensor x = Tensor::of({3}, {1}).requires_grad_();
  auto f = compile([](const Tensor& t) { return sum(t * no_grad([&] { return t * t; }) + t.detach()); }, test::by_reference());
  f(x).backward();
  EXPECT_EQ(gradient(x), (Values{9}));
  const Tensor y = Tensor::of({3}, {1});
  EXPECT_EQ(value_and_gradients([&] { return sum(y * no_grad([&] { return y * y; })); }, {y}).second[0].to_vector(), (Values{9}));
}

TEST(CompiledTape, RandomNumbersAreThoseOfTheCall) {
  manual_seed(5);
  const Tensor x = ones({64}).requires_grad_();
  auto f = compile([](const Tensor& t) { return dropout(t * t, 0.5, true); }, test::by_reference());
  for (int i = 0; i < 2; ++i) {
    x.zero_grad();
    const Tensor y = f(x);
    sum(y).backward();
    Values expected = y.to_vector();
    for (auto& v : expected) v *= 2;
    EXPECT_EQ(gradient(x), expected);
    EXPECT_GT(expected.size() * 2, 64u);
  }
}

TEST(CompiledTape, FunctionsThatReadValues) {
  const Tensor x = Tensor::of({3, 4}, {2}).requires_grad_();
  auto f = compile(
      [](const Tensor& t) {
        const Tensor y = t * t, part = select(y, 0, 1);
        const double scale = sum(y).item();
        return part * scale + sum(y);
      },
      test::by_reference());
  f(x).backward();
  EXPECT_EQ(gradient(x), (Values{6, 25 * 8 + 8}));
}

TEST(CompiledTape, TrainsAModule) {
  manual_seed(3);
  nn::Linear first(2, 16), second(16, 1);
  first.requires_grad();
  second.requires_grad();
  std::vector<Tensor> parameters = first.parameters();
  for (auto& p : second.parameters()) parameters.push_back(p);
  const Tensor x = rand({64, 2}) * 2 - 1, y = select(x, 1, 0) * select(x, 1, 1);
  auto model = compile([&](const Tensor& in) { return reshape(second(tanh(first(in))), {-1}); }, {.fullgraph = true});
  double before = 0, after = 0;
  for (int step = 0; step < 200; ++step) {
    const Tensor difference = model(x) - y, loss = mean(difference * difference);
    loss.backward();
    no_grad([&] {
      for (auto& p : parameters) {
        sub_(p, p.grad() * 0.2);
        p.zero_grad();
      }
    });
    after = loss.item();
    if (step == 0) before = after;
  }
  EXPECT_LT(after, before / 4);
  EXPECT_EQ(model.report().compiles, 1);
}

}  // namespace
}  // namespace toroid::compiled_tapes
