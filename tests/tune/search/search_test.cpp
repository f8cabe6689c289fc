// The choices of regions, and which of them wins, by a clock that the test makes.
#include "tune/search/search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <future>
#include <set>
#include <thread>

#include "base/log.h"
#include "base/options.h"
#include "errors.h"
#include "log_scope.h"
#include "program/region.h"
#include "toroid/custom_op.h"
#include "toroid/tuning.h"
#include "tune/fake_pipeline.h"
#include "tune/search/choices.h"

namespace toroid::tune {
namespace {

class Search : public testing::Test {
 protected:
  Search() { options_.whole_ms = 0, options_.region_ms = 1e9; }  // no clock of the machine ends it
  Region region() {
    const program::Program p = reduced_and_scaled();
    return find_regions(p, pipeline_->get()->schedule(p), options_.fusion_depth).at(0);
  }
  std::vector<std::string> names() {
    report_ = {};
    std::vector<std::string> out;
    for (auto& c : choices_of(region(), pipeline_->get(), options_, report_)) out.push_back(c->name());
    return out;
  }
  static constexpr double kDiffers = -1, kFails = -2;
  // Milliseconds by the choice's name, or what is wrong with it; others take 10.
  // op: what the choice node calls.
  program::Program tune_by(const std::map<std::string, double>& ms, Memory* memory = nullptr, const ops::Op* op = nullptr) {
    options_.clock = [this, ms](std::span<const std::shared_ptr<ChoiceCaller>> callers) -> Sample {
      std::vector<std::shared_ptr<ChoiceCaller>> all(callers.begin(), callers.end());
      return [this, all, ms](size_t i) {
        ++samples_;
        sampled_.insert(all[i]->name());
        auto it = ms.find(all[i]->name());
        if (it != ms.end() && it->second == kFails) fail<EnvironmentError>("planted");
        if (it != ms.end() && it->second == kDiffers) fail<UserError>("not equivalent to the default: planted");
        return (it == ms.end() ? 10 : it->second) * 1e6;
      };
    };
    tuned_ = {};
    program::Program p = reduced_and_scaled();
    std::get<program::Open>(p.nodes[0].problem).op = op;
    return tune(std::move(p), pipeline_->get(), options_, memory, tuned_);
  }
  std::string winner() const { return tuned_.regions.at(0).rows.at(tuned_.regions.at(0).winner).name; }

