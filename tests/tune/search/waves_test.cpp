// A search that stops where a template's order leaves no hope, by a clock that the test makes.
#include <gtest/gtest.h>

#include <filesystem>

#include "errors.h"
#include "tune/fake_pipeline.h"
#include "tune/search/search.h"

namespace toroid::tune {
namespace {

program::Config tile(int64_t x) { return {"tiled", {{"x", x}}}; }

// Sixteen tiles; the default takes one millisecond.
class Waves : public testing::Test {
 protected:
  Waves() {
    for (int64_t x = 0; x < 16; ++x) pipeline_->ways.push_back(tile(x));
    options_.whole_ms = 0, options_.region_ms = 1e9;
    options_.workers = 2;
    options_.all_tried = 8;
    options_.clock = [this](std::span<const std::shared_ptr<ChoiceCaller>> callers) -> Sample {
      std::vector<std::shared_ptr<ChoiceCaller>> all(callers.begin(), callers.end());
      return [this, all](size_t i) {
        ++samples_;
        if (budget_ms_then_ > 0) options_.budget_ms = budget_ms_then_;
        const auto& ways = all[i]->choice().ways;
        return 1e6 * (ways.empty() ? 1.0 : ratios_.at(static_cast<size_t>(ways.at(0).second.at("x"))));
      };
    };
  }
  RegionReport tune_product(Memory* memory = nullptr) {
    report_ = {};
    made_ = tune(one_product(), pipeline_->get(), options_, memory, report_);
    return report_.regions.at(0);
  }
  std::string status(int64_t x) const {
    for (auto& row : report_.regions.at(0).rows)
      if (row.text == "0: " + program::to_string(tile(x))) return row.measured.status;
    return "no such choice";
  }

  std::shared_ptr<FakePipeline> pipeline_ = std::make_shared<FakePipeline>();
  SearchOptions options_;
  std::vector<double> ratios_ = {1.0, 0.95, 0.9, 0.98, 0.9, 0.8, 0.83, 1.3, 1.2, 1.3, 1.4, 1.5, 0.2, 0.2, 0.2, 0.2};
  TuneReport report_;
  program::Program made_;
  int samples_ = 0;
  double budget_ms_then_ = 0;  // from the first look on; 0: as before
};

TEST_F(Waves, WhatStandsBehindHopelessOnesIsNotCompiled) {
  const RegionReport r = tune_product();
  EXPECT_EQ(made_.nodes.at(0).config, tile(5)) << to_string(report_);
  EXPECT_NEAR(r.ratio, 0.8, 1e-3);
  EXPECT_EQ(pipeline_->compiles, 13);
  EXPECT_EQ(report_.compiled, 13u);
  EXPECT_EQ(pipeline_->alive, 0);
  EXPECT_EQ(r.passed_over, 4u);
  EXPECT_TRUE(status(5).empty());
  EXPECT_TRUE(test::contains(status(12), "passed over")) << status(12);
  EXPECT_FALSE(status(0).empty());
  EXPECT_TRUE(test::contains(to_string(report_), "4 passed over")) << to_string(report_);
}

TEST_F(Waves, AnExhaustiveSearchTriesAll) {
  options_.all_tried = 9;
  const RegionReport r = tune_product();
  EXPECT_EQ(made_.nodes.at(0).config, tile(12)) << to_string(report_);
  EXPECT_EQ(pipeline_->compiles, 17);
  EXPECT_EQ(r.passed_over, 0u);
}

// What the budget kept from being tried is said to be that, and is asked for again.
TEST_F(Waves, AnEndedBudgetIsNoReasonToPassOver) {
  options_.budget_ms = 1e9;
  budget_ms_then_ = 1e-6;
  const RegionReport r = tune_product();
  EXPECT_EQ(r.passed_over, 0u) << to_string(report_);
  EXPECT_TRUE(test::contains(status(12), "budget")) << status(12);
  EXPECT_TRUE(report_.out_of_budget);
}

// Where the order is right, the result is that of trying all.
TEST_F(Waves, AreExhaustiveWhereTheOrderIsRight) {
  for (size_t x = 0; x < ratios_.size(); ++x) ratios_[x] = 0.7 + 0.04 * static_cast<double>(x);
  const RegionReport some = tune_product();
  EXPECT_EQ(made_.nodes.at(0).config, tile(0));
  EXPECT_EQ(some.passed_over, 8u);  // all of the second part are far behind 0.7
  options_.all_tried = 9;
  EXPECT_EQ(tune_product().ratio, some.ratio);
  EXPECT_EQ(made_.nodes.at(0).config, tile(0));
}

TEST_F(Waves, WhatWasPassedOverIsNotAskedForAgain) {
  const auto file = std::filesystem::path(testing::TempDir()) / "waves_test.sqlite";
  std::filesystem::remove(file);
  for (bool again : {false, true}) {
    Memory memory("a device", "tests", {.database = std::make_shared<Database>(file)});
    samples_ = 0;
    const RegionReport r = tune_product(&memory);
    EXPECT_EQ(made_.nodes.at(0).config, tile(5)) << to_string(report_);
    EXPECT_EQ(r.source, again ? "database" : "timed");
    EXPECT_EQ(samples_ == 0, again);
  }
}

}  // namespace
}  // namespace toroid::tune
