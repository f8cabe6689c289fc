// Work and compiles that take too long: here, until the test opens a gate.
#include "tune/region/time_limit.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <latch>
#include <thread>

#include "errors.h"
#include "tune/fake_pipeline.h"
#include "tune/region/precompile.h"
#include "tune/search/search.h"

namespace toroid::tune {
namespace {

constexpr double kShort = 1, kLong = 1e7;  // milliseconds

void wait_for_late_works() {
  while (late_works() > 0) std::this_thread::yield();
}

class Gate {
 public:
  void open() {
    if (!is_open_.exchange(true)) latch_.count_down();
  }
  void wait() { latch_.wait(); }

 private:
  std::atomic<bool> is_open_{false};
  std::latch latch_{1};
};

TEST(TimeLimit, WorkInTimeIsAsIfDoneHere) {
  int done = 0;
  EXPECT_TRUE(run_within(kLong, [&] { ++done; }));
  EXPECT_EQ(done, 1);
  EXPECT_EQ(test::user_error([] { run_within(kLong, [] { fail<UserError>("planted"); }); }), "planted");
  EXPECT_EQ(late_works(), 0u);
}

TEST(TimeLimit, LateWorkOwnsWhatItUsesUntilItEnds) {
  Gate gate;
  auto used = std::make_shared<int>(0);
  const std::weak_ptr<int> seen = used;
  EXPECT_FALSE(run_within(kShort, [&gate, used = std::move(used)] {
    gate.wait();
    if (++*used == 1) fail<UserError>("nobody is told");
  }));
  EXPECT_EQ(late_works(), 1u);
  EXPECT_FALSE(seen.expired());
  gate.open();
  wait_for_late_works();
  EXPECT_TRUE(seen.expired());
}

// The work goes on until the process is about to end, and then for a while.
TEST(TimeLimitDeathTest, TheProcessEndsAfterLateWork) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto end_with_late_work = [] {
    static std::atomic<bool> ending{false};
    run_within(kShort, [] {
      while (!ending) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      std::fputs("the work has ended\n", stderr);
    });
    std::atexit([] { ending = true; });
    std::exit(0);
  };
  EXPECT_EXIT(end_with_late_work(), testing::ExitedWithCode(0), "the work has ended");
}

program::Config tile(int64_t x) { return {"tiled", {{"x", x}}}; }

// A product with three tiles beside the default, whose compiles wait where the test says so.
class StuckCompiles : public testing::Test {
 protected:
  StuckCompiles() {
    for (int64_t x : {1, 2, 3}) fake_->ways.push_back(tile(x));
    auto p = std::make_shared<Pipeline>(*fake_->get());
    p->build = [this, build = p->build](program::Program scheduled) {
      ++builds_;
      const auto& way = scheduled.nodes.at(0).config;
      if (!way.empty() && way.at("x") <= stuck_) gate_.wait();
      if (way.empty() && default_waits_) others_.wait();
      return build(std::move(scheduled));
    };
    pipeline_ = p;
    options_.whole_ms = 0, options_.region_ms = 1e9, options_.workers = 2, options_.compile_ms = kShort;
    options_.clock = [](std::span<const std::shared_ptr<ChoiceCaller>> callers) -> Sample {
      return [all = std::vector(callers.begin(), callers.end())](size_t i) {
        all[i]->executable();
        const auto& ways = all[i]->choice().ways;
        return !ways.empty() && ways.at(0).second == tile(2) ? 0.5e6 : 1e6;
      };
    };
  }
  ~StuckCompiles() override {
    gate_.open();
    wait_for_late_works();
  }
  std::shared_ptr<ChoiceCaller> caller(int64_t x, double most_ms) {
    return std::make_shared<ChoiceCaller>(fmt::format("tile {}", x), CallerKind::Template, Choice{{{0, tile(x)}}, {}},
                                          std::make_shared<program::Program>(one_product()), pipeline_, most_ms);
  }
  const RegionReport& tune_product(Memory* memory = nullptr) {
    report_ = {};
    tune(one_product(), pipeline_, options_, memory, report_);
    return report_.regions.at(0);
  }

