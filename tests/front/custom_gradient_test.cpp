// Gradients that are given for custom operations.
#include "toroid/custom_gradient.h"

#include <gtest/gtest.h>

#include "front/harness.h"
#include "toroid/autograd.h"
#include "toroid/grad.h"

namespace toroid::custom_gradients {
namespace {

using Values = std::vector<double>;

// x^3 * by, with a gradient of 100 times its own, so that it is seen which one was taken.
const auto& cube() {
  static const auto& op = *[] {
    auto* made = new auto(
        custom_op("custom_gradient_test::cube(Tensor x, float by) -> Tensor", [](const Tensor& x, double by) { return x * x * x * by; }));
    register_custom_op_gradient(*made, [](const CustomGradientCall& c) {
      const double by = std::get<double>(c.arguments[1].value);
      return std::vector<Tensor>{c.cotangents[0] * c.inputs[0] * c.inputs[0] * (300 * by)};
    });
    return made;
  }();
  return op;
}

TEST(CustomGradient, IsTakenByTheTapeAndByFunctions) {
  const Tensor x = Tensor::of({1, 2}, {2}).requires_grad_(), plain = x.detach();
  sum(cube()(x * 1, 0.5)).backward();
  EXPECT_EQ(x.grad().to_vector(), (Values{150, 600}));
  EXPECT_EQ(value_and_gradients([&] { return sum(cube()(plain, 0.5)); }, {plain}).second[0].to_vector(), (Values{150, 600}));
  auto f = compile([](const Tensor& t) { return sum(cube()(t, 0.5)); }, test::by_reference({.fullgraph = true}));
  x.zero_grad();
  const Tensor loss = f(x);
  EXPECT_EQ(loss.item(), 4.5);
  loss.backward();
  EXPECT_EQ(x.grad().to_vector(), (Values{150, 600}));
}

TEST(CustomGradient, IsTakenWithinOtherOperations) {
  const auto outer = custom_op("custom_gradient_test::outer(Tensor x) -> Tensor", [](const Tensor& x) { return cube()(x, 1.0) + x; });
  const Tensor x = Tensor::of({1, 2}, {2}).requires_grad_(), plain = x.detach();
  sum(outer(x)).backward();
  EXPECT_EQ(x.grad().to_vector(), (Values{301, 1201}));
  EXPECT_EQ(value_and_gradients([&] { return sum(outer(plain)); }, {plain}).second[0].to_vector(), (Values{301, 1201}));
}

TEST(CustomGradient, WrongOnesAreRefused) {
  EXPECT_THROW(register_custom_op_gradient(cube(), [](const CustomGradientCall&) { return std::vector<Tensor>{}; }), UserError);
  const auto writes = custom_op("custom_gradient_test::writes(Tensor(a!) x) -> ()", [](Tensor& x) { mul_(x, 2); });
  EXPECT_THROW(register_custom_op_gradient(writes, [](const CustomGradientCall&) { return std::vector<Tensor>{}; }), UserError);
  const auto wrong = custom_op("custom_gradient_test::wrong(Tensor x) -> Tensor", [](const Tensor& x) { return x * 2; });
  register_custom_op_gradient(wrong, [](const CustomGradientCall&) { return std::vector<Tensor>{ones({3})}; });
  const Tensor x = Tensor::of({1, 2}, {2}).requires_grad_();
  EXPECT_THROW(sum(wrong(x)).backward(), UserError);
}

}  // namespace
}  // namespace toroid::custom_gradients
