// Random graphs: passes keep what the interpreter computes, and in-place graphs mean what shared memory means.
#include "graph/random_graph.h"

#include <gtest/gtest.h>

#include <cmath>

#include "aliasing_oracle.h"
#include "base/options.h"
#include "graph/interpreter.h"
#include "graph/pass.h"
#include "samples.h"

namespace toroid::graph {
namespace {

void expect_near(const Tensor& a, const Tensor& b, const std::string& what) {
  ASSERT_EQ(a.dtype(), b.dtype()) << what;
  ASSERT_EQ(a.sizes(), b.sizes()) << what;
  auto x = a.to_vector(), y = b.to_vector();
  double tolerance = is_half(a.dtype()) ? 2e-2 : 1e-4;
  for (size_t i = 0; i < x.size(); ++i)
    if (x[i] != y[i] && !(std::isnan(x[i]) && std::isnan(y[i]))) {
      ASSERT_NEAR(x[i], y[i], tolerance * (1 + std::abs(x[i]))) << what << ", element " << i;
    }
}

std::vector<Tensor> copies(const std::vector<Tensor>& from) {
  std::vector<Tensor> out;
  for (auto& t : from) out.push_back(deep_copy(t));
  return out;
}

TEST(RandomGraph, TextRoundTrip) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    auto g = random_graph(seed, {.control_flow = seed % 2 == 0});
    verify(*g, "as generated");
    std::string text = to_string(*g);
    EXPECT_EQ(to_string(*parse(text)), text);
  }
}

bool is_wild_input(const NodeArg& a) {
  const auto* v = std::get_if<Value*>(&a);
  return v && !(*v)->producer && (*v)->name.starts_with("wild");
}

// Ways of computing a convolution differ in whether padding is left out or multiplied: no weight is infinite where there may be padding.
TEST(RandomGraph, NoInfiniteWeightMeetsPadding) {
  constexpr uint64_t kMost = 2000;
  int wild = 0;
  for (uint64_t seed = 0; seed < (wild > 0 ? test::samples(kMost) : kMost); ++seed) {  // few seeds have such a weight
    const auto g = random_graph(seed, {.nodes = 6});
    for (auto& n : g->nodes) {
      if ((n->op->name != "convolution" && n->op->name != "conv2d") || !is_wild_input(n->args[1])) continue;
      ++wild;
      const auto padding = std::get<std::vector<Expr>>(n->args[static_cast<size_t>(n->op->schema.find("padding"))]);
      for (const Expr& p : padding) EXPECT_EQ(p, Expr(0)) << "seed " << seed << "\n" << to_string(*g);
      EXPECT_FALSE(std::get<Value*>(n->args[0])->producer) << "seed " << seed << ": what is convolved may be padded\n" << to_string(*g);
    }
  }
  EXPECT_GT(wild, 0);
}

TEST(RandomGraph, PassesKeepTheResults) {
  CompileOptions options;
  options.set("verify_passes", "1");
  int refused = 0;
  for (uint64_t seed = 0; seed < test::samples<uint64_t>(150); ++seed) {
    auto g = random_graph(seed, {.nodes = 14, .in_place = false, .control_flow = seed % 2 == 0});
    auto inputs = random_inputs(*g, seed);
    std::vector<Tensor> expected;
    try {
      expected = interpret(*g, copies(inputs));
    } catch (const UserError&) {  // such as an index into a dimension that came out empty
      ++refused;
      continue;
    }
    auto after = run_passes(clone(*g), pipeline(kLoops), nullptr, options);
    auto found = interpret(*after, copies(inputs));
    ASSERT_EQ(expected.size(), found.size());
    for (size_t i = 0; i < found.size(); ++i)
      expect_near(expected[i], found[i], "seed " + std::to_string(seed) + "\n" + to_string(*g) + to_string(*after));
    if (HasFatalFailure()) return;
  }
  EXPECT_LT(refused, 10);
}

TEST(RandomGraph, FunctionalizedGraphsMeanTheSame) {
  CompileOptions options;
  options.set("verify_passes", "1");
  int refused = 0;
  for (uint64_t seed = 1000; seed < 1000 + test::samples<uint64_t>(300); ++seed) {
    auto g = random_graph(seed, {.nodes = 16, .dynamic_sizes = false, .mixed_dtypes = false});
    auto inputs = random_inputs(*g, seed);
    auto a = copies(inputs), b = copies(inputs);
    std::vector<Tensor> expected;
    try {
      expected = run_aliasing(*g, a);
    } catch (const UserError&) {
      ++refused;
      continue;
    }
    auto after = run_passes(clone(*g), pipeline(kLoops), nullptr, options);
    auto found = interpret(*after, b);
    std::string what = "seed " + std::to_string(seed) + "\n" + to_string(*g) + to_string(*after);
    ASSERT_EQ(expected.size(), found.size());
    for (size_t i = 0; i < found.size(); ++i) expect_near(expected[i], found[i], what);
    for (size_t i = 0; i < a.size(); ++i) expect_near(a[i], b[i], "input after the run, " + what);
    if (HasFatalFailure()) return;
  }
  EXPECT_LT(refused, 15);
}

}  // namespace
}  // namespace toroid::graph
