// Which nodes of small programs are joined, absorbed or share a launch.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "sched/domain_map.h"
#include "sched/share.h"
#include "sched/split.h"
#include "sched/targets.h"

namespace toroid::sched {
namespace {

using program::Node;
using program::Program;

Node loop_node(const std::string& text) {
  loop::Nest nest = loop::parse(text);
  Node n;
  n.domain = nest.domain, n.body = nest.body;
  return n;
}

// %0 x [m, k], %1 its rows' roots (temporary), %2 weight [k, n], %3 out [m, n].
struct Sizes {
  int64_t m = 8, n = 512, k = 96;
};
Program product_of_roots(const Sizes& s = {}, const std::string& index = "", DType dtype = DType::F32) {
  Program p;
  p.new_buffer("x", DType::F32, s.m * s.k, loop::BufferKind::Input);
  p.new_buffer("roots", dtype, s.m * s.k, loop::BufferKind::Temporary);
  p.new_buffer("weight", DType::F32, s.k * s.n, loop::BufferKind::Constant);
  p.new_buffer("out", DType::F32, s.m * s.n, loop::BufferKind::Output);
  const std::string at = fmt::format("i0*{} + i1", s.k), type(name_of(dtype));
  p.nodes.push_back(
      loop_node(fmt::format("loop (i0: {}, i1: {}) {{\n v0: f32 = load %0 [{}]\n v1: f32 = Sqrt v0\n v2: {} = Cast v1\n store %1 "
                            "[{}] v2\n}}",
                            s.m, s.k, at, type, index.empty() ? at : index)));
  Node product = loop_node(fmt::format("loop (j0: {}, j1: {}) {{\n v0: f32 = accumulate\n store %3 [j0*{} + j1] v0\n}}", s.m, s.n, s.n));
  program::Gemm g;
  g.m = s.m, g.n = s.n, g.k = s.k;
  g.a = {1, dtype, 0, {s.k, 1}};
  g.b = {2, DType::F32, 0, {s.n, 1}};
  product.problem = g;
  p.nodes.push_back(product);
  return p;
}

std::string miss(Program p, int threads = 2) {
  FusionReport report;
  const size_t before = p.nodes.size();
  p = absorb_producers(std::move(p), Threads(threads), &report);
  EXPECT_EQ(p.nodes.size(), before);
  return report.misses.empty() ? "" : report.misses.back().reason;
}

TEST(AbsorbProducers, OnlyReaderOfALoopTakesItsRows) {
  const Program p = absorb_producers(product_of_roots(), Threads(2));
  ASSERT_EQ(p.nodes.size(), 1u);
  ASSERT_TRUE(p.nodes[0].producer);
  EXPECT_EQ(program::reads(p.nodes[0]), (std::vector<int>{0, 2}));
  EXPECT_EQ(loop::to_string(p.nodes[0].producer->domain, p.nodes[0].producer->body),
            "loop (i0: 8, i1: 96) {\n  v0: f32 = load %0 [96*i0 + i1]\n  v1: f32 = Sqrt v0\n  v2: f32 = Cast v1\n  store %1 [i1] v2\n}\n");
}

TEST(AbsorbProducers, RowsStayWideWhereMemoryWasNarrow) {
  const Program p = absorb_producers(product_of_roots({}, "", DType::BF16), Threads(2));
  ASSERT_EQ(p.nodes.size(), 1u);
  EXPECT_EQ(std::get<program::Gemm>(p.nodes[0].problem).a.dtype, DType::F32);
  EXPECT_EQ(p.nodes[0].producer->body.steps.back().dtype, DType::F32);
}

TEST(AbsorbProducers, WhatIsComputedOnceARowDoesNotCountForEveryElement) {
  Program p = product_of_roots({128, 2048, 2048});
  p.nodes[0] = loop_node(
      "loop (i0: 128, r r0: 2048) {\n v0: f32 = load %0 [i0*2048 + r0]\n v1: f32 = Mul v0 v0\n v2: f32 = reduce sum v1\n"
      " v3: f32 = Exp v2\n v4: f32 = Mul v0 v3\n store %1 [i0*2048 + r0] v4\n}");
  EXPECT_EQ(absorb_producers(p, Threads(4)).nodes.size(), 1u);
  p.nodes[0] = loop_node(
      "loop (i0: 128, i1: 2048) {\n v0: f32 = load %0 [i0*2048 + i1]\n v1: f32 = Exp v0\n v2: f32 = Mul v0 v1\n"
      " store %1 [i0*2048 + i1] v2\n}");
  EXPECT_EQ(miss(p, 4), "several threads would compute the same rows, and that costs more than a launch");
}

TEST(AbsorbProducers, OthersStayApart) {
  EXPECT_EQ(miss(product_of_roots({8, 512, 8}, "i1*8 + i0")), "the first does not compute the rows that the second reads");
  EXPECT_EQ(miss(product_of_roots({64, 32, 4096}), 32), "several threads would compute the same rows, and that costs more than a launch");
  Program second_reader = product_of_roots();
  second_reader.nodes.push_back(loop_node("loop (i0: 8) {\n v0: f32 = load %1 [i0]\n store %3 [i0] v0\n}"));
  EXPECT_EQ(miss(second_reader), "");
  Program overwritten = product_of_roots();
  overwritten.nodes.insert(overwritten.nodes.begin() + 1, loop_node("loop (i0: 8) {\n v0: f32 = const 1\n store %0 [i0] v0\n}"));
  EXPECT_EQ(miss(overwritten), "what the first reads is overwritten before the second runs");
  Program over_itself = product_of_roots();
  over_itself.nodes[1].body.steps.back().buffer = 0;
  EXPECT_EQ(miss(over_itself), "what the first reads is overwritten before the second runs");
}

TEST(ShareLaunches, NeighboursThatTouchNothingOfEachOther) {
  const std::string copy_to = "loop (i0: 8) {{\n v0: f32 = load %{} [i0]\n store %{} [i0] v0\n}}";
  const auto count = [&](const std::vector<std::pair<int, int>>& copies) {
    Program p;
    for (auto [from, to] : copies) p.nodes.push_back(loop_node(fmt::format(fmt::runtime(copy_to), from, to)));
    return share_launches(std::move(p)).nodes.size();
  };
  EXPECT_EQ(count({{0, 1}, {0, 2}, {3, 4}}), 1u);
  EXPECT_EQ(count({{0, 1}, {1, 2}}), 2u);
  EXPECT_EQ(count({{0, 1}, {2, 0}}), 2u);
  EXPECT_EQ(count({{0, 1}, {2, 1}}), 2u);
  EXPECT_EQ(count({{0, 1}, {2, 3}, {1, 4}}), 2u);
  Program sums;
  for (int i : {0, 1})
    sums.nodes.push_back(
        loop_node(fmt::format("loop (r r0: 8) {{\n v0: f32 = load %{} [r0]\n v1: f32 = reduce sum v0\n store %{} [0] v1\n}}", i, 2 + i)));
  EXPECT_EQ(share_launches(sums).nodes.size(), 2u);
}

// What a program of loops leaves in its last buffer, which holds `results` values: %0 is [2 * length] of a few different numbers.
std::vector<float> run(const Program& p, int64_t length, size_t results) {
  std::vector<std::vector<float>> memory;
  std::vector<std::byte*> at;
  for (auto& b : p.buffers) memory.emplace_back(static_cast<size_t>(2 * b.numel.constant()));  // also where elements are I64
  for (auto& m : memory) at.push_back(reinterpret_cast<std::byte*>(m.data()));
  for (int64_t i = 0; i < 2 * length; ++i) memory[0][static_cast<size_t>(i)] = static_cast<float>(i * 7919 % 1013);
  for (auto& n : p.nodes) {
    loop::verify(n.domain, n.body, "split");
    loop::interpret(n.domain, n.body, p.buffers, at, [](const sym::Node&) { return 0; });
  }
  memory[1].resize(results);
  return memory[1];
}

Program reduction(const std::string& text, int64_t length) {
  Program p;
  p.new_buffer("x", DType::F32, 2 * length, loop::BufferKind::Input);
  p.new_buffer("out", DType::F32, 8, loop::BufferKind::Output);
  p.nodes.push_back(loop_node(text));
  return p;
}

TEST(SplitReductions, TwoLoopsFoldWhatOneDid) {
  const int64_t length = 1 << 17;
  for (const char* domain : {"i0: 2, r r0: 131072", "i0: 2, r r0: 1024, r r1: 128"}) {
    const std::string at = std::string(domain).size() > 25 ? "i0*131072 + r0*128 + r1" : "i0*131072 + r0";
    const Program one =
        reduction(std::string("loop (") + domain + ") {\n v0: f32 = load %0 [" + at +
                      "]\n v1: f32 = load %0 [i0]\n v2: f32 = Add v0 v1\n v3: f32 = reduce max v2\n v4: i64 = reduce argmax v2\n "
                      "v5: i64 = reduce argmin v0\n v6: f32 = Cast v4\n v7: f32 = Cast v5\n v8: f32 = reduce sum v0\n v9: f32 "
                      "= Add v8 v1\n store %1 [4*i0] v3\n store %1 [4*i0 + 1] v6\n store %1 [4*i0 + 2] v7\n store %1 [4*i0 + 3] "
                      "v9\n}",
                  length);
    FusionReport report;
    const Program two = split_reductions(one, 2, &report);
    ASSERT_EQ(two.nodes.size(), 2u);
    EXPECT_EQ(two.nodes[0].domain.vars[1].extent().constant(), 16);  // parts of 8192
    EXPECT_EQ(run(one, length, 8), run(two, length, 8));
  }
}

TEST(SplitReductions, OthersStayOneLoop) {
  auto reason = [](const std::string& text, int threads = 2) {
    FusionReport report;
    const Program p = split_reductions(reduction(text, 1 << 17), threads, &report);
    EXPECT_EQ(p.nodes.size(), 1u) << text;
    return report.unsplit.empty() ? "" : report.unsplit[0].reason;
  };
  const std::string load = "v0: f32 = load %0 [r0]\n ", sum = load + "v1: f32 = reduce sum v0\n ";
  EXPECT_EQ(reason("loop (r r0: 131072) {\n " + sum + "store %1 [0] v1\n}", 1), "");
  EXPECT_EQ(reason("loop (r r0: 1024) {\n " + sum + "store %1 [0] v1\n}"), "");
  EXPECT_EQ(reason("loop (i0: 8, r r0: 131072) {\n " + sum + "store %1 [i0] v1\n}"), "");
  EXPECT_EQ(reason("loop (r r0: 131101) {\n " + sum + "store %1 [0] v1\n}"), "its rows cannot be divided evenly");
  EXPECT_EQ(reason("loop (r r0: 131072) {\n " + sum + "v2: f32 = Sub v0 v1\n v3: f32 = reduce sum v2\n store %1 [0] v3\n}"),
            "it takes several passes over its rows");
  EXPECT_EQ(reason("loop (r r0: 131072) {\n " + sum + "store %0 [r0] v0\n store %1 [0] v1\n}"),
            "it writes an element for each that it reads");
  EXPECT_EQ(reason("loop (r r0: 131072) {\n " + load + "v1: f32 = scan sum v0\n store %0 [r0] v1\n}"),
            "a scan goes through its rows in order");
}

TEST(MatchDomains, VariablesOfTheFixedSideStandForFinerOnes) {
  const loop::Domain product = loop::parse("loop (m: 6, n: 12) {\n}").domain, heads = loop::parse("loop (i0: 6, h: 3, d: 4) {\n}").domain;
  const std::optional<Match> m = match_domains(product, heads, true);
  ASSERT_TRUE(m);
  const Expr n = product.vars[1].symbol;
  EXPECT_EQ(m->second.at(heads.vars[1].symbol), sym::floor_div(n, 4));
  EXPECT_EQ(m->second.at(heads.vars[2].symbol), sym::mod(n, 4));
  EXPECT_FALSE(match_domains(product, loop::parse("loop (i0: 12, i1: 12) {\n}").domain, true));
}

}  // namespace
}  // namespace toroid::sched
