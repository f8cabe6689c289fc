// What nodes do besides giving results, by their rows and regions, and that passes go by it.
#include "graph/effects.h"

#include <gtest/gtest.h>

#include "graph/pass.h"
#include "graph/passes/passes.h"
#include "graph/text.h"
#include "ops/table.h"

namespace toroid::graph {
namespace {

TEST(Effects, AreThoseOfTheRow) {
  EXPECT_EQ(effects_of(ops::get("add.Tensor")), Effects());
  EXPECT_EQ(effects_of(ops::get("add_.Tensor")), Effects(Effect::Writes));
  EXPECT_EQ(effects_of(ops::get("prims.rand_uniform")), Effects(Effect::Draws));
  EXPECT_EQ(effects_of(ops::get("_assert_async")), Effects(Effect::Checks));
  Effects both = Effect::Draws;
  both |= Effect::Checks;
  EXPECT_TRUE(both.any() && both.has(Effect::Draws) && both.has(Effect::Checks));
  EXPECT_FALSE(both.has(Effect::Writes));
}

// A branch whose result nobody reads, around this line.
std::unique_ptr<Graph> around(const std::string& line) {
  return parse(R"(graph "g"(%p: bool[], %x: f32[4], %ok: bool[]) {
    %y: f32[4] = cond(%p, [%x, %ok]) {
      graph "then"(%a: f32[4], %k: bool[]) {
        )" + line +
               R"(
        %b: f32[4] = exp(%a)
        return %b
      }
    } {
      graph "else"(%a: f32[4], %k: bool[]) {
        return %a
      }
    }
    return %x
  })");
}

TEST(Effects, OfRegionsAreThoseOfTheirNode) {
  const auto pure = around("%c: f32[4] = tanh(%a)"), checks = around("_assert_async(%k)"),
             writes = around("%c: f32[4] = add_.Tensor(%a, 1)");
  EXPECT_EQ(effects_of(*pure->nodes[0]), Effects());
  EXPECT_EQ(effects_of(*checks->nodes[0]), Effects(Effect::Checks));
  EXPECT_EQ(effects_of(*writes->nodes[0]), Effects(Effect::Writes));
  EXPECT_FALSE(is_pure(*pure->nodes[0])) << "how often its regions run is the node's";
  ASSERT_TRUE(dce(*pure));
  EXPECT_TRUE(dce(*pure)->nodes.empty());
  EXPECT_FALSE(dce(*checks)) << "nothing can go";
  EXPECT_FALSE(dce(*writes));
}

// Nodes with effects stay as often as they are there, and in their order.
TEST(Effects, PassesKeepWhatHasThem) {
  const auto g = parse(R"(graph "g"(%x: f32[4], %ok: bool[]) {
    %a: f32[4] = prims.rand_uniform([4], stream=0)
    _assert_async(%ok)
    %b: f32[4] = prims.rand_uniform([4], stream=0)
    _assert_async(%ok)
    %s: f32[4] = exp(%x)
    %t: f32[4] = exp(%x)
    %u: f32[4] = add.Tensor(%s, %t)
    return %u
  })");
  std::vector<std::string> want;
  for (auto& n : g->nodes)
    if (effects_of(*n).any()) want.push_back(n->op->name);
  ASSERT_EQ(want.size(), 4u);
  const std::pair<const char*, PassFunction> passes[] = {
      {"cse", cse}, {"dce", dce}, {"constant_fold", constant_fold}, {"simplify", simplify}, {"trim", trim}};
  for (auto& [name, pass] : passes) {
    const auto after = pass(*g);
    std::vector<std::string> got;
    for (auto& n : (after ? *after : *g).nodes)
      if (effects_of(*n).any()) got.push_back(n->op->name);
    EXPECT_EQ(got, want) << name;
  }
  EXPECT_EQ(cse(*g)->nodes.size(), g->nodes.size() - 1) << "equal pure nodes are one";
}

}  // namespace
}  // namespace toroid::graph
