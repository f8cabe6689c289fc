// A matrix by a vector is a loop, however both lie in memory, unless weights are packed or streamed.
#include <gtest/gtest.h>

#include "compile/traced.h"
#include "front/compile_model.h"
#include "graph/interpreter.h"
#include "toroid/ops.h"

namespace toroid {
namespace {

using test::Tensors;

Tensor drawn(const std::vector<int64_t>& sizes) {
  Tensor t = Tensor::empty(sizes, DType::F32);
  for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>(i * 7919 % 101) / 50 - 1;
  return t;
}

bool has_template(compiler::CompiledModel model) {
  bool out = false;
  for (auto& s : model.executable().plan().steps) std::visit([&](auto& step) { out = out || step.name.starts_with("gem"); }, s);
  return out;
}

struct Sizes {
  std::vector<int64_t> batch;
  int64_t m, n, k;
};

TEST(VectorProducts, AreLoops) {
  for (const Sizes& s :
       {Sizes{{}, 300, 1, 200}, {{}, 1, 300, 200}, {{}, 1, 1, 50000}, {{4}, 30, 1, 100}, {{4}, 1, 30, 100}, {{2, 3}, 1, 64, 33}})
    for (bool a_across : {false, true})
      for (bool b_across : {false, true}) {
        const auto sizes_of = [&](int64_t rows, int64_t columns, bool across) {
          std::vector<int64_t> sizes = s.batch;
          sizes.insert(sizes.end(), {across ? columns : rows, across ? rows : columns});
          return sizes;
        };
        const Tensors inputs = {drawn(sizes_of(s.m, s.k, a_across)), drawn(sizes_of(s.k, s.n, b_across))};
        const auto f = [&](const Tensors& in) {
          return Tensors{relu(matmul(a_across ? transpose(in[0], -1, -2) : in[0], b_across ? transpose(in[1], -1, -2) : in[1]))};
        };
        auto model = front::compile_model(test::graph_of(f, inputs));
        const std::string label = fmt::format("{}x{}x{}, across: {} {}", s.m, s.n, s.k, a_across, b_across);
        const bool streamed = s.batch.empty() && s.m == 1 && s.n > 1 && b_across;  // rows of weights: a template reads them as they lie
        EXPECT_EQ(has_template(front::compile_model(test::graph_of(f, inputs))), streamed) << label;
        const auto got = model.run(inputs).at(0).to_vector(), want = graph::interpret(*test::graph_of(f, inputs), inputs).at(0).to_vector();
        for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got.at(i), want[i], 1e-4) << label;
      }
}

// Weights that are constants are packed when the program is compiled.
TEST(VectorProducts, OfConstantWeightsAreNot) {
  const Tensor weight = drawn({200, 300}), x = drawn({1, 200});
  EXPECT_TRUE(has_template(front::compile_model(test::graph_of([&](const Tensors& in) { return Tensors{matmul(in[0], weight)}; }, {x}))));
}

}  // namespace
}  // namespace toroid
