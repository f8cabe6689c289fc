// The sizes at which open sizes are timed and compared.
#include "tune/region/sizes.h"

#include <gtest/gtest.h>

#include "program/region.h"
#include "program/sizes.h"
#include "tune/programs.h"
#include "tune/region/regions.h"

namespace toroid::tune {
namespace {

program::Program with_symbols(std::vector<graph::Symbol> symbols, std::vector<sym::Guard> guards = {}) {
  program::Program p;
  p.symbols = std::move(symbols);
  p.guards = std::move(guards);
  return p;
}

std::string refusal_for(const program::Program& p) {
  exec::Symbols sizes;
  std::string refusal;
  usual_sizes(p, sizes, refusal);
  return refusal;
}

const Expr s0 = sym::symbol("s0", 2, sym::kInf - 1), s1 = sym::symbol("s1", 2, 100), u0 = sym::symbol("u0", 0, 100);

TEST(Sizes, TheUsualOnesAreThoseSeen) {
  exec::Symbols sizes;
  std::string refusal;
  usual_sizes(with_symbols({{s0, false, 16}, {s1, false, 3}}), sizes, refusal);
  EXPECT_EQ(refusal, "");
  EXPECT_EQ(exec::to_string(sizes), "s0=16, s1=3");
  sizes = {{"s1", 50}};
  usual_sizes(with_symbols({{s0, false, 16}, {s1, false, 3}}), sizes, refusal);
  EXPECT_EQ(exec::to_string(sizes), "s1=50, s0=16") << "what is known beforehand stays";
}

TEST(Sizes, WithoutOneTheReasonIsSaid) {
  EXPECT_EQ(refusal_for(with_symbols({{s0, false, 16}, {u0, true}})), "the size u0 is known only when the program runs");
  EXPECT_EQ(refusal_for(with_symbols({{s0, false}})), "nothing says what the size s0 usually is");
  EXPECT_NE(refusal_for(with_symbols({{s0, false, 16}}, {{sym::Rel::Gt, s0, 20}})).find("s0 > 20 does not hold"), std::string::npos);
  EXPECT_NE(refusal_for(with_symbols({{s1, false, 101}})).find("s1 in 2..100 does not hold"), std::string::npos);
}

TEST(Sizes, OthersAreOddWhereTheyMayBe) {
  EXPECT_EQ(other_sizes(with_symbols({{s0}, {s1}}), {{"s0", 16}, {"s1", 32}}), (exec::Symbols{{"s0", 9}, {"s1", 17}}));
  EXPECT_EQ(other_sizes(with_symbols({{s0}}), {{"s0", 2}}), (exec::Symbols{{"s0", 3}}));
  EXPECT_EQ(other_sizes(with_symbols({{s0}}, {{sym::Rel::Eq, sym::mod(s0, 8), 0}}), {{"s0", 8}}), (exec::Symbols{{"s0", 16}}));
  EXPECT_EQ(other_sizes(with_symbols({{s0}}, {{sym::Rel::Eq, sym::mod(s0, 64), 0}, {sym::Rel::Gt, s0, 128}}), {{"s0", 320}}),
            (exec::Symbols{{"s0", 640}}));
  EXPECT_EQ(other_sizes(with_symbols({{s0}, {s1}}, {{sym::Rel::Eq, s1, 7}}), {{"s0", 16}, {"s1", 7}}),
            (exec::Symbols{{"s0", 9}, {"s1", 7}}))
      << "one of them may be open alone";
  EXPECT_TRUE(other_sizes(with_symbols({{s0}}, {{sym::Rel::Eq, s0, 16}}), {{"s0", 16}}).empty());
  EXPECT_EQ(other_sizes(with_symbols({{u0}}), {{"u0", 3}}), (exec::Symbols{{"u0", 5}})) << "one element has one index";
  EXPECT_TRUE(other_sizes(with_symbols({}), {}).empty());
}

exec::Symbols where(const program::Program& p, const Expr& size, int64_t wanted, std::string* why = nullptr) {
  exec::Symbols sizes;
  std::string refusal;
  sizes_where(p, size, wanted, sizes, refusal);
  if (why) *why = refusal;
  return sizes;
}

TEST(Sizes, ASizeOfInterestIsMet) {
  const program::Program p = with_symbols({{s0, false, 16}, {s1, false, 3}});
  EXPECT_EQ(where(p, s0, 4096), (exec::Symbols{{"s0", 4096}, {"s1", 3}}));
  EXPECT_EQ(where(p, s0 * 3 + 1, 100), (exec::Symbols{{"s0", 33}, {"s1", 3}}));
  EXPECT_EQ(where(p, s0 * s1, 60), (exec::Symbols{{"s0", 20}, {"s1", 3}}));
  EXPECT_EQ(where(p, sym::floor_div(s0, 4), 5), (exec::Symbols{{"s0", 23}, {"s1", 3}}));
  EXPECT_EQ(where(p, s1, 4096), (exec::Symbols{{"s1", 100}, {"s0", 16}})) << "as much as it may be";
  EXPECT_EQ(where(with_symbols({{s0}}), s0, 64), (exec::Symbols{{"s0", 64}})) << "seen or not";
  EXPECT_EQ(where(with_symbols({{s0}}, {{sym::Rel::Eq, sym::mod(s0, 16), 0}}), s0, 100), (exec::Symbols{{"s0", 96}}));
  EXPECT_EQ(where(with_symbols({{s0}}, {{sym::Rel::Lt, s0, 100}}), s0, 4096), (exec::Symbols{{"s0", 99}}));
  std::string why;
  where(with_symbols({{s0}}, {{sym::Rel::Lt, s0, 2}}), s0, 4096, &why);
  EXPECT_EQ(why, "no size near 4096 or below is one of the program's");
  where(with_symbols({{s0}, {u0, true}}), s0, 64, &why);
  EXPECT_EQ(why, "the size u0 is known only when the program runs");
}

std::vector<int64_t> across(const program::Program& p, int64_t usual, bool to_usual = false) {
  std::vector<int64_t> out;
  for (auto& sizes : sizes_across(p, {{p.symbols[0].expr.node()->name, usual}}, to_usual)) out.push_back(sizes[0].second);
  return out;
}

TEST(Sizes, ARangeIsLookedAtInside) {
  const Expr bounded = sym::symbol("b", 2, 8192);
  EXPECT_EQ(across(with_symbols({{bounded, false, 100}}), 100), (std::vector<int64_t>{2, 32, 512, 8192}));
  EXPECT_EQ(across(with_symbols({{s0, false, 100}}), 100), std::vector<int64_t>()) << "no end";
  EXPECT_EQ(across(with_symbols({{s0, false, 1000}}, {{sym::Rel::Ge, s0, 65}}), 1000, true), (std::vector<int64_t>{65, 128, 512}));
  EXPECT_EQ(across(with_symbols({{s0}}, {{sym::Rel::Ge, s0, 17}, {sym::Rel::Le, s0, 64}}), 64, true), (std::vector<int64_t>{17, 32}));
  for (int64_t v : across(with_symbols({{bounded}}, {{sym::Rel::Eq, sym::mod(bounded, 8), 0}}), 64)) EXPECT_EQ(v % 8, 0);
  EXPECT_EQ(across(with_symbols({{bounded}}, {{sym::Rel::Eq, bounded, 64}}), 64), std::vector<int64_t>());
}

// a [s0, 8] x b [8, 8], in a program that has other sizes beside.
program::Program open_product(std::optional<int64_t> rows) {
  program::Program p;
  add_input(p, "a");
  add_input(p, "b");
  p.buffers[0].numel = s0 * 8;
  p.inputs[0].type.sizes = {s0 * 8};
  p.new_buffer("ab", DType::F32, s0 * 8, loop::BufferKind::Temporary);
  p.nodes.push_back(product(0, 1, 2, 8, 8, 8, 0));
  auto& g = std::get<program::Gemm>(p.nodes[0].problem);
  g.m = s0;
  set_output(p, 2);
  p.symbols = {{s0, false, rows}, {s1, false, 3}, {u0, true}};
  p.guards = {{sym::Rel::Gt, s0, 4}, {sym::Rel::Gt, s1, 2}, {sym::Rel::Gt, s0, u0}};
  return p;
}

TEST(Sizes, ARegionHasThoseThatItUses) {
  const program::Program p = open_product(16);
  EXPECT_EQ(program::size_symbols(p), std::set<std::string>{"s0"});
  const size_t all[] = {0};
  const program::Program region = program::region(p, all);
  ASSERT_EQ(region.symbols.size(), 1u);
  EXPECT_EQ(region.symbols[0].expr, s0);
  ASSERT_EQ(region.guards.size(), 1u);
  EXPECT_EQ(sym::to_string(region.guards[0]), "s0 > 4");
}

TEST(Sizes, ARegionAtOtherSizesIsAnotherProblem) {
  const auto region_for = [](const program::Program& p) { return find_regions(p, sched::fuse(p), 3).at(0); };
  const Region few = region_for(open_product(16)), many = region_for(open_product(400)), unseen = region_for(open_product({}));
  EXPECT_EQ(few.refusal, "");
  EXPECT_EQ(exec::to_string(few.sizes), "s0=16");
  EXPECT_EQ(program::region_key(few.program), program::region_key(many.program));
  EXPECT_NE(few.key, many.key);
  EXPECT_EQ(few.key, region_for(open_product(16)).key);
  program::Program bounded = open_product(16);
  bounded.guards.push_back({sym::Rel::Lt, s0, 100});
  EXPECT_NE(few.key, region_for(bounded).key);
  EXPECT_EQ(unseen.refusal, "nothing says what the size s0 usually is");
}

}  // namespace
}  // namespace toroid::tune
