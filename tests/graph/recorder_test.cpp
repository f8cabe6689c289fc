// What calls leave behind in a graph that is recorded, above all those that fail.
#include "graph/recorder.h"

#include <gtest/gtest.h>

#include "errors.h"
#include "graph/graph.h"
#include "graph/requirements.h"
#include "ops/table.h"

namespace toroid::graph {
namespace {

using ops::call1;
using test::contains;
using test::user_error;

class RecorderTest : public testing::Test {
 protected:
  // An input of so many open sizes, which have hints where those are given.
  Tensor input(const std::string& name, size_t rank, const std::vector<int64_t>& hints = {}) {
    TensorType type;
    for (size_t d = 0; d < rank; ++d) {
      type.sizes.push_back(sym::symbol(name + std::to_string(d), 0, 64));
      g_.symbols.push_back({type.sizes.back(), false});
      if (d < hints.size()) recorder_.set_hint(name + std::to_string(d), hints[d]);
    }
    return recorder_.proxy(g_.add_input(type, InputKind::User, name));
  }
  std::string guards() const {
    std::string out;
    for (auto& r : g_.guards) out += (out.empty() ? "" : ", ") + sym::to_string(r) + (r.is_requirement() ? " required" : "");
    return out;
  }

  Graph g_;
  Recorder recorder_{g_};
  DispatchScope scope_{recorder_};
};

// The operation requires some things of open sizes, and then meets what no size can mend.
TEST_F(RecorderTest, ACallThatFailsLeavesNoRequirementsBehind) {
  const Tensor x = input("x", 3), w = input("w", 3), bias = input("b", 2);
  const std::vector<Expr> one{1}, none{0};
  call1("relu", {x});
  const auto primitive = [&](const Tensor& b) { return call1("convolution", {x, w, b, one, none, one, false, none, Expr(1)}); };
  const auto composite = [&](const Tensor& b) { return call1("conv1d", {x, w, b}); };
  for (const std::function<Tensor(const Tensor&)>& convolve : {std::function(primitive), std::function(composite)}) {
    EXPECT_TRUE(contains(user_error([&] { convolve(bias); }), "must have one number for each of"));
    EXPECT_EQ(guards(), "");
    EXPECT_EQ(g_.nodes.size(), 1u);
    EXPECT_EQ(g_.symbols.size(), 8u);
  }
  primitive(Tensor());
  EXPECT_TRUE(contains(guards(), "required")) << "which it does for a call that is right";
  const std::string before = guards();
  EXPECT_NE(user_error([&] { composite(bias); }), "no error");
  EXPECT_EQ(guards(), before) << "and those of other calls stay";
}

// A composite that is recorded as its parts asks the recorder itself.
TEST_F(RecorderTest, NorDoesACompositeThatIsExpanded) {
  recorder_.set_expand_composites(true);
  const Tensor q = input("q", 4, {2, 8, 5, 4}), kv = input("k", 4, {2, 2, 5, 4}), mask = input("m", 2, {5, 5});
  const auto attend = [&](bool is_causal) {
    return ops::call("scaled_dot_product_attention", {q, kv, kv, mask, 0.0, is_causal, 0.5, true});
  };
  EXPECT_TRUE(contains(user_error([&] { attend(true); }), "give either attn_mask or is_causal"));
  EXPECT_FALSE(contains(guards(), "required")) << guards();
  attend(false);
  EXPECT_TRUE(contains(guards(), "mod(q1, k1) == 0 required")) << guards();
}

// Whoever catches the error goes another way, which is for sizes at which the operation fails.
TEST_F(RecorderTest, WhereTheHintsMakeACallFailItIsNotedThatTheyDo) {
  const Tensor x = input("x", 1, {4});
  const auto windows = [&](int64_t width) { return call1("unfold", {x, Expr(0), Expr(width), Expr(1)}); };
  EXPECT_TRUE(contains(user_error([&] { windows(5); }), "unfold: a window of 5 does not fit"));
  EXPECT_EQ(guards(), "5 > x0");
  windows(3);
  EXPECT_EQ(guards(), "5 > x0, 3 <= x0 required");
}

// Groups that are split and joined again have the size that they are of, whatever the number of groups.
TEST_F(RecorderTest, MultiplesCanBeSplitAndJoined) {
  const Tensor x = input("x", 2);
  const Expr rows = x.sym_sizes()[0].expr(), columns = x.sym_sizes()[1].expr();
  recorder_.require({sym::Rel::Eq, sym::mod(columns, 4), 0}, "four each");
  const Tensor split = call1("view", {x, std::vector<Expr>{rows, 4, sym::floor_div(columns, 4)}});
  EXPECT_EQ(call1("view", {split, std::vector<Expr>{rows, columns}}).dim(), 2);
  EXPECT_EQ(guards(), "mod(x1, 4) == 0 required");
  call1("view", {x, std::vector<Expr>{rows, 3, sym::floor_div(columns, 3)}});
  EXPECT_NE(guards(), "mod(x1, 4) == 0 required") << "but not into three";
}

// Extremes of none are refused in graphs that nobody recorded, unless they say what they are.
TEST(Requirements, OfExtremesAreFoundInTextToo) {
  const auto required = [](const std::string& row) {
    const auto g = parse("graph \"f\"(%x: f32[s0, s1]) symbols(s0 in 0..64, s1 in 0..64) {\n  %y: " + row + "\n  return %y\n}\n");
    std::string out;
    for (auto& r : all_guards(*g)) out += sym::to_string(r) + " ";
    return out;
  };
  EXPECT_EQ(required("f32[s0] = amax(%x, dim=[1])"), "s1 >= 1 ");
  EXPECT_EQ(required("f32[s1] = amin(%x, dim=[0])"), "s0 >= 1 ");
  EXPECT_EQ(required("i64[s0] = argmax(%x, dim=1)"), "s1 >= 1 ");
  EXPECT_EQ(required("f32[s0] = amax(%x, dim=[1], or_lowest=true)"), "");
  EXPECT_EQ(required("f32[s0] = sum.dim_IntList(%x, dim=[1])"), "");
  EXPECT_EQ(required("f32[s0, s1] = softmax.int(%x, dim=1)"), "");
}

}  // namespace
}  // namespace toroid::graph
