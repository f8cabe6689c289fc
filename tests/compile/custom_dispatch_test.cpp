// Custom operations whose variant is chosen by a size when the program runs.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "base/check.h"
#include "base/options.h"
#include "compile/harness.h"
#include "compile/stages.h"
#include "exec/run/executable.h"
#include "front/compile_model.h"
#include "program/inline.h"
#include "toroid/custom_op.h"
#include "toroid/ops.h"
#include "tune/search/whole.h"

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

program::Program lowered(bool symbolic) {
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
  return lower::lower(*graph::run_passes(std::move(g), graph::pipeline(graph::kFrozen)));
}

size_t open_node(const program::Program& p) {
  for (size_t i = 0; i < p.nodes.size(); ++i)
    if (p.nodes[i].is_open()) return i;
  ADD_FAILURE() << "no open node";
  return 0;
}

const exec::Branch* branch_of(const exec::Loadable& made) {
  for (auto& step : made.plan.steps)
    if (auto* b = std::get_if<exec::Branch>(&step)) return b;
  return nullptr;
}

TEST(CustomDispatch, RangesAreTimedAtTheirTops) {
  auto p = lowered(true);
  auto ranges = program::ranges_of(std::get<program::Open>(p.nodes[open_node(p)].problem));
  ASSERT_EQ(ranges.size(), 3u);
  EXPECT_EQ(ranges[0].first, 1);
  EXPECT_EQ(ranges[0].last, 4);
  EXPECT_EQ(ranges[0].timed_at, 4);
  EXPECT_EQ(ranges[1].first, 5);
  EXPECT_EQ(ranges[1].last, 9);
  EXPECT_EQ(ranges[2].first, 10);
  EXPECT_EQ(ranges[2].timed_at, 4096);
  p = lowered(false);
  EXPECT_EQ(program::ranges_of(std::get<program::Open>(p.nodes[open_node(p)].problem)).size(), 1u) << "the size is known";
}

