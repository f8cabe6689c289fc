// Which products may be loops, and which of them are tried as such.
#include "sched/decompose_mm.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "errors.h"
#include "program/parse.h"
#include "sched/rewrites.h"

namespace toroid::sched {
namespace {

program::Program product(int64_t m, int64_t n, int64_t k, const std::string& dtype = "f32", const std::string& sum = "f32") {
  return program::parse(
      fmt::format("program \"p\" {{\nbuffer %0 \"a\": {3}[{4}] input\nbuffer %1 \"b\": {3}[{5}] input\nbuffer %2 \"c\": {6}[{7}] output\n"
                  "in %0 user \"a\": {3}[{0}, {2}]\nin %1 user \"b\": {3}[{2}, {1}]\nout %2: {6}[{0}, {1}]\n"
                  "gemm [{0}, {1}, {2}] a=%0 {3}[0, {2}, 1] b=%1 {3}[0, {1}, 1] in {6} parts [0] # \"c\"\n"
                  "loop (m: {0}, n: {1}) {{\n  v0: {6} = accumulate\n  store %2 [{1}*m + n] v0\n}}\n}}\n",
                  m, n, k, dtype, m * k, k * n, sum, m * n));
}

bool is_tried(const program::Program& p) {
  for (auto& way : proposed_rewrites(p, 0, {}, {}))
    if (way.form == "decompose_mm") return true;
  return false;
}

TEST(DecomposeMm, IsTriedWhereATemplateHasLittleToDo) {
  for (auto [m, n, k] : {std::tuple(512, 512, 1), {512, 512, 8}, {1, 128, 128}, {128, 1, 128}, {1, 1, 16384}})
    EXPECT_TRUE(is_tried(product(m, n, k))) << m << " " << n << " " << k;
  for (auto [m, n, k] : {std::tuple(512, 512, 9), {2, 128, 128}, {1, 129, 128}, {1, 1, 16385}})
    EXPECT_FALSE(is_tried(product(m, n, k))) << m << " " << n << " " << k;
}

// The sum runs over k in one variable, or is written out; no variable is left for one row.
TEST(DecomposeMm, SumsAreWrittenOutOrRun) {
  for (auto [m, n, k, variables] : {std::tuple(4, 6, 8, 2u), {4, 6, 9, 3u}, {1, 6, 9, 2u}, {1, 6, 2, 1u}, {1, 1, 9, 1u}}) {
    program::Program p = product(m, n, k);
    rewrite(p, 0, {"decompose_mm", {}});
    EXPECT_TRUE(p.nodes[0].is_loop());
    EXPECT_EQ(p.nodes[0].domain.vars.size(), variables) << m << " " << n << " " << k;
    EXPECT_EQ(loop::has_reduction(p.nodes[0].domain), k > 8);
    loop::verify(p.nodes[0].domain, p.nodes[0].body, "decompose_mm");
  }
}

TEST(DecomposeMm, WhatIsNoProductOfFloatsIsRefused) {
  program::Program p = product(1, 8, 8, "i8", "i32");
  EXPECT_TRUE(test::contains(test::user_error([&] { decompose_mm(p.nodes[0]); }), "it is a product of integers"));
  p = product(1, 8, 8);
  std::get<program::Gemm>(p.nodes[0].problem).b2 = std::get<program::Gemm>(p.nodes[0].problem).b;
  EXPECT_TRUE(test::contains(test::user_error([&] { decompose_mm(p.nodes[0]); }), "it is fused with what computes its operands"));
}

}  // namespace
}  // namespace toroid::sched
