// Gradients of what is called operation by operation: requires_grad_() and backward().
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "autograd/tape/node.h"
#include "errors.h"
#include "front/harness.h"
#include "toroid/autograd.h"
#include "toroid/grad.h"
#include "toroid/random.h"

namespace toroid::tapes {
namespace {

using Values = std::vector<double>;

Values gradient(const Tensor& t) { return t.grad().defined() ? t.grad().to_vector() : Values{}; }

Tensor leaf(std::initializer_list<double> values, std::initializer_list<int64_t> sizes) {
  return Tensor::of(values, sizes).requires_grad_();
}

void says(const std::function<void()>& f, const std::string& what) {
  const std::string error = test::user_error(f);
  EXPECT_NE(error.find(what), std::string::npos) << error;
}

TEST(Tape, GradientsOfALossComeToItsLeaves) {
  const Tensor x = leaf({1, -2, 3}, {3}), y = leaf({4, 5, 6}, {3}), z = Tensor::of({1, 1, 1}, {3});
  const Tensor loss = sum(x * y * z + x);
  EXPECT_TRUE(loss.requires_grad());
  EXPECT_FALSE(loss.is_leaf());
  loss.backward();
  EXPECT_EQ(gradient(x), (Values{5, 6, 7}));
  EXPECT_EQ(gradient(y), (Values{1, -2, 3}));
  EXPECT_FALSE(z.grad().defined());
  EXPECT_FALSE(z.requires_grad());
}

TEST(Tape, GradientsAddUpUntilTheyAreForgotten) {
  const Tensor x = leaf({1, 2}, {2});
  for (int i = 0; i < 3; ++i) sum(x * x).backward();
  EXPECT_EQ(gradient(x), (Values{6, 12}));
  x.zero_grad();
  EXPECT_FALSE(x.grad().defined());
  (x * 3).backward(Tensor::of({1, 10}, {2}));
  EXPECT_EQ(gradient(x), (Values{3, 30}));
}

TEST(Tape, IsLeftAloneByThoseWhoDoNotAsk) {
  const Tensor x = leaf({1, 2}, {2});
  const int64_t before = autograd::Node::count();
  const Tensor a = no_grad([&] { return x * 2; }), b = x.detach() * 2;
  EXPECT_FALSE(a.requires_grad());
  EXPECT_FALSE(b.requires_grad());
  {
    const NoGrad off;
    const EnableGrad on;
    EXPECT_TRUE((x * 2).requires_grad());
  }
  EXPECT_TRUE(is_grad_enabled());
  EXPECT_FALSE(argmax(x).requires_grad());
  EXPECT_EQ(autograd::Node::count(), before);
}

TEST(Tape, ViewsSeeWritesToTheirTensor) {
  const Tensor x = leaf({1, 2, 3, 4}, {2, 2});
  Tensor y = x * 2;
  const Tensor row = select(y, 0, 0), column = select(y, 1, 1), before = sum(exp(y) * 0.0 + y * 4);
  mul_(row, Tensor::of({10, 100}, {2}));
  // y is 20 a, 200 b, 2 c, 2 d, and the column 200 b, 2 d.
  (before + sum(column * column) + sum(y)).backward();
  EXPECT_EQ(gradient(x), (Values{8 + 20, 8 + 2 * 200 * 400 + 200, 8 + 2, 8 + 2 * 2 * 8 + 2}));
}

TEST(Tape, WritesIntoMemoryThatNobodyHadAskedAbout) {
  const Tensor x = leaf({1, 2}, {2}), y = leaf({5, 7}, {2});
  Tensor all = zeros({2, 2});
  copy_(select(all, 0, 0), x * 3);
  copy_(select(all, 0, 1), y);
  EXPECT_TRUE(all.requires_grad());
  sum(all * all).backward();
  EXPECT_EQ(gradient(x), (Values{18, 36}));
  EXPECT_EQ(gradient(y), (Values{10, 14}));
}

TEST(Tape, ErrorsSayWhatToDo) {
  const Tensor x = leaf({1, 2}, {2}), i = zeros({2}, DType::I64);
  says([&] { Tensor(i).requires_grad_(); }, "only floats and complex numbers");
  says([&] { mul_(x, 2); }, "within a NoGrad");
  says([&] { mul_(select(x, 0, 0), 2); }, "a view of a leaf");
  says([&] { (x * 2).backward(); }, "2 elements");
  says([&] { (x * 2).backward(ones({3})); }, "expected f32[2]");
  says([&] { sum(x.detach()).backward(); }, "does not require gradients");
  Tensor y = x * 2;
  const Tensor z = sum(y * y);
  add_(y, 1);
  says([&] { z.backward(); }, "mul.Tensor (called at tape_test.cpp:");
  says([&] { z.backward(); }, "was written in place");
  const Tensor loss = sum(x * x);
  loss.backward({}, true);
  loss.backward();
  says([&] { loss.backward(); }, "retain_graph");
  says([&] { sum(geqrf(matmul(unsqueeze(x, 1), unsqueeze(x, 0))).first).backward(); }, "tape_test.cpp");
}

TEST(Tape, HooksSeeAndReplaceGradients) {
  const Tensor x = leaf({1, 2}, {2});
  Tensor y = x * 3;
  y.retain_grad();
  std::vector<Values> seen;
  HookHandle of_y = y.register_hook([&](const Tensor& g) {
    seen.push_back(g.to_vector());
    return g * 10;
  });
  x.register_hook([&](const Tensor& g) {
    seen.push_back(g.to_vector());
    return Tensor();
  });
  const Tensor loss = sum(y) + sum(y * 2);
  loss.backward({}, true);
  EXPECT_EQ(seen, (std::vector<Values>{{3, 3}, {90, 90}}));  // each once, when all parts have come together
  EXPECT_EQ(gradient(y), (Values{30, 30}));
  EXPECT_EQ(gradient(x), (Values{90, 90}));
  of_y.remove();
  loss.backward();
  EXPECT_EQ(gradient(x), (Values{99, 99}));
  const HookHandle wrong = x.register_hook([](const Tensor&) { return ones({3}); });
  says([&] { sum(x).backward(); }, "a hook returned f32[3]");
  x.set_grad(zeros({2}));
  EXPECT_EQ(gradient(x), (Values{0, 0}));
  says([&] { x.set_grad(zeros({3})); }, "expected f32[2]");
}

TEST(Tape, GradientsOfTwoLeavesShareNoMemory) {
  const Tensor x = leaf({1, 2}, {2}), y = leaf({1, 2}, {2}), seed = ones({2});
  (x + y).backward(seed);
  no_grad([&] { mul_(x.grad(), 5); });
  EXPECT_EQ(gradient(y), (Values{1, 1}));
  EXPECT_EQ(seed.to_vector(), (Values{1, 1}));
}

TEST(Tape, ANodeKeepsOnlyWhatItsGradientNeeds) {
  const Tensor x = leaf({1, 2}, {2});
  Tensor y = x * 2;
  const Tensor z = y + 1;  // needs neither operand nor result
  mul_(z, 3);
  add_(y, 5);
  sum(z).backward();
  EXPECT_EQ(gradient(x), (Values{6, 6}));
}

TEST(Tape, NaNIsNamedWhereItArises) {
  const Tensor x = leaf({0, 4}, {2});
  const auto loss = [&] { return sum(x / x); };
  loss().backward();
  x.zero_grad();
  const DetectAnomaly on;
  says([&] { loss().backward(); }, "gives NaN");
  says([&] { loss().backward(); }, "(called at tape_test.cpp:");
  EXPECT_EQ(test::user_error([&] { sum(x * x).backward(); }), "no error");
}

TEST(Tape, LeavesNothingBehind) {
  const int64_t before = autograd::Node::count();
  {
    const Tensor x = leaf({1, 2}, {2});
    Tensor y = x * 2;
    mul_(select(y, 0, 0), select(y.detach(), 0, 1));
    exp_(y);
    sum(y).backward();
    EXPECT_GT(autograd::Node::count(), before);
    Tensor filled = zeros({2});
    copy_(filled, exp_(x * 1));  // never walked back
    Tensor end = x;
    for (int i = 0; i < 20000; ++i) end = end + x;  // a long chain is destroyed without recursion
  }
  EXPECT_EQ(autograd::Node::count(), before);
}

TEST(Tape, ThreadsHaveTapesOfTheirOwn) {
  const Tensor x = leaf({1, 2}, {2});
  const auto work = [&] {
    for (int i = 0; i < 50; ++i) sum(x * x.detach()).backward();
  };
  std::thread other(work);
  work();
  other.join();
  EXPECT_EQ(gradient(x), (Values{100, 200}));
}

}  // namespace
}  // namespace toroid::tapes
