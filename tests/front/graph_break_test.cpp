// Reads of values while tracing: graph breaks, fullgraph, explain.
#include "front/harness.h"

namespace toroid {
namespace {

using namespace test;
using Values = std::vector<double>;

Tensor branching(const Tensor& x) {
  Tensor y = x * 2;
  if (sum(y).item() > 0) return y + 1;
  return y - 1;
}

TEST(GraphBreak, TakesTheRightBranchEachTime) {
  auto f = compile(branching, by_reference());
  EXPECT_EQ(f(Tensor::of({1, 2}, {2})).to_vector(), (Values{3, 5}));
  EXPECT_EQ(f(Tensor::of({-1, -2}, {2})).to_vector(), (Values{-3, -5}));
  EXPECT_EQ(f(Tensor::of({2, 2}, {2})).to_vector(), (Values{5, 5}));
  auto r = f.report();
  EXPECT_EQ(r.compiles, 3);  // the common part, and each branch
  ASSERT_EQ(r.graph_breaks.size(), 1u);
  EXPECT_TRUE(contains(r.graph_breaks[0], "item() at graph_break_test.cpp:12"));
}

TEST(GraphBreak, AnyUseOfTheMemoryIsOne) {
  const std::vector<std::pair<std::string, std::function<double(const Tensor&)>>> uses = {
      {"to_vector()", [](const Tensor& t) { return t.to_vector()[1]; }},
      {"data()", [](const Tensor& t) { return static_cast<double>(t.data<float>()[1]); }},
      {"strides()", [](const Tensor& t) { return static_cast<double>(t.strides()[0]); }},
      {"is_contiguous()", [](const Tensor& t) { return t.is_contiguous() ? 1.0 : 0.0; }},
      {"as_strided()",
       [](const Tensor& t) {
         return expand(t, {2, 2}).as_strided(std::vector<int64_t>{1}, std::vector<int64_t>{1}).item();
       }},
  };
  for (auto& [what, use] : uses) {
    const auto both = [&use = use](const Tensor& x) {
      Tensor y = x * 2;
      return y + use(y);
    };
    auto f = compile(both, by_reference());
    for (double first : {1., 3.})
      EXPECT_EQ(f(Tensor::of({first, 2}, {2})).to_vector(), both(Tensor::of({first, 2}, {2})).to_vector()) << what;
    ASSERT_EQ(f.report().graph_breaks.size(), 1u);
    EXPECT_TRUE(contains(f.report().graph_breaks[0], what + " at graph_break_test.cpp")) << f.report().graph_breaks[0];
    EXPECT_TRUE(contains(user_error([&] { compile(both, by_reference({.fullgraph = true}))(counting({2})); }), what));
  }
}

TEST(GraphBreak, SizesAsPlainNumbersAreNone) {
  auto f = compile([](const Tensor& x) { return x * static_cast<double>(x.numel()) + static_cast<double>(x.sizes()[0]); },
                   by_reference({.fullgraph = true}));
  for (int64_t n : {3, 4, 5}) EXPECT_EQ(f(counting({n})).to_vector()[1], 2. * static_cast<double>(n));
  EXPECT_EQ(f.report().compiles, 3);
}

TEST(GraphBreak, SizesThatChangeBecomeSymbolic) {
  auto f = compile(branching, by_reference());
  for (int64_t n : {3, 4, 5, 6}) EXPECT_EQ(f(counting({n})).to_vector()[1], 3);
  EXPECT_EQ(f.report().compiles, 4);
}

TEST(GraphBreak, FullgraphNamesTheLineAndRunsNothing) {
  auto f = compile(
      [](const Tensor& x) {
        fill_(x, 9);
        return branching(x);
      },
      by_reference({.fullgraph = true}));
  Tensor x = counting({2});
  std::string what = user_error([&] { f(x); });
  EXPECT_TRUE(contains(what, "item() at graph_break_test.cpp:12") && contains(what, "sum")) << what;
  EXPECT_EQ(x.to_vector(), (Values{0, 1}));
}

TEST(GraphBreak, WritesOnBothSides) {
  auto f = compile(
      [](const Tensor& x) {
        Tensor row = select(x, 0, 0);
        add_(row, 1);
        double first = row.size(0) > 1 ? select(row, 0, 0).item() : 0;
        add_(row, first);
        return x + 0;
      },
      by_reference());
  for (int i = 0; i < 2; ++i) {
    Tensor x = counting({2, 2});
    EXPECT_EQ(f(x).to_vector(), (Values{2, 3, 2, 3}));
    EXPECT_EQ(x.to_vector(), (Values{2, 3, 2, 3}));
  }
  EXPECT_TRUE(contains(to_string(f.report()), "share memory"));
}

TEST(GraphBreak, DisabledFunctionsRunUntraced) {
  bool traced = true;
  auto outside = compile_disable([&traced](const Tensor& x) {
    traced = is_compiling();
    return x * x.to_vector()[1];
  });
  auto f = compile([&](const Tensor& x) { return outside(x + 1) - 1; }, by_reference());
  EXPECT_EQ(f(counting({2})).to_vector(), (Values{1, 3}));
  EXPECT_FALSE(traced);
  EXPECT_EQ(f.report().graph_breaks.size(), 1u);
}

TEST(Explain, CountsGraphsOperationsAndBreaks) {
  auto whole = explain([](const Tensor& x) { return relu(x + 1) * 2; }, counting({2}));
  EXPECT_EQ(whole.graph_count, 1u);
  EXPECT_EQ(whole.operation_count, 3u);
  EXPECT_TRUE(whole.breaks.empty());
  EXPECT_EQ(whole.guards, (std::vector<std::string>{"input 0: f32[2], contiguous"}));
  auto split = explain(branching, counting({2}));
  EXPECT_EQ(split.graph_count, 2u);
  EXPECT_EQ(split.operation_count, 3u);
  EXPECT_EQ(split.breaks.size(), 1u);
}

}  // namespace
}  // namespace toroid
