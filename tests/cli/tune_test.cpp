// `toroid tune` and `toroid why --choice` from outside.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/files.h"
#include "cli/harness.h"

namespace toroid {
namespace {

using namespace test;

// Each with a database of its own, and little time: what is chosen is not looked at.
class TuneCommand : public testing::Test {
 protected:
  TuneCommand() {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~TuneCommand() override { std::filesystem::remove_all(folder_); }
  Outcome run(const std::string& arguments) const {
    return toroid_command(arguments, "TOROID_TUNE_REGION_MS=5 TOROID_TUNE_WHOLE_MS=0 TOROID_TUNE_DATABASE=" + file("tuning.sqlite"));
  }
  std::string file(const std::string& name) const { return (folder_ / name).string(); }

  const std::filesystem::path folder_ = std::filesystem::path(testing::TempDir()) / "toroid_tune_test";
  const std::string model_ = "minilm-l6 --layers 1 --seq 16";
};

#define EXPECT_HAS(outcome, part) EXPECT_NE((outcome).text.find(part), std::string::npos) << (outcome).text

TEST_F(TuneCommand, ALockFileHoldsUntilAKernelIsAnotherOne) {
  const Outcome tuned = run("tune " + model_ + " --rounds 0 --lock " + file("lock"));
  ASSERT_EQ(tuned.code, 0) << tuned.text;
  EXPECT_HAS(tuned, "original choices");
  const Outcome holds = run("tune " + model_ + " --check " + file("lock"));
  EXPECT_EQ(holds.code, 0) << holds.text;
  EXPECT_HAS(holds, ": holds");
  std::string text = read_file(file("lock"));
  const size_t at = text.find("kernels ") + 8;
  text[at] = text[at] == '0' ? '1' : '0';
  write_file_atomic(file("lock"), text);
  const Outcome drifted = run("tune " + model_ + " --check " + file("lock"));
  EXPECT_EQ(drifted.code, 1) << drifted.text;
  EXPECT_HAS(drifted, "1 decisions do not hold");
  const Outcome missing = run("tune " + model_ + " --check " + file("missing.lock"));
  EXPECT_NE(missing.code, 0);
  EXPECT_HAS(missing, "missing.lock");
}

TEST_F(TuneCommand, AblationTimesFourModels) {
  const Outcome o = run("tune " + model_ + " --ablation --rounds 3");
  ASSERT_EQ(o.code, 0) << o.text;
  for (const char* row : {"\nnone ", "\nepilogue ", "\n+ prologue ", "\n+ cross-subgraph "}) EXPECT_HAS(o, row);
}

TEST_F(TuneCommand, WhyShowsWhatWasTimedForAPart) {
  const std::string model = std::string(TOROID_SOURCE_DIR) + "/tests/data/models/encoder/core.pt2";
  const Outcome o = run("why " + model + " --choice mm");
  ASSERT_EQ(o.code, 0) << o.text;
  EXPECT_HAS(o, "default   default");
  const Outcome typo = run("why " + model + " --choice nm");
  EXPECT_EQ(typo.code, 2) << typo.text;
  EXPECT_HAS(typo, "no part's name has \"nm\" in it");
}

}  // namespace
}  // namespace toroid
