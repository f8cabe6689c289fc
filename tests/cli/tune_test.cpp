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

TEST_F(TuneCommand, ALockFileKeepsWhatOtherDevicesHave) {
  ASSERT_EQ(run("tune " + model_ + " --rounds 0 --lock " + file("lock")).code, 0);
  std::string text = read_file(file("lock"));
  text.insert(text.find("device \"") + 8, "another ");
  write_file_atomic(file("lock"), text);
  const Outcome elsewhere = run("tune " + model_ + " --check " + file("lock"));
  EXPECT_EQ(elsewhere.code, 1);
  EXPECT_HAS(elsewhere, "decisions do not hold; it decides for another ");
  ASSERT_EQ(run("tune " + model_ + " --rounds 0 --lock " + file("lock")).code, 0);
  EXPECT_NE(read_file(file("lock")).find("device \"another "), std::string::npos);
  const Outcome holds = run("tune " + model_ + " --check " + file("lock"));
  EXPECT_EQ(holds.code, 0) << holds.text;
}

TEST_F(TuneCommand, JsonHasWhatWasFound) {
  const Outcome o =
      toroid_command("tune " + model_ +
                         " --rounds 0 --json | python3 -c 'import json, sys; found = json.load(sys.stdin); "
                         "print(found[\"compared\"], sorted({c[\"kind\"] for p in found[\"parts\"] for c in p[\"choices\"]}), "
                         "found[\"lock\"][:13])'",
                     "TOROID_TUNE_REGION_MS=5 TOROID_TUNE_WHOLE_MS=0 TOROID_TUNE_DATABASE=none");
  EXPECT_HAS(o, "None ['default', 'fused', ");
  EXPECT_HAS(o, "toroid tuning");
  const Outcome text = run("tune " + model_ + " --rounds 3");
  EXPECT_HAS(text, "mm [16x");
  for (const char* bad : {" inf", "nan", "between 0.000", "(+- 0.000)"}) EXPECT_EQ(text.text.find(bad), std::string::npos) << text.text;
  EXPECT_EQ(run("tune " + model_ + " --json --ablation").code, 2);
}

TEST_F(TuneCommand, WhatIsTriedAndShownCanBeChosen) {
  const Outcome one = run("tune " + model_ + " --rounds 0 --rows 1 --choice mm");
  EXPECT_EQ(one.code, 0) << one.text;
  EXPECT_HAS(one, " more, slower or without a time");
  const Outcome none = run("tune " + model_ + " --rounds 0 --backends none --choices 'no such'");
  EXPECT_HAS(none, "not tuned: tune_backends and tune_choices leave one way to compute it");
  EXPECT_HAS(none, "compiling 0 choices");
  const Outcome typo = run("tune " + model_ + " --rounds 0 --choice nm");
  EXPECT_EQ(typo.code, 2);
  EXPECT_HAS(typo, "no part's name has \"nm\" in it");
  const Outcome bad = run("tune " + model_ + " --choices 'gemm('");
  EXPECT_EQ(bad.code, 2);
  EXPECT_HAS(bad, "is no regular expression");
  const Outcome unknown = run("tune " + model_ + " --backends triton");
  EXPECT_EQ(unknown.code, 2);
  EXPECT_HAS(unknown, "expected a comma-separated list of template and subgraph");
}

// Ctrl-C: what is kept is said, and what is not.
TEST_F(TuneCommand, AnInterruptionSaysWhatIsKept) {
  const auto interrupted = [&](const std::string& database, const std::string& arguments) {
    return toroid_command("tune minilm-l6 --seq 64 " + arguments,
                          "TOROID_TUNE_REGION_MS=60000 TOROID_TUNE_DATABASE=" + database + " timeout --preserve-status -s INT 2");
  };
  const Outcome kept = interrupted(file("tuning.sqlite"), "--lock " + file("lock") + " --html " + file("html"));
  EXPECT_EQ(kept.code, 130) << kept.text;
  EXPECT_HAS(kept, "interrupted; the tuning database keeps the parts that were decided");
  EXPECT_HAS(kept, file("lock") + " is not written; " + file("html") + " is not written");
  EXPECT_FALSE(std::filesystem::exists(file("lock")));
  EXPECT_HAS(interrupted("none", ""), "interrupted; nothing that was timed is kept");
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
  const Outcome nowhere = run("why " + model + " --device tpu");
  EXPECT_EQ(nowhere.code, 2) << nowhere.text;
  EXPECT_HAS(nowhere, "tpu");
}

}  // namespace
}  // namespace toroid
