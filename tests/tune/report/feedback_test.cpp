// What users are told of tunings, and the lock files that they make of it.
#include "tune/report/feedback.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/files.h"
#include "errors.h"
#include "tune/fake_pipeline.h"
#include "tune/search/search.h"

namespace toroid::tune {
namespace {

using test::contains;

class Feedback : public testing::Test {
 protected:
  // The variant "tree" takes half of the default's time, "ring" is refused.
  void tune_once(const std::string& device = "a device") {
    auto pipeline = std::make_shared<FakePipeline>(device);
    SearchOptions options;
    options.fusion_depth = 0;
    options.whole_ms = 0, options.region_ms = 1e9;
    options.clock = [](std::span<const std::shared_ptr<ChoiceCaller>> callers) -> Sample {
      std::vector<std::shared_ptr<ChoiceCaller>> all(callers.begin(), callers.end());
      return [all](size_t i) {
        if (contains(all[i]->name(), "ring")) fail<UserError>("planted");
        return contains(all[i]->name(), "tree") ? 5e6 : 1e7;
      };
    };
    Memory memory(device, "tests", {});
    report_ = {};
    tune(reduced_and_scaled(), pipeline->get(), options, &memory, report_);
  }
  ~Feedback() override { std::filesystem::remove_all(folder_); }

  TuneReport report_;
  const std::filesystem::path folder_ = make_temp_dir();
};

TEST_F(Feedback, HasEveryTimeAndEveryReason) {
  std::vector<TuneResult> found;
  {
    const TuneFeedback feedback([&](const TuneResult& r) { found.push_back(r); });
    tune_once();
  }
  tune_once();
  ASSERT_EQ(found.size(), 1u) << "none after its life";
  ASSERT_EQ(found[0].parts.size(), 1u);
  const TunedPart& part = found[0].parts[0];
  EXPECT_EQ(part.label, "all_reduce");
  EXPECT_EQ(part.source, "timed");
  EXPECT_EQ(part.chosen, report_.regions.at(0).chosen);
  EXPECT_EQ(part.key, report_.regions.at(0).key.hex());
  ASSERT_EQ(part.choices.size(), 3u);
  EXPECT_EQ(part.choices[0].kind, "default");
  EXPECT_NEAR(part.choices[0].microseconds, 1e4, 1e-6);
  EXPECT_TRUE(part.choices[1].failed);
  EXPECT_TRUE(contains(part.choices[1].status, "planted")) << part.choices[1].status;
  EXPECT_EQ(part.choices[2].text, part.chosen);
  EXPECT_NEAR(part.choices[2].microseconds, 5e3, 1e-6);
  EXPECT_NEAR(part.choices[2].ratio, 0.5, 1e-3);
  EXPECT_GT(part.choices[2].compile_ms, 0);
  EXPECT_GT(found[0].total_ms, 0);
}

TEST_F(Feedback, MayTuneItselfAndMayFail) {
  int calls = 0;
  const TuneFeedback feedback([&](const TuneResult&) {
    if (++calls == 1) tune_once("another device");
    if (calls == 3) fail<UserError>("enough");
  });
  tune_once();
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(test::user_error([&] { tune_once(); }), "enough");
}

// No lock is held in a call: it may wait for another thread that tunes, too.
TEST_F(Feedback, MayWaitForAnotherThreadThatTunes) {
  std::atomic<int> calls = 0;
  const TuneFeedback feedback([&](const TuneResult&) {
    if (calls.fetch_add(1) == 0) std::thread([&] { tune_once("another device"); }).join();
    const TuneFeedback more([](const TuneResult&) {});
  });
  tune_once();
  EXPECT_EQ(calls, 2);
}

TEST_F(Feedback, LockFilesKeepWhatOtherDevicesHave) {
  std::vector<TuneResult> found;
  const TuneFeedback feedback([&](const TuneResult& r) { found.push_back(r); });
  for (const char* device : {"a device", "another device"}) tune_once(device);
  const std::string path = folder_ / "tuning.lock", key = found[0].parts[0].key;
  write_tune_lock(path, {found[0]});
  write_tune_lock(path, {found[1]});
  LockFile both = LockFile::read(path);
  EXPECT_EQ(both.devices(), (std::vector<std::string>{"a device", "another device"}));
  EXPECT_EQ(both.find("a device", key)->winner, found[0].parts[0].chosen);
  LockFile old;
  old.set("a device", "gone", {"gone", "default", "", 1});
  old.write(path);
  write_tune_lock(path, found);
  EXPECT_EQ(LockFile::read(path).text(), both.text()) << "what a device had is replaced";
  write_file_atomic(path, "no lock file");
  EXPECT_TRUE(contains(test::user_error([&] { write_tune_lock(path, found); }), "line 1: expected"));
  EXPECT_EQ(read_file(path), "no lock file");
}

}  // namespace
}  // namespace toroid::tune