TEST(CustomDispatch, ThreeRangesWithTwoWinnersAreOneBranch) {
  for (bool record : {false, true}) {
    auto p = lowered(true);
    test::Stages pipeline;
    pipeline.setup.options.set(record ? Mode::ReduceOverhead : Mode::Default);
    exec::Loadable plan = pipeline.plan(program::decide_ranges(p, open_node(p), {1, 3, 2}));  // two, two again, three
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

TEST(CustomDispatch, BlocksAreTunedAtASizeOfTheirRange) {
  auto p = lowered(true);
  const auto hints = [&](std::optional<int64_t> seen) {
    for (auto& a : std::get<program::Open>(p.nodes[open_node(p)].problem).alternatives) a.graph->symbols.at(0).hint = seen;
    const program::Program decided = program::decide_ranges(p, open_node(p), {1, 3, 2});
    std::vector<int64_t> out;
    for (auto& block : std::get<program::Extern>(decided.nodes[open_node(p)].problem).blocks) out.push_back(*block->symbols.at(0).hint);
    return out;
  };
  EXPECT_EQ(hints({}), (std::vector<int64_t>{9, 4096}));
  EXPECT_EQ(hints(7), (std::vector<int64_t>{7, 4096})) << "the size that was seen, where it is in the range";
  EXPECT_EQ(hints(20), (std::vector<int64_t>{9, 20}));
}

TEST(CustomDispatch, ThreeWinnersAndTheirOptionsStayApart) {
  auto p = lowered(true);
  auto decided = program::decide_ranges(p, open_node(p), {0, 4, 1});  // own, "two, cublaslt", two
  const auto& call = std::get<program::Extern>(decided.nodes[open_node(p)].problem);
  ASSERT_EQ(call.conditions.size(), 2u) << "equal code under other options is something else";
  EXPECT_TRUE(call.options[0].empty());
  EXPECT_EQ(call.options[1].at(0).second, "cublaslt");
  EXPECT_TRUE(call.options[2].empty());
  test::Stages pipeline;
  exec::Executable run(pipeline.plan(std::move(decided)));
  for (int64_t n : {4, 5, 9, 10}) {
    auto expected = counting({n, 3}).to_vector();
    for (double& v : expected) v = (v + 1) * (n <= 4 ? 1 : 2);
    EXPECT_EQ(run.run(std::vector{counting({n, 3})})[0].to_vector(), expected) << n << " rows";
  }
}

// The tuner with a clock by which the choice named winners[i] wins range i; "none": all are equal; "too large": nothing runs.
struct PlantedWinners {
  compiler::Setup setup = front::setup_of({.mode = Mode::MaxAutotune});
  std::shared_ptr<const tune::Pipeline> pipeline =
      compiler::pipeline_for({.setup = setup, .target = backend::make_backend(setup.device, setup.options)});
  int samples = 0;
  tune::TuneReport report = {};

  program::Program tuned(program::Program p, const std::vector<std::string>& winners, tune::Memory* memory = nullptr) {
    tune::SearchOptions how;
    how.whole_ms = 0;
    size_t range = 0;
    how.clock = [&](std::span<const std::shared_ptr<tune::ChoiceCaller>> callers) -> tune::Sample {
      std::vector<std::string> names;
      for (auto& c : callers) names.push_back(c->name());
      return [this, names, winner = winners.at(range++)](size_t i) {
        if (winner == "too large") fail<EnvironmentError>("no memory");
        return ++samples, names[i] == winner ? 1e6 : 2e6;
      };
    };
    report = {};
    return tune::tune(std::move(p), pipeline, how, memory, report);
  }
};

void expect_factors(exec::Loadable plan, const std::map<int64_t, double>& factors) {
  exec::Executable run(std::move(plan));
  for (auto [n, factor] : factors) {
    auto expected = counting({n, 3}).to_vector();
    for (double& v : expected) v = (v + 1) * factor;
    EXPECT_EQ(run.run(std::vector{counting({n, 3})})[0].to_vector(), expected) << n << " rows";
  }
}

TEST(CustomDispatch, TuningDecidesRangeByRange) {
  PlantedWinners planted;
  exec::Loadable plan = test::Stages().plan(planted.tuned(lowered(true), {"two", "two", "three"}));
  const auto& regions = planted.report.regions;
  ASSERT_EQ(regions.size(), 3u) << tune::to_string(planted.report);
  const char* labels[] = {"test__by_size, s0 1 to 4", "test__by_size, s0 5 to 9", "test__by_size, s0 from 10"};
  const char* sources[] = {"timed at s0=4", "timed at s0=9", "timed at s0=4096"};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(regions[i].label, labels[i]);
    EXPECT_EQ(regions[i].source, sources[i]);
    EXPECT_EQ(regions[i].originals, regions[i].rows.size()) << "nothing is fused across a branch";
  }
  EXPECT_NE(regions[0].key, regions[1].key);
  const std::string text = tune::to_string(planted.report);
  for (const char* label : labels) EXPECT_TRUE(test::contains(text, label)) << text;
  const auto* branch = branch_of(plan);
  ASSERT_TRUE(branch);
  ASSERT_EQ(branch->blocks.size(), 2u) << "equal neighbours are one range";
  EXPECT_EQ(sym::to_string(branch->conditions[0]), "s0 <= 9");
  expect_factors(std::move(plan), {{1, 2}, {4, 2}, {5, 2}, {9, 2}, {10, 3}, {11, 3}});
}

TEST(CustomDispatch, ThreeWinnersAreThreeBlocks) {
  PlantedWinners planted;
  exec::Loadable plan = test::Stages().plan(planted.tuned(lowered(true), {"three", "none", "two"}));
  ASSERT_TRUE(branch_of(plan));
  EXPECT_EQ(branch_of(plan)->blocks.size(), 3u);
  expect_factors(std::move(plan), {{1, 3}, {4, 3}, {5, 1}, {9, 1}, {10, 2}, {4097, 2}});
}

TEST(CustomDispatch, OneWinnerOfAllRangesIsFused) {
  PlantedWinners planted;
  for (auto& [winner, factor] : std::map<std::string, double>{{"two", 2}, {"none", 1}}) {
    exec::Loadable plan = test::Stages().plan(planted.tuned(lowered(true), {winner, winner, winner}));
    EXPECT_FALSE(branch_of(plan));
    EXPECT_EQ(plan.plan.steps.size(), 1u) << "fused with its neighbours";
    expect_factors(std::move(plan), {{4, factor}, {10, factor}});
  }
}

// What takes the place of a call may hold such calls.
TEST(CustomDispatch, CallsWithinAlternativesHaveRangesToo) {
  [[maybe_unused]] static auto outer = [] {
    auto op = custom_op("test::outer(Tensor x) -> Tensor", [](const Tensor& x) { return by_size()(x) * 10.0; });
    register_custom_op_autotuning(
        op, {{.name = "hundred", .decomposition = [](const Tensor& x) { return by_size()(x) * 100.0; }}},
        {.dispatch_on = CustomDispatch{.tensor = "x", .dim = 0, .range_upper_bound = 4096}, .split_points = {20}});
    return op;
  }();
  const auto p = [] {
    auto g = graph::parse(R"(graph "outer"(%x: f32[s0, 3]) symbols(s0 in 1..inf) {
  %y: f32[s0, 3] = add.Tensor(%x, 1)
  %z: f32[s0, 3] = test::outer(%y)
  return %z
})");
    return lower::lower(*graph::run_passes(std::move(g), graph::pipeline(graph::kFrozen)));
  };
  PlantedWinners planted;
  exec::Loadable plan = test::Stages().plan(planted.tuned(p(), {"hundred", "hundred", "two", "two", "three"}));
  ASSERT_EQ(planted.report.regions.size(), 5u) << tune::to_string(planted.report);
  ASSERT_TRUE(branch_of(plan));
  EXPECT_EQ(branch_of(plan)->blocks.size(), 2u);
  expect_factors(std::move(plan), {{4, 200}, {9, 200}, {10, 300}, {21, 300}});
}

