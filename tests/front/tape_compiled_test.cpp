// Results of compiled functions on the tape.
#include <gtest/gtest.h>

#include "autograd/tape/node.h"
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

// What a function writes for itself from call to call: running statistics, averages, counts.
struct Averaging : nn::Module {
  explicit Averaging(bool in_one_write) : in_one_write_(in_one_write) {
    add_child("conv", conv);
    add_child("norm", norm);
    add_child("head", head);
    add_buffer("average", average);
    add_buffer("factor", factor);
  }
  Tensor forward(const Tensor& x) {
    const Tensor h = mean(relu(norm(conv(x))), {2, 3});
    const NoGrad aside;
    if (in_one_write_)
      copy_(average, average * 0.9 + mean(h, {0}) * 0.1);
    else
      add_(mul_(average, 0.9), mean(h.detach(), {0}) * 0.1);
    mul_(factor, 1.5);  // a leaf that requires gradients: allowed within a NoGrad
    const EnableGrad on;
    return head(h - average) * factor;
  }
  nn::Conv2d conv{3, 4, 3};
  nn::BatchNorm2d norm{4};
  nn::Linear head{4, 2};
  Tensor average = zeros({4}), factor = ones({1});

 private:
  const bool in_one_write_;
};

TEST(CompiledTape, BuffersComeBackWithoutHistory) {
  manual_seed(3);
  const Tensor x = randn({4, 3, 5, 5}), y = Tensor::of({0, 1, 0, 1}, {4}, DType::I64);
  for (const bool in_one_write : {true, false})
    for (const bool compiled : {true, false}) {
      nn::manual_seed(4);
      Averaging net(in_one_write);
      nn::manual_seed(4);
      Averaging plain(in_one_write);
      for (Averaging* n : {&net, &plain}) {
        n->train();
        n->requires_grad();
        n->factor.requires_grad_();
      }
      auto f = compile(net, test::by_reference({.fullgraph = true}));
      int64_t nodes = 0;
      for (int step = 0; step < 4; ++step) {
        const Tensor loss = cross_entropy(compiled ? f(x) : net.forward(x), y), expected = cross_entropy(plain.forward(x), y);
        EXPECT_NEAR(loss.item(), expected.item(), 1e-5) << "step " << step;
        loss.backward();
        expected.backward();
        for (auto& [name, t] : net.state()) {
          const bool asks = name != "average" && !name.starts_with("norm.running") && name != "norm.num_batches_tracked";
          EXPECT_EQ(t.requires_grad(), asks) << name;
          EXPECT_TRUE(t.is_leaf()) << name;
        }
        for (size_t i = 0; i < net.parameters().size(); ++i)
          EXPECT_TRUE(allclose(net.parameters()[i].grad(), plain.parameters()[i].grad(), 1e-4, 1e-6)) << i;
        if (step == 1) nodes = autograd::Node::count();
        if (step > 1) {
          EXPECT_EQ(autograd::Node::count(), nodes) << "the tape grows";
        }
      }
      if (compiled) {
        EXPECT_EQ(f.report().compiles, 1) << to_string(f.report());
      }
    }
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
