// Steps from what won a region, by a clock that the test makes.
#include "tune/search/refine.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "tune/fake_pipeline.h"

namespace toroid::tune {
namespace {

program::Config tile(int64_t x) { return {"tiled", {{"x", x}}}; }

class Refine : public testing::Test {
 protected:
  Refine() {
    pipeline_->ways = {tile(2)};
    pipeline_->neighbours = [](const program::Config& c) {
      const int64_t x = c.empty() ? 4 : c.at("x");
      return std::vector<program::Config>{tile(x - 1), tile(x + 1)};
    };
    options_.whole_ms = 0, options_.region_ms = 1e9;
    options_.descent = true;
    // A tenth of a millisecond more for each step away from x = 7; the default is x = 4.
    options_.clock = [this](std::span<const std::shared_ptr<ChoiceCaller>> callers) -> Sample {
      std::vector<std::shared_ptr<ChoiceCaller>> all(callers.begin(), callers.end());
      return [this, all](size_t i) {
        ++samples_;
        const auto& ways = all[i]->choice().ways;
        const int64_t x = ways.empty() ? 4 : ways.at(0).second.at("x");
        if (x == fails_once_) fails_once_ = 0, fail<EnvironmentError>("planted");
        return (1 + 0.1 * static_cast<double>(std::abs(x - 7))) * 1e6;
      };
    };
  }
  void tune_product(Memory* memory = nullptr) {
    tuned_ = {};
    made_ = tune(one_product(), pipeline_->get(), options_, memory, tuned_);
  }

  std::shared_ptr<FakePipeline> pipeline_ = std::make_shared<FakePipeline>();
  SearchOptions options_{.workers = 2};
  TuneReport tuned_;
  program::Program made_;
  int samples_ = 0;
  int64_t fails_once_ = 0;  // x of what fails the first time that it is run; 0: nothing
};

TEST_F(Refine, GoesOnWhereTheListEnds) {
  tune_product();
  const RegionReport& r = tuned_.regions.at(0);
  EXPECT_EQ(made_.nodes.at(0).config, tile(7)) << to_string(tuned_);
  EXPECT_EQ(r.rows.at(r.winner).text, "0: tiled(x=7)");
  EXPECT_NEAR(r.ratio, 1 / 1.3, 1e-3);
  EXPECT_EQ(r.originals + r.fused, 2u);
  EXPECT_GE(r.rows.size(), 7u) << "and 3, 5, 6, 7, 8";
  EXPECT_EQ(pipeline_->alive, 0);
}

TEST_F(Refine, IsLeftOutUnlessAskedFor) {
  options_.descent = false;
  tune_product();
  EXPECT_TRUE(made_.nodes.at(0).config.empty());
  EXPECT_EQ(tuned_.regions.at(0).rows.size(), 2u);
}

TEST_F(Refine, WhatItFoundIsRememberedAndLocked) {
  const auto file = std::filesystem::path(testing::TempDir()) / "refine_test.sqlite";
  std::filesystem::remove(file);
  Memory memory("a device", "tests", {.database = std::make_shared<Database>(file)});
  tune_product(&memory);
  const int timed = samples_;
  const LockFile lock = LockFile::parse(tuned_.decided.text());
  Memory again("a device", "tests", {.database = std::make_shared<Database>(file)});
  tune_product(&again);
  EXPECT_EQ(made_.nodes.at(0).config, tile(7));
  Memory locked("a device", "tests", {.lock = &lock});
  options_.check_lock = true;
  tune_product(&locked);
  EXPECT_EQ(made_.nodes.at(0).config, tile(7));
  EXPECT_EQ(lock.drift(tuned_.now), std::vector<std::string>{});
  EXPECT_EQ(samples_, timed) << "nothing is timed again";
}

// A decision for what is remembered as failed would not stand: the next tuning would time all again.
TEST_F(Refine, WhatFailedBeforeIsNoStep) {
  const auto file = std::filesystem::path(testing::TempDir()) / "refine_failed_test.sqlite";
  std::filesystem::remove(file);
  const auto database = std::make_shared<Database>(file);
  pipeline_->ways = {tile(7)};
  fails_once_ = 7;
  Memory memory("a device", "tests", {.database = database});
  tune_product(&memory);
  EXPECT_EQ(made_.nodes.at(0).config, tile(6)) << to_string(tuned_);
  const RegionReport& r = tuned_.regions.at(0);
  EXPECT_FALSE(r.rows.at(r.winner).measured.failed);
  const int timed = samples_;
  Memory again("a device", "tests", {.database = database});
  tune_product(&again);
  EXPECT_EQ(made_.nodes.at(0).config, tile(6));
  EXPECT_EQ(samples_, timed) << "nothing is timed again";
}

TEST_F(Refine, ALockFileOfOtherKernelsDoesNotHold) {
  tune_product();
  LockFile lock;
  lock.set("a device", tuned_.regions.at(0).key.hex(), {"mm", "0: tiled(x=2)", "0123", 0.9});
  Memory locked("a device", "tests", {.lock = &lock});
  options_.check_lock = true;
  tune_product(&locked);
  const auto drift = lock.drift(tuned_.now);
  ASSERT_EQ(drift.size(), 1u);
  EXPECT_NE(drift[0].find("the kernels of 0: tiled(x=2) are"), std::string::npos) << drift[0];
}

}  // namespace
}  // namespace toroid::tune
