// How far compiled sums are from exact ones: they are made in blocks, so that errors hardly grow with the number of terms.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "compile/traced.h"
#include "front/compile_model.h"
#include "graph/interpreter.h"
#include "toroid/ops.h"

namespace toroid {
namespace {

using test::Function;
using test::Tensors;

Tensor drawn(const std::vector<int64_t>& sizes, double mean) {
  Tensor t = Tensor::empty(sizes, DType::F32);
  std::mt19937 random(static_cast<unsigned>(t.numel()));
  std::normal_distribution<float> values(static_cast<float>(mean), 1);
  for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = values(random);
  return t;
}

// The root mean square of errors, relative to that of results. Sums of the interpreter are f64.
double error_of(const Function& f, const Tensors& inputs) {
  const auto got = front::compile_model(test::graph_of(f, inputs)).run(inputs).at(0).to_vector();
  Tensors wide;
  for (auto& t : inputs) wide.push_back(Tensor::of(t.to_vector(), t.sizes(), DType::F64));
  const auto exact = graph::interpret(*test::graph_of(f, wide), wide).at(0).to_vector();
  double errors = 0, results = 0;
  for (size_t i = 0; i < exact.size(); ++i) errors += std::pow(got.at(i) - exact[i], 2), results += exact[i] * exact[i];
  return std::sqrt(errors / results);
}

// One chain of additions has errors of 1e-7 to 2.5e-7 where the bound is 7e-8, and of 8e-7 or more where it is 5e-7 or 6e-7.
TEST(SumAccuracy, OfLoops) {
  const auto sum_of = [](std::vector<int64_t> dims) { return [dims](const Tensors& in) { return Tensors{sum(in[0], dims)}; }; };
  EXPECT_LT(error_of(sum_of({1}), {drawn({16, 50000}, 1)}), 7e-8);
  EXPECT_LT(error_of(sum_of({0}), {drawn({50000, 16}, 1)}), 7e-8);
  EXPECT_LT(error_of(sum_of({1}), {drawn({8, 20000, 16}, 1)}), 7e-8);
  EXPECT_LT(error_of(sum_of({0, 2}), {drawn({64, 8, 3000}, 1)}), 7e-8);
  EXPECT_LT(error_of(sum_of({0, 2}), {drawn({30000, 8, 5}, 1)}), 7e-8);
}

TEST(SumAccuracy, OfProducts) {
  const Function product = [](const Tensors& in) { return Tensors{matmul(in[0], in[1])}; };
  EXPECT_LT(error_of(product, {drawn({32, 4096}, 0), drawn({4096, 64}, 0)}), 5e-7);
  EXPECT_LT(error_of(product, {drawn({1, 4096}, 0), drawn({4096, 64}, 0)}), 5e-7);
  EXPECT_LT(error_of(product, {drawn({64, 4096}, 0), drawn({4096}, 0)}), 5e-7);
  EXPECT_LT(error_of(product, {drawn({100000}, 1), drawn({100000}, 1)}), 2e-7);
  EXPECT_LT(error_of([](const Tensors& in) { return Tensors{matmul(in[0], transpose(in[1], 1, 2))}; },
                     {drawn({3, 20, 4096}, 0), drawn({3, 24, 4096}, 0)}),
            5e-7);
}

TEST(SumAccuracy, OfConvolutionsAndAttention) {
  const Tensor weight = drawn({32, 2048, 1, 1}, 0);
  EXPECT_LT(error_of([&](const Tensors& in) { return Tensors{conv2d(in[0], to(weight, in[0].dtype()))}; }, {drawn({1, 2048, 8, 8}, 0)}),
            5e-7);
  const Function attention = [](const Tensors& in) { return Tensors{scaled_dot_product_attention(in[0], in[1], in[2])}; };
  for (int64_t queries : {1, 64})
    EXPECT_LT(error_of(attention, {drawn({1, 2, queries, 64}, 0), drawn({1, 2, 2048, 64}, 0), drawn({1, 2, 2048, 64}, 0)}), 6e-7);
}

}  // namespace
}  // namespace toroid
