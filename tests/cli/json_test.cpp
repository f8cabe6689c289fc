// --json: what each command prints with it is JSON, and says what the text says.
#include "import/json.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/options.h"
#include "cli/harness.h"
#include "errors.h"
#include "temp_folder.h"
#include "toroid/model.h"
#include "toroid/ops.h"
#include "toroid/weights.h"

namespace toroid {
namespace {

using namespace test;

const std::string kEncoder = std::string(TOROID_SOURCE_DIR) + "/tests/data/models/encoder/";

// What `use` finds in the output of a call that ends with `code`.
template <class F>
void expect_json(const std::string& arguments, F&& use, int code = 0, const std::string& before = "") {
  const Outcome o = toroid_command(arguments + " --json 2>/dev/null", before);
  ASSERT_EQ(o.code, code) << arguments << "\n" << o.text;
  const auto document = import::JsonDocument::parse(o.text, arguments);
  use(document.root());
}

TEST(Json, Doctor) {
  expect_json("doctor", [](const import::Json& r) {
    EXPECT_TRUE(r.at("healthy").as_bool());
    EXPECT_GT(r.at("checks").size(), 8u);
    EXPECT_EQ(r.at("checks")[0].at("name").as_str(), "processor");
    EXPECT_EQ(r.at("checks")[0].at("state").as_str(), "ok");
  });
  // A variable that means nothing is told, and all else too.
  expect_json(
      "doctor",
      [](const import::Json& r) {
        std::string notes;
        for (size_t i = 0; i < r.at("notes").size(); ++i) notes += r.at("notes")[i].as_str();
        EXPECT_TRUE(contains(notes, "TOROID_THREDS: there is no such option; did you mean \"TOROID_THREADS\"?")) << notes;
        EXPECT_GT(r.at("checks").size(), 8u);
      },
      0, "TOROID_THREDS=2");
}

TEST(Json, Options) {
  expect_json("options", [](const import::Json& r) { EXPECT_EQ(r.size(), list_options().size()); });
  expect_json("options freezing", [](const import::Json& r) {
    EXPECT_EQ(r[0].at("name").as_str(), "freezing");
    EXPECT_TRUE(r[0].at("environment").is_null());
  });
  expect_json(
      "options threads",
      [](const import::Json& r) {
        for (size_t i = 0; i < r.size(); ++i)
          if (r[i].at("name").as_str() == "threads") {
            EXPECT_EQ(r[i].at("value").as_str(), "1");
            EXPECT_EQ(r[i].at("default").as_str(), "0");
          }
      },
      0, "TOROID_THREADS=1");
  const Outcome unknown = toroid_command("options thraeds");
  EXPECT_EQ(unknown.code, 2);
  EXPECT_TRUE(contains(unknown.text, "did you mean \"threads\"?")) << unknown.text;
}

TEST(Json, Cache) {
  const TempFolder folder;
  const std::string own = "TOROID_CACHE_PROGRAMS=1 TOROID_CACHE_DIR=" + (folder / "cache");
  ASSERT_EQ(toroid_command("run " + kEncoder + "core.pt2 --inputs " + kEncoder + "in.safetensors", own).code, 0);
  int64_t kernels = 0, programs = 0;
  expect_json(
      "cache stats", [&](const import::Json& r) { kernels = r.at("kernels").as_int(), programs = r.at("programs").as_int(); }, 0, own);
  EXPECT_GT(kernels, 0);
  EXPECT_EQ(programs, 1);
  expect_json(
      "cache list", [&](const import::Json& r) { EXPECT_EQ(static_cast<int64_t>(r.size()), kernels + programs); }, 0, own);
  expect_json(
      "cache export " + (folder / "all"), [&](const import::Json& r) { EXPECT_EQ(r.at("kernels").as_int(), kernels); }, 0, own);
  expect_json(
      "cache clear", [&](const import::Json& r) { EXPECT_EQ(r.at("removed").as_int(), kernels + programs); }, 0, own);
  expect_json(
      "cache list", [](const import::Json& r) { EXPECT_EQ(r.size(), 0u); }, 0, own);
}

TEST(Json, WhyAndInspectTakeFilesAndBuiltInModels) {
  for (const std::string& model : {kEncoder + "core.pt2", std::string("minilm-l6 --layers 1 --seq 16")}) {
    int64_t kernels = 0;
    expect_json("why " + model, [&](const import::Json& r) {
      kernels = r.at("kernels").as_int();
      EXPECT_GT(r.at("passes").size(), 10u);
      EXPECT_EQ(r.at("recorded")[0].at("steps").as_int(), kernels + r.at("host_calls").as_int());
      EXPECT_GT(r.at("memory").at("outputs").as_int(), 0);
    });
    EXPECT_TRUE(contains(toroid_command("why " + model).text, fmt::format(" {} kernels,", kernels)));
    expect_json("inspect " + model, [](const import::Json& r) { EXPECT_GT(r.at("nodes").as_int(), 5); });
    expect_json("inspect --graph " + model,
                [](const import::Json& r) { EXPECT_TRUE(contains(std::string(r.at("text").as_str()), "graph ")); });
  }
  // The names are those by which Model::run and `toroid run` know the tensors.
  const Model model = Model::load(kEncoder + "core.pt2");
  expect_json("inspect " + kEncoder + "core.pt2", [&](const import::Json& r) {
    EXPECT_EQ(r.at("outputs")[0].at("name").as_str(), model.outputs().at(0).name);
    EXPECT_EQ(r.at("outputs").size(), model.outputs().size());
  });
  EXPECT_TRUE(contains(toroid_command("inspect " + kEncoder + "core.pt2").text, "output 0 (" + model.outputs().at(0).name + "): f32["));
  EXPECT_TRUE(contains(toroid_command("inspect " + kEncoder + "core.pt2 --batch 2").text, "--batch is of built-in models"));
  EXPECT_TRUE(contains(toroid_command("why brt-base").text, "did you mean \"bert-base\"?"));
}

TEST(Json, InspectShowsFilesOfTensors) {
  const TempFolder folder;
  save_tensors(folder / "x.safetensors", {{"images", zeros({3, 8})}, {"labels", zeros({3}, DType::I64)}}, {{"made by", "a test"}});
  expect_json("inspect " + (folder / "x.safetensors"), [](const import::Json& r) {
    ASSERT_EQ(r.at("tensors").size(), 2u);
    EXPECT_EQ(r.at("metadata").at("made by").as_str(), "a test");
  });
  const Outcome text = toroid_command("inspect " + (folder / "x.safetensors"));
  EXPECT_TRUE(contains(text.text, "images: f32[3, 8]") && contains(text.text, "metadata made by: a test")) << text.text;
}

TEST(Json, OptCompileAndTrain) {
  const TempFolder folder;
  expect_json("opt --list", [](const import::Json& r) {
    EXPECT_GT(r.size(), 30u);
    EXPECT_EQ(r[0].at("table").as_str(), "graphs");
  });
  const std::string program = std::string(TOROID_SOURCE_DIR) + "/tests/data/programs/fuse.txt";
  expect_json("opt " + program,
              [&](const import::Json& r) { EXPECT_EQ(std::string(r.at("text").as_str()), toroid_command("opt " + program).text); });
  expect_json("compile " + kEncoder + "core.pt2 -o " + (folder / "m.tpk"), [&](const import::Json& r) {
    EXPECT_EQ(static_cast<uintmax_t>(r.at("bytes").as_int()), std::filesystem::file_size(folder / "m.tpk"));
  });
  expect_json("doctor " + (folder / "m.tpk"), [](const import::Json& r) {
    EXPECT_TRUE(r.at("healthy").as_bool());
    EXPECT_EQ(r.at("checks")[0].at("name").as_str(), "archive");
  });
  expect_json("diff " + (folder / "m.tpk") + " " + (folder / "m.tpk"), [](const import::Json& r) {
    EXPECT_TRUE(r.at("equal").as_bool());
    EXPECT_EQ(r.at("weights").size(), 0u);
  });
  ASSERT_EQ(toroid_command("compile " + kEncoder + "core.pt2 --target x86-64 -o " + (folder / "n.tpk")).code, 0);
  expect_json(
      "diff " + (folder / "m.tpk") + " " + (folder / "n.tpk"),
      [](const import::Json& r) {
        EXPECT_FALSE(r.at("equal").as_bool());
        EXPECT_EQ(r.at("fields")[0].at("path").as_str(), "compiler");
        EXPECT_TRUE(r.at("fields")[0].at("a").is_string());
      },
      1);
  expect_json("train --keys", [](const import::Json& r) {
    const std::string text = toroid_command("train --keys").text;
    for (size_t i = 0; i < r.size(); ++i) EXPECT_TRUE(contains(text, "\n  " + std::string(r[i].at("name").as_str()) + " "));
    EXPECT_GT(r.size(), 30u);
  });
}

// The choices of one part alone, as in the text.
TEST(Json, WhyChoice) {
  const TempFolder folder;
  const std::string own =
      "TOROID_TUNE_REGION_MS=5 TOROID_TUNE_WHOLE_MS=0 TOROID_TUNE_CHOICES=none TOROID_TUNE_DATABASE=" + (folder / "tuning.sqlite");
  expect_json(
      "why --choice mm " + kEncoder + "core.pt2",
      [](const import::Json& r) {
        ASSERT_GT(r.at("parts").size(), 0u);
        for (size_t i = 0; i < r.at("parts").size(); ++i) EXPECT_TRUE(contains(std::string(r.at("parts")[i].at("label").as_str()), "mm"));
      },
      0, own);
}

}  // namespace
}  // namespace toroid
