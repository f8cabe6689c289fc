// Optimizers and schedules as a program meets them; their numbers are compared with PyTorch's by `toroid verify`.
#include "toroid/train/optimizers.h"

#include <gtest/gtest.h>

#include <cmath>

#include "toroid/compile.h"
#include "toroid/grad.h"
#include "toroid/ops.h"
#include "toroid/train/by_name.h"
#include "train/harness.h"

namespace toroid::train {
namespace {

std::vector<double> values(const Tensor& t) { return t.to_vector(); }

TEST(Optimizers, EachMinimisesAQuadraticCompiledAsNot) {
  for (const char* name :
       {"SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "ASGD", "Rprop", "Adafactor"}) {
    const Tensor eager = Tensor::of({3, -2, 1, 0.5, 2, -1}, {2, 3}), compiled = clone(eager);
    const Tensor target = Tensor::of({1, 1, 1, 1, 1, 1}, {2, 3});
    const Arguments arguments{{"lr", std::string_view(name) == "Adadelta" ? 30.0 : 0.05}};
    const auto a = make_optimizer(name, {eager}, arguments), b = make_optimizer(name, {compiled}, arguments);
    const auto step_of = [&](Optimizer& optimizer, const Tensor& p) {
      auto [loss, gradients] = value_and_gradients([&] { return sum((p - target) * (p - target)); }, {p});
      optimizer.step(gradients);
      return loss;
    };
    auto step = compile([&] { return step_of(*b, compiled); }, {.fullgraph = true});
    const double before = step_of(*a, eager).item();
    step();
    for (int k = 0; k < 30; ++k) step_of(*a, eager), step();
    EXPECT_LT(step_of(*a, eager).item(), 0.7 * before) << name;
    step();
    EXPECT_EQ(step.report().compiles, 1) << name;
    for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(values(compiled)[i], values(eager)[i], 1e-4) << name;
  }
}

TEST(Optimizers, GroupsHaveOptionsOfTheirOwn) {
  const Tensor a = Tensor::of({1}, {1}), b = Tensor::of({1}, {1}), g = Tensor::of({1}, {1});
  SGD optimizer(std::vector<GroupOf<SGDOptions>>{{{a}, {.lr = 0.5}}, {{b}, {.lr = 0.25, .weight_decay = 1}}});
  optimizer.step(std::vector<Tensor>{g, g});
  EXPECT_EQ(a.item(), 0.5);
  EXPECT_EQ(b.item(), 0.5);
  optimizer.set_learning_rate(0, 1);
  optimizer.step(std::vector<Tensor>{g, g});
  EXPECT_EQ(a.item(), 0);
  EXPECT_EQ(b.item(), 0.5);
}

TEST(Optimizers, ALearningRateChangesWithoutACompile) {
  const Tensor p = Tensor::of({0}, {1}), g = Tensor::of({1}, {1});
  SGD optimizer({p}, {.lr = 1});
  auto step = compile([&](const Tensor& gradient) { optimizer.step(std::vector<Tensor>{gradient}); });
  step(g);
  optimizer.set_learning_rate(10);
  step(g);
  EXPECT_EQ(p.item(), -11);
  EXPECT_EQ(step.report().compiles, 1);
}

// What state() names is all that a step depends on: a copy of it goes on as the original does.
TEST(Optimizers, StateIsAllThatAStepReads) {
  for (const char* name :
       {"SGD", "Adam", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "ASGD", "Rprop", "Adafactor", "Muon"}) {
    Arguments arguments{{"lr", 0.1}};
    if (std::string_view(name) == "SGD") arguments["momentum"] = 0.9;
    const Tensor p = Tensor::of({3, -2, 1, 0.5}, {2, 2}), g = Tensor::of({1, -1, 0.5, 2}, {2, 2});
    const auto first = make_optimizer(name, {p}, arguments);
    for (int k = 0; k < 3; ++k) first->step(std::vector<Tensor>{g});
    const Tensor q = clone(p);
    const auto second = make_optimizer(name, {q}, arguments);
    const auto from = first->state(), to = second->state();
    ASSERT_EQ(from.size(), to.size()) << name;
    for (size_t i = 0; i < from.size(); ++i) {
      EXPECT_EQ(from[i].first, to[i].first);
      copy_(to[i].second, from[i].second);
    }
    first->step(std::vector<Tensor>{g});
    second->step(std::vector<Tensor>{g});
    EXPECT_EQ(values(q), values(p)) << name;
  }
}

TEST(Optimizers, RefuseClearly) {
  const Tensor p = ones({2}), i = zeros({2}, DType::I64);
  SGD optimizer({p});
  EXPECT_REFUSED(optimizer.step(std::vector<Tensor>{}), "0 gradients for 1 parameters");
  EXPECT_REFUSED(optimizer.step(std::vector<Tensor>{ones({3})}), "not of the sizes of its parameter, [2]");
  EXPECT_REFUSED(Adam({i}), "only float tensors can be trained");
  EXPECT_REFUSED(SGD({Tensor()}), "undefined");
  EXPECT_REFUSED(Muon({p}), "only matrices");
  EXPECT_REFUSED(optimizer.learning_rate(1), "there is no group 1");
  EXPECT_REFUSED(make_optimizer("AdamV", {p}), "did you mean \"Adam\"");
  EXPECT_REFUSED(make_optimizer("Adam", {p}, {{"beta", 0.9}}), "did you mean \"betas\"");
  EXPECT_REFUSED(make_optimizer("Adam", {p}, {{"betas", 0.9}}), "must be a list of 2 numbers");
  EXPECT_REFUSED(make_optimizer("Adam", {p}, {{"lr", true}}), "must be a number");
  EXPECT_REFUSED(make_schedule("StepLR", 1), "\"step_size\" is missing");
  EXPECT_REFUSED(make_schedule("StepLR", 1, {{"step_size", 0.5}}), "must be an integer");
  EXPECT_REFUSED(make_schedule("StepLR", 1, {{"step_size", 0.0}}), "must be positive");
  EXPECT_REFUSED(make_schedule("OneCycleLR", 1, {{"max_lr", 1.0}, {"total_steps", 4.0}})(4), "step 4 of a schedule of 4 steps");
  EXPECT_REFUSED(exponential_lr(1, 0.5)(-1), "begins at step 0");
}

TEST(Clipping, ByNormAndByValue) {
  const std::vector<Tensor> gradients{Tensor::of({3, 0}, {2}), Tensor::of({0, 4}, {2})};
  const auto [clipped, norm] = clip_grad_norm(gradients, 1);
  EXPECT_EQ(norm.item(), 5);
  EXPECT_NEAR(values(clipped[0])[0], 0.6, 1e-6);
  EXPECT_NEAR(values(clipped[1])[1], 0.8, 1e-6);
  EXPECT_EQ(values(clip_grad_norm(gradients, 10).first[1])[1], 4);
  EXPECT_EQ(clip_grad_norm(gradients, 1, INFINITY).second.item(), 4);
  EXPECT_EQ(values(clip_grad_value(gradients, 2)[1]), (std::vector<double>{0, 2}));
}

TEST(Schedules, FollowEachOther) {
  const Schedule s = sequential_lr({linear_lr(1, 0.5, 1, 2), exponential_lr(1, 0.5)}, {2});
  EXPECT_EQ(s(0), 0.5);
  EXPECT_EQ(s(1), 0.75);
  EXPECT_EQ(s(2), 1);
  EXPECT_EQ(s(4), 0.25);
}

}  // namespace
}  // namespace toroid::train
