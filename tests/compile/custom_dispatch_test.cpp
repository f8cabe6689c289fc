// Custom operations whose variant is chosen by a size when the program runs.
#include <gtest/gtest.h>

#include "choice/inline.h"
#include "compile/assembly.h"
#include "compile/harness.h"
#include "exec/executable.h"
#include "graph/pass.h"
#include "sched/fuse.h"
#include "toroid/custom_op.h"

namespace toroid {
namespace {

using test::counting;

// Variants that can be told apart, which no other user of the library should register.
auto& by_size() {
  static auto op = [] {
    auto op = custom_op("test::by_size(Tensor x) -> Tensor", [](const Tensor& x) { return x * 1.0; });
    register_custom_op_autotuning(
        op,
        {{.name = "two", .decomposition = [](const Tensor& x) { return x * 2.0; }},
         {.name = "three", .decomposition = [](const Tensor& x) { return x * 3.0; }},
         {.name = "two again", .decomposition = [](const Tensor& y) { return y * 2.0; }},
         {.name = "two, cublaslt", .decomposition = [](const Tensor& y) { return y * 2.0; }, .options = {{"gemm_backends", "cublaslt"}}}},
        {.dispatch_on = CustomDispatch{.tensor = "x", .dim = 0, .range_upper_bound = 4096}, .split_points = {4, 9}});
    return op;
  }();
  return op;
}

choice::Program lowered(bool symbolic) {
  by_size();
  auto g = graph::parse(symbolic ? R"(graph "by_size"(%x: f32[s0, 3]) symbols(s0 in 1..inf) {
  %y: f32[s0, 3] = add.Tensor(%x, 1)
  %z: f32[s0, 3] = test::by_size(%y)
  %r: f32[s0, 3] = relu(%z)
  return %r
})"
                                 : R"(graph "by_size"(%x: f32[6, 3]) {
  %z: f32[6, 3] = test::by_size(%x)
  return %z
})");
  return lower::lower(*graph::run_passes(std::move(g), graph::default_passes(true, true)));
}

size_t open_node(const choice::Program& p) {
  for (size_t i = 0; i < p.nodes.size(); ++i)
    if (p.nodes[i].is_open()) return i;
  ADD_FAILURE() << "no open node";
  return 0;
}

// The rest of the pipeline, blocks by the same.
struct Pipeline {
  ModelOptions options;
  compiler::CompileReport report;
  std::shared_ptr<const compiler::Target> target = compiler::make_target(options);

  std::unique_ptr<compiler::Assembly> assembled(choice::Program p, compiler::CompileReport& into) {
    p = target->schedule(sched::fuse(std::move(p)), options, into.fusion, into.choices);
    auto out = std::make_unique<compiler::Assembly>(std::move(p), options, into, target, compiler::DebugFolder("test"));
    out->add_blocks([&](const graph::Graph& g) {
      compiler::Assembly::Inner inner;
      inner.report = std::make_unique<compiler::CompileReport>();
      inner.block.name = g.name;
      for (size_t i = 0; i < g.outputs.size(); ++i) inner.block.results.push_back(static_cast<int>(i));
      inner.assembly = assembled(lower::lower(g), *inner.report);
      return inner;
    });
    out->generate();
    return out;
  }

  exec::Plan plan(choice::Program p) {
    auto a = assembled(std::move(p), report);
    a->build();
    a->load();
    return a->plan();
  }
};

const exec::Branch* branch_of(const exec::Plan& plan) {
  for (auto& step : plan.steps)
    if (auto* b = std::get_if<exec::Branch>(&step)) return b;
  return nullptr;
}

TEST(CustomDispatch, RangesAreTimedAtTheirTops) {
  auto p = lowered(true);
  auto ranges = choice::ranges_of(std::get<choice::Open>(p.nodes[open_node(p)].problem));
  ASSERT_EQ(ranges.size(), 3u);
  EXPECT_EQ(ranges[0].first, 1);
  EXPECT_EQ(ranges[0].last, 4);
  EXPECT_EQ(ranges[0].timed_at, 4);
  EXPECT_EQ(ranges[1].first, 5);
  EXPECT_EQ(ranges[1].last, 9);
  EXPECT_EQ(ranges[2].first, 10);
  EXPECT_EQ(ranges[2].timed_at, 4096);
  p = lowered(false);
  EXPECT_EQ(choice::ranges_of(std::get<choice::Open>(p.nodes[open_node(p)].problem)).size(), 1u) << "the size is known";
}

TEST(CustomDispatch, ThreeRangesWithTwoWinnersAreOneBranch) {
  for (bool record : {false, true}) {
    auto p = lowered(true);
    Pipeline pipeline;
    pipeline.options.mode = record ? Mode::ReduceOverhead : Mode::Default;
    exec::Plan plan = pipeline.plan(choice::decide_ranges(p, open_node(p), {1, 3, 2}));  // two, two again, three
    const auto* branch = branch_of(plan);
    ASSERT_TRUE(branch);
    EXPECT_EQ(branch->blocks.size(), 2u);
    ASSERT_EQ(branch->conditions.size(), 1u);
    EXPECT_EQ(sym::to_string(branch->conditions[0]), "s0 <= 9");
    exec::Executable run(std::move(plan));
    for (int64_t n : {1, 4, 5, 9, 10, 11, 9, 10, 9, 10, 40}) {
      Tensor x = counting({n, 3});
      const double factor = n <= 9 ? 2 : 3;
      auto expected = x.to_vector();
      for (double& v : expected) v = (v + 1) * factor;
      EXPECT_EQ(run.run(std::vector{x})[0].to_vector(), expected) << n << " rows";
    }
  }
}

TEST(CustomDispatch, ThreeWinnersAndTheirOptionsStayApart) {
  auto p = lowered(true);
  auto decided = choice::decide_ranges(p, open_node(p), {0, 4, 1});  // own, "two, cublaslt", two
  const auto& call = std::get<choice::Extern>(decided.nodes[open_node(p)].problem);
  ASSERT_EQ(call.conditions.size(), 2u) << "equal code under other options is something else";
  EXPECT_TRUE(call.options[0].empty());
  EXPECT_EQ(call.options[1].at(0).second, "cublaslt");
  EXPECT_TRUE(call.options[2].empty());
  Pipeline pipeline;
  exec::Executable run(pipeline.plan(std::move(decided)));
  for (int64_t n : {4, 5, 9, 10}) {
    auto expected = counting({n, 3}).to_vector();
    for (double& v : expected) v = (v + 1) * (n <= 4 ? 1 : 2);
    EXPECT_EQ(run.run(std::vector{counting({n, 3})})[0].to_vector(), expected) << n << " rows";
  }
}

TEST(CustomDispatch, OneWinnerIsInlined) {
  auto p = lowered(true);
  Pipeline pipeline;
  exec::Plan plan = pipeline.plan(choice::decide_ranges(p, open_node(p), {1, 3, 1}));
  EXPECT_FALSE(branch_of(plan));
  EXPECT_EQ(plan.steps.size(), 1u) << "fused with its neighbours";
}

}  // namespace
}  // namespace toroid
