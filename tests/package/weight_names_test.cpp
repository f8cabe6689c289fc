// Names of what a function in a package captures: weights are swapped by those of a module.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "data_models.h"
#include "errors.h"
#include "exec/stored.h"
#include "package/forge.h"
#include "package/package.h"
#include "temp_folder.h"
#include "toroid/nn.h"
#include "toroid/ops.h"
#include "toroid/package.h"
#include "toroid/save_package.h"
#include "toroid/weights.h"

namespace toroid {
namespace {

using test::contains;
using test::TempFolder;
using test::user_error;
using List = std::vector<Tensor>;
using Names = std::vector<std::string>;

// Its weights have equal sizes, so that one could be taken for another. `head` is used by training alone.
class Net : public nn::Module {
 public:
  explicit Net(uint64_t seed)
      : query_(6, 6, true, nn::Init(seed)), key_(6, 6, true, nn::Init(seed + 1)), value_(6, 6, true, nn::Init(seed + 2)), head_(6, 2) {
    add_child("query", query_), add_child("key", key_), add_child("value", value_), add_child("head", head_);
    tied_ = query_.weight;
    add_parameter("tied", tied_);
    steps_ = full({1}, static_cast<double>(seed), DType::I64);
    add_buffer("steps", steps_);
  }
  Tensor forward(const Tensor& x) {
    return matmul(softmax(matmul(query_.forward(x), transpose(key_.forward(x), 0, 1)), -1), matmul(value_.forward(x), tied_));
  }