  std::shared_ptr<FakePipeline> fake_ = std::make_shared<FakePipeline>();
  std::shared_ptr<const Pipeline> pipeline_;
  std::atomic<int> builds_{0};
  int64_t stuck_ = 3;  // tiles up to this one wait
  bool default_waits_ = false;
  Gate gate_, others_;
  SearchOptions options_;
  TuneReport report_;
};

constexpr const char* kTooLong = "compiling took longer than 1 ms";

TEST_F(StuckCompiles, AreGivenUpForGood) {
  const auto stuck = caller(1, kShort);
  stuck->precompile();
  EXPECT_TRUE(test::contains(stuck->failure(), kTooLong)) << stuck->failure();
  EXPECT_GE(stuck->compile_ms(), kShort);
  gate_.open();
  wait_for_late_works();
  EXPECT_EQ(fake_->compiles, 1) << "it did end";
  EXPECT_EQ(fake_->alive, 0) << "with nothing left of it";
  EXPECT_TRUE(test::contains(test::environment_error([&] { stuck->executable(); }), kTooLong));
  EXPECT_EQ(stuck->compiles(), 0);
  EXPECT_EQ(stuck->kernels(), "");
  EXPECT_EQ(builds_, 1) << "nor is it tried again";
}

TEST_F(StuckCompiles, MayOutliveTheirChoice) {
  caller(1, kShort)->precompile();
  EXPECT_EQ(late_works(), 1u);
  gate_.open();
  wait_for_late_works();
  EXPECT_EQ(fake_->alive, 0);
}

TEST_F(StuckCompiles, OfAllWorkersHoldUpNothing) {
  stuck_ = 2;
  const std::vector<std::shared_ptr<ChoiceCaller>> all = {caller(1, kShort), caller(2, kShort), caller(3, kLong), caller(4, kLong)};
  precompile(all, 2);
  EXPECT_EQ(late_works(), 2u);
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i]->compiles(), i < 2 ? 0 : 1) << i;
    EXPECT_EQ(all[i]->failure().empty(), i >= 2) << i;
  }
}

TEST_F(StuckCompiles, AreRowsWithTheReason) {
  const RegionReport& r = tune_product();
  ASSERT_EQ(r.rows.size(), 4u);
  EXPECT_EQ(r.winner, 0u) << to_string(report_);
  EXPECT_EQ(r.source, "timed");
  EXPECT_EQ(report_.compiled, 1u);
  for (size_t i = 1; i < r.rows.size(); ++i) {
    const Measured& m = r.rows[i].measured;
    EXPECT_TRUE(m.failed && m.status.starts_with(fmt::format("failed: {}", kTooLong))) << m.status;
  }
}

TEST_F(StuckCompiles, AreTriedAgainAnotherTime) {
  const auto file = std::filesystem::path(testing::TempDir()) / "time_limit_test.sqlite";
  for (const char* part : {"", "-wal", "-shm"}) std::filesystem::remove(file.string() + part);
  const auto tune_after = [&](int64_t retry_hours) {
    Memory memory("a device", "tests", {.database = std::make_shared<Database>(file), .retry_hours = retry_hours});
    return tune_product(&memory);
  };
  EXPECT_EQ(tune_after(168).source, "timed");
  const int before = fake_->compiles;
  EXPECT_EQ(tune_after(168).source, "database");
  EXPECT_EQ(fake_->compiles, before) << "not at once";
  gate_.open();
  options_.compile_ms = 0;
  const RegionReport again = tune_after(0);
  EXPECT_EQ(again.rows.at(again.winner).name, program::to_string(tile(2))) << to_string(report_);
}

// It waits until the others were given up.
TEST_F(StuckCompiles, TheDefaultHasAllTheTimeItTakes) {
  default_waits_ = true;
  options_.progress = [&](const TuneProgress& p) {
    if (p.compiled == 3) others_.open();
  };
  const RegionReport& r = tune_product();
  EXPECT_EQ(r.source, "timed") << to_string(report_);
  EXPECT_TRUE(r.rows.at(0).measured.status.empty());
  EXPECT_GE(r.rows.at(0).compile_ms, 3 * kShort);
}

}  // namespace
}  // namespace toroid::tune
