// Choices whose kernels do what they must not: each is a row with its reason, and this process lives.
#include "tune/isolate/vet.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/files.h"
#include "errors.h"
#include "tune/check/check.h"
#include "tune/search/choices.h"
#include "tune/search/search.h"
#include "tune/text_pipeline.h"

namespace toroid::tune {
namespace {

using test::contains;

const char* const kProduct = "product(i);";
const char* const kHang = "for (volatile int r = 0;; r = r + 1) { }";

// Param: on a GPU.
class Vetting : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (gpu() && cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
    if (!gpu() && skips_cpu()) GTEST_SKIP() << "the CPU's compiler may be missing";
    folder_ = make_temp_dir();
    pipeline_->gpu = gpu();
    options_.isolated = true;
    options_.whole_ms = 0;
    options_.region_ms = 20'000;
    options_.clock = [this](std::span<const std::shared_ptr<ChoiceCaller>> callers) { return good_is_fastest(callers); };
    regions_ = find_regions(TextPipeline::program(), TextPipeline::program(), 3);
    each()[""] = each()["good"] = {kProduct};
  }
  // All run in this process, and are compared; what they take does not depend on the machine.
  Sample good_is_fastest(std::span<const std::shared_ptr<ChoiceCaller>> callers) const {
    const std::vector<std::shared_ptr<ChoiceCaller>> all(callers.begin(), callers.end());
    return [all, run = time_checked(all, regions_.at(0), pipeline_->get()->device())](size_t i) {
      run(i);
      return all[i]->name() == "good()" ? 5e3 : 1e4;
    };
  }
  void TearDown() override {
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }
  bool gpu() const { return GetParam(); }
  std::map<std::string, std::vector<std::string>>& each() { return pipeline_->each; }

  void run(int64_t retry_hours = 168) {
    database_ = std::make_shared<Database>(folder_ / "db");
    Memory memory("a device", "tests", {.database = database_, .retry_hours = retry_hours});
    report_ = {};
    made_ = tune(TextPipeline::program(), pipeline_->get(), options_, &memory, report_);
  }
  const RegionReport& region() const { return report_.regions.at(0); }
  std::string winner() const { return region().rows.empty() ? "none" : region().rows.at(region().winner).name; }
  const Measured& row(const std::string& name) const {
    for (auto& r : region().rows)
      if (r.name == name + "()") return r.measured;
    ADD_FAILURE() << "no row " << name << " in\n" << to_string(report_);
    static const Measured none;
    return none;
  }
  std::map<std::string, Outcome> remembered() const {
    std::map<std::string, Outcome> out;
    for (auto& r : database_->records({region().key.hex(), "a device", "tests"})) out[r.candidate] = r.outcome;
    return out;
  }

