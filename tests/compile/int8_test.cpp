// Products of whole numbers of 8 bits: which kernels they become, and that these are exact.
#include <gtest/gtest.h>

#include <algorithm>

#include "compile/harness.h"
#include "front/compile_model.h"
#include "graph/interpreter.h"
#include "ops/op.h"

namespace toroid {
namespace {

using ops::call1;
using test::Forward;

Tensor numbers(const std::vector<int64_t>& sizes, DType t, int seed) {
  Tensor out = Tensor::empty(sizes, t);
  auto* bytes = static_cast<uint8_t*>(static_cast<void*>(out.raw_data()));
  for (int64_t i = 0; i < out.numel(); ++i) bytes[i] = i % 7 == 0 ? 128 : i % 5 == 0 ? 127 : static_cast<uint8_t>(i * 37 + seed);
  return out;
}

Tensor of(double value, const std::vector<int64_t>& sizes, DType t = DType::F32) { return Tensor::full(sizes, value, t); }

// Names of the steps that the program becomes; its results are the interpreter's, or differ by at most `most`.
std::string steps_of(const Forward& forward, const std::vector<Tensor>& inputs, double most = 0) {
  auto graph = test::graph_of(forward, inputs);
  const auto want = graph::interpret(*graph, inputs)[0].to_vector();
  auto model = front::compile_model(std::move(graph));
  const auto got = model.run(inputs)[0].to_vector();
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], most) << "element " << i;
  std::string names;
  for (auto& s : model.executable().plan().steps) names += std::visit([](auto& step) { return step.name; }, s) + " ";
  return names;
}

TEST(Int8, ConstantWeightsArePackedAndTheEpilogueIsFused) {
  const Tensor w = numbers({70, 101}, DType::I8, 3), scale = of(0.0078125, {101}), bias = of(3, {101});
  const Forward requantized = [&](const std::vector<Tensor>& in) {
    Tensor y = call1("to.dtype", {call1("_int_mm", {in[0], w}), DType::F32});
    y = call1("relu", {call1("add.Tensor", {call1("mul.Tensor", {y, scale}), bias})});
    return call1("to.dtype", {call1("clamp", {call1("round", {y}), 0.0, 255.0}), DType::U8});
  };
  for (DType t : {DType::I8, DType::U8}) {
    const std::string names = steps_of(requantized, {numbers({13, 70}, t, 1)});
    EXPECT_TRUE(names.starts_with("gemm_int8_") && names.find(' ') == names.size() - 1) << names;
  }
}

TEST(Int8, LongSumsOfExtremes) {
  const Tensor w = of(-128, {4000, 5}, DType::I8);
  const Forward product = [&](const std::vector<Tensor>& in) { return call1("_int_mm", {in[0], w}); };
  for (const Tensor& x : {of(255, {2, 4000}, DType::U8), of(-128, {2, 4000}, DType::I8)}) EXPECT_EQ(steps_of(product, {x}), "gemm_int8 ");
}

Tensor zero_of(double value) { return of(value, {}, DType::U8); }
Tensor dequantized(const Tensor& x, double scale, const Tensor& zero) {
  const Tensor whole = call1("sub.Tensor", {call1("to.dtype", {x, DType::I32}), call1("to.dtype", {zero, DType::I32})});
  return call1("mul.Tensor", {call1("to.dtype", {whole, DType::F32}), of(scale, {})});
}
Tensor quantized(const Tensor& x, double scale, const Tensor& zero) {
  const Tensor whole =
      call1("add.Tensor", {call1("round", {call1("div.Tensor", {x, of(scale, {})})}), call1("to.dtype", {zero, DType::F32})});
  return call1("to.dtype", {call1("clamp", {whole, 0.0, 255.0}), zero.dtype()});
}

// A residual block in QDQ form: numbers of 8 bits are all that its kernels read and write.
TEST(Int8, ConvolutionsBetweenQuantizations) {
  const std::vector<Expr> one = {1, 1}, none = {0, 0};
  const auto layer = [&](const Tensor& x, const Tensor& w, int64_t groups) {
    const Tensor bias = dequantized(numbers({16}, DType::I8, 5), 0.01, of(0, {}, DType::I8));
    const std::vector<Expr> padding = w.sizes()[2] == 3 ? one : none;
    return call1("convolution", {x, dequantized(w, 0.002, of(0, {}, DType::I8)), bias, one, padding, one, false, none, Expr(groups)});
  };
  const Tensor zero = zero_of(120), low = zero_of(0);
  const Forward block = [&](const std::vector<Tensor>& in) {
    const Tensor x = dequantized(in[0], 0.02, zero);
    Tensor y = call1("relu", {layer(x, numbers({16, 16, 3, 3}, DType::I8, 1), 1)});
    y = dequantized(quantized(y, 0.03, low), 0.03, low);
    y = dequantized(quantized(layer(y, numbers({16, 1, 3, 3}, DType::I8, 2), 16), 0.01, zero), 0.01, zero);
    y = dequantized(quantized(layer(y, numbers({16, 16, 1, 1}, DType::I8, 3), 1), 0.02, zero), 0.02, zero);
    return quantized(call1("relu", {call1("add.Tensor", {x, y})}), 0.03, low);
  };
  const std::string names = steps_of(block, {numbers({2, 16, 7, 9}, DType::U8, 1)}, 1);
  EXPECT_NE(names.find("conv_depthwise_int8_"), std::string::npos) << names;
  EXPECT_EQ(std::count(names.begin(), names.end(), ' '), 4) << "one for the channels-last copy of the input, in " << names;
}

TEST(Int8, OtherOperandsAreLoops) {
  const Forward product = [&](const std::vector<Tensor>& in) { return call1("_int_mm", {in[0], in[1]}); };
  const std::string names = steps_of(product, {numbers({5, 19}, DType::U8, 1), numbers({19, 33}, DType::I8, 2)});
  EXPECT_EQ(names.find("gemm"), std::string::npos) << names;
}

}  // namespace
}  // namespace toroid