TEST(CustomDispatch, ProgramsWithBranchesAreComparedAsAWhole) {
  test::Stages rest;
  const auto pipeline = compiler::pipeline_for(rest.job());
  auto p = lowered(true);
  p.symbols.at(0).hint = 6;
  p = program::decide_ranges(p, open_node(p), {1, 1, 2});
  const tune::WholeTime w = tune::compare_whole(p, p, *pipeline, 2000, 1e9);
  EXPECT_EQ(w.refusal, "");
  EXPECT_GT(w.ratio, 0);
}

TEST(CustomDispatch, RangesAreRememberedAndLocked) {
  const auto file = std::filesystem::path(testing::TempDir()) / "custom_dispatch_test.sqlite";
  for (const char* part : {"", "-wal", "-shm"}) std::filesystem::remove(file.string() + part);
  PlantedWinners planted;
  tune::Memory memory("a device", "tests", {.database = std::make_shared<tune::Database>(file)});
  const program::Program p = planted.tuned(lowered(true), {"two", "none", "three"}, &memory);
  const tune::LockFile lock = tune::LockFile::parse(planted.report.decided.text());
  EXPECT_EQ(lock.size(), 3u);
  const int timed = planted.samples;
  EXPECT_GT(timed, 0);
  tune::Memory again("a device", "tests", {.database = std::make_shared<tune::Database>(file)});
  EXPECT_EQ(program::to_string(planted.tuned(lowered(true), {}, &again)), program::to_string(p));
  for (auto& r : planted.report.regions) EXPECT_EQ(r.source, "database");
  tune::Memory locked("a device", "tests", {.lock = &lock});
  EXPECT_EQ(program::to_string(planted.tuned(lowered(true), {}, &locked)), program::to_string(p));
  for (auto& r : planted.report.regions) EXPECT_EQ(r.source, "lock file");
  EXPECT_EQ(planted.samples, timed);
}

