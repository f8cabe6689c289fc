// Gradients of C++ functions: called as they are, inside of compiled functions, and nested.
#include <gtest/gtest.h>

#include <cmath>

#include "errors.h"
#include "front/harness.h"
#include "toroid/grad.h"
#include "toroid/nn.h"
#include "toroid/random.h"

namespace toroid {
namespace {

std::vector<double> values(const Tensor& t) { return t.to_vector(); }

Tensor cubes(const Tensor& x) { return sum(x * x * x); }

TEST(Gradients, OfAFunctionCalledAsItIs) {
  const Tensor x = Tensor::of({1, -2, 3}, {3}), y = Tensor::of({4, 5, 6}, {3});
  const auto [value, gradients] = value_and_gradients([&] { return sum(x * y + x); }, {x, y});
  EXPECT_EQ(value.item(), 4 - 10 + 18 + 2);
  EXPECT_EQ(values(gradients[0]), (std::vector<double>{5, 6, 7}));
  EXPECT_EQ(values(gradients[1]), (std::vector<double>{1, -2, 3}));
}

TEST(Gradients, OfArguments) {
  const auto f = value_and_grad([](const Tensor& a, const Tensor& b, double c) { return sum(a * b) * c; }, {1, 0});
  const Tensor a = Tensor::of({1, 2}, {2}), b = Tensor::of({3, 4}, {2});
  const auto [value, gradients] = f(a, b, 2.0);
  EXPECT_EQ(value.item(), 22);
  EXPECT_EQ(values(gradients[0]), (std::vector<double>{2, 4}));
  EXPECT_EQ(values(gradients[1]), (std::vector<double>{6, 8}));
  EXPECT_THROW(value_and_grad([](const Tensor& t, int) { return sum(t); }, {1})(a, 3), UserError);
}

TEST(Gradients, OfGradients) {
  const Tensor x = Tensor::of({1, -2, 3}, {3});
  const auto first = grad(cubes);
  EXPECT_EQ(values(first(x)), (std::vector<double>{3, 12, 27}));
  const auto second = grad([&](const Tensor& t) { return sum(first(t)); });
  EXPECT_EQ(values(second(x)), (std::vector<double>{6, -12, 18}));
  const auto third = grad([&](const Tensor& t) { return sum(second(t)); });
  EXPECT_EQ(values(third(x)), (std::vector<double>{6, 6, 6}));
}

TEST(Gradients, InsideOfACompiledFunctionAreOneProgram) {
  auto f = compile([](const Tensor& x) { return grad(cubes)(x); }, {.fullgraph = true});
  EXPECT_EQ(values(f(Tensor::of({1, -2, 3}, {3}))), (std::vector<double>{3, 12, 27}));
  EXPECT_EQ(values(f(Tensor::of({2, 5}, {2}))), (std::vector<double>{12, 75}));
  EXPECT_EQ(values(f(Tensor::of({1, 2, 3, 4}, {4}))), (std::vector<double>{3, 12, 27, 48}));
  EXPECT_EQ(f.report().compiles, 2);  // the second for any size
}

TEST(Gradients, VectorJacobianProducts) {
  const Tensor x = Tensor::of({1, 2}, {2});
  const auto [results, gradients] = vjp(
      [&] {
        return std::vector<Tensor>{x * x, exp(x)};
      },
      std::vector<Tensor>{x}, std::vector<Tensor>{Tensor::of({1, 10}, {2}), zeros({2})});
  EXPECT_EQ(values(results[0]), (std::vector<double>{1, 4}));
  EXPECT_EQ(values(gradients[0]), (std::vector<double>{2, 40}));
  EXPECT_THROW(vjp([&] { return std::vector<Tensor>{x}; }, std::vector<Tensor>{x}, std::vector<Tensor>{}), UserError);
}

TEST(Gradients, OfWhatIsWrittenInPlaceAndOfViews) {
  const Tensor x = Tensor::of({1, 2, 3, 4}, {2, 2});
  const auto [value, gradients] = value_and_gradients(
      [&] {
        Tensor y = x * 2;
        const Tensor before = sum(y * y);  // reads y before it is overwritten
        mul_(select(y, 0, 1), select(x, 0, 0));
        return before + sum(y);
      },
      {x});
  // before: 4 x^2; y: [[2a, 2b], [2ca, 2db]]
  EXPECT_EQ(values(gradients[0]), (std::vector<double>{8 + 2 + 6, 16 + 2 + 8, 24 + 2, 32 + 4}));
}

TEST(Gradients, LeaveWritesToOtherTensorsDone) {
  const Tensor w = Tensor::of({3}, {1});
  Tensor count = zeros({1});
  const auto step = [&] {
    return value_and_gradients(
        [&] {
          add_(count, 1);
          return sum(w * count);
        },
        {w});
  };
  EXPECT_EQ(values(step().second[0]), (std::vector<double>{1}));
  EXPECT_EQ(values(step().second[0]), (std::vector<double>{2}));
  EXPECT_EQ(count.item(), 2);
}

TEST(Gradients, OfWhatALossDoesNotDependOnAreZeros) {
  const Tensor x = ones({2}), y = ones({3});
  const auto [value, gradients] = value_and_gradients([&] { return sum(x) + sum(detach(y)); }, {y, x});
  EXPECT_EQ(values(gradients[0]), (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(values(gradients[1]), (std::vector<double>{1, 1}));
}

TEST(Gradients, TheSameTensorTwice) {
  const Tensor x = Tensor::of({3}, {1});
  const auto [value, gradients] = value_and_gradients([&] { return sum(x * x); }, {x, x});
  EXPECT_EQ(values(gradients[0]), (std::vector<double>{6}));
  EXPECT_EQ(values(gradients[1]), (std::vector<double>{6}));
}

TEST(Gradients, AreRefusedClearly) {
  const Tensor x = ones({2, 2}), i = zeros({2}, DType::I64);
  const auto says = [](const std::function<void()>& f, const std::string& what) {
    EXPECT_NE(test::user_error(f).find(what), std::string::npos) << test::user_error(f);
  };
  says([&] { value_and_gradients([&] { return x * 2; }, {x}); }, "gradients are of one float");
  says([&] { value_and_gradients([&] { return sum(i); }, {i}); }, "only float tensors have gradients");
  says([&] { value_and_gradients([&] { return sum(x); }, {Tensor()}); }, "undefined");
  says([&] { value_and_gradients([&] { return sum(x * sum(x).item()); }, {x}); }, "its value is not known yet there");
  says([&] { value_and_gradients([&] { return sum(geqrf(x).first); }, {x}); }, "gradients_test.cpp");
  // The error left nothing behind.
  EXPECT_EQ(values(value_and_gradients([&] { return sum(x); }, {x}).second[0]), (std::vector<double>{1, 1, 1, 1}));
}

// A network of two layers learns what is true of the points of a plane; each step is one compiled program, which writes the parameters.
TEST(Gradients, ANetworkLearns) {
  manual_seed(3);
  nn::Linear first(2, 16), second(16, 1);
  std::vector<Tensor> parameters = first.parameters();
  for (auto& p : second.parameters()) parameters.push_back(p);
  const Tensor x = rand({256, 2}) * 2 - 1, y = to(select(x, 1, 0) * select(x, 1, 1) > 0.0, DType::F32);
  const auto loss_of = [&](const Tensor& in, const Tensor& target) {
    const Tensor logits = reshape(second(tanh(first(in))), {-1});
    return mean(maximum(logits, zeros({1})) - logits * target + log(1 + exp(neg(abs(logits)))));
  };
  auto step = compile(
      [&](const Tensor& in, const Tensor& target) {
        const auto [loss, gradients] = value_and_gradients([&] { return loss_of(in, target); }, parameters);
        for (size_t k = 0; k < parameters.size(); ++k) sub_(parameters[k], gradients[k] * 1.0);
        return loss;
      },
      {.fullgraph = true});
  const double before = step(x, y).item();
  double after = before;
  for (int i = 0; i < 400; ++i) after = step(x, y).item();
  EXPECT_GT(before, 0.6);
  EXPECT_LT(after, 0.15);
  EXPECT_EQ(step.report().compiles, 1);
}

// Whatever gives a tensor whose size only the values tell is named, with its line, where it is compiled.
TEST(GradientSizes, ThatFollowFromValuesAreRefusedByName) {
  const Tensor x = Tensor::of({1, -2, 3}, {3});
  using Fn = std::function<Tensor()>;
  const std::pair<const char*, Fn> cases[] = {{"masked_select", [&] { return sum(masked_select(x, x > 0)); }},
                                              {"nonzero", [&] { return sum(x * 2.0) + sum(to(nonzero(x > 0), DType::F32)); }}};
  for (auto& [name, fn] : cases) {
    const std::string told = test::user_error([&] { compile([&] { return value_and_gradients(fn, {x}); })(); });
    EXPECT_TRUE(test::contains(told, name) && test::contains(told, "called at gradients_test.cpp:")) << told;
    EXPECT_TRUE(test::contains(told, "size follows from values")) << told;
  }
}

}  // namespace
}  // namespace toroid