  std::shared_ptr<TextPipeline> pipeline_ = std::make_shared<TextPipeline>();
  SearchOptions options_;
  std::vector<Region> regions_;
  std::filesystem::path folder_;
  std::shared_ptr<Database> database_;
  TuneReport report_;
  program::Program made_;
};

struct Bad {
  const char* form;
  std::string body;
  Outcome outcome;
  std::string reason;
};

std::vector<Bad> bad_on_cpu() {
  return {
      {"crashes", "*(volatile int*)8 = 1;", Outcome::Crashed, "crashed: k ended its process: signal 11 (Segmentation fault)"},
      {"writes_behind", "product(i); if (i == 0) out[n + 4000] = 0;", Outcome::Crashed, "crashed: k writes 16001 bytes behind buffer 2"},
      {"writes_before", "product(i); if (i == 0) out[-2000] = 0;", Outcome::Crashed, "crashed: k writes 8000 bytes before buffer 2"},
      {"writes_next", "product(i); if (i == 0) out[-1] = 0;", Outcome::Failed, "failed: k writes less than 64 bytes out of buffer 2"},
      {"writes_inputs", "product(i); if (i == 0) ((float*)a)[1] = 0;", Outcome::Crashed,
       "crashed: k writes to buffer 0, which it may only read"},
      {"gives_nan", "product(i); if (i == 3) out[i] = (out[i] - out[i]) / (out[i] - out[i]);", Outcome::Failed,
       "failed: k leaves NaN in buffer 2 at 3, or nothing at all"},
      {"forgets", "if (i != 5) product(i);", Outcome::Failed, "failed: k leaves NaN in buffer 2 at 5, or nothing at all"},
      {"leaks", "product(i); if (i == 0) leak();", Outcome::Failed, "failed: k leaves 80 MiB of memory behind after 2 runs"}};
}

std::vector<Bad> bad_on_gpu() {
  return {{"crashes", "asm volatile(\"trap;\");", Outcome::Failed, "failed: "},
          {"writes_far", "product(i); out[i + (1ll << 40)] = 1;", Outcome::Failed, "failed: "},
          {"writes_next", "product(i); if (i == 0) out[n + 3] = 0;", Outcome::Failed, "failed: k writes out of buffer 2, next to it"},
          {"forgets", "if (i != 5) product(i);", Outcome::Failed, "failed: k leaves NaN in buffer 2 at 5, or nothing at all"}};
}

TEST_P(Vetting, WhatKernelsDoIsAReason) {
  const std::vector<Bad> bad = gpu() ? bad_on_gpu() : bad_on_cpu();
  for (auto& b : bad) each()[b.form] = {b.body};
  each()["adds"] = {"product(i); out[i] += 1;"};
  run();
  EXPECT_EQ(winner(), "good()") << to_string(report_);
  EXPECT_EQ(made_.nodes.at(0).config.form, "good");
  const auto outcomes = remembered();
  for (auto& b : bad) {
    EXPECT_TRUE(row(b.form).failed) << b.form;
    EXPECT_TRUE(row(b.form).status.starts_with(b.reason)) << b.form << ": " << row(b.form).status;
    EXPECT_EQ(row(b.form).outcome, b.outcome) << b.form;
    const auto record = std::find_if(outcomes.begin(), outcomes.end(), [&](auto& r) { return contains(r.first, b.form); });
    ASSERT_NE(record, outcomes.end()) << b.form;
    EXPECT_EQ(record->second, b.outcome) << b.form;
  }
  // What does no harm is compared here.
  EXPECT_TRUE(contains(row("adds").status, "not equivalent")) << row("adds").status;
  const std::string table = to_string(report_);
  for (auto& b : bad) EXPECT_TRUE(contains(table, std::string(b.form) + "(): " + b.reason)) << table;
}

TEST_P(Vetting, AHangIsKilledAndTriedAgainSomeTime) {
  options_.worker.timeout_ms = gpu() ? 3000 : 1000;
  each()["hangs"] = {kHang};
  run();
  EXPECT_EQ(winner(), "good()") << to_string(report_);
  EXPECT_EQ(row("hangs").status, fmt::format("timed out: k had not ended after {} ms", options_.worker.timeout_ms));
  EXPECT_EQ(row("hangs").outcome, Outcome::TimedOut);
  run();
  EXPECT_EQ(region().source, "database");
  each()["another"] = {"product(i); product(i);"};
  run();
  EXPECT_TRUE(contains(row("hangs").status, "timed out: k had not ended")) << "known, so that it is not run again";
  EXPECT_FALSE(row("hangs").failed);
  each().erase("another");
  run(0);
  EXPECT_EQ(region().source, "timed") << "what may have passed is tried again";
  EXPECT_TRUE(row("hangs").failed);
  EXPECT_EQ(winner(), "good()");
}

// The second kernel takes as an index what the first has written.
TEST_P(Vetting, AChainsKernelsSeeWhatThoseBeforeHaveWritten) {
  each()["good"] = {"out[i] = (float)(i ^ 1);", "int at = (int)a[i]; out[i] = at < 0 ? ((volatile float*)0)[at] : at;"};
  each()[""] = {"out[i] = (float)(i ^ 1);", "out[i] = a[i];"};
  run();
  EXPECT_EQ(row("good").status, "") << to_string(report_);
  EXPECT_EQ(winner(), "good()");
}

TEST_P(Vetting, NaNThatTheDefaultGivesTooIsRight) {
  each()[""] = each()["good"] = {"product(i); if (i == 3) out[i] = (out[i] - out[i]) / (out[i] - out[i]);"};
  run();
  EXPECT_FALSE(row("good").failed) << row("good").status;
  EXPECT_EQ(winner(), "good()");
}

TEST_P(Vetting, ARefusedDefaultIsSaid) {
  each()[""] = {"if (i != 0) product(i); else " + std::string(gpu() ? "asm volatile(\"trap;\");" : "*(volatile int*)8 = 1;")};
  run();
  const std::string begin = std::string("not tuned: in a process of its own, default ") + (gpu() ? "failed: " : "crashed: ");
  EXPECT_TRUE(region().source.starts_with(begin)) << region().source;
  EXPECT_EQ(row("good").status, "not run: the default was refused");
  EXPECT_TRUE(remembered().empty()) << "of nothing that was not compared";
  EXPECT_TRUE(made_.nodes.at(0).config.empty()) << "the default stays, as without tuning";
}

// Where it does not do for the first, that is said and not remembered.
TEST_P(Vetting, NothingBeginsPastTheBudget) {
  options_.budget_ms = 500;
  for (const char* form : {"hangs", "hangs_too", "hangs_as_well"}) each()[form] = {kHang};
  run();
  EXPECT_TRUE(report_.out_of_budget);
  EXPECT_LT(report_.total_ms, 30'000) << "none has had its minute";
  EXPECT_TRUE(region().source.starts_with("not tuned: the budget was used")) << region().source;
  for (auto& [name, outcome] : remembered()) EXPECT_EQ(outcome, Outcome::Timed) << name;
}

TEST_P(Vetting, EqualKernelsRunThereOnce) {
  static int run = 0;
  for (auto& [form, texts] : each()) texts[0] += fmt::format(" // {}", ++run);
  RegionReport report;
  const auto callers = choices_of(regions_.at(0), pipeline_->get(), options_, report);
  ASSERT_EQ(callers.size(), 2u);
  const auto starts = [&](Vet vet) {
    const auto seen = vet(callers, regions_[0], [] { return 1e6; });
    for (auto& m : seen) EXPECT_EQ(m.status, "");
    return vet.starts();
  };
  EXPECT_EQ(starts(Vet(pipeline_->isa(), {})), 1);
  EXPECT_EQ(starts(Vet(pipeline_->isa(), {})), 0);
}

TEST_P(Vetting, NoWorkerIsAnErrorThatSaysWhatToDo) {
  options_.worker.program = "/nowhere/toroid-tune-worker";
  const std::string text = test::environment_error([&] { run(); });
  EXPECT_TRUE(contains(text, "/nowhere/toroid-tune-worker cannot be started")) << text;
  EXPECT_TRUE(contains(text, "tune_worker")) << text;
}

INSTANTIATE_TEST_SUITE_P(Devices, Vetting, testing::Bool(), [](auto& i) { return i.param ? "cuda" : "cpu"; });

}  // namespace
}  // namespace toroid::tune
