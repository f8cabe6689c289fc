// Names, types and ranges of what a function's package takes and returns.
#include <gtest/gtest.h>

#include <filesystem>

#include "data_models.h"
#include "errors.h"
#include "package/package.h"
#include "temp_folder.h"
#include "toroid/model.h"
#include "toroid/ops.h"
#include "toroid/package.h"
#include "toroid/save_package.h"
#include "toroid_runtime.h"

namespace toroid {
namespace {

using test::contains;
using test::TempFolder;
using test::user_error;
using Names = std::vector<std::string>;
using NamedTensors = std::map<std::string, Tensor>;

std::vector<Tensor> product_and_rest(const std::vector<Tensor>& in) { return {in[0] * in[1], in[0] - in[1]}; }

std::vector<Tensor> open_examples() {
  const std::vector<Tensor> out{ones({4, 2}), ones({4, 2})};
  for (auto& t : out) mark_dynamic(t, 0, 1, 64);
  return out;
}

TEST(FunctionNames, StandInManifestSessionsAndC) {
  const TempFolder folder;
  const Names inputs{"left", "die \"rechte\" Hälfte"}, outputs{"product", "rest/0:0"};
  save_package(product_and_rest, open_examples(), folder / "f.tpk", {.input_names = inputs, .output_names = outputs});
  PackageSession session = PackageFile::open(folder / "f.tpk").session();
  EXPECT_EQ(session.input_names(), inputs);
  EXPECT_EQ(session.output_names(), outputs);
  const auto entry = package::Package::open(folder / "f.tpk")->manifest().entries.at(0);
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(std::pair(entry.inputs.at(i).name, entry.outputs.at(i).name), std::pair(inputs[i], outputs[i]));
  toroid_package* package = nullptr;
  toroid_session* c = nullptr;
  toroid_value value;
  ASSERT_EQ(toroid_package_open((folder / "f.tpk").c_str(), &package), TOROID_OK);
  ASSERT_EQ(toroid_session_open(package, nullptr, &c), TOROID_OK);
  toroid_package_close(package);
  ASSERT_EQ(toroid_session_input(c, 1, &value), TOROID_OK);
  EXPECT_EQ(value.name, inputs[1]);
  EXPECT_EQ(std::pair(value.least[0], value.greatest[0]), std::pair(int64_t{1}, int64_t{64}));
  ASSERT_EQ(toroid_session_output(c, 1, &value), TOROID_OK);
  EXPECT_EQ(value.name, outputs[1]);
  toroid_session_close(c);
  const std::string said = user_error([&] { session.run({ones({3, 2}), ones({3, 3})}); });
  EXPECT_TRUE(contains(said, "input 1 (\"die \"rechte\" Hälfte\")")) << said;
}

TEST(FunctionNames, AreNumberedWhereNoneAreGiven) {
  const TempFolder folder;
  save_package(product_and_rest, open_examples(), folder / "f.tpk");
  PackageSession session = PackageFile::open(folder / "f.tpk").session();
  EXPECT_EQ(session.input_names(), (Names{"input0", "input1"}));
  EXPECT_EQ(session.output_names(), (Names{"output0", "output1"}));
  const Tensor one = ones({2});
  save_package(product_and_rest, {one, one}, folder / "f.tpk", {.input_names = {"a", "b"}});
  PackageSession twice = PackageFile::open(folder / "f.tpk").session();
  EXPECT_EQ(twice.run({full({2}, 6), full({2}, 2)})[1].to_vector(), (std::vector<double>{4, 4}))
      << "examples that are one tensor are two inputs";
}

TEST(FunctionNames, ThatCannotBeShownAreRefused) {
  const TempFolder folder;
  const auto said = [&](const Names& inputs, const Names& outputs) {
    return user_error(
        [&] { save_package(product_and_rest, open_examples(), folder / "f.tpk", {.input_names = inputs, .output_names = outputs}); });
  };
  const std::pair<Names, const char*> refused[] = {
      {{"a", "a"}, "\"a\" stands there twice"},
      {{"a"}, "has 1 names, the function has 2"},
      {{"a", "b", "c"}, "has 3 names, the function has 2"},
      {{"a", ""}, "name 1 has 0 bytes, expected 1 to 255"},
      {{std::string(256, 'x'), "b"}, "name 0 has 256 bytes"},
      {{"a", "b\n"}, "no UTF-8 text without control characters: 'b\\x0a'"},
      {{"a", "\x1b[31m"}, "control characters"},
      {{"a", std::string("b\0c", 3)}, "control characters"},
      {{"a", "\x7f"}, "control characters"},
      {{"a", "\xff"}, "name 1 is no UTF-8"},
      {{"a", "\xc3"}, "name 1 is no UTF-8"},
      {{"a", "\xc0\xaf"}, "name 1 is no UTF-8"},
      {{"a", "\xe0\x80\xaf"}, "name 1 is no UTF-8"},
      {{"a", "\xed\xa0\x80"}, "name 1 is no UTF-8"},
      {{"a", "\xf4\x90\x80\x80"}, "name 1 is no UTF-8"},
      {{"a", "b\x80"}, "name 1 is no UTF-8"},
  };
  for (auto& [names, expected] : refused) {
    EXPECT_TRUE(contains(said(names, {}), expected) && contains(said(names, {}), "input_names")) << said(names, {});
    EXPECT_TRUE(contains(said({}, names), expected) && contains(said({}, names), "output_names")) << said({}, names);
  }
  for (const char* fine : {"é", "€", "\xf0\x9f\x98\x80", "a b", "\\", "'", "\"", "%s{}", "../x"})
    EXPECT_EQ(said({fine, "b"}, {fine, "b"}), "no error") << fine;
  EXPECT_EQ(PackageFile::open(folder / "f.tpk").session().input_names(), (Names{"../x", "b"}));
  const PackageEntry entry{"main", test::kModels + "digitsnet/core.pt2"};
  EXPECT_TRUE(contains(user_error([&] { save_package({entry}, folder / "f.tpk", {.input_names = {"x"}}); }),
                       "entries have PackageEntry::input_names"));
}

TEST(FunctionNames, ErrorsOfTracingHaveThem) {
  const TempFolder folder;
  const Tensor w = ones({4, 2});
  const std::string said = user_error([&] {
    save_package([&](const std::vector<Tensor>& in) { return std::vector<Tensor>{in[0] + in[1] + w}; }, open_examples(), folder / "f.tpk",
                 {.input_names = {"left", "right"}});
  });
  EXPECT_TRUE(contains(said, "size of dimension 0 of input 0 (left) was marked dynamic")) << said;
}

TEST(PackageSpecs, SayTypesAndRanges) {
  const TempFolder folder;
  const Tensor x = ones({4, 2}), ids = full({4}, 1, DType::I64);
  mark_dynamic(x, 0, 1, 64), mark_dynamic(ids, 0, 0);
  save_package(
      [](const std::vector<Tensor>& in) {
        add_(in[0], 1);
        return std::vector<Tensor>{cat({in[0], in[0]}, 0), Tensor(), sum(in[1])};
      },
      {x, ids}, folder / "f.tpk", {.input_names = {"x", "ids"}, .output_names = {"twice", "none", "total"}});
  PackageSession session = PackageFile::open(folder / "f.tpk").session();
  const auto in = session.inputs(), out = session.outputs();
  using Sizes = std::vector<int64_t>;
  ASSERT_EQ(in.size(), 2u);
  EXPECT_EQ(in[0].text, "f32[s0, 2]");
  EXPECT_EQ(std::tuple(in[0].dtype, in[0].sizes, in[0].least, in[0].greatest, in[0].written),
            std::tuple(DType::F32, Sizes{-1, 2}, Sizes{1, 2}, Sizes{64, 2}, true));
  EXPECT_EQ(std::tuple(in[1].dtype, in[1].sizes, in[1].least, in[1].greatest, in[1].written),
            std::tuple(DType::I64, Sizes{-1}, Sizes{0}, Sizes{TensorSpec::kUnbounded}, false));
  ASSERT_EQ(out.size(), 3u);
  EXPECT_EQ(std::tuple(out[0].sizes, out[0].least, out[0].greatest), std::tuple(Sizes{-1, 2}, Sizes{2, 2}, Sizes{128, 2}));
  EXPECT_EQ(out[1].text, "none");
  EXPECT_EQ(out[2].text, "i64[]");
  Tensor a = ones({3, 2});
  const auto results = session.run({{"ids", full({2}, 5, DType::I64)}, {"x", a}});
  EXPECT_EQ(results.size(), 2u) << "what is no tensor is left out";
  EXPECT_EQ(results.at("twice").sizes(), (Sizes{6, 2}));
  EXPECT_EQ(results.at("total").to_vector(), std::vector<double>{10});
  EXPECT_EQ(a.to_vector(), std::vector<double>(6, 2)) << "written in place";
}

TEST(PackageSpecs, RunsByNameCannotMistakeInputs) {
  const TempFolder folder;
  save_package(product_and_rest, open_examples(), folder / "f.tpk", {.input_names = {"left", "right"}});
  PackageSession session = PackageFile::open(folder / "f.tpk").session();
  const Tensor a = full({1, 2}, 6), b = full({1, 2}, 2);
  EXPECT_EQ(session.run({{"right", b}, {"left", a}}).at("output1").to_vector(), (std::vector<double>{4, 4}));
  const std::string unknown = user_error([&] { session.run({{"left", a}, {"rihgt", b}}); });
  EXPECT_TRUE(contains(unknown, "the entry \"main\" has no input \"rihgt\"; did you mean \"right\"?; it takes left, right")) << unknown;
  const std::string missing = user_error([&] { session.run(NamedTensors{{"left", a}}); });
  EXPECT_TRUE(contains(missing, "the input \"right\" (f32[s0, 2]) is not given")) << missing;
  EXPECT_TRUE(contains(user_error([&] { session.run(NamedTensors()); }), "the input \"left\""));
  EXPECT_TRUE(contains(user_error([&] {
                         session.run({{"left", a}, {"right", Tensor()}});
                       }),
                       "\"right\" (f32[s0, 2]) is an undefined tensor"));
  EXPECT_TRUE(contains(user_error([&] { session.run({{"left", a}, {"right", b}, {"more", b}}); }), "no input \"more\""));
  EXPECT_TRUE(contains(user_error([&] { PackageSession().run(NamedTensors()); }), "PackageFile::session()"));
  EXPECT_TRUE(contains(user_error([&] { PackageSession().inputs(); }), "PackageFile::session()"));
}

TEST(PackageSpecs, ModelsHaveThem) {
  const TempFolder folder;
  save_package(test::kModels + "digitsnet/core.pt2", folder / "m.tpk");
  PackageSession session = PackageFile::open(folder / "m.tpk").session();
  const Model model = Model::load(test::kModels + "digitsnet/core.pt2");
  const auto texts = [](const std::vector<TensorSpec>& specs) {
    Names out;
    for (auto& s : specs) out.push_back(s.name + ": " + s.text);
    return out;
  };
  EXPECT_EQ(texts(session.inputs()), texts(model.inputs()));
  EXPECT_EQ(texts(session.outputs()), texts(model.outputs()));
}

TEST(PackageSpecs, WhatTheFileSystemRefusesIsNoBugInC) {
  const TempFolder folder;
  std::filesystem::create_symlink("loop", folder.path / "loop");
  save_package(product_and_rest, open_examples(), folder / "f.tpk", {.swappable = true});
  toroid_package* package = nullptr;
  for (const std::string& path : {std::string(), folder / "none", folder / "loop", "/" + std::string(5000, 'x')}) {
    const int status = toroid_package_open(path.c_str(), &package);
    EXPECT_TRUE(status == TOROID_USER_ERROR || status == TOROID_ENVIRONMENT_ERROR) << path << ": " << toroid_last_error();
  }
  ASSERT_EQ(toroid_package_open((folder / "f.tpk").c_str(), &package), TOROID_OK);
  for (const std::string& path : {std::string(), folder / "loop", "/" + std::string(5000, 'x')}) {
    const int status = toroid_package_swap_weights_file(package, path.c_str());
    EXPECT_TRUE(status == TOROID_USER_ERROR || status == TOROID_ENVIRONMENT_ERROR) << path << ": " << toroid_last_error();
  }
  toroid_package_close(package);
}

// Each file says what reads it.
TEST(PackageSpecs, ModelsAndPackagesAreToldApart) {
  const TempFolder folder;
  const std::string package = folder / "f.tpk", other = folder / "other";
  save_package(product_and_rest, open_examples(), package);
  const std::string loaded = user_error([&] { Model::load(package); });
  EXPECT_TRUE(contains(loaded, "this is a package") && contains(loaded, "PackageFile::open")) << loaded;
  EXPECT_TRUE(contains(user_error([&] { save_package(package, other); }), "this is a package"));
  EXPECT_TRUE(contains(user_error([&] { PackageFile::open(test::kModels + "digitsnet/core.pt2"); }), "Model::load"));
  for (const std::string bytes : {"\x08\x07\x12\x04test", "plain text", "", "PK\3\4", "P",
                                  "\x7f"
                                  "ELF"}) {
    write_file_atomic(other, bytes);
    EXPECT_NE(user_error([&] { PackageFile::open(other); }), "no error");
    EXPECT_EQ(contains(user_error([&] { PackageFile::open(other); }), "Model::load"), !bytes.empty() && bytes[0] != 'P') << bytes;
    EXPECT_NE(user_error([&] { Model::load(other); }), "no error");
  }
}

}  // namespace
}  // namespace toroid
