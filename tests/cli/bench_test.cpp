// `toroid bench` from outside: the program that lies beside this test.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/files.h"
#include "cli/harness.h"
#include "import/json.h"

namespace toroid {
namespace {

using namespace test;

Outcome bench(const std::string& arguments) { return toroid_command("bench " + arguments); }

void expect_report(const Outcome& o) {
  ASSERT_EQ(o.code, 0) << o.text;
  auto document = import::JsonDocument::parse(o.text, "bench");
  import::Json r = document.root();
  EXPECT_GT(r.at("machine").at("copy_gb_per_s").as_double(), 0.1);
  EXPECT_GT(r.at("machine").at("f32_gflop_per_s").as_double(), 1);
  EXPECT_GT(r.at("compiled").at("median_ms").as_double(), 0);
  EXPECT_LE(r.at("compiled").at("min_ms").as_double(), r.at("compiled").at("median_ms").as_double());
  EXPECT_EQ(r.at("compiled").at("runs").as_int(), 3);
  EXPECT_GT(r.at("eager_launches").as_int(), r.at("launches").as_int());
  int64_t calls = 0;
  import::Json kernels = r.at("kernels");
  for (size_t i = 0; i < kernels.size(); ++i) {
    calls += kernels[i].at("calls").as_int();
    EXPECT_GT(kernels[i].at("bytes").as_int(), 0);
  }
  EXPECT_EQ(calls, r.at("launches").as_int() + r.at("host_calls").as_int());
}

TEST(Bench, BuiltInModel) { expect_report(bench("minilm-l6 --layers 1 --seq 16 --iterations 3 --json")); }

TEST(Bench, KernelsNameTheLayersThatTheyCompute) {
  const Outcome o = bench("minilm-l6 --layers 1 --seq 16 --iterations 3 --json --no-eager");
  ASSERT_EQ(o.code, 0) << o.text;
  const auto document = import::JsonDocument::parse(o.text, "bench");
  const import::Json kernels = document.root().at("kernels");
  std::string places;
  for (size_t i = 0; i < kernels.size(); ++i) {
    EXPECT_GT(kernels[i].at("places").size(), 0u) << kernels[i].at("name").as_str();
    for (size_t k = 0; k < kernels[i].at("places").size(); ++k) places += std::string(kernels[i].at("places")[k].as_str()) + "\n";
  }
  EXPECT_NE(places.find("encoder.layer.0.intermediate.dense (Linear)"), std::string::npos) << places;
  EXPECT_EQ(places.find(".cpp"), std::string::npos) << places;
}

TEST(Bench, ProcessorWithoutVectors) {
  setenv("TOROID_ISA", "scalar", 1);
  const Outcome o = bench("minilm-l6 --layers 1 --seq 16 --iterations 3 --json");
  unsetenv("TOROID_ISA");
  expect_report(o);
}

// The sizes that were timed are told, also where the model leaves them open.
TEST(Bench, ModelFile) {
  expect_report(bench(std::string(TOROID_SOURCE_DIR) + "/tests/data/models/encoder/core.pt2 --iterations 3 --json"));
  const Outcome o = bench(std::string(TOROID_SOURCE_DIR) + "/examples/digits/digits.pt2 --iterations 3 --json --no-eager");
  ASSERT_EQ(o.code, 0) << o.text;
  const auto document = import::JsonDocument::parse(o.text, "bench");
  const import::Json inputs = document.root().at("inputs");
  ASSERT_EQ(inputs.size(), 1u);
  EXPECT_EQ(inputs[0].as_str(), "f32[16, 1, 8, 8]");
}

TEST(Bench, CountsTheWorkOfAProduct) {
  Outcome o = bench("minilm-l6 --layers 1 --seq 16 --iterations 3 --json --no-eager");
  // Key and value of 16 tokens (the pooler reads the first alone, and so no other query): at least 2 * 16 * 384 * 2 * 384 operations, and
  // not many more.
  auto document = import::JsonDocument::parse(o.text, "bench");
  import::Json kernels = document.root().at("kernels");
  bool found = false;
  for (size_t i = 0; i < kernels.size(); ++i) {
    double flops = kernels[i].at("flops").as_double(), expected = 2.0 * 16 * 384 * 2 * 384;
    found = found || (flops >= expected && flops < 1.01 * expected);
  }
  EXPECT_TRUE(found) << o.text;
}

const std::string kModel = std::string(TOROID_SOURCE_DIR) + "/tests/data/models/encoder/core.pt2";

TEST(Bench, ReplayedRunsSayWhatWasRecorded) {
  Outcome o = bench(kModel + " --iterations 3 --json --no-eager --mode reduce-overhead");
  ASSERT_EQ(o.code, 0) << o.text;
  auto document = import::JsonDocument::parse(o.text, "bench");
  import::Json captures = document.root().at("captures");
  EXPECT_GT(captures.at("steps").as_int(), 0);
  EXPECT_EQ(captures.at("steps_recorded").as_int(), captures.at("steps").as_int());
  EXPECT_EQ(captures.at("time_share").as_double(), 1);
  EXPECT_GT(captures.at("graph_launches").as_int(), 3);
  EXPECT_EQ(captures.at("host_launches").as_int(), captures.at("steps").as_int()) << "one warm-up";
  Outcome w = toroid_command("why " + kModel);
  const auto steps = captures.at("steps").as_int();
  EXPECT_NE(w.text.find(fmt::format("recorded by mode reduce-overhead: {} of {} steps", steps, steps)), std::string::npos) << w.text;
}

TEST(Bench, HardModeFailsWithTheReason) {
  Outcome o = toroid_command("bench " + kModel + " --iterations 3 --no-eager --mode reduce-overhead",
                             "TOROID_CAPTURE_REQUIRE=1 TOROID_CAPTURE_MEMORY_KB=1");
  EXPECT_EQ(o.code, 2) << o.text;
  EXPECT_NE(o.text.find("capture_require: a call is not recorded"), std::string::npos) << o.text;
}

TEST(Bench, TimelineHasTheStepsOneAfterTheOther) {
  const std::filesystem::path folder = make_temp_dir("toroid-test"), file = folder / "steps.json";
  Outcome o = bench("minilm-l6 --layers 1 --seq 16 --iterations 3 --json --no-eager --timeline " + file.string());
  ASSERT_EQ(o.code, 0) << o.text;
  const std::string text = read_file(file);
  auto document = import::JsonDocument::parse(text, "timeline"), report = import::JsonDocument::parse(o.text, "bench");
  import::Json events = document.root().at("traceEvents");
  EXPECT_EQ(static_cast<int64_t>(events.size()), report.root().at("launches").as_int() + report.root().at("host_calls").as_int());
  double end = 0;
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_NEAR(events[i].at("ts").as_double(), end, 0.01);
    EXPECT_GT(events[i].at("dur").as_double(), 0);
    end = events[i].at("ts").as_double() + events[i].at("dur").as_double();
  }
  std::filesystem::remove_all(folder);
}

TEST(Bench, PositionOutsideOfTheCache) {
  Outcome o = bench("llama-7b --decode --layers 1 --seq 8 --position 8");
  EXPECT_EQ(o.code, 2);
  EXPECT_NE(o.text.find("--position"), std::string::npos) << o.text;
}

TEST(Bench, UnknownModelsNameTheKnownOnes) {
  Outcome o = bench("bert-bas");
  EXPECT_EQ(o.code, 2);
  EXPECT_NE(o.text.find("bert-base"), std::string::npos) << o.text;
}

}  // namespace
}  // namespace toroid
