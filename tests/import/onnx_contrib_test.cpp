// Operators of com.microsoft beside what they stand for: operators of the default domain, or plain loops.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "graph/interpreter.h"
#include "import/load_model.h"
#include "import/onnx_builder.h"

namespace toroid::import::onnx {
namespace {

struct Input {
  std::string name;
  Tensor data;
};
using Inputs = std::vector<Input>;

std::string element_number(DType t) {
  return t == DType::F32 ? "1" : t == DType::U8 ? "2" : t == DType::I32 ? "6" : t == DType::I64 ? "7" : "";
}

// What a model of these nodes gives for the inputs. `element`: the type of the outputs.
std::vector<Tensor> run(const std::vector<Message>& nodes, const Inputs& inputs, const std::vector<std::string>& outputs, int element = 1) {
  GraphParts g;
  g.nodes = nodes;
  std::vector<Tensor> given;
  for (auto& in : inputs) {
    std::vector<std::string> sizes;
    for (int64_t s : in.data.sizes()) sizes.push_back(std::to_string(s));
    g.inputs.push_back(value_info(in.name, sizes, std::stoi(element_number(in.data.dtype()))));
    given.push_back(in.data);
  }
  for (auto& o : outputs) g.outputs.push_back(value_of_any_sizes(o, element));
  ModelFolder folder(g.model(23));
  return graph::interpret(*load_model(folder.model(), given), given);
}

Message fused(const std::string& op, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
              const std::vector<Message>& attributes = {}) {
  return node(op, inputs, outputs, attributes, "com.microsoft");
}

// Numbers between -1 and 1 that differ from each other.
Tensor numbers(std::vector<int64_t> sizes, int seed) {
  Tensor t = Tensor::empty(sizes, DType::F32);
  for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = std::sin(static_cast<float>(i * 7 + seed * 131) * 0.37f);
  return t;
}

Tensor of(std::initializer_list<double> values, std::vector<int64_t> sizes, DType t) {
  return Tensor::of(std::span(values.begin(), values.size()), sizes, t);
}

void expect_equal(const std::vector<Tensor>& got, const std::vector<Tensor>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t k = 0; k < got.size(); ++k) {
    ASSERT_EQ(got[k].sizes(), expected[k].sizes()) << "output " << k;
    auto g = got[k].to_vector(), e = expected[k].to_vector();
    for (size_t i = 0; i < g.size(); ++i) ASSERT_NEAR(g[i], e[i], 1e-5) << "output " << k << ", element " << i;
  }
}

TEST(OnnxContrib, SkipLayerNormalizationAddsAndNormalizes) {
  Inputs in = {{"x", numbers({2, 3, 4}, 1)},
               {"skip", numbers({2, 3, 4}, 2)},
               {"gamma", numbers({4}, 3)},
               {"beta", numbers({4}, 4)},
               {"bias", numbers({4}, 5)}};
  auto got = run(
      {fused("SkipLayerNormalization", {"x", "skip", "gamma", "beta", "bias"}, {"y", "", "", "sum"}, {float_attribute("epsilon", 1e-5f)})},
      in, {"y", "sum"});
  auto expected = run(
      {node("Add", {"x", "skip"}, {"a"}), node("Add", {"a", "bias"}, {"sum"}), node("LayerNormalization", {"sum", "gamma", "beta"}, {"y"})},
      in, {"y", "sum"});
  expect_equal(got, expected);
}

// As ONNX Runtime fuses parts of diffusion models.
TEST(OnnxContrib, BiasAddAndBiasSplitGelu) {
  Inputs in = {{"x", numbers({2, 3, 4}, 1)}, {"bias", numbers({4}, 2)}, {"skip", numbers({2, 3, 4}, 3)}};
  expect_equal(run({fused("BiasAdd", {"x", "bias", "skip"}, {"y"})}, in, {"y"}),
               run({node("Add", {"x", "bias"}, {"a"}), node("Add", {"a", "skip"}, {"y"})}, in, {"y"}));
  const auto got = run({fused("BiasSplitGelu", {"x", "bias"}, {"y"})}, in, {"y"})[0];
  ASSERT_EQ(got.sizes(), (std::vector<int64_t>{2, 3, 2}));
  const auto x = in[0].data.to_vector(), bias = in[1].data.to_vector(), y = got.to_vector();
  for (size_t row = 0; row < 6; ++row)
    for (size_t i = 0; i < 2; ++i) {
      const double left = x[row * 4 + i] + bias[i], right = x[row * 4 + 2 + i] + bias[2 + i];
      EXPECT_NEAR(y[row * 2 + i], left * right * 0.5 * (1 + std::erf(right / std::sqrt(2))), 1e-5);
    }
  in[0].data = numbers({2, 3, 5}, 1), in[1].data = numbers({5}, 2);
  EXPECT_TRUE(refuses([&] { run({fused("BiasSplitGelu", {"x", "bias"}, {"y"})}, in, {"y"}); }, "two halves"));
}

TEST(OnnxContrib, GroupNormHasItsChannelsLast) {
  Inputs in = {{"x", numbers({2, 3, 2, 4}, 1)}, {"gamma", numbers({4}, 2)}, {"beta", numbers({4}, 3)}};
  const auto with = [&](int activation, int last) {
    return run({fused("GroupNorm", {"x", "gamma", "beta"}, {"y"},
                      {int_attribute("groups", 2), int_attribute("activation", activation), int_attribute("channels_last", last)})},
               in, {"y"});
  };
  // Channels 0 and 1, and 2 and 3, of a batch share mean and variance.
  const auto x = in[0].data.to_vector(), gamma = in[1].data.to_vector(), beta = in[2].data.to_vector(), y = with(1, 1)[0].to_vector();
  for (size_t n = 0; n < 2; ++n)
    for (size_t group = 0; group < 2; ++group) {
      double sum = 0, squares = 0;
      for (size_t p = 0; p < 6; ++p)
        for (size_t k = 0; k < 2; ++k) {
          const double v = x[(n * 6 + p) * 4 + group * 2 + k];
          sum += v / 12, squares += v * v / 12;
        }
      for (size_t p = 0; p < 6; ++p)
        for (size_t k = 0; k < 2; ++k) {
          const size_t channel = group * 2 + k, at = (n * 6 + p) * 4 + channel;
          const double z = (x[at] - sum) / std::sqrt(squares - sum * sum + 1e-5) * gamma[channel] + beta[channel];
          EXPECT_NEAR(y[at], z / (1 + std::exp(-z)), 1e-4) << at;
        }
    }
  in[0].data = numbers({2, 4, 3, 2}, 1);
  expect_equal(with(0, 0), run({node("GroupNormalization", {"x", "gamma", "beta"}, {"y"}, {int_attribute("num_groups", 2)})}, in, {"y"}));
  EXPECT_TRUE(refuses([&] { with(2, 0); }, "activation is 2"));
}

TEST(OnnxContrib, MultiHeadAttentionIsAttentionOfFlatTensors) {
  Inputs in = {{"q", numbers({2, 3, 8}, 1)}, {"k", numbers({2, 5, 8}, 2)}, {"v", numbers({2, 5, 8}, 3)}};
  auto got = run({fused("MultiHeadAttention", {"q", "k", "v"}, {"y"}, {int_attribute("num_heads", 2)})}, in, {"y"});
  auto expected =
      run({node("Attention", {"q", "k", "v"}, {"y"}, {int_attribute("q_num_heads", 2), int_attribute("kv_num_heads", 2)})}, in, {"y"});
  expect_equal(got, expected);
}

// One product for queries, keys and values; the number of keys of each batch as the mask.
TEST(OnnxContrib, AttentionProjectsAndMasks) {
  Inputs in = {{"x", numbers({2, 4, 6}, 1)},
               {"w", numbers({6, 24}, 2)},
               {"b", numbers({24}, 3)},
               {"lengths", of({4, 2}, {2}, DType::I32)},
               {"nonpad", of({4, 2}, {2}, DType::I64)}};
  auto got = run({fused("Attention", {"x", "w", "b", "lengths"}, {"y"}, {int_attribute("num_heads", 2)})}, in, {"y"});
  std::vector<Message> heads = {int_attribute("q_num_heads", 2), int_attribute("kv_num_heads", 2)};
  auto expected = run({node("MatMul", {"x", "w"}, {"p0"}), node("Add", {"p0", "b"}, {"p"}),
                       node("Split", {"p"}, {"q", "k", "v"}, {int_attribute("axis", -1), int_attribute("num_outputs", 3)}),
                       node("Attention", {"q", "k", "v", "", "", "", "nonpad"}, {"y"}, heads)},
                      in, {"y"});
  expect_equal(got, expected);
}

TEST(OnnxContrib, GroupQueryAttentionRotatesAndAppendsToThePast) {
  Inputs in = {{"q", numbers({1, 2, 16}, 1)},        {"k", numbers({1, 2, 8}, 2)},
               {"v", numbers({1, 2, 8}, 3)},         {"past_k", numbers({1, 2, 3, 4}, 4)},
               {"past_v", numbers({1, 2, 3, 4}, 5)}, {"last", of({4}, {1}, DType::I32)},
               {"total", of({5}, {}, DType::I32)},   {"cos", numbers({8, 2}, 6)},
               {"sin", numbers({8, 2}, 7)},          {"places", of({3, 4}, {1, 2}, DType::I64)}};
  auto got = run({fused("GroupQueryAttention", {"q", "k", "v", "past_k", "past_v", "last", "total", "cos", "sin"}, {"y", "pk", "pv"},
                        {int_attribute("num_heads", 4), int_attribute("kv_num_heads", 2), int_attribute("do_rotary", 1)})},
                 in, {"y", "pk", "pv"});
  auto expected = run({node("RotaryEmbedding", {"q", "cos", "sin", "places"}, {"rq"}, {int_attribute("num_heads", 4)}),
                       node("RotaryEmbedding", {"k", "cos", "sin", "places"}, {"rk"}, {int_attribute("num_heads", 2)}),
                       node("Attention", {"rq", "rk", "v", "", "past_k", "past_v"}, {"y", "pk", "pv"},
                            {int_attribute("q_num_heads", 4), int_attribute("kv_num_heads", 2), int_attribute("is_causal", 1)})},
                      in, {"y", "pk", "pv"});
  expect_equal(got, expected);
}

TEST(OnnxContrib, MatMulNBitsUnpacksItsWeights) {
  constexpr int64_t n = 2, k = 20, blocks = 2, block = 16;  // the last block is not full
  Tensor packed = Tensor::empty({n, blocks, block / 2}, DType::U8), zeros = Tensor::empty({n, blocks / 2}, DType::U8),
         x = numbers({3, k}, 1), scales = numbers({n * blocks}, 2);
  for (int64_t i = 0; i < packed.numel(); ++i) packed.data<uint8_t>()[i] = static_cast<uint8_t>(i * 37 + 11);
  for (int64_t i = 0; i < zeros.numel(); ++i) zeros.data<uint8_t>()[i] = static_cast<uint8_t>(i * 91 + 5);
  auto got = run({fused("MatMulNBits", {"x", "w", "scales", "zeros"}, {"y"},
                        {int_attribute("K", k), int_attribute("N", n), int_attribute("bits", 4), int_attribute("block_size", block)})},
                 {{"x", x}, {"w", packed}, {"scales", scales}, {"zeros", zeros}}, {"y"});
  Tensor expected = Tensor::empty({3, n}, DType::F32);
  auto half = [](const Tensor& t, int64_t i) { return (t.data<uint8_t>()[i / 2] >> (i % 2 * 4)) & 15; };
  for (int64_t row = 0; row < 3; ++row)
    for (int64_t column = 0; column < n; ++column) {
      double sum = 0;
      for (int64_t i = 0; i < k; ++i) {
        int64_t b = column * blocks + i / block;
        sum += static_cast<double>(x.data<float>()[row * k + i] * scales.data<float>()[b]) *
               (half(packed, column * blocks * block + i) - half(zeros, b));
      }
      expected.data<float>()[row * n + column] = static_cast<float>(sum);
    }
  expect_equal(got, {expected});
}

TEST(OnnxContrib, QLinearAddRoundsAndLimits) {
  Tensor a = of({0, 100, 200, 255}, {4}, DType::U8), b = of({10, 20, 30, 255}, {4}, DType::U8);
  Inputs in = {{"a", a},
               {"as", of({0.5}, {}, DType::F32)},
               {"az", of({100}, {}, DType::U8)},
               {"b", b},
               {"bs", of({0.25}, {}, DType::F32)},
               {"bz", of({10}, {}, DType::U8)},
               {"ys", of({1}, {}, DType::F32)},
               {"yz", of({64}, {}, DType::U8)}};
  auto got = run({fused("QLinearAdd", {"a", "as", "az", "b", "bs", "bz", "ys", "yz"}, {"y"})}, in, {"y"}, 2);
  // (a - 100) / 2 + (b - 10) / 4 = -50, 2.5, 55, 138.75
  EXPECT_EQ(got[0].to_vector(), (std::vector<double>{14, 66, 119, 203}));
}

// Numbers of 8 bits, extremes among them.
Tensor bytes(std::vector<int64_t> sizes, DType t, int seed) {
  Tensor out = Tensor::empty(sizes, t);
  auto* to = static_cast<uint8_t*>(static_cast<void*>(out.raw_data()));
  for (int64_t i = 0; i < out.numel(); ++i) to[i] = i % 6 == 0 ? 255 : i % 5 == 0 ? 128 : static_cast<uint8_t>(i * 91 + seed);
  return out;
}

int element_of(DType t) { return t == DType::F32 ? 1 : t == DType::U8 ? 2 : t == DType::I8 ? 3 : 6; }

Message stored(const Input& in) {
  Message m;
  for (int64_t s : in.data.sizes()) m.number(1, s);
  const size_t count = static_cast<size_t>(in.data.numel()) * size_of(in.data.dtype());
  const std::string data(static_cast<const char*>(static_cast<const void*>(in.data.raw_data())), count);
  return m.number(2, element_of(in.data.dtype())).text(9, data).text(8, in.name);
}

// The node with all operands as inputs, which gives what is computed by definition, and with those of `weights` in the file: that must be
// by products of numbers of 8 bits, with the same results.
void expect_same_sums(const Message& node, const char* operation, const Inputs& inputs, const Inputs& weights, int element) {
  GraphParts known, open;
  known.nodes = open.nodes = {node};
  known.outputs = open.outputs = {value_of_any_sizes("y", element)};
  std::vector<Tensor> some, all;
  const auto as_input = [](const Input& in) {
    std::vector<std::string> sizes;
    for (int64_t s : in.data.sizes()) sizes.push_back(std::to_string(s));
    return value_info(in.name, sizes, element_of(in.data.dtype()));
  };
  for (auto& in : inputs) {
    known.inputs.push_back(as_input(in)), open.inputs.push_back(as_input(in));
    some.push_back(in.data), all.push_back(in.data);
  }
  for (auto& in : weights) {
    known.initializers.push_back(stored(in)), open.inputs.push_back(as_input(in));
    all.push_back(in.data);
  }
  const ModelFolder x(known.model(23)), y(open.model(23));
  const auto graph = load_model(x.model(), some);
  EXPECT_TRUE(std::any_of(graph->nodes.begin(), graph->nodes.end(), [&](auto& n) { return n->op->name == operation; }));
  const Tensor got = graph::interpret(*graph, some)[0], want = graph::interpret(*load_model(y.model(), all), all)[0];
  EXPECT_EQ(got.sizes(), want.sizes());
  EXPECT_EQ(got.to_vector(), want.to_vector());
}

TEST(OnnxQuantization, KnownWeightsGiveTheSameSums) {
  constexpr int64_t m = 3, k = 9, n = 5;
  for (DType left : {DType::U8, DType::I8})
    for (DType right : {DType::U8, DType::I8})
      for (const Tensor& zero_b : {Tensor::of({0}, {}, right), Tensor::of({100}, {1}, right), Tensor::of({0, 1, 100, 127, 3}, {n}, right)})
        for (const Tensor& zero_a : {Tensor::of({0}, {}, left), Tensor::of({77}, {}, left), Tensor::of({1, 2, 99}, {m}, left)})
          expect_same_sums(node("MatMulInteger", {"a", "b", "za", "zb"}, {"y"}), "_int_mm",
                           {{"a", bytes({2, m, k}, left, 1)}, {"za", zero_a}}, {{"b", bytes({k, n}, right, 2)}, {"zb", zero_b}},
                           element_of(DType::I32));
}

TEST(OnnxQuantization, KnownKernelsGiveTheSameSums) {
  const auto list = [](const std::string& name, std::vector<int64_t> values) {
    Message m = Message().text(1, name).number(20, 7);
    for (int64_t v : values) m.number(8, v);
    return m;
  };
  constexpr int64_t out = 3;
  for (int64_t stride : {1, 2})
    for (DType right : {DType::U8, DType::I8})
      for (const Tensor& zero_b : {Tensor::of({100}, {}, right), Tensor::of({0, 1, 99}, {out}, right)})
        expect_same_sums(node("QLinearConv", {"a", "sa", "za", "b", "sb", "zb", "sy", "zy", "bias"}, {"y"},
                              {list("pads", {1, 0, 2, 1}), list("strides", {stride, 1}), list("dilations", {1, 2})}),
                         "_int_convolution", {{"a", bytes({2, 4, 7, 6}, DType::U8, 1)}},
                         {{"b", bytes({out, 4, 3, 2}, right, 2)},
                          {"sa", of({0.02}, {}, DType::F32)},
                          {"za", of({117}, {}, DType::U8)},
                          {"sb", of({0.01, 0.02, 0.003}, {out}, DType::F32)},
                          {"zb", zero_b},
                          {"sy", of({1.5}, {}, DType::F32)},
                          {"zy", of({120}, {}, DType::U8)},
                          {"bias", of({-900, 0, 1234}, {out}, DType::I32)}},
                         element_of(DType::U8));
}

TEST(OnnxContrib, UnknownAttributesAreRefused) {
  Inputs in = {{"x", numbers({2, 2}, 1)}};
  EXPECT_TRUE(refuses([&] { run({node("Relu", {"x"}, {"y"}, {int_attribute("sideways", 1)})}, in, {"y"}); }, "the attribute \"sideways\""));
}

}  // namespace
}  // namespace toroid::import::onnx
