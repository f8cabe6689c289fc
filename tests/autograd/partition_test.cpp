#include "autograd/partition/partition.h"

#include <gtest/gtest.h>

#include "autograd/partition_checks.h"
#include "fuzz_compiled/from_environment.h"
#include "ops/reference.h"
#include "samples.h"

namespace toroid::autograd {
namespace {

class PartitionTest : public ::testing::Test {
 protected:
  static std::vector<std::string> saved(const Partition& p) {
    std::vector<std::string> out;
    for (auto& s : p.saved) out.push_back(s.value->name + ": " + s.reason);
    return out;
  }
  ops::ReferenceDispatcher reference_;
  DispatchScope scope_{reference_};
};

TEST_F(PartitionTest, CutsAreTheSmallest) {
  for (uint64_t seed = 1; seed <= 3000; ++seed) ASSERT_EQ(wrong_cut(seed), "");
}

TEST_F(PartitionTest, SavesTheFewestBytesOfAllSets) {
  for (uint64_t seed = 1; seed <= test::from_environment("TOROID_FUZZ_COUNT", 300); ++seed) ASSERT_EQ(wrong_partition(seed), "");
}

TEST_F(PartitionTest, ComputesTheSameBits) {
  for (uint64_t seed = 1; seed <= test::from_environment("TOROID_FUZZ_COUNT", test::samples(100)); ++seed)
    ASSERT_EQ(wrong_recomputation(seed), "");
}

TEST_F(PartitionTest, TwoProgramsComputeTheSameBits) {
  for (uint64_t seed = 1; seed <= test::from_environment("TOROID_FUZZ_COUNT", test::samples(100)); ++seed)
    ASSERT_EQ(wrong_division(seed), "");
}

TEST_F(PartitionTest, TwoProgramsWithEffects) { EXPECT_EQ(wrong_divided_effects(), ""); }

TEST_F(PartitionTest, ValuesWithinCheckpointsAreComputedAgain) { EXPECT_EQ(wrong_checkpoint(), ""); }

TEST_F(PartitionTest, SaysWhyValuesAreKept) {
  const auto g = graph::parse(R"(graph "g"(%x: f32[1024, 1024], %w: f32[1024, 1024]) {
  %norm: f32[1024, 1] = sum.dim_IntList(%x, dim=[1], keepdim=true)
  %scaled: f32[1024, 1024] = mul.Tensor(%x, %norm)
  %a: f32[1024, 1024] = mm(%scaled, %w)
  %b: f32[1024, 1024] = exp(%a)
  %small: f32[1024, 1] = exp(%norm)
  %stream: f32[1024, 1024] = add.Tensor(%x, %a)
  %c: f32[1024, 1024] = mm(%stream, %b)
  %r: f32[1024, 1024] = add.Tensor(%stream, %c)
  %d: f32[1024, 1024] = mul.Tensor(%r, %small)
  %s: f32[1024, 1024] = prims.gradient_seed(%d)
  %e: f32[1024, 1024] = mul.Tensor(%s, %small)
  %f: f32[1024, 1024] = mul.Tensor(%e, %scaled)
  %h: f32[1024, 1024] = mul.Tensor(%f, %stream)
  %i: f32[1024, 1024] = mul.Tensor(%h, %b)
  return %d, %i
}
)");
  const Partition p = partition(*g, {});
  EXPECT_EQ(saved(p),
            (std::vector<std::string>{"norm: a reduction reads more than it keeps", "b: nothing smaller would do", "small: less than 1 MiB",
                                      "stream: in memory across a product of the forward pass anyway"}));
  EXPECT_NE(to_string(p).find("1 computed again; 8.4 MB saved in 4 values"), std::string::npos) << to_string(p);
}

TEST_F(PartitionTest, KeepsWhatProductsReadWhereArithmeticIsDear) {
  const auto g = graph::parse(R"(graph "g"(%x: bf16[1024, 1024], %w: f32[1024, 1024]) {
  %a: bf16[1024, 1024] = mm(%x, %x)
  %b: f32[1024, 1024] = _to_copy(%a, dtype=f32)
  %c: f32[1024, 1024] = mm(%b, %w)
  %s: f32[1024, 1024] = prims.gradient_seed(%c)
  %t: f32[1024, 1024] = t(%b)
  %e: f32[1024, 1024] = mm(%s, %t)
  return %c, %e
}
)");
  EXPECT_EQ(saved(partition(*g, {})), (std::vector<std::string>{"a: a product is dear"}));
  EXPECT_EQ(saved(partition(*g, {.arithmetic_is_dear = true})), (std::vector<std::string>{"b: a product of the backward pass reads it"}));
}

TEST_F(PartitionTest, WithoutGradientsAllIsForward) {
  const auto g = graph::parse("graph \"g\"(%x: f32[4]) {\n  %y: f32[4] = exp(%x)\n  return %y\n}\n");
  const Partition p = partition(*g, {});
  EXPECT_EQ(p.forward.size(), 1u);
  EXPECT_TRUE(p.backward.empty());
  EXPECT_EQ(recompute(*g, p), nullptr);
}

// A check of a gradient, which has no result, runs where the gradient is.
TEST_F(PartitionTest, EffectsComeWhereTheirOperandsAre) {
  const auto g = graph::parse(R"(graph "g"(%x: f32[4]) {
  %y: f32[4] = exp(%x)
  %s: f32[4] = prims.gradient_seed(%y)
  %z: f32[4] = mul.Tensor(%s, %y)
  %p: bool[4] = gt.Scalar(%z, other=0)
  %q: bool[] = all(%p)
  _assert_async(%q)
  %w: f32[4] = exp(%y)
  return %w, %z
}
)");
  const Partition p = partition(*g, {});
  EXPECT_EQ(p.forward.size(), 2u);
  EXPECT_EQ(p.backward.size(), 5u);
  const auto after = recompute(*g, p);
  ASSERT_NE(after, nullptr);  // the order is another
  EXPECT_EQ(after->nodes[1]->op->name, "exp");
  EXPECT_EQ(after->nodes.back()->op->name, "_assert_async");
}

}  // namespace
}  // namespace toroid::autograd
