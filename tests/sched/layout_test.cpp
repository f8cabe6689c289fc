// Operands laid out anew, and sums of two products as one.
#include "sched/layout.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "errors.h"
#include "sched/mm_plus_mm.h"

namespace toroid::sched {
namespace {

using Kind = loop::BufferKind;
using Strides = std::vector<Expr>;

struct Sizes {
  int64_t m, n, k;
};

program::Node product(int a, const Strides& a_strides, int b, const Strides& b_strides, int out, Sizes s, DType dtype) {
  program::Gemm g;
  g.m = s.m, g.n = s.n, g.k = s.k;
  g.a = {a, dtype, 0, a_strides};
  g.b = {b, dtype, 0, b_strides};
  program::Node node;
  node.problem = g;
  const loop::Nest nest =
      loop::parse(fmt::format("loop (j0: {}, j1: {}) {{\n v0: f32 = accumulate\n v1: {} = Cast v0\n store %{} [j0*{} + j1] v1\n}}", s.m,
                              s.n, name_of(dtype), out, s.n));
  node.domain = nest.domain, node.body = nest.body;
  return node;
}

// Buffers: 0 a, 1 b, 2 their product.
program::Program one_product(Sizes s, const Strides& a, const Strides& b, Kind kind_of_b, DType dtype = DType::BF16) {
  program::Program p;
  p.new_buffer("a", dtype, s.m * s.k, Kind::Input);
  p.new_buffer("b", dtype, s.n * s.k, kind_of_b);
  p.new_buffer("out", dtype, s.m * s.n, Kind::Output);
  p.nodes = {product(0, a, 1, b, 2, s, dtype)};
  p.nodes[0].parts = {0};
  return p;
}

std::vector<std::string> texts(const std::vector<program::Config>& ways) {
  std::vector<std::string> out;
  for (auto& w : ways) out.push_back(program::to_string(w));
  return out;
}
using Texts = std::vector<std::string>;

Texts on_gpu(Sizes s, const Strides& a, const Strides& b, Kind kind, DType dtype = DType::BF16) {
  const program::Program p = one_product(s, a, b, kind, dtype);
  return texts(gpu_layouts(p.nodes[0], p));
}
Texts on_cpu(Sizes s, const Strides& a, const Strides& b, Kind kind) {
  const program::Program p = one_product(s, a, b, kind, DType::F32);
  return texts(cpu_layouts(p.nodes[0], p));
}

TEST(Layout, RowsThatAreBadlyAlignedArePadded) {
  EXPECT_EQ(on_gpu({512, 768, 1024}, {1024, 1}, {1, 1024}, Kind::Constant), Texts());
  EXPECT_EQ(on_gpu({512, 768, 1023}, {1023, 1}, {1, 1023}, Kind::Constant), Texts({"pad_mm(a=8,b=8)"}));
  EXPECT_EQ(on_gpu({512, 768, 1023}, {1024, 1}, {1, 1023}, Kind::Constant), Texts({"pad_mm(a=0,b=8)"})) << "rows with a gap behind them";
  EXPECT_EQ(on_gpu({512, 767, 1024}, {1024, 1}, {767, 1}, Kind::Input), Texts({"pad_mm(a=0,b=8)"}));
  EXPECT_EQ(on_gpu({512, 767, 1024}, {1024, 1}, {767, 1}, Kind::Input, DType::F32), Texts()) << "no tensor cores";
  EXPECT_EQ(on_gpu({512, 768, 1024}, {2048, 2}, {1, 1024}, Kind::Constant), Texts({"pad_mm(a=8,b=0)"})) << "every second element";
}

TEST(Layout, ACopyMustBeWorthIt) {
  EXPECT_EQ(on_gpu({32, 767, 1024}, {1024, 1}, {767, 1}, Kind::Input), Texts()) << "each element of b is used 32 times";
  EXPECT_EQ(on_gpu({512, 16, 1023}, {1023, 1}, {16, 1}, Kind::Input), Texts()) << "each element of a is used 16 times";
  EXPECT_EQ(on_gpu({4, 768, 1023}, {1023, 1}, {1, 1023}, Kind::Constant), Texts({"pad_mm(a=0,b=8)"})) << "a row of a is no matter";
}

TEST(Layout, WeightsMayLieAlongTheOtherDimension) {
  EXPECT_EQ(on_gpu({512, 768, 1024}, {1024, 1}, {768, 1}, Kind::Constant), Texts({"transpose(a=0,b=1)"}));
  EXPECT_EQ(on_gpu({8, 768, 1024}, {1024, 1}, {768, 1}, Kind::Constant, DType::F32), Texts({"transpose(a=0,b=1)"}));
  EXPECT_EQ(on_gpu({512, 768, 1024}, {1024, 1}, {768, 1}, Kind::Input), Texts());
  EXPECT_EQ(on_cpu({512, 768, 1024}, {1024, 1}, {768, 1}, Kind::Constant), Texts()) << "the template packs it";
}

// wgmma takes tf32 along k alone.
TEST(Layout, LargeProductsInTf32AreTurned) {
  auto turned = [](Sizes s, const Strides& a, const Strides& b, bool tf32 = true) {
    program::Program p = one_product(s, a, b, Kind::Input, DType::F32);
    std::get<program::Gemm>(p.nodes[0].problem).tf32 = tf32;
    return texts(gpu_layouts(p.nodes[0], p));
  };
  EXPECT_EQ(turned({512, 768, 1024}, {1024, 1}, {1, 1024}), Texts());
  EXPECT_EQ(turned({512, 768, 1024}, {1024, 1}, {768, 1}), Texts({"transpose(a=0,b=1)"}));
  EXPECT_EQ(turned({512, 768, 1024}, {1, 512}, {1, 1024}), Texts({"transpose(a=1,b=0)"}));
  EXPECT_EQ(turned({512, 768, 1024}, {1, 512}, {768, 1}), Texts({"transpose(a=1,b=1)"}));
  EXPECT_EQ(turned({512, 768, 1024}, {1024, 1}, {768, 1}, false), Texts()) << "no tensor cores";
  EXPECT_EQ(turned({32, 768, 1024}, {1024, 1}, {768, 1}), Texts()) << "each element of b is used 32 times";
}

TEST(Layout, LongSumsOnACpuReadRowsOfAAndColumnsOfB) {
  EXPECT_EQ(on_cpu({512, 768, 1024}, {1024, 1}, {1, 1024}, Kind::Input), Texts({"transpose(a=0,b=1)"}));
  EXPECT_EQ(on_cpu({512, 768, 1024}, {1, 512}, {768, 1}, Kind::Input), Texts({"transpose(a=1,b=0)"}));
  EXPECT_EQ(on_cpu({512, 768, 1024}, {1, 512}, {1, 1024}, Kind::Input),
            Texts({"transpose(a=0,b=1)", "transpose(a=1,b=0)", "transpose(a=1,b=1)"}));
  EXPECT_EQ(on_cpu({512, 768, 1024}, {1024, 1}, {768, 1}, Kind::Input), Texts());
  EXPECT_EQ(on_cpu({512, 768, 512}, {1, 512}, {1, 512}, Kind::Input), Texts()) << "the template's own copies are as fast";
}

TEST(Layout, AConstantIsLaidOutWhenTheProgramIsCompiled) {
  program::Program p = one_product({512, 768, 1023}, {1023, 1}, {1, 1023}, Kind::Constant);
  lay_out(p, 0, {"pad_mm", {{"a", 8}, {"b", 8}}});
  ASSERT_EQ(p.nodes.size(), 2u);
  const auto& g = std::get<program::Gemm>(p.nodes[1].problem);
  EXPECT_EQ(g.a.strides, Strides({1024, 1}));
  EXPECT_EQ(g.b.strides, Strides({1, 1024}));
  EXPECT_EQ(g.k, Expr(1023)) << "what lies between rows is no part of the product";
  EXPECT_EQ(program::writes(p.nodes[0]), std::vector<int>{g.a.buffer});
  ASSERT_EQ(p.rearranged.size(), 1u);
  EXPECT_EQ(p.rearranged[0].buffer, g.b.buffer);
  EXPECT_EQ(p.buffers[static_cast<size_t>(g.b.buffer)].kind, Kind::Constant);
  loop::verify(p.nodes[0].domain, p.nodes[0].body, "layout");
}

TEST(Layout, PaddingIsTheDefaultOnAGpuWhereItIsFreeOrGainsMoreThanItCosts) {
  const auto padded = [](Sizes s, const Strides& a, const Strides& b, Kind kind, size_t& copies) {
    program::Program p = one_product(s, a, b, kind);
    const auto lines = pad_for_gpu(p);
    copies = p.nodes.size() - 1;
    EXPECT_LE(lines.size(), 1u);
    return lines.empty() ? "" : lines[0];
  };
  size_t copies = 0;
  EXPECT_EQ(padded({512, 767, 1024}, {1024, 1}, {767, 1}, Kind::Constant, copies), ": pad_mm(a=0,b=8), when compiled");
  EXPECT_EQ(copies, 0u);
  EXPECT_EQ(padded({1, 4096, 1023}, {1023, 1}, {1, 1023}, Kind::Constant, copies), ": pad_mm(a=0,b=8), when compiled");
  EXPECT_NE(padded({1024, 1001, 2047}, {2047, 1}, {1001, 1}, Kind::Constant, copies).find(": pad_mm(a=8,b=8), by copies"),
            std::string::npos);
  EXPECT_EQ(copies, 1u);
  EXPECT_NE(padded({1024, 1023, 2049}, {2049, 1}, {1023, 1}, Kind::Input, copies).find(": pad_mm(a=8,b=8), by copies"), std::string::npos);
  EXPECT_EQ(copies, 2u);
  EXPECT_NE(padded({256, 512, 513}, {513, 1}, {512, 1}, Kind::Constant, copies).find(": pad_mm(a=8,b=0), by copies"), std::string::npos)
      << "few tiles, but long sums";
  EXPECT_NE(padded({64, 100, 101}, {101, 1}, {100, 1}, Kind::Input, copies).find(": not pad_mm(a=8,b=8): copies"), std::string::npos)
      << "short";
  EXPECT_EQ(copies, 0u);
  EXPECT_EQ(padded({512, 30522, 768}, {768, 1}, {1, 768}, Kind::Constant, copies), "") << "a weight along k has aligned rows";
}

// A copy of one weight for two products that read it.
TEST(Layout, AWeightIsPaddedOnce) {
  program::Program p = one_product({512, 767, 1024}, {1024, 1}, {767, 1}, Kind::Constant);
  p.new_buffer("out2", DType::BF16, 512 * 767, Kind::Output);
  p.nodes.push_back(product(0, {1024, 1}, 1, {767, 1}, 3, {512, 767, 1024}, DType::BF16));
  EXPECT_EQ(pad_for_gpu(p).size(), 2u);
  EXPECT_EQ(p.rearranged.size(), 1u);
  EXPECT_EQ(std::get<program::Gemm>(p.nodes[0].problem).b.buffer, std::get<program::Gemm>(p.nodes[1].problem).b.buffer);
}

// The gradient of logits is multiplied by the weights, and by what they were computed from: it is copied once.
TEST(Layout, AMatrixIsPaddedOnceForProductsAlongBothOfItsDimensions) {
  constexpr int64_t kTokens = 1024, kWords = 50257, kWidth = 768;
  for (bool written_between : {false, true}) {
    program::Program p = one_product({kTokens, kWidth, kWords}, {kWords, 1}, {kWidth, 1}, Kind::Input);
    p.new_buffer("hidden", DType::BF16, kTokens * kWidth, Kind::Input);
    p.new_buffer("gradient", DType::BF16, kWords * kWidth, Kind::Output);
    if (written_between) {
      program::Node change;
      const loop::Nest nest = loop::parse("loop (j0: 5) {\n v0: bf16 = load %0 [j0 + 7]\n store %0 [j0] v0\n}");
      change.domain = nest.domain, change.body = nest.body;
      p.nodes.push_back(change);
    }
    p.nodes.push_back(product(0, {1, kWords}, 3, {kWidth, 1}, 4, {kWords, kWidth, kTokens}, DType::BF16));
    for (auto& line : pad_for_gpu(p)) EXPECT_NE(line.find("pad_mm(a=8,b=0), by copies"), std::string::npos) << line;
    ASSERT_EQ(p.nodes.size(), written_between ? 5u : 3u);
    const auto &first = std::get<program::Gemm>(p.nodes[1].problem), &second = std::get<program::Gemm>(p.nodes.back().problem);
    EXPECT_EQ(first.a.strides, Strides({50264, 1}));
    EXPECT_EQ(second.a.strides, Strides({1, 50264}));
    EXPECT_EQ(first.a.buffer == second.a.buffer, !written_between);
  }
}

TEST(Layout, WhatDoesNotApplySaysWhy) {
  program::Program p = one_product({8, 8, 8}, {8, 1}, {8, 1}, Kind::Input);
  const auto error = [&](const program::Config& way) { return test::error_of<UserError>([&] { lay_out(p, 0, way); }); };
  EXPECT_NE(error({"pad_mm", {{"a", 0}, {"b", 0}}}).find("it changes nothing"), std::string::npos);
  EXPECT_NE(error({"transpose", {{"a", 2}, {"b", 0}}}).find("2 is not from 0 to 1"), std::string::npos);
  EXPECT_NE(error({"transpose", {{"b", 1}}}).find("one number for a and one for b"), std::string::npos);
}

// Buffers: 0 a, 1 b, 2 c, 3 d, 4 and 5 the products, 6 a bias, 7 what the loop makes of them.
program::Program sum(const std::string& loop_body, Kind weights = Kind::Constant, Sizes second = {64, 96, 16}) {
  program::Program p;
  const Sizes first = {64, 96, 32};
  p.new_buffer("a", DType::F32, 64 * 32, Kind::Input);
  p.new_buffer("b", DType::F32, 96 * 32, weights);
  p.new_buffer("c", DType::F32, second.m * second.k, Kind::Input);
  p.new_buffer("d", DType::F32, second.n * second.k, weights);
  for (const char* name : {"ab", "cd"}) p.new_buffer(name, DType::F32, 64 * 96, Kind::Temporary);
  p.new_buffer("bias", DType::F32, 96, Kind::Input);
  p.new_buffer("out", DType::F32, 64 * 96, Kind::Output);
  program::Node loop;
  const loop::Nest nest = loop::parse("loop (i0: 64, i1: 96) {\n" + loop_body + "\n}");
  loop.domain = nest.domain, loop.body = nest.body;
  p.nodes = {product(0, {32, 1}, 1, {1, 32}, 4, first, DType::F32), product(2, {second.k, 1}, 3, {1, second.k}, 5, second, DType::F32),
             loop};
  for (int i = 0; i < 3; ++i) p.nodes[static_cast<size_t>(i)].parts = {i};
  return p;
}

constexpr const char* kAdd =
    " v0: f32 = load %4 [i0*96 + i1]\n v1: f32 = load %5 [i0*96 + i1]\n v2: f32 = Add v0 v1\n v3: f32 = Exp v2\n store %7 [i0*96 + i1] v3";

TEST(MmPlusMm, ASumOfTwoIsOneOfALongerSum) {
  program::Program p = sum(kAdd);
  ASSERT_EQ(sums_of_products(p).size(), 1u);
  mm_plus_mm(p, 1);
  ASSERT_EQ(p.nodes.size(), 3u);  // a and c side by side, the product, the loop
  const auto& g = std::get<program::Gemm>(p.nodes[1].problem);
  EXPECT_EQ(g.k, Expr(48));
  EXPECT_EQ(program::writes(p.nodes[0]), std::vector<int>{g.a.buffer});
  EXPECT_EQ(p.nodes[0].parts, std::vector<int>{0});
  ASSERT_EQ(p.rearranged.size(), 1u);
  EXPECT_EQ(p.rearranged[0].parts.size(), 2u);
  EXPECT_EQ(program::reads(p.nodes[2]), std::vector<int>{5});
  for (auto& n : p.nodes) loop::verify(n.domain, n.body, "mm_plus_mm");
}

TEST(MmPlusMm, ABiasBetweenThemStays) {
  program::Program p =
      sum(" v0: f32 = load %4 [i0*96 + i1]\n v1: f32 = load %6 [i1]\n v2: f32 = Add v0 v1\n v3: f32 = load %5 [i0*96 + i1]\n"
          " v4: f32 = Add v3 v2\n store %7 [i0*96 + i1] v4");
  ASSERT_EQ(sums_of_products(p).size(), 1u);
  mm_plus_mm(p, 1);
  std::vector<int> read = program::reads(p.nodes.back());
  std::sort(read.begin(), read.end());
  EXPECT_EQ(read, (std::vector<int>{5, 6}));
}

TEST(MmPlusMm, OthersStayTwo) {
  const auto count = [](const program::Program& p) { return sums_of_products(p).size(); };
  const std::string loads = " v0: f32 = load %4 [i0*96 + i1]\n v1: f32 = load %5 [i0*96 + i1]\n", store = " store %7 [i0*96 + i1] ";
  EXPECT_EQ(count(sum(loads + " v2: f32 = Mul v0 v1\n" + store + "v2")), 0u) << "a product of products";
  EXPECT_EQ(count(sum(loads + " v2: f32 = Exp v0\n v3: f32 = Add v2 v1\n" + store + "v3")), 0u) << "something is between";
  EXPECT_EQ(count(sum(loads + " v2: f32 = Add v0 v1\n v3: f32 = Mul v2 v0\n" + store + "v3")), 0u) << "one of them is used again";
  EXPECT_EQ(count(sum(" v0: f32 = load %4 [i0*96 + i1]\n v1: f32 = load %5 [i0*96 - i1 + 95]\n v2: f32 = Add v0 v1\n" + store + "v2")), 0u)
      << "not the same elements";
  EXPECT_EQ(count(sum(kAdd, Kind::Constant, {64, 96, 400})), 0u) << "more is put side by side than need not be stored";
  EXPECT_EQ(count(sum(kAdd, Kind::Input, {64, 96, 48})), 0u) << "right operands are copied, too";
  program::Program read_twice = sum(kAdd);
  read_twice.nodes.push_back(read_twice.nodes[2]);
  EXPECT_EQ(count(read_twice), 0u);
  program::Program kept = sum(kAdd);
  kept.buffers[4].kind = Kind::Output;
  EXPECT_EQ(count(kept), 0u);
  EXPECT_THROW(mm_plus_mm(kept, 1), UserError);
}

}  // namespace
}  // namespace toroid::sched
