// Weights of one name that differ from entry to entry, and names that the caller gives to a model's inputs and outputs.
#include <gtest/gtest.h>

#include <algorithm>

#include "data_models.h"
#include "errors.h"
#include "exec/stored.h"
#include "import/load_model.h"
#include "package/package.h"
#include "package/swaps.h"
#include "temp_folder.h"
#include "toroid/control_flow.h"
#include "toroid/ops.h"
#include "toroid/package.h"
#include "toroid/save_package.h"
#include "toroid/weights.h"
#include "toroid_runtime.h"

namespace toroid {
namespace {

using test::changed;
using test::contains;
using test::TempFolder;
using test::user_error;
using List = std::vector<Tensor>;
using Names = std::vector<std::string>;

const std::string kDigits = test::kModels + "digitsnet/core.pt2";

// Functions with weights of names that the model has, too: c1.bias with elements of its own; with those of the model; of other sizes.
struct Both {
  TempFolder folder;
  test::Tensors model = test::weights_of(*import::load_model(kDigits));
  Tensor mine;
  std::string path = folder / "both.tpk";
  Both(const Tensor& own, const std::vector<std::string>& targets = {"native"}) : mine(own) {
    const Tensor scale = full({1}, 2);
    save_package({{.name = "image", .model = kDigits},
                  {.name = "text", .function = [&](const List& in) { return List{in[0] * mine + scale}; }, .examples = {mine * 0.5}},
                  {.name = "other", .function = [&](const List& in) { return List{in[0] - scale}; }, .examples = {ones({3})}}},
                 path, {.targets = targets, .swappable = true, .weight_names = {{"c1.bias", mine}, {"scale", scale}}});
  }
  bool has(const std::string& name) const {
    const Names names = PackageFile::open(path).weights();
    return std::find(names.begin(), names.end(), name) != names.end();
  }
};

TEST(EntryWeights, DifferentOnesOfOneNameAreTheEntries) {
  for (bool other_sizes : {false, true}) {
    const Tensor theirs = test::weights_of(*import::load_model(kDigits)).at("c1.bias");
    const Both both(other_sizes ? full({5}, 3) : theirs + 1.0, {"native", "x86-64"});
    for (const char* name : {"image/c1.bias", "text/c1.bias", "image/f2.weight", "scale"}) EXPECT_TRUE(both.has(name)) << name;
    for (const char* name : {"c1.bias", "f2.weight", "other/scale"}) EXPECT_FALSE(both.has(name)) << name;

    const PackageFile file = PackageFile::open(both.path);
    PackageSession image = file.session("image"), text = file.session("text"), other = file.session("other");
    const auto inputs = test::inputs_of("digitsnet");
    const Tensor x = zeros(both.mine.sizes());
    const auto of_image = image.run(inputs), of_text = text.run({x});
    const auto given = changed(both.model, 5);
    save_tensors(both.folder / "image.safetensors", given);
    file.swap_weights(both.folder / "image.safetensors", "image");
    const auto swapped = image.run(inputs);
    EXPECT_NE(test::bit_difference(swapped, of_image), "");
    EXPECT_EQ(test::bit_difference(text.run({x}), of_text), "") << "the weight of the other entry";

    file.swap_weights({{"scale", full({1}, 4)}}, "text");  // by a name that is no entry's, and another's too
    EXPECT_EQ(text.run({x})[0].to_vector()[0], 4);
    EXPECT_EQ(other.run({ones({3})})[0].to_vector()[0], -3);
    file.swap_weights({{"text/c1.bias", both.mine * 0}});
    EXPECT_EQ(text.run({x + 1.0})[0].to_vector()[0], 4);
    EXPECT_EQ(test::bit_difference(image.run(inputs), swapped), "");

    EXPECT_TRUE(
        contains(user_error([&] {
                   file.swap_weights({{"c1.bias", theirs}});
                 }),
                 "several entries have a weight \"c1.bias\", and each its own; say which entry the weights are of, or give \"image/"))
        << user_error([&] {
             file.swap_weights({{"c1.bias", theirs}});
           });
    EXPECT_TRUE(contains(user_error([&] { file.swap_weights({{"c1.bias", theirs}}, "imaeg"); }), "imaeg"));
    EXPECT_TRUE(contains(user_error([&] { file.swap_weights({{"c1.bais", theirs}}, "image"); }), "c1.bais"));

    toroid_package* package = nullptr;
    ASSERT_EQ(toroid_package_open(both.path.c_str(), &package), TOROID_OK);
    const std::string weights = both.folder / "image.safetensors";
    EXPECT_EQ(toroid_package_swap_weights_file_of(package, "image", weights.c_str()), TOROID_OK) << toroid_last_error();
    EXPECT_EQ(toroid_package_swap_weights_file_of(package, nullptr, weights.c_str()), TOROID_USER_ERROR);
    EXPECT_TRUE(contains(toroid_last_error(), "say which entry")) << toroid_last_error();
    EXPECT_EQ(toroid_package_swap_weights_file_of(nullptr, "image", weights.c_str()), TOROID_USER_ERROR);
    EXPECT_EQ(toroid_package_swap_weights_file_of(package, "image", nullptr), TOROID_USER_ERROR);
    toroid_package_close(package);
  }
}

// A model whose weights all entries have as it has them.
TEST(EntryWeights, EqualOnesAreOne) {
  const Tensor equal = test::weights_of(*import::load_model(kDigits)).at("c1.bias");
  const Both both(Tensor::of(equal.to_vector(), equal.sizes()));
  EXPECT_TRUE(both.has("c1.bias"));
  EXPECT_FALSE(both.has("image/c1.bias"));
}

// Weights of another entry are refused where an entry is named, by C++, files, C and the command; those that both read are taken.
TEST(EntryWeights, OfAnotherEntryAreRefused) {
  const TempFolder folder;
  const Tensor mine = full({3}, 2), theirs = full({4}, 3), both = full({1}, 5), outside = full({4}, 7);
  save_package({{.name = "speech", .function = [&](const List& in) { return List{in[0] * mine + both}; }, .examples = {ones({3})}},
                {.name = "detect",
                 .function =
                     [&](const List& in) {
                       return List{cond(
                                       sum(in[0]) > 0, [&] { return in[0] * theirs; }, [&] { return in[0] + theirs; }) +
                                   both};
                     },
                 .examples = {ones({4})}}},
               folder / "m.tpk", {.swappable = true, .weight_names = {{"a.bias", mine}, {"h0.bias", theirs}, {"scale", both}}});
  const std::string path = folder / "m.tpk", file = folder / "w.safetensors";
  const PackageFile package = PackageFile::open(path);
  const auto speech = [&] { return package.session("speech").run({ones({3})})[0].to_vector()[0]; };
  const auto detect = [&] { return package.session("detect").run({ones({4})})[0].to_vector()[0]; };
  const std::string wanted = "the entry \"speech\" has no weight \"h0.bias\": it is one of the entry \"detect\"";
  const auto refusal = [&] { return user_error([&] { package.swap_weights({{"h0.bias", outside}}, "speech"); }); };
  EXPECT_TRUE(contains(refusal(), wanted)) << refusal();
  save_tensors(file, {{"a.bias", full({3}, 4)}, {"h0.bias", outside}});
  EXPECT_TRUE(contains(user_error([&] { package.swap_weights(file, "speech"); }), wanted));
  toroid_package* c = nullptr;
  ASSERT_EQ(toroid_package_open(path.c_str(), &c), TOROID_OK);
  EXPECT_EQ(toroid_package_swap_weights_file_of(c, "speech", file.c_str()), TOROID_USER_ERROR);
  EXPECT_TRUE(contains(toroid_last_error(), wanted)) << toroid_last_error();
  toroid_package_close(c);
  EXPECT_EQ(speech(), 7);
  EXPECT_EQ(detect(), 8) << "nothing has changed";

  package.swap_weights({{"h0.bias", outside}}, "detect");
  package.swap_weights({{"scale", full({1}, 6)}}, "speech");
  EXPECT_EQ(speech(), 8);
  EXPECT_EQ(detect(), 13);
  package.swap_weights(file);  // those of the whole package
  EXPECT_EQ(speech(), 10);
}

// Two entries of one model, and one that differs: what the two have is one weight of two names.
TEST(EntryWeights, EqualOnesAreOneBesideADifferentOne) {
  const TempFolder folder;
  const Tensor mine = full({4}, 3);
  save_package({{.name = "a", .model = kDigits},
                {.name = "b", .model = kDigits},
                {.name = "c", .function = [&](const List& in) { return List{in[0] * mine}; }, .examples = {mine * 1.0}}},
               folder / "m.tpk", {.swappable = true, .weight_names = {{"c1.bias", mine}}});
  const PackageFile file = PackageFile::open(folder / "m.tpk");
  const auto inputs = test::inputs_of("digitsnet");
  file.swap_weights(changed(test::weights_of(*import::load_model(kDigits)), 4), "b");
  EXPECT_EQ(test::bit_difference(file.session("a").run(inputs), file.session("b").run(inputs)), "");
  EXPECT_EQ(file.session("c").run({ones({4})})[0].to_vector()[0], 3);
  const auto rows = package::Package::open(folder / "m.tpk")->manifest().weights;
  EXPECT_EQ(std::count_if(rows.begin(), rows.end(), [](auto& w) { return w.names == Names{"a/c1.bias", "b/c1.bias"}; }), 1);
}

TEST(EntryNames, OfAModelAreTheCallers) {
  const TempFolder folder;
  const auto inputs = test::inputs_of("digitsnet");
  const PackageEntry entry{.name = "a", .model = kDigits, .input_names = {"pixels"}, .output_names = {"logits"}};
  save_package({entry, {.name = "b", .model = kDigits}}, folder / "m.tpk", {.targets = {"native", "x86-64"}});
  const PackageFile file = PackageFile::open(folder / "m.tpk");
  PackageSession a = file.session("a"), b = file.session("b");
  EXPECT_EQ(a.input_names(), (Names{"pixels"}));
  EXPECT_EQ(a.output_names(), (Names{"logits"}));
  EXPECT_NE(b.input_names(), a.input_names());
  EXPECT_EQ(test::bit_difference({a.run({{"pixels", inputs.at(0)}}).at("logits")}, b.run(inputs)), "");

  save_package(kDigits, folder / "one.tpk", {.input_names = {"pixels"}});
  PackageSession one = PackageFile::open(folder / "one.tpk").session();
  EXPECT_EQ(one.input_names(), (Names{"pixels"}));
  EXPECT_EQ(one.output_names(), b.output_names());

  const auto refused = [&](const PackageEntry& e) { return user_error([&] { save_package({e}, folder / "bad.tpk"); }); };
  const std::string error = refused({.name = "a", .model = kDigits, .input_names = {"x", "y"}});
  EXPECT_TRUE(contains(error, "the entry \"a\" has 1 inputs (") && contains(error, "input_names has 2; expected one for each")) << error;
  EXPECT_TRUE(contains(refused({.name = "a", .model = kDigits, .output_names = {"x", "y"}}), "output_names has 2"));
  EXPECT_TRUE(contains(user_error([&] { save_package({entry, entry}, folder / "bad.tpk"); }), "two entries have the name \"a\""));
}

}  // namespace
}  // namespace toroid