TEST(CustomDispatch, AChoiceSaysWhatIsForWhichSizes) {
  const program::Program p = lowered(true);
  const std::vector<int> numbers = {0, static_cast<int>(open_node(p))};
  const program::Program by_text = tune::apply(p, tune::parse_choice("1: alternative two(to=9); 1: alternative three(from=10)"), numbers);
  EXPECT_EQ(program::to_string(by_text), program::to_string(program::decide_ranges(p, open_node(p), {1, 1, 2})));
  const auto error = [&](const char* text) {
    return test::error_of<UserError>([&] { tune::apply(p, tune::parse_choice(text), numbers); });
  };
  EXPECT_TRUE(test::contains(error("1: alternative two(to=8); 1: alternative three(from=9)"), "made for other ranges"));
  EXPECT_TRUE(test::contains(error("1: alternative two(upto=9)"), "an alternative has from and to"));
  EXPECT_TRUE(test::contains(error("1: alternative too(to=9); 1: alternative three(from=10)"), "has no alternative \"too\""));
}

TEST(CustomDispatch, RangesThatCannotBeTimedKeepTheFirstAlternative) {
  by_size();
  auto g = graph::parse(R"(graph "by_size"(%x: f32[s0, s1]) symbols(s0 in 1..inf, s1 in 1..inf) {
  %y: f32[s0, s1] = add.Tensor(%x, 1)
  %z: f32[s0, s1] = test::by_size(%y)
  return %z
})");
  PlantedWinners planted;
  const program::Program p = lower::lower(*graph::run_passes(std::move(g), graph::pipeline(graph::kFrozen)));
  exec::Loadable plan = test::Stages().plan(planted.tuned(p, {}));
  for (auto& r : planted.report.regions) EXPECT_EQ(r.source, "not tuned: nothing says what the size s1 usually is");
  EXPECT_FALSE(branch_of(plan));
  expect_factors(std::move(plan), {{4, 1}, {10, 1}});
}

TEST(CustomDispatch, WhatCannotRunAtARangesTopIsNoError) {
  PlantedWinners planted;
  exec::Loadable plan = test::Stages().plan(planted.tuned(lowered(true), {"two", "two", "too large"}));
  EXPECT_TRUE(test::contains(planted.report.regions.at(2).source, "not tuned: at s0=4096: ")) << planted.report.regions[2].source;
  EXPECT_TRUE(test::contains(planted.report.regions.at(2).source, "no memory")) << planted.report.regions[2].source;
  expect_factors(std::move(plan), {{9, 2}, {10, 1}});
}

// The size is 8 and more: the first range never is, and the second is timed and compared within what is left of it.
TEST(CustomDispatch, RangesWithoutSizesTakeTheirNeighboursWinner) {
  by_size();
  auto g = graph::parse(R"(graph "by_size"(%x: f32[s0, 3]) symbols(s0 in 8..100) {
  %y: f32[s0, 3] = add.Tensor(%x, 1)
  %z: f32[s0, 3] = test::by_size(%y)
  return %z
})");
  PlantedWinners planted;
  const program::Program p = lower::lower(*graph::run_passes(std::move(g), graph::pipeline(graph::kFrozen)));
  exec::Loadable plan = test::Stages().plan(planted.tuned(p, {"two", "three"}));
  ASSERT_EQ(planted.report.regions.size(), 2u);
  EXPECT_EQ(planted.report.regions[0].source, "timed at s0=9");
  EXPECT_EQ(planted.report.regions[1].source, "timed at s0=100");
  ASSERT_TRUE(branch_of(plan));
  EXPECT_EQ(branch_of(plan)->blocks.size(), 2u);
  expect_factors(std::move(plan), {{8, 2}, {9, 2}, {10, 3}, {100, 3}});
}

// relu of an operation whose variants double, but for one that does so for four rows alone.
std::unique_ptr<graph::Graph> doubled_graph() {
  [[maybe_unused]] static auto doubled = [] {
    auto op = custom_op("test::doubled(Tensor x) -> Tensor", [](const Tensor& x) { return x + x; });
    register_custom_op_autotuning(
        op,
        {{.name = "times", .decomposition = [](const Tensor& x) { return x * 2.0; }},
         {.name = "product",
          .decomposition =
              [](const Tensor& x) {
                return matmul(x, Tensor::of({2, 0, 0, 0, 2, 0, 0, 0, 2}, {3, 3}));
              }},
         {.name = "of four rows", .decomposition = [](const Tensor& x) { return x + x + (sum(x * 0.0 + 1.0, {0}, true) - 4.0); }}},
        {.dispatch_on = CustomDispatch{.tensor = "x", .dim = 0, .range_upper_bound = 64}, .split_points = {4, 9}});
    return op;
  }();
  return graph::parse(R"(graph "doubled"(%x: f32[s0, 3]) symbols(s0 in 1..inf) {
  %z: f32[s0, 3] = test::doubled(%x)
  %r: f32[s0, 3] = relu(%z)
  return %r
})");
}