 private:
  nn::Linear query_, key_, value_, head_;
  Tensor tied_, steps_;
};

double distance(const Tensor& a, const Tensor& b) { return amax(abs(a - b)).item<float>(); }

Tensor sample() { return nn::Init(77).uniform({5, 6}, -1, 1); }

TEST(WeightNames, AreThoseOfTheModule) {
  const TempFolder folder;
  Net net(1), other(11);
  const Tensor x = sample();
  for (const bool freeze : {true, false})
    for (const bool batch : {false, true}) {
      const Tensor example = sample();
      if (batch) mark_dynamic(example, 0, 1, 64);
      PackageOptions options;
      options.swappable = true, options.weight_names = net.state();
      options.model.freeze = freeze;
      save_package([&](const List& in) { return List{net.forward(in[0])}; }, {example}, folder / "m.tpk", options);
      save_package([&](const List& in) { return List{other.forward(in[0])}; }, {example}, folder / "o.tpk",
                   {.model = options.model, .swappable = true});
      const PackageFile file = PackageFile::open(folder / "m.tpk");
      Names names = file.weights();
      std::sort(names.begin(), names.end());
      EXPECT_EQ(names, (Names{"key.bias", "key.weight", "query.bias", "query.weight", "tied", "value.bias", "value.weight"}));
      other.save(folder / "other.safetensors");  // with `head` and `steps`, which no program has
      PackageSession session = file.session();
      const auto before = session.run({x});
      file.swap_weights(folder / "other.safetensors");
      const auto after = session.run({x}), expected = PackageFile::open(folder / "o.tpk").session().run({x});
      EXPECT_NE(test::bit_difference(before, after), "");
      EXPECT_EQ(test::bit_difference(after, expected), "");
      file.swap_weights(net.state());
      EXPECT_EQ(test::bit_difference(session.run({x}), before), "");
      EXPECT_TRUE(contains(user_error([&] { file.swap_weights({{"head.bias", zeros({2})}}); }), "no program of the package uses a weight"));
      EXPECT_TRUE(contains(user_error([&] {
                             file.swap_weights({{"head.bias", zeros({3})}, {"key.bias", zeros({6})}});
                           }),
                           "the weight \"head.bias\" is f32[2], a tensor f32[3] was given"));
      EXPECT_TRUE(contains(user_error([&] {
                             file.swap_weights({{"tied", zeros({6, 6})}, {"query.weight", ones({6, 6})}});
                           }),
                           "are one tensor in the model"));
      EXPECT_TRUE(contains(user_error([&] { file.swap_weights({{"kye.bias", zeros({6})}}); }), "did you mean \"key.bias\""));
    }
}

TEST(WeightNames, OfSeveralEntriesAreOneEach) {
  const TempFolder folder;
  Net net(1), other(11);
  const Tensor outside = full({6}, 0.5), counts = full({6}, 2, DType::I64);
  const auto a = [&](const List& in) { return List{net.forward(in[0]) * outside + counts}; };
  const auto b = [&](const List& in) { return List{net.forward(in[0] * counts) - outside}; };
  save_package({{.name = "a", .function = a, .examples = {sample()}}, {.name = "b", .function = b, .examples = {sample()}}},
               folder / "m.tpk", {.swappable = true, .weight_names = net.state()});
  const PackageFile file = PackageFile::open(folder / "m.tpk");
  const Names names = file.weights();
  EXPECT_EQ(names.size(), 8u);
  EXPECT_EQ(std::count_if(names.begin(), names.end(), [](auto& n) { return n.starts_with("captured"); }), 1) << "one that has no name";
  file.swap_weights(other.state());
  const Tensor x = sample();
  EXPECT_LT(distance(file.session("a").run({x})[0], other.forward(x) * outside + counts), 1e-5);
  EXPECT_LT(distance(file.session("b").run({x})[0], other.forward(x * counts) - outside), 1e-5);
}

TEST(WeightNames, WithoutThemNumbersAreSaid) {
  const TempFolder folder;
  Net net(1);
  save_package([&](const List& in) { return List{net.forward(in[0])}; }, {sample()}, folder / "m.tpk", {.swappable = true});
  const PackageFile file = PackageFile::open(folder / "m.tpk");
  const std::string said = user_error([&] { file.swap_weights(net.state()); });
  EXPECT_TRUE(contains(said, "numbers for names (\"captured") && contains(said, "PackageOptions::weight_names")) << said;
}

TEST(WeightNames, ThatMeanNothingAreRefused) {
  const TempFolder folder;
  Net net(1), other(2);
  const auto said = [&](const std::map<std::string, Tensor>& names) {
    return user_error([&] {
      save_package([&](const List& in) { return List{net.forward(in[0])}; }, {sample()}, folder / "m.tpk", {.weight_names = names});
    });
  };
  EXPECT_EQ(said(net.state()), "no error");
  EXPECT_TRUE(contains(said(other.state()), "none of its 10 tensors")) << said(other.state());
  auto names = net.state();
  names["captured_3"] = ones({2});
  EXPECT_TRUE(contains(said(names), "\"captured_3\" is what a tensor without a name is called"));
  EXPECT_TRUE(contains(said({{"x", Tensor()}}), "\"x\" is an undefined tensor"));
  EXPECT_TRUE(contains(said({{"a\n", ones({1})}}), "weight_names: name 0 is no UTF-8"));
}

// Sizes of a weight that are not those of what is made of it.
TEST(WeightNames, SizesThatDoNotFitAreAnError) {
  const test::TempFolder folder;
  const std::string path = folder / "m.tpk", forged = folder / "forged.tpk";
  save_package(test::kModels + "digitsnet/core.pt2", path, {.swappable = true});
  const package::Manifest whole = package::Package::open(path)->manifest();
  ASSERT_GT(whole.weights.size(), 4u);
  for (size_t k = 0; k < whole.weights.size(); ++k) {
    if (!whole.weights[k].sha256.empty()) continue;  // part of the program
    package::Manifest m = whole;
    m.weights[k].layout.sizes = {3}, m.weights[k].layout.strides = {1};
    test::with_manifest(path, forged, package::to_json(m));
    const std::string error = test::user_error([&] {
      const auto p = package::Package::open(forged);
      p->load("main")->session();
      std::map<std::string, Tensor> given;
      for (auto& w : m.weights)
        if (w.sha256.empty()) given[w.names.at(0)] = Tensor::full(w.layout.sizes, 0.5, w.layout.dtype);
      p->swap_weights(given);
    });
    EXPECT_TRUE(test::contains(error, "[3]")) << error;
  }
}

}  // namespace
}  // namespace toroid
