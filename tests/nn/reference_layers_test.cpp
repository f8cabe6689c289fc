// Layers and losses against PyTorch's numbers. Parameter k of a layer is sin(i * (0.3 + 0.1 k)) at element i.
#include "nn/harness.h"

namespace toroid::nn {
namespace {

using namespace test;
using Values = std::vector<double>;
using Sizes = std::vector<int64_t>;

Tensor sines(const Sizes& sizes, double step = 0.7) {
  Tensor t = Tensor::full(sizes, 0);
  for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = std::sin(static_cast<float>(i) * static_cast<float>(step));
  return t;
}

template <class M>
M& filled(M&& m) {
  double step = 0.3;
  for (auto& [name, p] : m.named_parameters()) copy_(p, sines(p.sizes(), step)), step += 0.1;
  return m;
}

void expect_values(const Tensor& got, const Sizes& sizes, const Values& expected, double tolerance = 2e-6) {
  ASSERT_EQ(got.sizes(), sizes);
  const auto v = got.to_vector();
  for (size_t i = 0; i < v.size(); ++i) EXPECT_NEAR(v[i], expected.at(i), tolerance) << "element " << i;
}

std::vector<std::string> state_names(const Module& m) {
  std::vector<std::string> out;
  for (auto& [name, t] : m.state()) out.push_back(name);
  return out;
}
using Names = std::vector<std::string>;

TEST(ReferenceLayers, TransposedConvolutions) {
  const Tensor x = sines({1, 2, 3, 3});
  const Tensor y = filled(ConvTranspose2d(2, 4, 3, {.stride = 2, .padding = 1, .output_padding = 1, .groups = 2, .dilation = 1}))(x);
  EXPECT_EQ(y.sizes(), (Sizes{1, 4, 6, 6}));
  expect_values(slice(slice(y, 2, 0, 6, 3), 3, 0, 6, 3), {1, 4, 2, 2},
                {0.0, 1.414533, 0.487562, -0.670072, 0.389418, -0.608148, -0.593477, 0.30737, 0.722594, 1.113998, 2.003406, 1.496399,
                 0.934132, 1.224751, -0.41786, -0.429682});
  ConvTranspose2d rectangle(2, 1, {2, 3}, {.stride = {1, 2}, .bias = false});
  expect_values(filled(rectangle)(x), {1, 1, 4, 7},
                {0.016374,  0.014514,  0.651162,  0.757496,  1.769848,  1.144216,  1.223898,  0.839435,  0.995166,  2.158172,
                 1.067595,  1.781013,  0.637916,  0.381491,  0.184724,  -0.091784, -0.914881, -0.778317, -1.965696, -1.098795,
                 -1.066063, -1.058693, -0.936485, -1.918686, -1.053866, -1.584198, -0.675597, -0.532177});
  EXPECT_EQ(state_names(rectangle), Names{"weight"});
  EXPECT_EQ(state_names(ConvTranspose2d(2, 4, 3)), (Names{"bias", "weight"}));
}

TEST(ReferenceLayers, FirstValuesLieInPyTorchsBounds) {
  const auto largest = [](const Tensor& t) {
    double out = 0;
    for (const double v : t.to_vector()) out = std::max(out, std::abs(v));
    return out;
  };
  const ConvTranspose2d transposed(8, 20, 3, {.groups = 2}, Init(1));
  EXPECT_EQ(transposed.weight.sizes(), (Sizes{8, 10, 3, 3}));
  EXPECT_NEAR(largest(transposed.weight), 1 / std::sqrt(90.0), 1e-3);
  EXPECT_GT(largest(transposed.bias), 0.8 / std::sqrt(90.0));
  EXPECT_LE(largest(transposed.bias), 1 / std::sqrt(90.0));
  const Conv1d line(8, 20, 3, {.groups = 2}, Init(1));
  EXPECT_EQ(line.weight.sizes(), (Sizes{20, 4, 3}));
  EXPECT_NEAR(largest(line.weight), 1 / std::sqrt(12.0), 0.01);
}

TEST(ReferenceLayers, Convolution1d) {
  Conv1d c(2, 2, 3, {.stride = 2, .padding = 1});
  expect_values(filled(c)(sines({1, 2, 5})), {1, 2, 3}, {-0.832583, -1.449473, -0.379821, 0.912549, 2.038946, 1.2518});
  EXPECT_EQ(state_names(c), (Names{"bias", "weight"}));
}

TEST(ReferenceLayers, BatchNorm1d) {
  BatchNorm1d b(2);
  filled(b).train();
  expect_values(b(sines({3, 2})), {3, 2}, {0.0, 0.534114, 0.0, 0.656615, 0.0, -0.022475});
  expect_values(b.running_mean, {2}, {0.044015, 0.038555});
  expect_values(b.running_var, {2}, {0.925107, 0.941863});
  b.eval();
  expect_values(b(sines({1, 2, 2}, 0.9)), {1, 2, 2}, {0.0, 0.0, 0.674218, 0.507817});
  EXPECT_EQ(state_names(b), (Names{"bias", "num_batches_tracked", "running_mean", "running_var", "weight"}));
  EXPECT_TRUE(contains(user_error([&] { b(ones({1, 2, 1, 1})); }), "BatchNorm1d: the input needs 2 or 3 dimensions, got 4"));
}

// PyTorch's variance of one value is NaN, which would stay in the running statistics.
TEST(ReferenceLayers, BatchNormOfOneValueIsRefused) {
  BatchNorm2d image(2);
  BatchNorm1d line(2);
  image.train(), line.train();
  const std::string told = "Expected more than 1 value per channel when training, got input size ";
  EXPECT_TRUE(contains(user_error([&] { image(ones({1, 2, 1, 1})); }), "BatchNorm2d: " + told + "[1, 2, 1, 1]"));
  EXPECT_TRUE(contains(user_error([&] { line(ones({1, 2})); }), "BatchNorm1d: " + told + "[1, 2]"));
  auto compiled = compile(image);
  EXPECT_TRUE(contains(user_error([&] { compiled(ones({1, 2, 1, 1})); }), told));
  expect_values(image.num_batches_tracked, {}, {0});
  expect_values(image.running_var, {2}, {1, 1});
  image.eval(), line.eval();
  EXPECT_EQ(image(ones({1, 2, 1, 1})).numel(), 2);
  EXPECT_EQ(line(ones({1, 2})).numel(), 2);
  image.train(), line.train();
  EXPECT_EQ(image(ones({1, 2, 1, 2})).numel(), 4);
  EXPECT_EQ(line(ones({2, 2})).numel(), 4);
}

TEST(ReferenceLayers, Pools) {
  const Tensor x = sines({1, 1, 4, 5});
  expect_values(MaxPool2d({2, 3}, 2, {0, 1}, 1, true)(x), {1, 1, 2, 3}, {0.644218, 0.98545, 0.863209, 0.988168, 0.988168, 0.66957});
  expect_values(AvgPool2d(2, 2, 1, false, false)(x), {1, 1, 3, 3},
                {0.0, 0.814834, 0.599099, 0.153102, -0.002815, -0.165458, -0.879696, -0.798658, 0.351596});
  expect_values(AvgPool2d(2, 0, 1)(x), {1, 1, 3, 3},
                {0.0, 0.407417, 0.299549, 0.076551, -0.002815, -0.165458, -0.219924, -0.399329, 0.175798});
  expect_values(AdaptiveAvgPool2d(2, 1)(x), {1, 1, 2, 1}, {0.00086, 0.067855});
  EXPECT_EQ(AdaptiveAvgPool2d(2)(x).sizes(), (Sizes{1, 1, 2, 2}));
}

TEST(ReferenceLayers, Upsample) {
  const Tensor x = sines({1, 1, 2, 3});
  expect_values(
      Upsample({.scale_factor = 2})(x), {1, 1, 4, 6},
      {0.0,      0.0,      0.644218, 0.644218, 0.98545,   0.98545,   0.0,      0.0,      0.644218, 0.644218, 0.98545,   0.98545,
       0.863209, 0.863209, 0.334988, 0.334988, -0.350783, -0.350783, 0.863209, 0.863209, 0.334988, 0.334988, -0.350783, -0.350783});
  expect_values(Upsample({.scale_factor = 1.5})(x), {1, 1, 3, 4},
                {0.0, 0.0, 0.644218, 0.98545, 0.0, 0.0, 0.644218, 0.98545, 0.863209, 0.863209, 0.334988, -0.350783});
  expect_values(Upsample({.size = {3, 4}, .mode = "bilinear"})(x), {1, 1, 3, 4},
                {0.0, 0.402636, 0.77218, 0.98545, 0.431605, 0.467854, 0.425002, 0.317333, 0.863209, 0.533071, 0.077824, -0.350783});
  expect_values(Upsample({.scale_factor = 1.5, .mode = "bilinear", .align_corners = true})(x), {1, 1, 3, 4},
                {0.0, 0.429478, 0.757962, 0.98545, 0.431605, 0.47027, 0.43218, 0.317333, 0.863209, 0.511062, 0.106398, -0.350783});
  expect_values(Upsample({.scale_factor = 1.7, .mode = "bilinear"})(x), {1, 1, 3, 5},
                {0.0, 0.246319, 0.62527, 0.834906, 0.98545, 0.330051, 0.404966, 0.52022, 0.497234, 0.474537, 0.837821, 0.649039, 0.358605,
                 -0.022262, -0.311482});
  expect_values(Upsample({.size = 3, .mode = "bicubic"})(x), {1, 1, 3, 3},
                {-0.074931, 0.671061, 1.101442, 0.431605, 0.489603, 0.317333, 0.938141, 0.308145, -0.466775});
  EXPECT_TRUE(contains(user_error([] { Upsample({}); }), "only one of size or scale_factor should be defined, got neither"));
  EXPECT_TRUE(contains(user_error([] { Upsample({.size = 3, .scale_factor = 2}); }), "got both"));
  EXPECT_TRUE(contains(user_error([] { Upsample({.size = 3, .mode = "lanczos"}); }), "the mode is \"lanczos\""));
  EXPECT_TRUE(contains(user_error([] { Upsample({.size = 3, .align_corners = true}); }), "align_corners"));
  EXPECT_TRUE(contains(user_error([] { Upsample({.size = 3})(ones({2, 3, 4})); }), "needs 4 dimensions, got 3"));
}

TEST(ReferenceLayers, Losses) {
  const Tensor logits = sines({3, 4}), classes = Tensor::of({0, 3, -100}, {3}, DType::I64), four = Tensor::of({1, 2, 3, 4}, {4});
  expect_values(CrossEntropyLoss()(logits, classes), {}, {2.059529});
  CrossEntropyLoss weighted({.weight = four, .reduction = "sum", .label_smoothing = 0.1});
  expect_values(weighted(logits, classes), {}, {9.994082}, 1e-5);
  EXPECT_EQ(state_names(weighted), Names{"weight"});
  expect_values(CrossEntropyLoss({.ignore_index = 3, .reduction = "none"})(logits, Tensor::of({0, 3, 1}, {3}, DType::I64)), {3},
                {2.073709, 0.0, 1.801937});
  expect_values(MSELoss({.reduction = "sum"})(logits, logits * 0.5), {}, {1.474567});
  expect_values(MSELoss({.reduction = "none"})(logits[0], logits[1]), {4}, {0.112217, 0.990027, 3.448543, 3.406468});
  const Tensor positive = to(logits > 0, DType::F32);
  expect_values(BCEWithLogitsLoss()(logits, positive), {}, {0.447489});
  BCEWithLogitsLoss binary({.weight = four, .reduction = "sum", .pos_weight = Tensor::of({2, 1, 1, 1}, {4})});
  expect_values(binary(logits, positive), {}, {12.677178}, 1e-5);
  EXPECT_EQ(state_names(binary), (Names{"pos_weight", "weight"}));
  EXPECT_TRUE(contains(user_error([] {
                         BCEWithLogitsLoss()(ones({2, 1}), ones({2}));
                       }),
                       "Target size ([2]) must be the same as input size ([2, 1])"));
  EXPECT_TRUE(contains(user_error([] { MSELoss({.reduction = "average"}); }), "average is not a valid value for reduction"));
  EXPECT_TRUE(contains(user_error([] { CrossEntropyLoss({.label_smoothing = 2}); }), "between 0.0 and 1.0. Got: 2"));
}

// As PyTorch's users write them.
TEST(ReferenceLayers, ShortForms) {
  EXPECT_EQ(LayerNorm(8).weight.sizes(), Sizes{8});
#ifdef __clang__
#pragma clang diagnostic ignored "-Wbraced-scalar-init"  // as users of PyTorch write it
#endif
  EXPECT_EQ(LayerNorm({8}).weight.sizes(), Sizes{8});
  EXPECT_EQ(LayerNorm({4, 8}).weight.sizes(), (Sizes{4, 8}));
  EXPECT_EQ(LayerNorm(8, 1e-6).weight.sizes(), Sizes{8});
  EXPECT_EQ(RMSNorm({4, 8}).weight.sizes(), (Sizes{4, 8}));
  EXPECT_EQ(MaxPool2d(Pair(2, 3))(ones({1, 1, 4, 6})).sizes(), (Sizes{1, 1, 2, 2}));
  EXPECT_EQ(RMSNorm(8).weight.sizes(), Sizes{8});
  EXPECT_FALSE(Linear(2, 2, {.bias = false}).bias.defined());
  EXPECT_FALSE(Linear(2, 2, false).bias.defined());
  EXPECT_EQ(Conv2d(1, 1, {2, 3}, {.stride = 2, .padding = {0, 1}})(ones({1, 1, 4, 5})).sizes(), (Sizes{1, 1, 2, 3}));
  EXPECT_TRUE(contains(user_error([] { Conv2d(1, 1, std::vector<int64_t>{1, 2, 3}); }), "2 numbers, of height and width"));
  const Tensor x = sines({2, 3, 4});
  EXPECT_EQ(Flatten()(x).sizes(), (Sizes{2, 12}));
  EXPECT_EQ(Flatten(0, 1)(x).sizes(), (Sizes{6, 4}));
  EXPECT_EQ(Identity()(x).impl(), x.impl());
  expect_values(Sigmoid()(Tensor::of({0, 1}, {2})), {2}, {0.5, 1 / (1 + std::exp(-1.0))});
  expect_values(Tanh()(Tensor::of({0, 1}, {2})), {2}, {0, std::tanh(1.0)});
}

TEST(ReferenceLayers, CompileAndTrainWithOpenBatches) {
  Sequential net(std::make_unique<Conv2d>(2, 4, 3, Conv2dOptions{.stride = 2, .padding = 1}), std::make_unique<BatchNorm2d>(4),
                 std::make_unique<ConvTranspose2d>(4, 4, 2, ConvTranspose2dOptions{.stride = 2}), std::make_unique<AvgPool2d>(2),
                 std::make_unique<Upsample>(UpsampleOptions{.scale_factor = 2}), std::make_unique<Flatten>());
  auto fast = compile([&](const Tensor& x) { return net.forward(x); }, {.dynamic = true});
  for (const int64_t batch : {2, 3, 5}) {
    const Tensor x = sines({batch, 2, 8, 8});
    EXPECT_LT(error_of(fast(x), net.forward(x)), 1e-5) << batch;
  }
  net.train();
  const Tensor x = sines({4, 2, 8, 8});
  auto once = compile([&](const Tensor& v) { return net.forward(v); });
  const Tensor first = once(x);
  EXPECT_LT(error_of(first, net.forward(x)), 1e-5);
}

}  // namespace
}  // namespace toroid::nn
