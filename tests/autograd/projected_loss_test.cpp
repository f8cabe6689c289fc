#include "autograd/projected_loss.h"

#include <gtest/gtest.h>

#include "autograd/differentiate.h"
#include "autograd/partition/partition.h"
#include "graph/pass.h"

namespace toroid::autograd {
namespace {

class ProjectedLoss : public ::testing::Test {
 protected:
  // The operations of the graph after the rewrite, one after the other; "" where there is none to be done.
  static std::string rewritten(const std::string& body, const std::string& loss = "%loss") {
    const auto g = graph::parse("graph \"g\"(%x: bf16[16, 1024, 64], %w: bf16[50304, 64], %v: bf16[64, 50304], %y: i64[16384]) {\n" + body +
                                "  return " + loss + "\n}\n");
    const auto after = with_projected_losses(*g);
    if (!after) return "";
    std::string out;
    for (auto& n : after->nodes) out += n->op->name + " ";
    return out;
  }
};

constexpr const char* kLinear = R"(  %l: bf16[16, 1024, 50304] = linear(%x, %w)
  %f: bf16[16384, 50304] = flatten.using_ints(%l, start_dim=0, end_dim=1)
  %s: f32[16384, 50304] = to.dtype(%f, dtype=f32)
)";
constexpr const char* kLoss = "  %loss: f32[] = cross_entropy_loss(%s, %y)\n";

TEST_F(ProjectedLoss, StandsForLargeScoresOfAProduct) {
  EXPECT_EQ(rewritten(std::string(kLinear) + kLoss), "reshape prims.linear_cross_entropy ");
  EXPECT_EQ(rewritten(R"(  %l: bf16[16, 1024, 50304] = matmul(%x, %v)
  %c: f32[16, 1024, 50304] = _to_copy(%l, dtype=f32)
  %s: f32[16384, 50304] = view(%c, size=[16384, 50304])
)" + std::string(kLoss)),
            "reshape t prims.linear_cross_entropy ");
}

TEST_F(ProjectedLoss, ScoresThatAreReadOtherwiseStay) {
  EXPECT_EQ(rewritten(std::string(kLinear) + kLoss, "%loss, %s"), "");
  EXPECT_EQ(rewritten(std::string(kLinear) + kLoss + "  %m: bf16[] = sum(%l)\n", "%loss, %m"), "");
  EXPECT_EQ(rewritten(std::string(kLinear) + "  %loss: f32[16384] = cross_entropy_loss(%s, %y, reduction=0)\n"), "");
  EXPECT_EQ(rewritten(std::string(kLinear) + "  %loss: f32[] = cross_entropy_loss(%s, %y, label_smoothing=0.1)\n"), "");
  EXPECT_EQ(rewritten(std::string(kLinear) + "  %t: f32[16384, 50304] = tanh(%s)\n  %loss: f32[] = cross_entropy_loss(%t, %y)\n"), "");
}

TEST_F(ProjectedLoss, SmallScoresStay) {
  const auto g = graph::parse(R"(graph "g"(%x: f32[64, 8], %w: f32[10, 8], %y: i64[64]) {
  %s: f32[64, 10] = linear(%x, %w)
  %loss: f32[] = cross_entropy_loss(%s, %y)
  return %loss
}
)");
  EXPECT_EQ(with_projected_losses(*g), nullptr);
}

// Each part of the scores is read for the last time before the next one is there.
TEST_F(ProjectedLoss, GradientsAreComputedBesideEachPart) {
  const auto g = graph::parse("graph \"g\"(%x: bf16[16, 1024, 64], %w: bf16[50304, 64], %y: i64[16384]) {\n" + std::string(kLinear) +
                              kLoss + "  return %loss\n}\n");
  const auto joint = graph::run_passes(differentiate(*g, {.inputs = {0, 1}}), graph::pipeline(graph::kInference));
  const Partition p = partition(*joint, {});
  const auto after = recompute(*joint, p);
  ASSERT_NE(after, nullptr);
  EXPECT_EQ(p.saved.size(), 2u) << to_string(p);                   // the gradients alone
  std::map<const graph::Value*, std::pair<size_t, size_t>> lives;  // of scores: written, read for the last time
  for (size_t i = 0; i < after->nodes.size(); ++i) {
    graph::for_each_operand(*after->nodes[i], [&](const graph::Value* v) {
      if (const auto it = lives.find(v); it != lives.end()) it->second.second = i;
    });
    for (const graph::Value* r : after->nodes[i]->results)
      if (r->producer->op->name == "mm" && r->type.sizes[1] == Expr(50304)) lives[r] = {i, i};
  }
  ASSERT_EQ(lives.size(), 2u) << graph::to_string(*after);  // 1.6 GB in two parts
  auto first = lives.begin()->second, second = std::next(lives.begin())->second;
  if (first > second) std::swap(first, second);
  EXPECT_LT(first.second, second.first) << graph::to_string(*after);
}

}  // namespace
}  // namespace toroid::autograd
