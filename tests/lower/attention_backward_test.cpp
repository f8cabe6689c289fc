// The gradient of attention as a problem means what the operation is made of.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "graph/interpreter.h"
#include "lower/lowering.h"
#include "program/interpret.h"
#include "program/parse.h"
#include "program/verify.h"
#include "toroid/error.h"

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

std::unique_ptr<graph::Graph> graph_of(int64_t keys, bool causal) {
  return graph::parse(fmt::format(R"(
graph "g"(%grad: f32[2, 4, 6, 8], %q: f32[2, 4, 6, 8], %k: f32[2, 2, {0}, 8], %v: f32[2, 2, {0}, 8]) {{
  %out: f32[2, 4, 6, 8], %logarithms: f32[2, 4, 6] = _scaled_dot_product_flash_attention_for_cpu(%q, %k, %v, is_causal={1}, scale=0.4)
  %dq: f32[2, 4, 6, 8], %dk: f32[2, 2, {0}, 8], %dv: f32[2, 2, {0}, 8] = _scaled_dot_product_flash_attention_for_cpu_backward(%grad, %q, %k, %v, %out, %logarithms, 0.0, {1}, scale=0.4)
  return %dq, %dk, %dv, %logarithms
}}
)",
                                  keys, causal));
}

program::Program lowered_whole(const graph::Graph& g) {
  const AttentionTemplates target;
  return lower(g, {.target = &target});
}

bool is_gradient(const program::Node& n) { return program::is_a<program::AttentionBackward>(n.problem); }

void check(int64_t keys, bool causal) {
  SCOPED_TRACE(causal ? "causal" : "all keys");
  const auto graph = graph_of(keys, causal);
  const std::vector<Tensor> inputs = {numbers({2, 4, 6, 8}, 1), numbers({2, 4, 6, 8}, 2), numbers({2, 2, keys, 8}, 3),
                                      numbers({2, 2, keys, 8}, 4)};
  const program::Program p = lowered_whole(*graph);
  EXPECT_EQ(std::count_if(p.nodes.begin(), p.nodes.end(), is_gradient), 1);
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

TEST(AttentionBackward, ReadsBackAsTheSameProgram) {
  const std::string text = program::to_string(lowered_whole(*graph_of(6, true)));
  EXPECT_EQ(program::to_string(program::parse(text)), text);
}

// The gradient of the queries is added to: what it begins with has to be there.
TEST(AttentionBackward, NeedsWhatItAddsTo) {
  program::Program p = lowered_whole(*graph_of(6, true));
  EXPECT_NO_THROW(program::verify(p, program::Stage::Lowered, "lowering"));
  const auto node = std::find_if(p.nodes.begin(), p.nodes.end(), is_gradient);
  const int sums = std::get<program::AttentionBackward>(node->problem).grad_query.buffer;
  std::erase_if(p.nodes, [&](const program::Node& n) { return n.is_loop() && program::writes(n) == std::vector<int>{sums}; });
  EXPECT_THROW(program::verify(p, program::Stage::Lowered, "the test"), InternalError);
}

}  // namespace
}  // namespace toroid::lower
