// Models have names: of what they take and return, in files, in the cache of programs and in packages.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "base/options.h"
#include "data_models.h"
#include "errors.h"
#include "import/onnx_builder.h"
#include "package/package.h"
#include "temp_folder.h"
#include "toroid/cache.h"
#include "toroid/model.h"
#include "toroid/ops.h"
#include "toroid/package.h"
#include "toroid/save_package.h"

namespace toroid {
namespace {

using namespace import::onnx;
using test::contains;
using test::TempFolder;
using test::user_error;
using Named = std::map<std::string, Tensor>;

// difference = left - right, with an open size.
Message difference_model() {
  const GraphParts parts{{node("Sub", {"left", "right"}, {"the difference"}), node("Neg", {"the difference"}, {"1st"})},
                         {value_info("left", {"rows", "2"}), value_info("right", {"rows", "2"})},
                         {value_info("the difference", {"rows", "2"}), value_info("1st", {"rows", "2"})},
                         {}};
  return parts.model(13);
}

std::vector<std::string> texts(const std::vector<TensorSpec>& list) {
  std::vector<std::string> out;
  for (auto& s : list) out.push_back(s.name + ": " + s.text);
  return out;
}

TEST(ModelNames, AreThoseOfTheFileAlsoWhereTheCacheHasTheProgram) {
  const TempFolder cache;
  const ScopedOption dir("cache_dir", cache.path.string()), on("cache_programs", "1"), all("cache", "1");
  const ModelFolder folder(difference_model());
  std::filesystem::last_write_time(folder.model(), std::filesystem::file_time_type::clock::now() - std::chrono::seconds(1000));
  const int64_t before = program_cache_counters().hits;
  for (int load = 0; load < 2; ++load) {
    const Model m = Model::load(folder.model().string());
    EXPECT_EQ(texts(m.inputs()), (std::vector<std::string>{"left: f32[rows, 2]", "right: f32[rows, 2]"}));
    EXPECT_EQ(texts(m.outputs()), (std::vector<std::string>{"the difference: f32[rows, 2]", "1st: f32[rows, 2]"}));
    EXPECT_EQ(m.inputs()[0].sizes, (std::vector<int64_t>{-1, 2}));
    EXPECT_EQ(m.inputs()[0].dtype, DType::F32);
  }
  EXPECT_EQ(program_cache_counters().hits, before + 1);
}

TEST(ModelNames, RunByNameCannotMistakeInputs) {
  const ModelFolder folder(difference_model());
  Model m = Model::load(folder.model().string());
  const Tensor a = Tensor::of({5, 6}, {1, 2}), b = Tensor::of({1, 1}, {1, 2});
  const auto out = m.run({{"right", b}, {"left", a}});
  EXPECT_EQ(out.at("the difference").to_vector(), (std::vector<double>{4, 5}));
  EXPECT_EQ(out.at("1st").to_vector(), (std::vector<double>{-4, -5}));
  EXPECT_TRUE(contains(user_error([&] { m.run(Named{{"left", a}}); }), "the input \"right\" (f32[rows, 2]) is not given"));
  const std::string unknown = user_error([&] { m.run({{"left", a}, {"rihgt", b}}); });
  EXPECT_TRUE(contains(unknown, "no input \"rihgt\"; did you mean \"right\"?")) << unknown;
  EXPECT_TRUE(contains(user_error([&] { m.run(Named{{"left", a}, {"right", Tensor()}}); }), "right"));
  Model empty;
  EXPECT_TRUE(contains(user_error([&] { empty.inputs(); }), "holds no program"));
}

TEST(ModelNames, OfExportedProgramsAndTheirPackages) {
  const TempFolder folder;
  Model m = Model::load(test::kModels + "encoder/core.pt2");
  ASSERT_EQ(m.inputs().size(), 1u);
  EXPECT_EQ(texts(m.inputs())[0], "src: f32[2, 12, 32]");
  for (const std::string name : {"encoder", "digitsnet", "tied", "numbers_from_data"}) {
    const std::string path = test::kModels + name + "/core.pt2", package = folder / (name + ".tpk").c_str();
    const auto outputs = Model::load(path).outputs();
    const std::vector<PackageEntry> entry = {{"main", path}};
    save_package(entry, package);
    const auto written = package::Package::open(package)->manifest().entries.at(0).outputs;
    ASSERT_EQ(written.size(), outputs.size()) << name;
    std::set<std::string> different;
    for (size_t i = 0; i < outputs.size(); ++i) {
      EXPECT_EQ(written[i].name, outputs[i].name);
      EXPECT_FALSE(outputs[i].name.empty());
      different.insert(outputs[i].name);
    }
    EXPECT_EQ(different.size(), outputs.size()) << name;
  }
}

// A file that is not there is told in one sentence, whoever is to read it.
TEST(ModelNames, OfFilesThatAreMissing) {
  const TempFolder folder;
  for (const char* name : {"none.onnx", "none.pt2", "none.tpk", "none.safetensors", "none/none.pt2"}) {
    const std::string path = folder / name, expected = "cannot read \"" + path + "\": No such file or directory; check the path";
    EXPECT_EQ(user_error([&] { Model::load(path); }), expected);
    EXPECT_EQ(user_error([&] { PackageFile::open(path); }), expected);
    EXPECT_EQ(user_error([&] { load_tensors(path); }), expected);
    EXPECT_EQ(user_error([&] { save_package(path, folder / "out.tpk"); }), expected);
  }
}

}  // namespace
}  // namespace toroid
