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
  EXPECT_REFUSED(optimizer.step(std::vector<Tensor>{ones({3})}),
                 "gradient 0 is [3] and its parameter [2]; gradients are given in the order of optimizer.parameters()");
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

// A tensor that stands twice would be stepped twice.
TEST(Optimizers, TakeEachTensorOnce) {
  const Tensor a = ones({2}), b = ones({2});
  EXPECT_REFUSED(AdamW({a, b, a}), "parameter 2 is the same tensor as parameter 0");
  EXPECT_REFUSED(SGD(std::vector<GroupOf<SGDOptions>>{{{a}}, {{b, a}}}),
                 "parameter 1 of group 1 is the same tensor as parameter 0 of group 0");
  AdamW(std::vector<GroupOf<AdamWOptions>>{{{a, b}}, {{}}});  // one group may be empty
  EXPECT_REFUSED(AdamW(std::vector<GroupOf<AdamWOptions>>{{{}}, {{}}}), "AdamW: optimizer got an empty parameter list");
}

// All is checked before anything is written.
TEST(Optimizers, ARefusedStepChangesNothing) {
  const Tensor a = ones({2}), b = ones({3});
  SGD optimizer(std::vector<GroupOf<SGDOptions>>{{{a}, {.lr = 0.1}}, {{b}, {.lr = 0.1}}});
  EXPECT_REFUSED(optimizer.step(std::vector<Tensor>{ones({2}), ones({2})}), "gradient 1 is [2] and its parameter [3]");
  EXPECT_EQ(values(a), (std::vector<double>{1, 1}));
  EXPECT_EQ(optimizer.state().at(1).second.item(), 0);
}

template <class Kind>
void refuses(const typename Kind::Options& options, const std::string& told) {
  const Tensor p = ones({2, 2});
  EXPECT_REFUSED(Kind({p}, options), told);
  EXPECT_REFUSED(Kind(std::vector<GroupOf<typename Kind::Options>>{{{p}}, {{}, options}}),
                 told.substr(0, told.find(':')) + ", group 1" + told.substr(told.find(':')));
}
template <class Kind>
void refuses_for_all(const std::string& name) {
  using O = typename Kind::Options;
  EXPECT_REFUSED(Kind(std::vector<Tensor>{}), name + ": optimizer got an empty parameter list");
  for (const double bad : {-1.0, static_cast<double>(NAN)}) {
    O o;
    o.lr = bad;
    const bool newer = name == "Adafactor" || name == "Muon";
    refuses<Kind>(o, name + (newer ? ": Learning rate should be >= 0 but is: " : ": Invalid learning rate: ") + (bad < 0 ? "-1" : "nan"));
    if constexpr (requires { o.weight_decay; }) {
      o = {};
      o.weight_decay = bad;
      EXPECT_REFUSED(Kind({ones({2, 2})}, o), name + ": ");
    }
    if constexpr (requires { o.momentum; }) {
      o = {};
      o.momentum = bad;
      EXPECT_REFUSED(Kind({ones({2, 2})}, o), "momentum");
    }
    if constexpr (requires { o.betas; }) {
      o = {};
      o.eps = bad;
      refuses<Kind>(o, name + ": Invalid epsilon value: ");
      for (const double beta : {bad, 1.0})
        for (size_t i : {0u, 1u}) {
          o = {};
          o.betas[i] = beta;
          refuses<Kind>(o, name + ": Invalid beta parameter at index " + std::to_string(i) + ": ");
        }
    }
  }
}

