// Optimizers whose tensors the loss does not read: they would train nothing.
#include <gtest/gtest.h>

#include <functional>

#include "errors.h"
#include "toroid/autograd.h"
#include "toroid/compile.h"
#include "toroid/grad.h"
#include "toroid/nn/layers.h"
#include "toroid/train/optimizers.h"
#include "toroid/train/trainer.h"

namespace toroid {
namespace {

using test::contains;
using test::user_error;

struct TwoLayers : nn::Module {
  explicit TwoLayers(const nn::Init& init = nn::Init::standard()) : up(2, 4, true, init), down(4, 1, true, init) {
    add_child("up", up), add_child("down", down);
  }
  Tensor loss(const Tensor& x) { return mean(square(down.forward(tanh(up.forward(x))))); }
  nn::Linear up, down;
};

// What a step by an optimizer says that was made before `change`.
std::string said_after(const std::function<void(TwoLayers&)>& change, bool compiled, bool by_backward, bool has_memory = true) {
  TwoLayers net(has_memory ? nn::Init::standard() : nn::Init::shapes_only());
  if (by_backward) net.requires_grad();
  train::SGD optimizer(net.parameters(), {.lr = 0.1});
  change(net);
  const auto step = [&](const Tensor& x) {
    auto [loss, gradients] = value_and_gradients([&] { return net.loss(x); }, optimizer.parameters());
    optimizer.step(gradients);
    return loss;
  };
  const Tensor x = ones({3, 2});
  return user_error([&] {
    if (compiled) return void(compile(step)(x));
    if (!by_backward) return void(step(x));
    net.loss(x).backward();
    std::vector<Tensor> gradients;
    for (auto& p : optimizer.parameters()) gradients.push_back(p.grad());
    const NoGrad update;
    optimizer.step(gradients);
  });
}

std::map<std::string, Tensor> other_state() { return TwoLayers().state(); }

TEST(ForgottenParameters, AModuleThatHasExchangedThemIsNamed) {
  for (const auto& [compiled, by_backward] : {std::pair(false, false), {true, false}, {false, true}}) {
    const auto load = [](TwoLayers& m) { m.load_state(other_state()); };
    const auto load_part = [](TwoLayers& m) { m.load_state({{"down.bias", ones({1})}}, false); };
    EXPECT_EQ(said_after(load, compiled, by_backward), "no error") << "the module keeps its tensors";
    EXPECT_EQ(said_after(load_part, compiled, by_backward), "no error");
    const std::string loaded = said_after(load, compiled, by_backward, false);
    EXPECT_TRUE(contains(loaded, "(up.weight, by load_state()). Make the optimizer after load_state() and to()")) << loaded;
    const std::string part = said_after(load_part, compiled, by_backward, false);
    EXPECT_TRUE(contains(part, "(down.bias, by load_state())") && contains(part, " 3 ")) << part;
    const std::string converted = said_after([](TwoLayers& m) { m.to(DType::F64), m.to(DType::F32); }, compiled, by_backward);
    EXPECT_TRUE(contains(converted, "(up.weight, by to())")) << converted;
    EXPECT_EQ(said_after([](TwoLayers& m) { m.load_state(m.state()), m.to(Device::cpu()), m.to(DType::F32); }, compiled, by_backward),
              "no error")
        << "which exchange nothing";
    const auto there_and_back = [](TwoLayers& m) {
      const auto first = m.state();
      m.load_state(other_state()), m.load_state(first);
    };
    EXPECT_EQ(said_after(there_and_back, compiled, by_backward), "no error");
  }
}

// A member that is assigned is another tensor, and does not require gradients as the former one did.
TEST(ForgottenParameters, AMemberThatIsAssignedIsNamed) {
  for (const auto& [compiled, by_backward] : {std::pair(false, false), {true, false}, {false, true}}) {
    const std::string one = said_after([](TwoLayers& m) { m.up.bias = zeros({4}); }, compiled, by_backward);
    EXPECT_TRUE(contains(one, "(up.bias, by an assignment: write the elements with copy_()")) << one;
    const std::string all = said_after(
        [](TwoLayers& m) {
          m.up.weight = m.up.weight * 1, m.up.bias = zeros({4}), m.down.weight = ones({1, 4}), m.down.bias = ones({1});
        },
        compiled, by_backward);
    EXPECT_TRUE(contains(all, "by an assignment")) << all;
    const auto there_and_back = [](TwoLayers& m) {
      const Tensor former = m.up.bias;
      m.up.bias = zeros({4});
      m.loss(ones({3, 2}));
      m.up.bias = former;
    };
    EXPECT_EQ(said_after(there_and_back, compiled, by_backward), "no error");
    EXPECT_EQ(said_after(
                  [](TwoLayers& m) {
                    const NoGrad sets;
                    copy_(m.up.bias, zeros({4}));
                  },
                  compiled, by_backward),
              "no error");
  }
  // Between two calls of a compiled step.
  TwoLayers net;
  train::SGD optimizer(net.parameters(), {.lr = 0.1});
  const auto step = compile([&](const Tensor& x) {
    auto [loss, gradients] = value_and_gradients([&] { return net.loss(x); }, optimizer.parameters());
    optimizer.step(gradients);
    return loss;
  });
  step(ones({3, 2}));
  net.down.bias = ones({1});
  EXPECT_TRUE(contains(user_error([&] { step(ones({3, 2})); }), "(down.bias, by an assignment"));
  // Tied, one name suffices.
  struct Tied : nn::Module {
    Tensor a = ones({2}), b = a;
    Tied() { add_parameter("a", a), add_parameter("b", b); }
  } tied;
  train::SGD of_tied(tied.parameters(), {.lr = 0.1});
  tied.a = zeros({2});
  of_tied.step(value_and_gradients([&] { return sum(tied.b * 2); }, of_tied.parameters()).second);
  tied.b = zeros({2});
  EXPECT_TRUE(contains(user_error([&] { of_tied.step(std::vector<Tensor>{ones({2})}); }), "parameter 0 is no longer the module's"));
}

// The weights of a head that was exchanged.
TEST(ForgottenParameters, AChildThatIsDestroyedIsNamed) {
  struct Net : nn::Module {
    nn::Linear body{2, 2};
    std::unique_ptr<nn::Linear> head = std::make_unique<nn::Linear>(2, 3);
    Net() { add_child("body", body), add_child("head", *head); }
    void exchange() {
      head = std::make_unique<nn::Linear>(2, 3);
      add_child("head", *head);
    }
  } net;
  const auto step = [&](train::SGD& optimizer) {
    optimizer.step(value_and_gradients(
                       [&] {
                         return mean(net.head->forward(net.body.forward(ones({1, 2}))));
                       },
                       optimizer.parameters())
                       .second);
  };
  train::SGD before(net.parameters(), {.lr = 0.1});
  step(before);
  net.exchange();
  EXPECT_TRUE(contains(user_error([&] { step(before); }), "(head.weight, whose module has been destroyed)"));
  train::SGD after(net.parameters(), {.lr = 0.1});
  step(after);
  // Of a model that is gone as a whole, tensors go on by themselves.
  train::SGD alone(nn::Linear(2, 2).parameters(), {.lr = 0.1});
  const auto own = alone.parameters();
  alone.step(value_and_gradients([&] { return sum(linear(ones({1, 2}), own[0], own[1])); }, own).second);
}

// As a user of PyTorch writes it: gradients by the module's parameters, whatever was loaded in between.
TEST(ForgottenParameters, GradientsByTheModulesParametersTrainIt) {
  const Tensor x = ones({3, 2});
  for (const bool compiled : {false, true}) {
    TwoLayers net;
    train::SGD optimizer(net.parameters(), {.lr = 0.1});
    net.load_state(other_state());
    const std::function<Tensor(const Tensor&)> body = [&](const Tensor& v) {
      auto [loss, gradients] = value_and_gradients([&] { return net.loss(v); }, net.parameters());
      optimizer.step(gradients);
      return loss;
    };
    std::function<Tensor(const Tensor&)> step = body;
    if (compiled) step = toroid::compile(body);
    const double first = step(x).item(), second = step(x).item();
    EXPECT_LT(second, first * 0.99);
    // A state that is loaded after the compile is what the next step begins with.
    const auto other = other_state();
    net.load_state(other);
    TwoLayers same;
    same.load_state(other);
    EXPECT_NEAR(step(x).item(), same.loss(x).item(), 1e-6);
    // Other tensors in their place: a step would train the former ones.
    net.to(DType::F64);
    EXPECT_TRUE(contains(user_error([&] { step(x.to(DType::F64)); }), "parameter 0 is no longer the module's"));
    train::SGD after(net.parameters(), {.lr = 0.1});
    after.step(value_and_gradients([&] { return net.loss(x.to(DType::F64)); }, net.parameters()).second);
  }
}

// Copies in a wider dtype are trained in the place of what they were made of.
TEST(ForgottenParameters, FormerTensorsMayBeGivenOnPurpose) {
  TwoLayers net;
  const std::vector<Tensor> masters = net.parameters();
  net.to(DType::BF16);
  train::SGD optimizer(masters, {.lr = 0.1});
  std::vector<Tensor> gradients;
  for (auto& p : masters) gradients.push_back(ones(p.sizes()));
  optimizer.step(gradients);
}

// What is asked for in order to get zeros gives zeros.
TEST(ForgottenParameters, OthersHaveGradientsOfZero) {
  TwoLayers net;
  train::SGD optimizer(net.parameters(), {.lr = 0.1});
  const auto [loss, gradients] = value_and_gradients([&] { return sum(net.up.weight); }, net.parameters());
  EXPECT_EQ(gradients.at(3).to_vector(), std::vector<double>{0}) << "a part of the network without the rest";
  const Tensor x = ones({2});
  EXPECT_EQ(value_and_gradients([&] { return scalar_tensor(1.0); }, {x}).second[0].to_vector(), (std::vector<double>{0, 0}));
  // A module that another one has given its tensors to.
  TwoLayers a, b(nn::Init::shapes_only());
  const auto before = b.parameters();
  b.load_state(a.state());
  EXPECT_EQ(value_and_gradients([&] { return b.loss(ones({1, 2})); }, a.parameters()).second.size(), 4u);
  EXPECT_TRUE(contains(user_error([&] {
                         value_and_gradients([&] { return b.loss(ones({1, 2})); }, before);
                       }),
                       "up.weight, by load_state()"));
}

// Those of an optimizer that is gone are tensors as any others.
TEST(ForgottenParameters, AnOptimizerThatIsGoneTrainsNothing) {
  const Tensor w = ones({2});
  const auto gradient = [&] { return value_and_gradients([] { return mean(ones({3})); }, {w}).second[0].to_vector(); };
  {
    train::SGD first({w}, {.lr = 0.1}), second({w}, {.lr = 0.1});
    EXPECT_TRUE(contains(user_error(gradient), "which an optimizer trains"));
    const train::SGD moved = std::move(second);
    EXPECT_TRUE(contains(user_error(gradient), "which an optimizer trains"));
  }
  EXPECT_EQ(gradient(), (std::vector<double>{0, 0}));
}

TEST(ForgottenParameters, MastersOfNarrowWeightsAreTrained) {
  TwoLayers net;
  const train::MasterWeights masters = train::make_master_weights(net, DType::BF16);
  train::SGD optimizer(masters.masters, {.lr = 0.1});
  const auto gradients = value_and_gradients([&] { return to(net.loss(ones({3, 2}, DType::BF16)), DType::F32); }, masters.weights).second;
  std::vector<Tensor> wide;
  for (auto& g : gradients) wide.push_back(to(g, DType::F32));
  optimizer.step(wide);
}

}  // namespace
}  // namespace toroid
