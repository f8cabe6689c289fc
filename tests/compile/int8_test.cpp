// Products of whole numbers of 8 bits: which kernels they become, and that these are exact.
#include <gtest/gtest.h>

#include "compile/harness.h"
#include "compile/model.h"
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

// Names of the steps that the program becomes; its results are the interpreter's.
std::string steps_of(const Forward& forward, const std::vector<Tensor>& inputs) {
  auto graph = test::graph_of(forward, inputs);
  const auto want = graph::interpret(*graph, inputs);
  auto model = compiler::CompiledModel::compile(std::move(graph));
  EXPECT_EQ(model.run(inputs)[0].to_vector(), want[0].to_vector());
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

TEST(Int8, OtherOperandsAreLoops) {
  const Forward product = [&](const std::vector<Tensor>& in) { return call1("_int_mm", {in[0], in[1]}); };
  const std::string names = steps_of(product, {numbers({5, 19}, DType::U8, 1), numbers({19, 33}, DType::I8, 2)});
  EXPECT_EQ(names.find("gemm"), std::string::npos) << names;
}

}  // namespace
}  // namespace toroid
