// Products in pieces, which overlap with the collectives around them.
#include "sched/pieces.h"

#include <gtest/gtest.h>

#include "program/parse.h"
#include "program/verify.h"
#include "sched/targets.h"

namespace toroid::sched::pieces {
namespace {

using distributed::Kind;
using program::Node;
using program::Program;

constexpr int64_t kRanks = 4, kDepth = 16, kColumns = 24;

void set_body(Node& n, const std::string& text) {
  const loop::Nest nest = loop::parse(text);
  n.domain = nest.domain, n.body = nest.body;
}

// Buffers: 0 x [rows, 16], 1 w [16, 24], 2 what is between, 3 out, 4 peers, 5 faults.
Program buffers(int64_t rows, int64_t between, int64_t out) {
  Program p;
  using Buffers = loop::BufferKind;
  p.new_buffer("x", DType::BF16, rows * kDepth, Buffers::Input);
  p.new_buffer("w", DType::BF16, kDepth * kColumns, Buffers::Input);
  p.new_buffer("between", DType::BF16, between, Buffers::Temporary);
  p.new_buffer("out", DType::BF16, out * kColumns, Buffers::Output);
  p.name = "p";
  p.inputs = {{0, {DType::BF16, {rows, kDepth}, {}}, graph::InputKind::User, {}, "x"},
              {1, {DType::BF16, {kDepth, kColumns}, {}}, graph::InputKind::User, {}, "w"}};
  p.outputs.push_back({3, {DType::BF16, {out, kColumns}, {}}, -1, {}});
  return p;
}

Node meeting(Program& p, Kind kind, int input, const std::vector<Expr>& sizes) {
  Node n;
  program::Meeting m;
  m.kind = kind, m.group = "world", m.ranks = kRanks, m.sizes = sizes;
  m.input = {input, DType::BF16, 0, {sizes.back(), 1}};
  m.peers = {p.peers("world"), DType::I64, 0, {}};
  m.faults = {p.faults(), DType::I64, 0, {}};
  m.site = p.site({"meeting", "model.cpp:3", IndexSite::kRank, false});
  n.problem = m;
  n.origins = {"meeting"};
  return n;
}

Node product(int a, int64_t rows) {
  Node n;
  program::Gemm g;
  g.m = rows, g.n = kColumns, g.k = kDepth;
  g.a = {a, DType::BF16, 0, {kDepth, 1}};
  g.b = {1, DType::BF16, 0, {kColumns, 1}};
  n.problem = g;
  n.origins = {"mm"};
  return n;
}

// relu(all_gather(x) * w) of 8 rows a rank.
Program gathers() {
  Program p = buffers(8, 32 * kDepth, 32);
  Node gather = meeting(p, Kind::AllGather, 0, {32, kDepth}), multiply = product(2, 32);
  set_body(gather, "loop (i0: 32, i1: 16) {\n v0: f32 = accumulate\n v1: bf16 = Cast v0\n store %2 [i0*16 + i1] v1\n}");
  set_body(multiply,
           "loop (j0: 32, j1: 24) {\n v0: f32 = accumulate\n v1: bf16 = Cast v0\n v2: f32 = Cast v1\n v3: f32 = Abs v2\n v4: bf16 = "
           "Cast v3\n store %3 [j0*24 + j1] v4\n}");
  gather.parts = {0}, multiply.parts = {1};
  p.nodes = {gather, multiply};
  return p;
}

// reduce_scatter(x * w) of 32 rows a rank.
Program scatters() {
  Program p = buffers(32, 32 * kColumns, 8);
  Node multiply = product(0, 32), scatter = meeting(p, Kind::ReduceScatter, 2, {8, kColumns});
  set_body(multiply, "loop (i0: 32, i1: 24) {\n v0: f32 = accumulate\n v1: bf16 = Cast v0\n store %2 [i0*24 + i1] v1\n}");
  set_body(scatter, "loop (j0: 8, j1: 24) {\n v0: f32 = accumulate\n v1: bf16 = Cast v0\n store %3 [j0*24 + j1] v1\n}");
  multiply.parts = {0}, scatter.parts = {1};
  p.nodes = {multiply, scatter};
  return p;
}

void is_good(const Program& p) {
  program::verify(p, program::Stage::Scheduled, "the test");
  const std::string text = program::to_string(p);
  EXPECT_EQ(program::to_string(program::parse(text)), text);
}

TEST(OverlapProducts, WhatIsGatheredForAProduct) {
  Program p = gathers();
  std::get<program::Gemm>(p.nodes[1].problem).a.dtype = DType::BF16;
  p.nodes[1].by = program::Implementation::CublasLt;
  p = overlap_products(std::move(p), Answering(""));
  ASSERT_EQ(p.nodes.size(), 2u) << "the product, and what follows";
  const auto& m = std::get<program::Meeting>(p.nodes[0].problem);
  ASSERT_TRUE(program::in_pieces(m));
  EXPECT_EQ(m.product->m, Expr(8));
  EXPECT_EQ(m.product->a.buffer, 0);
  EXPECT_EQ(m.sizes, (std::vector<Expr>{32, kColumns}));
  EXPECT_FALSE(p.nodes[0].is_library());
  EXPECT_EQ(p.nodes[0].origins, (std::vector<std::string>{"meeting", "mm"}));
  EXPECT_TRUE(p.nodes[1].is_loop());
  EXPECT_EQ(program::writes(p.nodes[1]), std::vector<int>{3});
  is_good(p);
}

TEST(OverlapProducts, WhatIsScatteredOfAProduct) {
  Program p = overlap_products(scatters(), Answering(""));
  ASSERT_EQ(p.nodes.size(), 1u);
  const auto& m = std::get<program::Meeting>(p.nodes[0].problem);
  ASSERT_TRUE(program::in_pieces(m));
  EXPECT_EQ(m.product->m, Expr(32));
  EXPECT_EQ(m.sizes, (std::vector<Expr>{8, kColumns}));
  is_good(p);

  Program more = scatters();
  set_body(more.nodes[1],
           "loop (j0: 8, j1: 24) {\n v0: f32 = accumulate\n v1: f32 = Abs v0\n v2: bf16 = Cast v1\n store %3 [j0*24 + j1] v2\n}");
  more = overlap_products(std::move(more), Answering(""));
  ASSERT_EQ(more.nodes.size(), 2u);
  EXPECT_EQ(more.nodes[0].body.steps.back().dtype, DType::BF16) << "sums are rounded before what follows";
  is_good(more);
}

// No library multiplies f32 to bf16: what is rounded to another type than that of the operands is so in the loop behind.
TEST(OverlapProducts, SumsAreOfTheOperandsType) {
  Program p = gathers();
  for (const int b : {0, 1, 2}) p.buffers[static_cast<size_t>(b)].dtype = DType::F32;
  for (auto& in : p.inputs) in.type.dtype = DType::F32;
  auto& meets = std::get<program::Meeting>(p.nodes[0].problem);
  auto& g = std::get<program::Gemm>(p.nodes[1].problem);
  meets.input.dtype = g.a.dtype = g.b.dtype = DType::F32;
  set_body(p.nodes[0], "loop (i0: 32, i1: 16) {\n v0: f32 = accumulate\n store %2 [i0*16 + i1] v0\n}");
  set_body(p.nodes[1], "loop (j0: 32, j1: 24) {\n v0: f32 = accumulate\n v1: bf16 = Cast v0\n store %3 [j0*24 + j1] v1\n}");
  p = overlap_products(std::move(p), Answering(""));
  ASSERT_EQ(p.nodes.size(), 2u);
  EXPECT_EQ(p.nodes[0].body.steps.back().dtype, DType::F32);
  is_good(p);
}

TEST(OverlapProducts, OthersStayApart) {
  const auto apart = [](const char* why, Program p, const std::function<void(Program&)>& plant, const std::string& answer = "") {
    plant(p);
    const auto nodes = p.nodes.size();
    p = overlap_products(std::move(p), Answering(answer));
    EXPECT_EQ(p.nodes.size(), nodes) << why;
    for (auto& n : p.nodes) {
      const auto* m = std::get_if<program::Meeting>(&n.problem);
      EXPECT_FALSE(m && m->product) << why;
    }
  };
  const auto gemm = [](Program& p, size_t i) -> program::Gemm& { return std::get<program::Gemm>(p.nodes[i].problem); };
  const auto meets = [](Program& p, size_t i) -> program::Meeting& { return std::get<program::Meeting>(p.nodes[i].problem); };
  const auto read_again = [](Program& p) {
    Node again;
    set_body(again, "loop (i0: 32) {\n v0: bf16 = load %2 [i0]\n store %3 [i0] v0\n}");
    p.nodes.push_back(again);
  };
  const auto writes_x = [](Program& p) {
    Node write;
    set_body(write, "loop (i0: 64) {\n v0: bf16 = load %1 [i0]\n store %0 [i0] v0\n}");
    p.nodes.insert(p.nodes.begin() + 1, write);
  };
  for (const auto& make : {gathers, scatters}) {
    const bool first = make == scatters;  // the product's place
    const size_t at = first ? 0 : 1, other = 1 - at;
    apart(
        "the target refuses", make(), [](auto&) {}, "no");
    apart("chosen to stay apart", make(), [](auto& p) { p.apart = {{0, 1}}; });
    apart("read by others", make(), read_again);
    apart("its operand is written between", make(), writes_x);
    apart("a result of the program", make(), [](auto& p) { p.buffers[2].kind = loop::BufferKind::Output; });
    apart("two products", make(), [&](auto& p) { gemm(p, at).b2 = gemm(p, at).b; });
    apart("a batch", make(), [&](auto& p) {
      gemm(p, at).batch = {1};
      for (auto* o : {&gemm(p, at).a, &gemm(p, at).b}) o->strides.insert(o->strides.begin(), 0);
      p.nodes[at].domain.vars.insert(p.nodes[at].domain.vars.begin(), {sym::loop_symbol("b", 1), false});
    });
    apart("rows that the run tells", make(), [&](auto& p) { gemm(p, at).m = sym::symbol("s0", 1, 100); });
    apart("a form was chosen for the meeting", make(), [&](auto& p) { p.nodes[other].config.form = "exchange_rings"; });
    apart("another collective", make(), [&](auto& p) { meets(p, other).kind = Kind::AllReduce; });
    apart("another dtype", make(), [&](auto& p) { meets(p, other).input.dtype = DType::F16; });
  }
  apart("the right operand is gathered", gathers(), [&](auto& p) { std::swap(gemm(p, 1).a.buffer, gemm(p, 1).b.buffer); });
  apart("columns are gathered", gathers(), [&](auto& p) { gemm(p, 1).a.strides = {1, 32}; });
  apart("a part of the rows", gathers(), [&](auto& p) { gemm(p, 1).m = 28; });
  apart("an average", scatters(), [&](auto& p) { meets(p, 1).op = distributed::ReduceOp::Avg; });
  apart("a part of the product", scatters(), [&](auto& p) { meets(p, 1).input.offset = 24; });
}

}  // namespace
}  // namespace toroid::sched::pieces
