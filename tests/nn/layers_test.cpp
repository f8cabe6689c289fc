// What the layers compute, against sums written out.
#include "nn/harness.h"

namespace toroid::nn {
namespace {

using namespace test;
using Values = std::vector<double>;

void expect_near(const Tensor& got, const Values& expected, double tolerance = 1e-5) {
  auto v = got.to_vector();
  ASSERT_EQ(v.size(), expected.size());
  for (size_t i = 0; i < v.size(); ++i) EXPECT_NEAR(v[i], expected[i], tolerance) << "element " << i;
}

TEST(Layers, Linear) {
  Linear l(2, 2);
  l.load_state({{"weight", Tensor::of({1, 2, 3, 4}, {2, 2})}, {"bias", Tensor::of({10, 20}, {2})}});
  expect_near(l(Tensor::of({1, 1, 2, 0}, {2, 2})), {13, 27, 12, 26});
}

TEST(Layers, Embedding) {
  Embedding e(3, 2);
  e.load_state({{"weight", Tensor::of({1, 2, 3, 4, 5, 6}, {3, 2})}});
  expect_near(e(Tensor::of({2, 0}, {2}, DType::I64)), {5, 6, 1, 2});
}

TEST(Layers, Norms) {
  Tensor x = Tensor::of({1, 3, 2, 6}, {2, 2});
  expect_near(LayerNorm({2}, 0)(x), {-1, 1, -1, 1});
  double rms = std::sqrt(5.0), other = std::sqrt(20.0);
  expect_near(RMSNorm({2}, 0)(x), {1 / rms, 3 / rms, 2 / other, 6 / other});
  expect_near(GroupNorm(1, 2, 0)(x), {-1, 1, -1, 1});
}

TEST(Layers, ConvolutionAndPools) {
  Conv2d c(1, 1, 2, {.padding = {0, 0}, .bias = false});
  c.load_state({{"weight", Tensor::of({1, 0, 0, 1}, {1, 1, 2, 2})}});
  Tensor x = counting({1, 1, 3, 3});
  expect_near(c(x), {4, 6, 10, 12});
  expect_near(MaxPool2d(2, 1)(x), {4, 5, 7, 8});
  expect_near(AdaptiveAvgPool2d(1, 1)(x), {4});
}

TEST(Layers, BatchNormUsesTheBatchOnlyInTraining) {
  BatchNorm2d b(1, 0, 0.5);
  Tensor x = Tensor::of({0, 2, 4, 6}, {1, 1, 2, 2});
  expect_near(b(x), {0, 2, 4, 6});
  b.train();
  double deviation = std::sqrt(5.0);
  expect_near(b(x), {-3 / deviation, -1 / deviation, 1 / deviation, 3 / deviation});
  expect_near(b.running_mean, {1.5});
  expect_near(b.running_var, {0.5 + 0.5 * 20.0 / 3});
  expect_near(b.num_batches_tracked, {1});
}

TEST(Layers, Activations) {
  Tensor x = Tensor::of({-1, 0, 2}, {3});
  expect_near(ReLU()(x), {0, 0, 2});
  expect_near(SiLU()(x), {-1 / (1 + std::exp(1.0)), 0, 2 / (1 + std::exp(-2.0))});
  expect_near(GELU()(x), {-0.15865526, 0, 1.9544997});
  expect_near(GELU("tanh")(x), {-0.15880801, 0, 1.9545977});
  double s = 1 / (std::exp(-1.0) + 1 + std::exp(2.0));
  expect_near(Softmax(-1)(x), {std::exp(-1.0) * s, s, std::exp(2.0) * s});
}

TEST(Layers, DropoutDropsInTraining) {
  Dropout d(0.5);
  d.train();
  auto v = d(Tensor::full(std::vector<int64_t>{1000}, 1)).to_vector();
  auto zeros = std::count(v.begin(), v.end(), 0.0);
  EXPECT_GT(zeros, 400);
  EXPECT_LT(zeros, 600);
  EXPECT_EQ(std::count(v.begin(), v.end(), 2.0), 1000 - zeros);
}

// One head at a time, in doubles.
Values attention_by_hand(const MultiheadAttention& m, const Tensor& x, int64_t heads, const std::function<bool(int64_t, int64_t)>& seen) {
  auto w = m.in_proj_weight.to_vector(), b = m.in_proj_bias.to_vector(), o = m.out_proj.weight.to_vector(), v = x.to_vector();
  int64_t n = x.sizes()[1], e = x.sizes()[2], d = e / heads;
  auto project = [&](int64_t part, int64_t row, int64_t column) {
    double s = b[static_cast<size_t>(part * e + column)];
    for (int64_t i = 0; i < e; ++i) s += v[static_cast<size_t>(row * e + i)] * w[static_cast<size_t>((part * e + column) * e + i)];
    return s;
  };
  Values mixed(static_cast<size_t>(n * e)), out(static_cast<size_t>(n * e));
  for (int64_t h = 0; h < heads; ++h)
    for (int64_t i = 0; i < n; ++i) {
      Values p(static_cast<size_t>(n));
      double sum = 0;
      for (int64_t j = 0; j < n; ++j) {
        double s = 0;
        for (int64_t c = 0; c < d; ++c) s += project(0, i, h * d + c) * project(1, j, h * d + c);
        p[static_cast<size_t>(j)] = seen(i, j) ? std::exp(s / std::sqrt(static_cast<double>(d))) : 0;
        sum += p[static_cast<size_t>(j)];
      }
      for (int64_t c = 0; c < d; ++c)
        for (int64_t j = 0; j < n; ++j)
          mixed[static_cast<size_t>(i * e + h * d + c)] += p[static_cast<size_t>(j)] / sum * project(2, j, h * d + c);
    }
  for (int64_t i = 0; i < n; ++i)
    for (int64_t c = 0; c < e; ++c)
      for (int64_t k = 0; k < e; ++k)
        out[static_cast<size_t>(i * e + c)] += mixed[static_cast<size_t>(i * e + k)] * o[static_cast<size_t>(c * e + k)];
  return out;
}

TEST(Layers, MultiheadAttention) {
  MultiheadAttention m(6, 2, true, Init(1));
  Tensor x = Init(2).normal({1, 4, 6}, 0, 1);
  expect_near(m.forward(x, x, x), attention_by_hand(m, x, 2, [](int64_t, int64_t) { return true; }));
  expect_near(m.forward(x, x, x, {.is_causal = true}), attention_by_hand(m, x, 2, [](int64_t i, int64_t j) { return j <= i; }));
  Tensor padding = Tensor::of({0, 0, 1, 0}, {1, 4}, DType::Bool);
  expect_near(m.forward(x, x, x, {.key_padding_mask = padding}), attention_by_hand(m, x, 2, [](int64_t, int64_t j) { return j != 2; }));
  expect_near(m.forward(x, x, x, {.key_padding_mask = padding, .is_causal = true}),
              attention_by_hand(m, x, 2, [](int64_t i, int64_t j) { return j != 2 && j <= i; }));
  Tensor same = clone(x);
  expect_near(m.forward(x, same, same), attention_by_hand(m, x, 2, [](int64_t, int64_t) { return true; }));
}

TEST(Layers, RefuseImpossibleSettings) {
  EXPECT_TRUE(contains(user_error([] { MultiheadAttention(6, 4); }), "not a multiple of num_heads 4"));
  EXPECT_TRUE(contains(user_error([] { Conv2d(3, 4, 1, {.groups = 2}); }), "groups"));
  EXPECT_TRUE(contains(user_error([] { Dropout(2); }), "[0, 1]"));
}

TEST(Layers, ModulesCompile) {
  Sequential s;
  s.add<Linear>(8, 16);
  s.add<GELU>();
  s.add<LayerNorm>(std::vector<int64_t>{16});
  Tensor x = Init(3).normal({4, 8}, 0, 1);
  auto f = compile([&](const Tensor& v) { return s.forward(v); });
  EXPECT_LT(error_of(f(x), s.forward(x)), 1e-5);
  EXPECT_EQ(f.report().compiles, 1);
}

}  // namespace
}  // namespace toroid::nn