// In PyTorch's words.
TEST(Optimizers, RefuseWhatPyTorchRefuses) {
  refuses_for_all<SGD>("SGD"), refuses_for_all<Adam>("Adam"), refuses_for_all<AdamW>("AdamW"), refuses_for_all<RMSprop>("RMSprop");
  refuses_for_all<Adagrad>("Adagrad"), refuses_for_all<Adadelta>("Adadelta"), refuses_for_all<Adamax>("Adamax");
  refuses_for_all<NAdam>("NAdam"), refuses_for_all<RAdam>("RAdam"), refuses_for_all<ASGD>("ASGD"), refuses_for_all<Rprop>("Rprop");
  refuses_for_all<Adafactor>("Adafactor"), refuses_for_all<Muon>("Muon");
  refuses<SGD>({.nesterov = true}, "SGD: Nesterov momentum requires a momentum and zero dampening");
  refuses<SGD>({.momentum = 0.9, .dampening = 0.1, .nesterov = true}, "SGD: Nesterov momentum requires a momentum and zero dampening");
  refuses<RMSprop>({.alpha = -0.5}, "RMSprop: Invalid alpha value: -0.5");
  refuses<ASGD>({.lambd = -1}, "ASGD: Invalid lambd value: -1");
  refuses<ASGD>({.alpha = -1}, "ASGD: Invalid alpha value: -1");
  refuses<Adagrad>({.lr_decay = -1}, "Adagrad: Invalid lr_decay value: -1");
  refuses<Adagrad>({.initial_accumulator_value = -1}, "Adagrad: Invalid initial_accumulator_value value: -1");
  refuses<Adadelta>({.rho = 1.5}, "Adadelta: Invalid rho value: 1.5");
  refuses<NAdam>({.momentum_decay = -1}, "NAdam: Invalid momentum_decay value: -1");
  refuses<Rprop>({.etas = {0.5, 0.9}}, "Rprop: Invalid eta values: 0.5, 0.9");
  refuses<Adafactor>({.beta2_decay = 0.5}, "Adafactor: beta2_decay should be <= 0 but is: 0.5");
  refuses<Adafactor>({.eps1 = -1}, "Adafactor: epsilon1 should be >= 0 but is: -1");
  refuses<Adafactor>({.eps2 = -1}, "Adafactor: epsilon2 should be >= 0 but is: -1");
  refuses<Adafactor>({.d = 0.5}, "Adafactor: Clipping threshold d should be >= 1 but is: 0.5");
  EXPECT_REFUSED(constant_lr(1, 1.5), "Constant multiplicative factor expected to be between 0 and 1");
  EXPECT_REFUSED(linear_lr(1, 0), "Starting multiplicative factor expected to be greater than 0");
  EXPECT_REFUSED(linear_lr(1, 0.5, 2), "Ending multiplicative factor expected to be between 0 and 1");
  EXPECT_REFUSED(one_cycle_lr(1, 10, {.pct_start = 2}), "Expected float between 0 and 1 pct_start, but got 2");
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

// Norms of f64 are f64's: f32 has no room for 1e40, nor for the last eight digits.
TEST(Clipping, KeepsThePrecisionOfTheGradients) {
  const std::vector<Tensor> large{Tensor::of({1e40, 1e40}, {2}, DType::F64), Tensor::of({1}, {1}, DType::F32)};
  const auto [clipped, norm] = clip_grad_norm(large, 1);
  EXPECT_EQ(norm.dtype(), DType::F64);
  EXPECT_NEAR(norm.item() / 1e40, std::sqrt(2.0), 1e-14);
  EXPECT_NEAR(values(clipped[0])[0], std::sqrt(0.5), 1e-14);
  EXPECT_EQ(clipped[1].dtype(), DType::F32);
  const std::vector<Tensor> sevenths{Tensor::of({1. / 7, 2. / 7, 3. / 7}, {3}, DType::F64)};
  const double total = std::sqrt(14.0) / 7;
  EXPECT_NEAR(values(clip_grad_norm(sevenths, 0.1).first[0])[0], 0.1 / 7 / (total + 1e-6), 1e-16);
  EXPECT_EQ(clip_grad_norm(std::vector<Tensor>{Tensor::of({3, 4}, {2}, DType::BF16)}, 1).second.dtype(), DType::F32);
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
