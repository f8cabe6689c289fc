// Errors and graphs name the layer and the caller's line, never a line of the library.
#include "front/compile_model.h"
#include "nn/harness.h"
#include "toroid/compile.h"
#include "toroid/control_flow.h"
#include "toroid/grad.h"

namespace toroid::nn {
namespace {

using namespace test;

// A model as users write them.
struct Net : Module {
  Linear fc1{4, 8}, fc2{9, 2};  // fc2 does not fit
  Net() {
    add_child("fc1", fc1);
    add_child("fc2", fc2);
  }
  int line = 0;
  Tensor forward(const Tensor& x) {
    const Tensor h = relu(fc1.forward(x));
    line = __LINE__ + 1;
    return fc2(h);
  }
};

struct Outer : Module {
  Net net;
  Outer() { add_child("net", net); }
};

TEST(LayerPlaces, PathsFollowTheTreeOfModules) {
  Outer outer;
  EXPECT_EQ(outer.path(), "");
  EXPECT_EQ(outer.net.fc2.path(), "net.fc2");
  Linear kept(2, 2);
  {
    Scope gone;
    gone.adopt("kept", kept);
    EXPECT_EQ(kept.path(), "kept");
    Scope root;
    root.adopt("part", gone);
    EXPECT_EQ(kept.path(), "part.kept");
  }
  EXPECT_EQ(kept.path(), "kept");  // of modules that are gone nothing is looked at
}

TEST(LayerPlaces, AnErrorNamesTheLayerAndTheLineThatCallsIt) {
  Outer outer;
  const std::string error = user_error([&] { outer.net.forward(counting({3, 4})); });
  EXPECT_TRUE(contains(error, fmt::format("(called at net.fc2 (Linear), layer_places_test.cpp:{})", outer.net.line))) << error;
  auto compiled = compile([&](const Tensor& x) { return outer.net.forward(x); });
  const std::string traced = user_error([&] { compiled(counting({3, 4})); });
  EXPECT_TRUE(contains(traced, fmt::format("net.fc2 (Linear), layer_places_test.cpp:{}", outer.net.line))) << traced;
  const std::string by_name = user_error([&] { outer.net.fc1.forward(counting({3, 5})); });
  EXPECT_TRUE(contains(by_name, "(called at net.fc1 (Linear))")) << by_name;
}

// What is differentiated, or recorded as a region, says what the call says outside of that; compiled, too.
TEST(LayerPlaces, FunctionsThatAreDifferentiatedSayTheSame) {
  Outer outer;
  const Tensor wide = counting({3, 4}), f64 = counting({3, 4}).to(DType::F64);
  const auto check = [&](const std::function<Tensor(const Tensor&)>& call, const Tensor& x) {
    const auto differentiated = [&](const Tensor& t) {
      return value_and_gradients([&] { return sum(call(t)); }, outer.parameters()).second;
    };
    const auto looped = [&](const Tensor& t) {
      return value_and_gradients([&] { return sum(map([&](const Tensor& row) { return call(row); }, unsqueeze(t, 0))); },
                                 outer.parameters())
          .second;
    };
    const std::string want = user_error([&] { call(x); });
    EXPECT_TRUE(contains(want, "layer_places_test.cpp:")) << want;
    EXPECT_EQ(user_error([&] { differentiated(x); }), want);
    EXPECT_EQ(user_error([&] { compile(differentiated)(x); }), want);
    EXPECT_EQ(user_error([&] { compile(differentiated, {.dynamic = false})(x); }), want);
    const std::string within = user_error([&] { looped(x); });
    EXPECT_TRUE(contains(within, want.substr(want.find("(called at")))) << within;
  };
  check([&](const Tensor& x) { return outer.net.forward(x); }, wide);
  check([&](const Tensor& x) { return outer.net.fc1(x); }, f64);
  check([&](const Tensor& x) { return matmul(x, zeros({3, 2})); }, f64);
}

// What a later call breaks has the line, too.
TEST(LayerPlaces, RequirementsOfGradientsHaveALine) {
  const Tensor w = ones({3});
  const auto step =
      compile([&](const Tensor& x, const Tensor& y) { return value_and_gradients([&] { return sum(x * w * y); }, {w}).second[0]; },
              {.dynamic = true});
  step(ones({4, 3}), ones({4, 3}));
  const std::string error = user_error([&] { step(ones({4, 3}), ones({5, 3})); });
  EXPECT_TRUE(contains(error, "(called at layer_places_test.cpp:")) << error;
}

// Whatever layer it is, and however it is reached.
TEST(LayerPlaces, NoErrorOfALayerNamesALineOfTheLibrary) {
  const Tensor wrong = zeros({2, 3, 5}), ids = zeros({2}, DType::I64);
  const auto error_of = [&](auto&& make, const Tensor& x) {
    Sequential s;
    make(s);
    return user_error([&] { s(x); });
  };
  const std::pair<const char*, std::function<std::string()>> cases[] = {
      {"Linear", [&] { return error_of([](auto& s) { s.template add<Linear>(4, 2); }, wrong); }},
      {"LayerNorm", [&] { return error_of([](auto& s) { s.template add<LayerNorm>(std::vector<int64_t>{4}); }, wrong); }},
      {"RMSNorm", [&] { return error_of([](auto& s) { s.template add<RMSNorm>(std::vector<int64_t>{4}); }, wrong); }},
      {"GroupNorm", [&] { return error_of([](auto& s) { s.template add<GroupNorm>(2, 4); }, wrong); }},
      {"Conv2d", [&] { return error_of([](auto& s) { s.template add<Conv2d>(4, 2, 3); }, wrong); }},
      {"BatchNorm2d", [&] { return error_of([](auto& s) { s.template add<BatchNorm2d>(4); }, wrong); }},
      {"MaxPool2d", [&] { return error_of([](auto& s) { s.template add<MaxPool2d>(9); }, wrong); }},
      {"Softmax", [&] { return error_of([](auto& s) { s.template add<Softmax>(7); }, wrong); }},
      {"GELU", [&] { return error_of([](auto& s) { s.template add<GELU>("cubic"); }, wrong); }},
      {"Embedding", [&] { return error_of([](auto& s) { s.template add<Embedding>(4, 2); }, ids + 9); }}};
  for (auto& [name, error] : cases) {
    const std::string text = error();
    EXPECT_TRUE(contains(text, fmt::format("called at 0 ({}), layer_places_test.cpp:", name))) << text;
    EXPECT_FALSE(contains(text, "layers.")) << text;
  }
  MultiheadAttention attention(8, 2);
  const std::string text = user_error([&] { attention.forward(wrong, wrong, wrong); });
  EXPECT_TRUE(contains(text, "(called at MultiheadAttention)")) << text;
}

// Layers of the user's own keep their lines, within a Sequential too.
struct Own : Layer {
  Tensor forward(const Tensor& x) override { return matmul(x, zeros({7, 7})); }
};

TEST(LayerPlaces, OperationsOfTheUserKeepTheirLines) {
  Sequential s;
  s.add<ReLU>();
  s.add<Own>();
  const std::string error = user_error([&] { s(counting({2, 3})); });
  EXPECT_TRUE(contains(error, "called at layer_places_test.cpp:")) << error;
}

TEST(LayerPlaces, NodesOfATraceHaveThem) {
  BertModel m({.vocab_size = 20, .hidden_size = 8, .num_hidden_layers = 2, .num_attention_heads = 2, .intermediate_size = 16});
  const Explanation e = explain([&](const Tensor& ids) { return m(ids); }, zeros({1, 3}, DType::I64));
  ASSERT_EQ(e.graphs.size(), 1u);
  EXPECT_TRUE(contains(e.graphs[0], "\"encoder.layer.1.attention.self.query (Linear), layer_places_test.cpp:")) << e.graphs[0];
  EXPECT_FALSE(contains(e.graphs[0], "bert.cpp")) << e.graphs[0];
}

}  // namespace
}  // namespace toroid::nn
