// `toroid tune` and `toroid why --choice` from outside.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/files.h"
#include "cli/harness.h"
#include "import/onnx_builder.h"
#include "toroid/ops.h"
#include "toroid/weights.h"

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

// Of a model whose batch is open and has no usual size, as ONNX files are.
TEST_F(TuneCommand, SizesOfTheInputsAreTheUsualOnes) {
  using namespace import::onnx;
  const GraphParts parts{{node("MatMul", {"x", "w"}, {"y"})},
                         {value_info("x", {"batch", "64"}), value_info("w", {"64", "96"})},
                         {value_info("y", {"batch", "96"})},
                         {}};
  write_file_atomic(folder_ / "model.onnx", parts.model(17).bytes);
  save_tensors(file("x16.safetensors"), {{"x", ones({16, 64})}, {"w", ones({64, 96})}});
  const std::string tune = "tune " + file("model.onnx"), given = " --inputs " + file("x16.safetensors");
  for (const std::string& more : {" --rounds 0 --lock " + file("none.lock"), std::string(" --rounds 0 --json")}) {
    const Outcome without = run(tune + more);
    EXPECT_EQ(without.code, 2) << without.text;
    EXPECT_HAS(without,
               "nothing was tuned: nothing says what the size batch usually is; give the tensors of a usual call by --inputs FILE");
  }
  EXPECT_FALSE(std::filesystem::exists(file("none.lock"))) << "a file that decides nothing";
  const Outcome with = run(tune + given + " --rounds 1 --lock " + file("lock"));
  EXPECT_EQ(with.code, 0) << with.text;
  EXPECT_HAS(with, "timed at batch=16");
  EXPECT_HAS(with, "whole model: ");
  EXPECT_NE(read_file(file("lock")).find("mm [16x96x64]"), std::string::npos) << read_file(file("lock"));
  EXPECT_EQ(run(tune + given + " --check " + file("lock")).code, 0);
  const std::string compile = "compile a=" + file("model.onnx") + given + " --lock " + file("lock") + " -o " + file("a.tpk");
  EXPECT_EQ(run(compile).code, 0) << run(compile).text;
  EXPECT_HAS(run(compile + " b=" + file("model.onnx")), "--inputs is of one model, and 2 are given");
  const Outcome unknown = run(tune + " --check " + file("lock"));
  EXPECT_EQ(unknown.code, 2) << "nobody can say whether it holds: " << unknown.text;
  const Outcome example = run("tune " + std::string(TOROID_SOURCE_DIR) + "/tests/data/models/minilm_dynamic.pt2 --rounds 0 --budget 300");
  EXPECT_EQ(example.code, 0) << "the export says what is usual: " << example.text;
}

// What the budget did not reach has the default, and both commands tell.
TEST_F(TuneCommand, ALockFileTellsWhatTheBudgetDidNotReach) {
  const Outcome tuned = run("tune " + model_ + " --rounds 0 --budget 1 --lock " + file("lock"));
  EXPECT_EQ(tuned.code, 0) << tuned.text;
  EXPECT_HAS(tuned, "which the budget did not reach");
  EXPECT_NE(read_file(file("lock")).find(" (not timed)\""), std::string::npos);
  const Outcome check = run("tune " + model_ + " --check " + file("lock"));
  EXPECT_EQ(check.code, 0) << check.text;
  EXPECT_HAS(check, "decisions are defaults that were not timed");
}

}  // namespace
}  // namespace toroid
