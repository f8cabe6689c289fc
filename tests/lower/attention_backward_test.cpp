// The gradient of attention as a problem means what the operation is made of.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "graph/interpreter.h"
#include "lower/lowering.h"
#include "program/interpret.h"

namespace toroid::lower {
namespace {

struct AttentionTemplates : target::Target {
  AttentionTemplates() : Target({}) {}
  std::string refusal(const program::Problem& problem, const target::Question&) const override {
    return program::is_a<program::Attention>(problem) || program::is_a<program::AttentionBackward>(problem) ? "" : "others are loops";
  }
};

Tensor numbers(const std::vector<int64_t>& sizes, uint32_t seed) {
  Tensor t = Tensor::empty(sizes, DType::F32);
  for (int64_t i = 0; i < t.numel(); ++i) {
    seed = seed * 1664525u + 1013904223u;
    t.data<float>()[i] = static_cast<float>(static_cast<int32_t>(seed) * 0x1p-31);
  }
  return t;
}

void check(int64_t keys, bool causal) {
  SCOPED_TRACE(causal ? "causal" : "all keys");
  const auto graph = graph::parse(fmt::format(R"(
graph "g"(%grad: f32[2, 4, 6, 8], %q: f32[2, 4, 6, 8], %k: f32[2, 2, {0}, 8], %v: f32[2, 2, {0}, 8]) {{
  %out: f32[2, 4, 6, 8], %logarithms: f32[2, 4, 6] = _scaled_dot_product_flash_attention_for_cpu(%q, %k, %v, is_causal={1}, scale=0.4)
  %dq: f32[2, 4, 6, 8], %dk: f32[2, 2, {0}, 8], %dv: f32[2, 2, {0}, 8] = _scaled_dot_product_flash_attention_for_cpu_backward(%grad, %q, %k, %v, %out, %logarithms, 0.0, {1}, scale=0.4)
  return %dq, %dk, %dv, %logarithms
}}
)",
                                              keys, causal));
  const std::vector<Tensor> inputs = {numbers({2, 4, 6, 8}, 1), numbers({2, 4, 6, 8}, 2), numbers({2, 2, keys, 8}, 3),
                                      numbers({2, 2, keys, 8}, 4)};
  const AttentionTemplates target;
  const program::Program p = lower(*graph, {.target = &target});
  EXPECT_EQ(std::count_if(p.nodes.begin(), p.nodes.end(), [](auto& n) { return program::is_a<program::AttentionBackward>(n.problem); }), 1);
  const auto got = program::interpret(p, inputs), want = graph::interpret(*graph, inputs);
  for (size_t i = 0; i < want.size(); ++i) {
    const auto x = got[i].to_vector(), y = want[i].to_vector();
    ASSERT_EQ(x.size(), y.size());
    for (size_t e = 0; e < x.size(); ++e) ASSERT_NEAR(x[e], y[e], 1e-5) << "result " << i << ", element " << e;
  }
}

TEST(AttentionBackward, MeansItsParts) {
  check(6, true);
  check(6, false);
  check(9, false);
}

}  // namespace
}  // namespace toroid::lower