  std::shared_ptr<FakePipeline> pipeline_ = std::make_shared<FakePipeline>();
  SearchOptions options_{.workers = 2};  // whatever this machine has: more threads compile more at once
  RegionReport report_;
  TuneReport tuned_;
  int samples_ = 0;
  std::set<std::string> sampled_;
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
  program::Program p = reduced_and_scaled();
  program::Node& scale = p.nodes[2];
  const auto first = std::get<program::Open>(p.nodes[0].problem);
  program::Open second = first;
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

// An operation that many loops read: the list ends before all sets of them are tried, and has each alternative with all of them.
TEST_F(Search, ManyNeighboursAreTriedInPart) {
  constexpr int kReaders = 40;
  program::Program p = reduced_and_scaled();
  for (int i = 0; i < kReaders; ++i) {
    p.new_buffer("r" + std::to_string(i), DType::F32, kPoints, loop::BufferKind::Temporary);
    p.nodes.push_back(unary("Sqrt", 1, p.buffers.back().id, static_cast<int>(p.nodes.size())));
    set_output(p, p.buffers.back().id);
  }
  const auto regions = find_regions(p, pipeline_->get()->schedule(p), options_.fusion_depth);
  ASSERT_EQ(regions.size(), 1u);
  EXPECT_EQ(fusion_sets(regions[0].program, 0, 3, {}).size(), kMostFusionSets);
  const int before = pipeline_->schedules;
  std::set<std::string> found;
  for (auto& c : choices_of(regions[0], pipeline_->get(), options_, report_)) found.insert(c->name());
  EXPECT_EQ(found.size(), options_.most_choices);
  EXPECT_EQ(found.count("tree + all that fuses"), 1u);
  EXPECT_GT(report_.untried, 100u);
  EXPECT_LT(pipeline_->schedules - before, 2 * static_cast<int>(options_.most_choices));
}

TEST_F(Search, ChoicesAreBegunWithinTheBudget) {
  pipeline_->before_compile = [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); };
  options_.workers = 1;
  options_.budget_ms = 30;
  tune_by({{"tree + relu + scale", 5}});
  EXPECT_LT(pipeline_->compiles, 6);
  EXPECT_TRUE(tuned_.out_of_budget);
  EXPECT_EQ(tuned_.regions.at(0).source, "not tuned: the budget was used");
}

TEST_F(Search, FlagsSwitchKindsOfFusionOff) {
  options_.fusion_depth = 1;
  EXPECT_EQ(names().size(), 5u) << "the default, and two ways alone and with one neighbour";
  options_.fusion_depth = 2;
  options_.fusion = {false, false, false};
  EXPECT_EQ(names(), (std::vector<std::string>{"default", "ring alone", "tree alone"}));
}

TEST_F(Search, TheFastestChoiceIsMadeAndIsOneKernel) {
  const program::Program p = tune_by({{"tree + relu + scale", 5}});
  EXPECT_EQ(winner(), "tree + relu + scale");
  const program::Program made = pipeline_->get()->schedule(p);
  ASSERT_EQ(made.nodes.size(), 1u);
  EXPECT_NE(program::to_string(made).find("Abs"), std::string::npos);
}

TEST_F(Search, AnUnfusedWinnerStaysApart) {
  const program::Program made = pipeline_->get()->schedule(tune_by({{"tree alone", 5}}));
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
  tune_by({{"tree + relu + scale", kDiffers}, {"tree alone", 8}});
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
  const program::Program p = tune_by({}, &again);
  EXPECT_EQ(samples_, timed) << "nothing is timed again";
  EXPECT_EQ(tuned_.regions.at(0).source, "database");
  EXPECT_EQ(pipeline_->get()->schedule(p).nodes.size(), 2u);

  const LockFile lock = LockFile::parse(text);
  ASSERT_EQ(lock.size(), 1u);
  Memory locked("a device", "tests", {.lock = &lock});
  const program::Program q = tune_by({}, &locked);
  EXPECT_EQ(samples_, timed);
  EXPECT_EQ(tuned_.regions.at(0).source, "lock file");
  EXPECT_EQ(program::to_string(q), program::to_string(p)) << "the same build";
  const LockFile none;
  Memory deterministic("a device", "tests", {.lock = &none});
  tune_by({}, &deterministic);
  EXPECT_EQ(samples_, timed);
  EXPECT_EQ(tuned_.regions.at(0).drift, "the lock file does not decide it");
  EXPECT_EQ(tuned_.decided.text().find("kernels none"), std::string::npos) << "what was written from that holds, too";
}

// Blocks of one program: whatever a clock would say the second time, the lock file of the program says what was done.
TEST_F(Search, EqualRegionsOfAProgramAreDecidedOnce) {
  Memory first("a device", "tests", {});
  const program::Program p = tune_by({{"tree alone", 5}}, &first);
  samples_ = 0;
  Memory second("a device", "tests", {.decided = first.decided()});
  options_.whole_clock = [](auto&, auto&) { return WholeTime{.ratio = 2, .spread = 0, .refusal = ""}; };
  options_.whole_ms = 1000;
  const program::Program q = tune_by({{"ring alone", 5}}, &second);
  EXPECT_EQ(samples_, 0);
  EXPECT_EQ(tuned_.regions.at(0).source, "this program");
  EXPECT_EQ(program::to_string(q), program::to_string(p));
}

// The default stays where nothing could be timed, and is what a lock file says; also where options leave nothing to choose. What the budget
// did not reach is told from what was decided, also by who reads the file.
TEST_F(Search, WhatWasNotTunedIsLocked) {
  for (const char* names : {"", "no such"}) {
    const size_t untimed = *names ? 0 : 1;
    Memory memory("a device", "tests", {});
    options_.names = names, options_.budget_ms = 1e-6;
    tune_by({{"tree alone", 5}}, &memory);
    const LockFile lock = tuned_.decided;
    ASSERT_EQ(lock.size(), 1u) << to_string(tuned_);
    EXPECT_EQ(lock.untimed(), untimed) << lock.text();
    options_.names = "", options_.check_lock = true;
    Memory locked("a device", "tests", {.lock = &lock});
    tune_by({}, &locked);
    EXPECT_EQ(lock.drift(tuned_.now), std::vector<std::string>{});
    EXPECT_EQ(tuned_.regions.at(0).chosen, "default");
    EXPECT_EQ(tuned_.decided.untimed(), untimed);
  }
}

TEST_F(Search, OnlyWantedChoicesAreTried) {
  options_.fusion_depth = 2;
  options_.names = "^tree";
  EXPECT_EQ(names(), (std::vector<std::string>{"default", "tree alone", "tree + relu", "tree + relu + scale"}));
  EXPECT_EQ(report_.unwanted, 3u);
  options_.backends = {};
  EXPECT_EQ(names().size(), 4u) << "an operation's own variants have no backend";
  options_.names = "no such";
  tune_by({{"tree alone", 5}});
  EXPECT_EQ(tuned_.regions.at(0).source, "not tuned: tune_backends and tune_choices leave one way to compute it");
  EXPECT_EQ(samples_, 0);
}

TEST_F(Search, NoMoreThanAskedForAreTried) {
  options_.fusion_depth = 2;
  options_.most_choices = 4;
  EXPECT_EQ(names().size(), 4u);
  EXPECT_EQ(report_.untried, 3u) << "whether they are legal, or one that is there already, is not asked any more";
}

TEST_F(Search, BackendsSayWhoMayComputeANode) {
  const auto wanted = [&](const char* choice, std::vector<std::string> backends) {
    options_.backends = std::move(backends);
    return is_wanted(options_, "a name", parse_choice(choice));
  };
  EXPECT_TRUE(wanted("0: gemm(m=1)", {"template"}));
  EXPECT_FALSE(wanted("0: gemm(m=1)", {"subgraph", "onednn", "cublaslt", "cudnn"}));
  EXPECT_TRUE(wanted("0: cublaslt(algo=1)", {"cublaslt"}));
  EXPECT_FALSE(wanted("0: cublaslt(algo=1)", {"template", "cudnn"}));
  EXPECT_TRUE(wanted("0: decompose_k(splits=2)", {"subgraph"}));
  EXPECT_FALSE(wanted("0: pad_mm(a=8,b=0); 0: gemm(m=1)", {"subgraph"}));
  EXPECT_TRUE(wanted("apart 0-1", {})) << "the default's way, less fused";
}

TEST_F(Search, WhereNothingRunsEachReasonIsSaid) {
  std::map<std::string, double> none;
  for (auto& name : names()) none[name] = kDiffers;
  const std::string text = test::environment_error([&] { tune_by(none); });
  EXPECT_TRUE(test::contains(text, "nothing computes all_reduce on this machine")) << text;
  for (auto& [name, ms] : none)
    EXPECT_TRUE(test::contains(text, "\n  " + name + ": failed: not equivalent to the default: planted")) << name << " in " << text;
}

// Compiling is a part of what tuning may take.
TEST_F(Search, ABudgetEndsCompiling) {
  pipeline_->before_compile = [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); };
  options_.workers = 1;
  options_.budget_ms = 20;
  tune_by({{"tree alone", 5}});
  EXPECT_LE(pipeline_->compiles, 1) << "none where the machine took so long to list them";
  EXPECT_EQ(pipeline_->alive, 0);
  EXPECT_TRUE(tuned_.out_of_budget);
  EXPECT_EQ(tuned_.regions.at(0).source, "not tuned: the budget was used");
}

// Nor is what was begun, and had no run that counts.
TEST_F(Search, WhatNeverRanIsNotTimed) {
  options_.budget_ms = 200;
  options_.clock = [](std::span<const std::shared_ptr<ChoiceCaller>>) -> Sample {
    return [](size_t) {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      return 1e6;
    };
  };
  Memory memory("a device", "tests", {});
  tune(reduced_and_scaled(), pipeline_->get(), options_, &memory, tuned_);
  EXPECT_EQ(tuned_.regions.at(0).source, kNotReached) << to_string(tuned_);
  EXPECT_TRUE(std::isinf(tuned_.regions.at(0).regret)) << "nobody knows";
  EXPECT_EQ(tuned_.decided.untimed(), 1u);
}

TEST_F(Search, EventsComeInOrder) {
  const ScopedOption logs("logs", "choices");
  std::vector<std::string> events;
  const test::LogScope lines([&](Artifact, std::string_view text) { events.emplace_back(text); });
  const TuneFeedback feedback([](const TuneResult&) {});
  options_.names = "tree";
  tune_by({{"tree alone", 5}});
  const std::vector<std::string> expected = {"all_reduce: listed 4 choices, 3 unwanted", "all_reduce: compiled 4 of 4",
                                             "all_reduce: timed 4 in ", "all_reduce: tree alone; 2 original choices", "feedback is given"};
  ASSERT_EQ(events.size(), expected.size()) << fmt::format("{}", fmt::join(events, "\n"));
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(events[i].starts_with(expected[i])) << events[i];
}

// Each choice is faster by itself, and both together hold each other up.
TEST_F(Search, ChoicesThatMakeTheWholeProgramSlowerArePutBack) {
  const auto file = std::filesystem::path(testing::TempDir()) / "whole_search_test.sqlite";
  std::filesystem::remove(file);
  const program::Program both = two_programs(reduced_and_scaled(), reduced_and_scaled("Exp"));
  int compared = 0;
  for (bool again : {false, true}) {
    Memory memory("a device", "tests", {.database = std::make_shared<Database>(file)});
    tune_by({{"tree alone", 5}});  // sets the clock
    options_.whole_ms = 1000;
    options_.whole_clock = [&](const program::Program&, const program::Program& tuned) {
      ++compared;
      const bool is_both = std::none_of(tuned.nodes.begin(), tuned.nodes.end(), [](auto& n) { return n.is_open(); });
      return WholeTime{.ratio = is_both ? 1.2 : 0.9, .spread = 0.01, .refusal = ""};
    };
    samples_ = 0, tuned_ = {};
    tune(both, pipeline_->get(), options_, &memory, tuned_);
    options_.whole_clock = {}, options_.whole_ms = 0;
    ASSERT_EQ(tuned_.regions.size(), 2u);
    EXPECT_TRUE(tuned_.regions[0].source.ends_with("; put back, as the whole program was slower with it")) << tuned_.regions[0].source;
    EXPECT_EQ(tuned_.regions[0].chosen, "default");
    EXPECT_TRUE(test::contains(tuned_.regions[1].chosen, "alternative tree()")) << tuned_.regions[1].chosen;
    EXPECT_EQ(tuned_.decided.find("a device", tuned_.regions[0].key.hex())->winner, "default");
    EXPECT_EQ(tuned_.whole,
              again ? "database: 1 choices stay" : "0.900 of the time without tuning (+- 0.010); 1 choices stay, 1 were put back");
    EXPECT_EQ(compared, 3) << "twice before something is put back, and nothing again where that is known";
    EXPECT_EQ(samples_ == 0, again);
  }
}

class RememberedSearch : public Search {
 protected:
  RememberedSearch() { std::filesystem::remove(file_); }
  void tune_again(const std::map<std::string, double>& ms) {
    Memory memory("a device", "tests", {.database = std::make_shared<Database>(file_), .retry_hours = retry_hours_});
    samples_ = 0, sampled_.clear();
    tune_by(ms, &memory);
    EXPECT_EQ(tuned_.decided.text().find("kernels none"), std::string::npos) << "a decision names its kernels";
  }
  const std::filesystem::path file_ = std::filesystem::path(testing::TempDir()) / "remembered_search_test.sqlite";
  int64_t retry_hours_ = 168;
};

// What computes something else will do so again; what could not be run may run another time.
TEST_F(RememberedSearch, FailuresAreTriedAgainAndOtherFunctionsAreNot) {
  for (int64_t hours : {168, 0}) {
    retry_hours_ = hours;
    tune_again({{"tree alone", kDiffers}, {"ring alone", kFails}, {"tree + relu", 5}});
    EXPECT_EQ(winner(), "tree + relu");
  }
  EXPECT_EQ(sampled_, (std::set<std::string>{"default", "ring alone", "tree + relu"}));
}

TEST_F(RememberedSearch, ANewChoiceIsTimedBesideTheDefaultAndTheBestOne) {
  options_.fusion_depth = 2;
  options_.names = "alone|ring";
  tune_again({{"ring alone", 6}, {"tree alone", 8}});
  EXPECT_EQ(winner(), "ring alone");
  options_.names = "";
  tune_again({{"ring alone", 6}, {"tree + relu", 5}});
  EXPECT_EQ(sampled_, (std::set<std::string>{"default", "ring alone", "tree + relu", "tree + relu + scale"}));
  EXPECT_EQ(winner(), "tree + relu");
  options_.names = "ring";  // all of them were measured, in other sets
  tune_again({{"ring alone", 6}});
  EXPECT_TRUE(samples_ == 0 || sampled_ == (std::set<std::string>{"default", "ring alone"})) << "again where it was dropped too soon";
  EXPECT_EQ(winner(), "ring alone");
}

// Nothing is timed, and the decision names its kernels like any other.
TEST_F(RememberedSearch, TheDefaultIsDecidedForByWhatOtherSetsShowed) {
  tune_again({{"tree alone", 5}, {"ring alone", 11}});
  options_.names = "ring alone";
  tune_again({});
  EXPECT_EQ(samples_, 0);
  EXPECT_EQ(winner(), "default");
}

// What was measured of kernels that are others by now says nothing.
TEST_F(RememberedSearch, ADecisionIsAboutKernels) {
  tune_again({{"tree alone", 5}});
  pipeline_->generators = " newer";
  tune_again({{"tree alone", 11}, {"ring alone", 6}});
  EXPECT_GT(samples_, 0);
  EXPECT_EQ(winner(), "ring alone");
  tune_again({});
  EXPECT_EQ(samples_, 0);
  EXPECT_EQ(winner(), "ring alone");
}

// The best that was known fails by now, and the second best is timed in its place.
TEST_F(RememberedSearch, WhereTheBestFailsTheNextIsTimed) {
  options_.names = "alone";
  tune_again({{"tree alone", 6}, {"ring alone", 8}});
  EXPECT_EQ(winner(), "tree alone");
  options_.names = "";
  tune_again({{"tree alone", kFails}, {"ring alone", 8}});
  EXPECT_EQ(sampled_.count("ring alone"), 1u);
  EXPECT_EQ(winner(), "ring alone");
}

// A decision holds for what was asked of the winner; what was measured holds for all.
TEST_F(RememberedSearch, WhatIsAskedOfWinnersIsPartOfADecision) {
  const std::map<std::string, double> ms = {{"default", 12}, {"tree alone", 9.5}, {"tree + relu + scale", 9}};
  tune_again(ms);
  EXPECT_EQ(winner(), "tree + relu + scale");
  options_.fusion_speedup = 1.1;
  tune_again(ms);
  EXPECT_TRUE(samples_ == 0 || sampled_ == (std::set<std::string>{"default", "tree alone"})) << "again where it was dropped too soon";
  EXPECT_EQ(winner(), "tree alone");
  options_.fusion_speedup = 1;
  tune_again(ms);
  EXPECT_EQ(samples_, 0);
  EXPECT_EQ(winner(), "tree + relu + scale");
}

// Of a variant that is a fifth faster, where an operation asks for more and for less.
TEST_F(Search, AnOperationSaysHowMuchFasterAVariantMustBe) {
  const auto threshold = [](const char* name, double factor) {
    auto op = custom_op(name, [](const Tensor& x) { return x; });
    register_custom_op_autotuning(op, std::vector<CustomOpConfig>{}, {.min_speedup_threshold = factor});
    return &op.op();
  };
  static const ops::Op* const more = threshold("search::asks_for_more(Tensor x) -> Tensor", 1.3);
  static const ops::Op* const less = threshold("search::asks_for_less(Tensor x) -> Tensor", 1.2);
  tune_by({{"tree alone", 8}}, nullptr, more);
  EXPECT_EQ(winner(), "default");
  tune_by({{"tree alone", 8}}, nullptr, less);
  EXPECT_EQ(winner(), "tree alone");
}

// What was measured of kernels that a choice's name gives no more, or of nobody knows which, is not known.
TEST_F(Search, RecordsOfOtherKernelsAreNotKnown) {
  const auto file = std::filesystem::path(testing::TempDir()) / "search_test_kernels.sqlite";
  const auto timed_with = [&](const std::function<void(CandidateRecord&)>& change) {
    for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(file.string() + suffix);
    const auto database = std::make_shared<Database>(file);
    Memory memory("a device", "tests", {.database = database});
    tune_by({{"tree alone", 5}, {"tree + relu", kDiffers}}, &memory);
    const TuneKey key{tuned_.regions.at(0).key.hex(), "a device", "tests"};
    std::vector<CandidateRecord> records = database->records(key);
    EXPECT_EQ(records.size(), 6u);
    for (auto& r : records) {
      EXPECT_FALSE(r.kernels.empty()) << r.candidate;
      change(r);
    }
    EXPECT_TRUE(database->store(key, records));
    sampled_.clear();
    Memory again("a device", "tests", {.database = database});
    options_.fusion_speedup = 1.01;  // another decision, of what is known
    tune_by({{"tree alone", 5}}, &again);
    options_.fusion_speedup = 1;
    return sampled_;
  };
  EXPECT_EQ(timed_with([](auto&) {}), std::set<std::string>());
  EXPECT_EQ(timed_with([](CandidateRecord& r) { r.kernels = r.outcome == Outcome::Timed ? r.kernels : "old"; }).count("tree + relu"), 1u)
      << "refusals are about kernels, too";
  EXPECT_EQ(timed_with([](CandidateRecord& r) { r.kernels.clear(); }).size(), 6u);
}

}  // namespace
}  // namespace toroid::tune
