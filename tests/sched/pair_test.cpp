// Products of a gate and what it opens.
#include "sched/pair.h"

#include <gtest/gtest.h>

#include "sched/targets.h"

namespace toroid::sched {
namespace {

constexpr int64_t kRows = 64, kHalf = 96, kDepth = 32;

// Buffers: 0 a, 1 b [2 * kHalf, kDepth], 2 their product, 3 what the loop makes of it.
program::Program program_of(const std::string& loop_text) {
  program::Program p;
  using Kind = loop::BufferKind;
  p.new_buffer("a", DType::BF16, kRows * kDepth, Kind::Input);
  p.new_buffer("b", DType::BF16, 2 * kHalf * kDepth, Kind::Constant);
  p.new_buffer("product", DType::BF16, kRows * 2 * kHalf, Kind::Temporary);
  p.new_buffer("out", DType::BF16, kRows * kHalf, Kind::Output);
  program::Node product;
  program::Gemm g;
  g.m = kRows, g.n = 2 * kHalf, g.k = kDepth;
  g.a = {0, DType::BF16, 0, {kDepth, 1}};
  g.b = {1, DType::BF16, 0, {1, kDepth}};
  product.problem = g;
  loop::Nest nest = loop::parse("loop (i0: 64, i1: 192) {\n v0: f32 = accumulate\n v1: bf16 = Cast v0\n store %2 [i0*192 + i1] v1\n}");
  product.domain = nest.domain, product.body = nest.body;
  program::Node gate;
  nest = loop::parse(loop_text);
  gate.domain = nest.domain, gate.body = nest.body;
  p.nodes = {product, gate};
  return p;
}

std::string gate(const std::string& first, const std::string& second) {
  return "loop (j0: 64, j1: 96) {\n v0: bf16 = load %2 [" + first + "]\n v1: bf16 = load %2 [" + second +
         "]\n v2: f32 = Cast v0\n v3: f32 = Sigmoid v2\n v4: f32 = Cast v1\n v5: f32 = Mul v3 v4\n v6: bf16 = Cast v5\n store %3 [j0*96 + "
         "j1] v6\n}";
}

TEST(PairProducts, AGateJoinsItsProduct) {
  const program::Program p = pair_products(program_of(gate("j0*192 + j1", "j0*192 + j1 + 96")), Answering(""));
  ASSERT_EQ(p.nodes.size(), 1u);
  const auto& g = std::get<program::Gemm>(p.nodes[0].problem);
  EXPECT_EQ(g.n, Expr(kHalf));
  ASSERT_TRUE(g.b2);
  EXPECT_EQ(g.b2->offset, Expr(kHalf * kDepth));
  EXPECT_EQ(program::writes(p.nodes[0]), std::vector<int>{3});
  EXPECT_EQ(program::reads(p.nodes[0]), (std::vector<int>{0, 1}));
  loop::verify(p.nodes[0].domain, p.nodes[0].body, "pair");
  const std::string text = loop::to_string(p.nodes[0].domain, p.nodes[0].body);
  EXPECT_NE(text.find("accumulate second"), std::string::npos) << text;
  const loop::Nest again = loop::parse(text);
  EXPECT_EQ(text, loop::to_string(again.domain, again.body));
}

TEST(PairProducts, OthersStayApart) {
  const Answering takes("");
  EXPECT_EQ(pair_products(program_of(gate("j0*192 + j1", "j0*192 + j1 + 95")), takes).nodes.size(), 2u) << "not half apart";
  EXPECT_EQ(pair_products(program_of(gate("j0*192 + j1*2", "j0*192 + j1*2 + 1")), takes).nodes.size(), 2u) << "neighbours";
  FusionReport report;
  EXPECT_EQ(pair_products(program_of(gate("j0*192 + j1", "j0*192 + j1 + 96")), Answering("no"), &report).nodes.size(), 2u);
  ASSERT_EQ(report.misses.size(), 1u);
  EXPECT_EQ(report.misses[0].reason, "no");
  program::Program p = program_of(gate("j0*192 + j1", "j0*192 + j1 + 96"));
  p.nodes.push_back(p.nodes[1]);
  EXPECT_EQ(pair_products(p, takes).nodes.size(), 3u) << "another reader";
}

}  // namespace
}  // namespace toroid::sched
