// The choices of regions, and which of them wins, by a clock that the test makes.
#include "tune/search.h"

#include <gtest/gtest.h>

#include <future>
#include <set>

#include "choice/region.h"
#include "errors.h"
#include "tune/choices.h"
#include "tune/fake_pipeline.h"

namespace toroid::tune {
namespace {

class Search : public testing::Test {
 protected:
  Region region() {
    const choice::Program p = reduced_and_scaled();
    return find_regions(p, pipeline_->get()->schedule(p), options_.fusion_depth).at(0);
  }
  std::vector<std::string> names() {
    report_ = {};
    std::vector<std::string> out;
    for (auto& c : choices_of(region(), pipeline_->get(), options_, report_)) out.push_back(c->name());
    return out;
  }
  // Milliseconds by the choice's name; others take 10.
  choice::Program tune_by(const std::map<std::string, double>& ms, Memory* memory = nullptr) {
    options_.whole_ms = 0;
    options_.clock = [this, ms](std::span<const std::shared_ptr<ChoiceCaller>> callers) -> Sample {
      std::vector<std::shared_ptr<ChoiceCaller>> all(callers.begin(), callers.end());
      return [this, all, ms](size_t i) {
        ++samples_;
        auto it = ms.find(all[i]->name());
        if (it != ms.end() && it->second < 0) fail<UserError>("not equivalent to the default: planted");
        return (it == ms.end() ? 10 : it->second) * 1e6;
      };
    };
    tuned_ = {};
    return tune(reduced_and_scaled(), pipeline_->get(), options_, memory, tuned_);
  }
  std::string winner() const { return tuned_.regions.at(0).rows.at(tuned_.regions.at(0).winner).name; }

  std::shared_ptr<FakePipeline> pipeline_ = std::make_shared<FakePipeline>();
  SearchOptions options_;
  RegionReport report_;
  TuneReport tuned_;
  int samples_ = 0;
};

// Two ways, each alone, with the first neighbour, with both.
TEST_F(Search, SixChoicesAtDepthTwo) {
  options_.fusion_depth = 2;
  const auto all = names();
  EXPECT_EQ(all.size(), 6u) << fmt::format("{}", fmt::join(all, "; "));
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()),
            (std::set<std::string>{"default", "ring alone", "tree alone", "ring + relu", "tree + relu", "tree + relu + scale"}));
  EXPECT_EQ(report_.originals + report_.fused, 6u);
  options_.fusion_depth = 5;
  EXPECT_EQ(names().size(), 6u) << "it ends when nothing new comes";
}

// Both differ from the default at once, whatever else is tried.
TEST_F(Search, TwoCallsAreVariedTogether) {
  choice::Program p = reduced_and_scaled();
  choice::Node& scale = p.nodes[2];
  const auto first = std::get<choice::Open>(p.nodes[0].problem);
  choice::Open second = first;
  second.name = "scale";
  second.inputs[0].memory.buffer = 2, second.outputs[0].memory.buffer = 3;
  for (auto& a : second.alternatives) a.name = "other " + a.name;
  scale.problem = second, scale.body = {}, scale.domain = {};
  const auto regions = find_regions(p, pipeline_->get()->schedule(p), options_.fusion_depth);
  ASSERT_EQ(regions.size(), 1u);
  size_t together = 0;
  for (auto& c : choices_of(regions[0], pipeline_->get(), options_, report_)) {
    if (c->name() != "tree & other tree") continue;
    ++together;
    EXPECT_EQ(to_string(c->choice()), "0: alternative tree(); 2: alternative other tree()");
    EXPECT_EQ(pipeline_->get()->schedule(apply(p, c->choice(), {0, 1, 2})).nodes.size(), 1u) << "all in one launch";
  }
  EXPECT_EQ(together, 1u);
}

TEST_F(Search, FlagsSwitchKindsOfFusionOff) {
  options_.fusion_depth = 1;
  EXPECT_EQ(names().size(), 5u) << "the default, and two ways alone and with one neighbour";
  options_.fusion_depth = 2;
  options_.fusion = {false, false, false};
  EXPECT_EQ(names(), (std::vector<std::string>{"default", "ring alone", "tree alone"}));
}

TEST_F(Search, TheFastestChoiceIsMadeAndIsOneKernel) {
  const choice::Program p = tune_by({{"tree + relu + scale", 5}});
  EXPECT_EQ(winner(), "tree + relu + scale");
  const choice::Program made = pipeline_->get()->schedule(p);
  ASSERT_EQ(made.nodes.size(), 1u);
  EXPECT_NE(choice::to_string(made).find("Abs"), std::string::npos);
}

TEST_F(Search, AnUnfusedWinnerStaysApart) {
  const choice::Program made = pipeline_->get()->schedule(tune_by({{"tree alone", 5}}));
  EXPECT_EQ(winner(), "tree alone");
  EXPECT_EQ(made.nodes.size(), 2u);
}

TEST_F(Search, TheDefaultStaysWhereNothingIsFaster) {
  tune_by({{"tree + relu", 9.95}});
  EXPECT_EQ(winner(), "default");
}

