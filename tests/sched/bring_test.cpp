// Products that bring their sums to other ranks.
#include "sched/bring.h"

#include <gtest/gtest.h>

#include "program/parse.h"
#include "program/verify.h"
#include "sched/targets.h"

namespace toroid::sched {
namespace {

// out = abs(all_reduce(a * b)) of four ranks. Buffers: 0 a [2, 32], 1 b [96, 32], 2 their product, 3 out [2, 1, 96], 4 peers, 5 faults.
program::Program summed(DType rounded = DType::BF16) {
  program::Program p;
  using Buffers = loop::BufferKind;
  p.new_buffer("a", DType::BF16, 2 * 32, Buffers::Input);
  p.new_buffer("b", DType::BF16, 96 * 32, Buffers::Input);
  p.new_buffer("product", rounded, 2 * 96, Buffers::Temporary);
  p.new_buffer("out", DType::F32, 2 * 96, Buffers::Output);
  program::Node product;
  program::Gemm g;
  g.m = 2, g.n = 96, g.k = 32;
  g.a = {0, DType::BF16, 0, {32, 1}};
  g.b = {1, DType::BF16, 0, {1, 32}};
  product.problem = g;
  loop::Nest nest = loop::parse(rounded == DType::F32 ? "loop (i0: 2, i1: 96) {\n v0: f32 = accumulate\n store %2 [i0*96 + i1] v0\n}"
                                                      : "loop (i0: 2, i1: 96) {\n v0: f32 = accumulate\n v1: bf16 = Cast v0\n store "
                                                        "%2 [i0*96 + i1] v1\n}");
  product.domain = nest.domain, product.body = nest.body;
  product.origins = {"mm"}, product.parts = {0};
  program::Node meeting;
  program::Meeting m;
  m.group = "world", m.ranks = 4, m.sizes = {2, 1, 96};
  m.input = {2, rounded, 0, {96, 96, 1}};
  m.peers = {p.peers("world"), DType::I64, 0, {}};
  m.faults = {p.faults(), DType::I64, 0, {}};
  m.site = p.site({"all_reduce", "model.cpp:3", IndexSite::kRank, false});
  meeting.problem = m;
  nest = loop::parse("loop (j0: 2, j1: 1, j2: 96) {\n v0: f32 = accumulate\n v1: f32 = Abs v0\n store %3 [j0*96 + j2] v1\n}");
  meeting.domain = nest.domain, meeting.body = nest.body;
  meeting.origins = {"sum"}, meeting.parts = {1};
  p.nodes = {product, meeting};
  p.name = "p";
  p.inputs = {{0, {DType::BF16, {2, 32}, {}}, graph::InputKind::User, {}, "a"},
              {1, {DType::BF16, {96, 32}, {}}, graph::InputKind::User, {}, "b"}};
  p.outputs.push_back({3, {DType::F32, {2, 1, 96}, {}}, -1, {}});
  return p;
}

program::Meeting& meeting_of(program::Program& p) { return std::get<program::Meeting>(p.nodes[1].problem); }

TEST(BringProducts, AnAllReduceTakesItsProduct) {
  for (const DType rounded : {DType::BF16, DType::F32}) {
    const program::Program p = bring_products(summed(rounded), Answering(""));
    ASSERT_EQ(p.nodes.size(), 1u);
    const auto& m = std::get<program::Meeting>(p.nodes[0].problem);
    ASSERT_TRUE(m.product);
    EXPECT_EQ(m.input.dtype, rounded);
    EXPECT_EQ(program::writes(p.nodes[0]), (std::vector<int>{3, 4}));
    EXPECT_EQ(p.nodes[0].origins, (std::vector<std::string>{"mm", "sum"}));
    program::verify(p, program::Stage::Scheduled, "the test");
    const std::string text = program::to_string(p);
    EXPECT_EQ(program::to_string(program::parse(text)), text);
  }
}

TEST(BringProducts, KeepWhatWasChosenForThem) {
  program::Program p = summed();
  p.nodes[0].config = {.form = "gemv", .fields = {{"depth", 6}}};
  p = bring_products(std::move(p), Answering(""));
  ASSERT_EQ(p.nodes.size(), 1u);
  EXPECT_EQ(p.nodes[0].config, (program::Config{.form = "gemv_all_reduce", .fields = {{"depth", 6}}}));
}

TEST(BringProducts, OthersStayApart) {
  const auto apart = [](const char* why, const std::function<void(program::Program&)>& plant, const std::string& answer = "") {
    program::Program p = summed();
    plant(p);
    const size_t before = p.nodes.size();
    EXPECT_EQ(bring_products(std::move(p), Answering(answer)).nodes.size(), before) << why;
  };
  apart(
      "the target refuses", [](auto&) {}, "no");
  apart("a gather", [](auto& p) { meeting_of(p).kind = distributed::Kind::AllGather, meeting_of(p).sizes = {8, 1, 96}; });
  apart("a part of the product", [](auto& p) { meeting_of(p).input.offset = 96; });
  apart("fewer rows", [](auto& p) { meeting_of(p).sizes = {1, 1, 96}; });
  apart("two products", [](auto& p) { std::get<program::Gemm>(p.nodes[0].problem).b2 = std::get<program::Gemm>(p.nodes[0].problem).b; });
  apart("a library", [](auto& p) { p.nodes[0].by = program::Implementation::CublasLt; });
  apart("another template", [](auto& p) { p.nodes[0].config.form = "gemm_mma"; });
  apart("another form", [](auto& p) { p.nodes[1].config.form = "all_reduce_two_shot"; });
  apart("a result of the program", [](auto& p) { p.buffers[2].kind = loop::BufferKind::Output; });
  apart("another reader", [](auto& p) { p.nodes.push_back(p.nodes[1]); });
  apart("a factor before", [](auto& p) {
    p.nodes[0].body = loop::parse(
                          "loop (i0: 2, i1: 96) {\n v0: f32 = accumulate\n v1: f32 = Mul v0 v0\n v2: bf16 = Cast v1\n store "
                          "%2 [i0*96 + i1] v2\n}")
                          .body;
  });
  apart("another order", [](auto& p) {
    loop::Nest turned = loop::parse("loop (i0: 2, i1: 96) {\n v0: f32 = accumulate\n v1: bf16 = Cast v0\n store %2 [i0 + 2*i1] v1\n}");
    p.nodes[0].domain = turned.domain, p.nodes[0].body = turned.body;
  });
  apart("an operand that is written between", [](auto& p) {
    program::Node write;
    const loop::Nest nest = loop::parse("loop (i0: 64) {\n v0: bf16 = load %1 [i0]\n store %0 [i0] v0\n}");
    write.domain = nest.domain, write.body = nest.body;
    p.nodes.insert(p.nodes.begin() + 1, write);
  });
}

}  // namespace
}  // namespace toroid::sched