void expect_doubled(compiler::CompiledModel& model) {
  for (int64_t n : {1, 4, 5, 9, 10, 65}) {
    auto expected = counting({n, 3}).to_vector();
    for (double& v : expected) v *= 2;
    EXPECT_EQ(model.run(std::vector{counting({n, 3})})[0].to_vector(), expected) << n << " rows";
  }
}

// By the real clock, whatever it says.
TEST(CustomDispatch, TunedFunctionsAreRightOnBothSidesOfEachSplit) {
  const auto file = (std::filesystem::path(testing::TempDir()) / "custom_dispatch_test_db").string();
  for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(file + suffix);
  const ScopedOption database("tune_database", file), time("tune_region_ms", "4000"), whole("tune_whole_ms", "0");
  auto model = front::compile_model(doubled_graph(), {.mode = Mode::MaxAutotune});
  expect_doubled(model);
  const auto& regions = model.report().tuning.regions;
  ASSERT_GE(regions.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    size_t refused = 0;
    for (auto& row : regions[i].rows) {
      if (row.name != "of four rows") continue;
      ++refused;
      EXPECT_TRUE(test::contains(row.measured.status, "not equivalent to the default")) << row.measured.status;
    }
    EXPECT_EQ(refused, 1u) << tune::to_string(model.report().tuning);
  }
  auto again = front::compile_model(doubled_graph(), {.mode = Mode::MaxAutotune});
  for (auto& r : again.report().tuning.regions) EXPECT_EQ(r.source, "database") << r.label;
  EXPECT_EQ(again.report().tuning.compiled, 0u);
  EXPECT_EQ(again.report().tuning.decided.text(), model.report().tuning.decided.text());
}

TEST(CustomDispatch, ALockFileDecidesRangesAndTheBlocksOfItsBranch) {
  const auto file = (std::filesystem::path(testing::TempDir()) / "custom_dispatch_test_lock").string();
  const ScopedOption database("tune_database", "none"), path("tune_lock", file);
  const auto compiled = [&](const tune::LockFile& lock) {
    lock.write(file);
    return front::compile_model(doubled_graph(), {.mode = Mode::MaxAutotune});
  };
  const auto open = compiled({});
  const auto& ranges = open.report().tuning.regions;
  ASSERT_EQ(ranges.size(), 3u);
  for (auto& r : ranges) EXPECT_EQ(r.drift, "the lock file does not decide it");
  EXPECT_EQ(open.report().blocks, 0u);
  tune::LockFile lock;
  const std::string device = PlantedWinners().pipeline->target->facts().key;
  for (size_t i = 0; i < 3; ++i)
    lock.set(device, ranges[i].key.hex(), {ranges[i].label, i < 2 ? "0: alternative times()" : "0: alternative product()", "", 1});
  auto model = compiled(lock);
  EXPECT_EQ(model.report().blocks, 2u);
  expect_doubled(model);
  const tune::TuneReport& r = model.report().tuning;
  ASSERT_EQ(r.regions.size(), 4u) << "the product in a block, too" << tune::to_string(r);
  EXPECT_EQ(r.regions[2].source, "lock file");
  EXPECT_EQ(r.decided.size(), 4u);
  auto same = compiled(r.decided);
  EXPECT_EQ(same.report().tuning.regions[3].drift, "");
  EXPECT_EQ(same.sources(), model.sources());
}

TEST(CustomDispatch, OneWinnerIsInlined) {
  auto p = lowered(true);
  test::Stages pipeline;
  exec::Loadable plan = pipeline.plan(program::decide_ranges(p, open_node(p), {1, 3, 1}));
  EXPECT_FALSE(branch_of(plan));
  EXPECT_EQ(plan.plan.steps.size(), 1u) << "fused with its neighbours";
}

}  // namespace
}  // namespace toroid