// At 1.1, a fused choice must be a tenth faster than the best unfused one.
TEST_F(Search, FusionMustGainWhatIsAskedFor) {
  options_.fusion_speedup = 1.1;
  tune_by({{"default", 12}, {"tree alone", 9.5}, {"tree + relu + scale", 9}});
  EXPECT_EQ(winner(), "tree alone");
  tune_by({{"default", 12}, {"tree alone", 10.1}, {"tree + relu + scale", 9}});
  EXPECT_EQ(winner(), "tree + relu + scale");
}

TEST_F(Search, WhatIsNotTheSameFunctionIsRefusedWithTheReason) {
  tune_by({{"tree + relu + scale", -1}, {"tree alone", 8}});
  EXPECT_EQ(winner(), "tree alone");
  bool seen = false;
  for (auto& row : tuned_.regions.at(0).rows)
    if (row.name == "tree + relu + scale") seen = row.measured.failed && test::contains(row.measured.status, "not equivalent");
  EXPECT_TRUE(seen) << to_string(tuned_);
}

TEST_F(Search, AllChoicesAreCompiledOnceAndDropped) {
  tune_by({});
  EXPECT_EQ(pipeline_->compiles, 6);
  EXPECT_EQ(pipeline_->alive, 0);
  EXPECT_EQ(tuned_.compiled, 6u);
}

// One below the other, on inputs of their own.
choice::Program two_programs(choice::Program a, const choice::Program& b) {
  const int buffers = static_cast<int>(a.buffers.size()), inputs = static_cast<int>(a.inputs.size());
  const int nodes = static_cast<int>(a.nodes.size());
  for (auto buffer : b.buffers) {
    buffer.id += buffers;
    a.buffers.push_back(std::move(buffer));
  }
  for (auto n : b.nodes) {
    choice::renumber_buffers(n, [&](int buffer) { return buffer + buffers; });
    for (int& part : n.parts) part += nodes;
    a.nodes.push_back(std::move(n));
  }
  for (auto in : b.inputs) in.buffer += buffers, a.inputs.push_back(std::move(in));
  for (auto out : b.outputs) {
    out.buffer += buffers;
    if (out.mutates >= 0) out.mutates += inputs;
    a.outputs.push_back(std::move(out));
  }
  return a;
}

// The first choice of the second region waits for the clock of the first.
TEST_F(Search, ARegionIsTimedWhileOthersCompile) {
  std::promise<void> timed;
  std::future<void> has_timed = timed.get_future();
  std::atomic<int> begun{0};
  bool in_time = false;
  pipeline_->before_compile = [&] {
    if (++begun == 7) in_time = has_timed.wait_for(std::chrono::seconds(30)) == std::future_status::ready;
  };
  options_.pipelined = true;
  options_.workers = 1;
  options_.whole_ms = 0;
  std::once_flag once;
  options_.clock = [&](std::span<const std::shared_ptr<ChoiceCaller>>) -> Sample {
    return [&](size_t) {
      std::call_once(once, [&] { timed.set_value(); });
      return 1e7;
    };
  };
  std::vector<TuneProgress> told;
  options_.progress = [&](const TuneProgress& p) { told.push_back(p); };
  tune(two_programs(reduced_and_scaled(), reduced_and_scaled("Exp")), pipeline_->get(), options_, nullptr, tuned_);
  EXPECT_TRUE(in_time);
  ASSERT_EQ(tuned_.regions.size(), 2u);
  EXPECT_EQ(tuned_.compiled, 12u);
  EXPECT_EQ(begun, 12);
  EXPECT_EQ(pipeline_->alive, 0);
  ASSERT_FALSE(told.empty());
  EXPECT_EQ(told.front().choices, 12u);
  EXPECT_EQ(told.back().compiled, 12u);
  EXPECT_EQ(told.back().decided, 2u);
  for (size_t i = 1; i < told.size(); ++i)
    EXPECT_EQ(told[i].compiled + told[i].decided, told[i - 1].compiled + told[i - 1].decided + 1) << "a line a step";
}

TEST_F(Search, DecisionsAreRememberedAndLocked) {
  const auto file = std::filesystem::path(testing::TempDir()) / "search_test.sqlite";
  std::filesystem::remove(file);
  Memory memory("a device", "tests", {.database = std::make_shared<Database>(file)});
  tune_by({{"tree alone", 5}}, &memory);
  const int timed = samples_;
  EXPECT_GT(timed, 0);
  const std::string text = tuned_.decided.text();
  Memory again("a device", "tests", {.database = std::make_shared<Database>(file)});
  const choice::Program p = tune_by({}, &again);
  EXPECT_EQ(samples_, timed) << "nothing is timed again";
  EXPECT_EQ(tuned_.regions.at(0).source, "database");
  EXPECT_EQ(pipeline_->get()->schedule(p).nodes.size(), 2u);

  const LockFile lock = LockFile::parse(text);
  ASSERT_EQ(lock.size(), 1u);
  Memory locked("a device", "tests", {.lock = &lock});
  const choice::Program q = tune_by({}, &locked);
  EXPECT_EQ(samples_, timed);
  EXPECT_EQ(tuned_.regions.at(0).source, "lock file");
  EXPECT_EQ(choice::to_string(q), choice::to_string(p)) << "the same build";
  const LockFile none;
  Memory deterministic("a device", "tests", {.lock = &none});
  tune_by({}, &deterministic);
  EXPECT_EQ(samples_, timed);
  EXPECT_EQ(tuned_.regions.at(0).drift, "the lock file does not decide it");
}

}  // namespace
}  // namespace toroid::tune
