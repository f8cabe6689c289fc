// Each row of the table of rewritings keeps the contract that tuning relies on.
#include "sched/rewrites.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "errors.h"
#include "loop/node.h"
#include "program/ways.h"

namespace toroid::sched {
namespace {

using program::Config;
using Kind = loop::BufferKind;

program::Node node_of(decltype(program::Node::problem) problem, const std::string& text) {
  const loop::Nest nest = loop::parse(text);
  program::Node n;
  n.problem = std::move(problem);
  n.domain = nest.domain, n.body = nest.body;
  n.parts = {0};
  return n;
}

// 0 a loop, 1 a product with a long sum of badly aligned rows, 2 a convolution of few channels that lie first.
program::Program sample() {
  constexpr int64_t m = 512, n = 512, k = 1026;
  program::Program p;
  p.new_buffer("x", DType::BF16, m * k, Kind::Input);
  p.new_buffer("y", DType::BF16, m * k, Kind::Temporary);
  p.new_buffer("w", DType::BF16, n * k, Kind::Constant);
  p.new_buffer("product", DType::BF16, m * n, Kind::Output);
  p.new_buffer("image", DType::BF16, 2 * 6 * 8 * 8, Kind::Input);
  p.new_buffer("filter", DType::BF16, 8 * 6 * 9, Kind::Constant);
  p.new_buffer("features", DType::BF16, 2 * 8 * 6 * 6, Kind::Output);
  p.nodes.push_back(node_of({}, fmt::format("loop (i0: {}) {{\n v0: bf16 = load %0 [i0]\n store %1 [i0] v0\n}}", m * k)));
  program::Gemm g;
  g.m = m, g.n = n, g.k = k;
  g.a = {1, DType::BF16, 0, {k, 1}};
  g.b = {2, DType::BF16, 0, {1, k}};
  p.nodes.push_back(node_of(g, "loop (j0: 512, j1: 512) {\n v0: f32 = accumulate\n v1: bf16 = Cast v0\n store %3 [j0*512 + j1] v1\n}"));
  program::Convolution c;
  c.n = 2, c.in_channels = 6, c.out_channels = 8, c.in_h = 8, c.in_w = 8, c.out_h = 6, c.out_w = 6, c.kernel_h = 3, c.kernel_w = 3;
  c.input = {4, DType::BF16, 0, {384, 64, 8, 1}};
  c.weight = {5, DType::BF16, 0, {54, 9, 3, 1}};
  p.nodes.push_back(node_of(c,
                            "loop (k0: 2, k1: 8, k2: 6, k3: 6) {\n v0: f32 = accumulate\n v1: bf16 = Cast v0\n store %6 [k0*288 + k1*36 + "
                            "k2*6 + k3] v1\n}"));
  return p;
}

target::Facts facts(bool copies_pieces) { return {.workers = 132, .copies_pieces = copies_pieces}; }

TEST(Rewrites, AreFoundByTheirNames) {
  for (auto& row : rewrites()) {
    EXPECT_EQ(rewrite_of({row.name, {}}), &row);
    EXPECT_TRUE(std::string_view(row.doc).starts_with(std::string(row.name) + "(")) << row.doc;
    EXPECT_FALSE(program::library_of({row.name, {}}) || program::alternative_of({row.name, {}})) << row.name;
  }
  for (const char* other : {"", "gemm_wgmma", "cublaslt", "alternative pad_mm"}) EXPECT_EQ(rewrite_of({other, {}}), nullptr) << other;
}

// Ways come from files: what does not fit is the user's mistake, and changes nothing.
TEST(Rewrites, WhatDoesNotFitIsRefused) {
  for (auto& row : rewrites())
    for (const Config& way : {Config{row.name, {}}, Config{row.name, {{"no_such_field", 1}}}, Config{row.name, {{"a", 1}, {"b", 1}}},
                              Config{row.name, {{"splits", 7}}}, Config{row.name, {{"multiple", -1}}}}) {
      program::Program p = sample();
      const std::string before = program::to_string(p), why = row.refusal(p, 0, way);
      EXPECT_NE(why, "") << program::to_string(way) << " of a loop";
      EXPECT_TRUE(test::contains(test::user_error([&] { rewrite(p, 0, way); }), why)) << program::to_string(way);
      EXPECT_EQ(program::to_string(p), before);
    }
}

TEST(Rewrites, WhatIsProposedApplies) {
  std::set<std::string> proposed;
  for (bool copies : {false, true})
    for (size_t node = 0; node < sample().nodes.size(); ++node)
      for (auto& way : proposed_rewrites(sample(), node, facts(copies), {})) {
        SCOPED_TRACE(program::to_string(way));
        program::Program p = sample();
        EXPECT_EQ(rewrite_of(way)->refusal(p, node, way), "");
        rewrite(p, node, way);
        EXPECT_GT(p.nodes.size(), sample().nodes.size());
        for (auto& n : p.nodes) loop::verify(n.domain, n.body, way.form);
        proposed.insert(way.form);
      }
  EXPECT_EQ(proposed, (std::set<std::string>{"pad_mm", "channels_last", "decompose_k"}));
}

}  // namespace
}  // namespace toroid::sched
