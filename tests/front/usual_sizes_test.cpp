// The sizes of the inputs that a model is loaded with are those that tuning times its open sizes at.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/options.h"
#include "compile/background.h"
#include "data_models.h"
#include "errors.h"
#include "front/cache_scratch.h"
#include "import/onnx_builder.h"
#include "toroid/model.h"
#include "toroid/ops.h"
#include "toroid/tuning.h"

namespace toroid {
namespace {

using namespace import::onnx;
using test::contains;
using test::user_error;

const std::string kOpenPt2 = test::kModels + "minilm_dynamic.pt2";
const ModelOptions kTuned{.mode = Mode::MaxAutotune,
                          .options = {{"tune_region_ms", "5"}, {"tune_whole_ms", "0"}, {"tune_database", "none"}}};

ModelOptions in_background() {
  ModelOptions out = kTuned;
  out.options["tune_in_background"] = "1";
  return out;
}

// relu(x @ w), x of `batch` rows.
struct Product : ModelFolder {
  Product() : ModelFolder(message()) {
    std::filesystem::last_write_time(model(), std::filesystem::file_time_type::clock::now() - std::chrono::seconds(1000));
  }
  static Message message() {
    const GraphParts parts{{node("MatMul", {"x", "w"}, {"xw"}), node("Relu", {"xw"}, {"y"})},
                           {value_info("x", {"batch", "64"}), value_info("w", {"64", "96"})},
                           {value_info("y", {"batch", "96"})},
                           {}};
    return parts.model(17);
  }
};
std::vector<Tensor> operands(int64_t rows) { return {full({rows, 64}, 0.5), full({64, 96}, 0.25)}; }

std::vector<Tensor> tokens(int64_t batch, int64_t length) { return {ones({batch, length}, DType::I64), ones({batch, length}, DType::I64)}; }

// Where the parts of a program that `load` compiles are from.
std::vector<std::string> sources(const std::function<void()>& load) {
  std::vector<std::string> out;
  TuneFeedback feedback([&](const TuneResult& r) {
    for (auto& p : r.parts) out.push_back(p.source);
  });
  load();
  return out;
}

void expect_all(const std::vector<std::string>& sources, const std::string& what) {
  EXPECT_FALSE(sources.empty());
  for (auto& s : sources) EXPECT_TRUE(contains(s, what)) << s << " has no " << what;
}

// x * w of two open sizes, which are taken for equal: not where the given inputs say otherwise.
struct Broadcast : ModelFolder {
  Broadcast() : ModelFolder(message()) {}
  static Message message() {
    const GraphParts parts{
        {node("Mul", {"x", "w"}, {"y"})}, {value_info("x", {"n", "4"}), value_info("w", {"m", "4"})}, {value_info("y", {"r", "4"})}, {}};
    return parts.model(17);
  }
};

TEST(UsualSizes, GivenInputsSayWhatBroadcasts) {
  const Broadcast file;
  const std::string path = file.model().string();
  const Tensor three = full({3, 4}, 2), one = full({1, 4}, 5);
  EXPECT_NE(user_error([&] { Model::load(path).run({three, one}); }), "no error");
  for (auto& inputs : {std::vector{three, one}, std::vector{one, three}, std::vector{three, three}, std::vector{zeros({0, 4}), one}}) {
    const Tensor y = Model::load(path, inputs).run(inputs).at(0);
    EXPECT_EQ(y.to_vector(), (inputs[0] * inputs[1]).to_vector());
  }
  EXPECT_EQ(Model::load(path, std::vector{three, three}).run({full({6, 4}, 2), full({6, 4}, 3)})[0].size(0), 6) << "open still";
}

TEST(UsualSizes, AnOnnxFileIsTunedAtThoseOfItsInputs) {
  const Product file;
  const ScopedOption off("cache_programs", "0");
  Model model;
  expect_all(sources([&] { model = Model::load(file.model().string(), operands(16), kTuned); }), "timed at batch=16");
  for (int64_t rows : {1, 5, 16, 40}) {
    const auto y = model.run(operands(rows)).at(0);
    EXPECT_EQ(y.sizes(), (std::vector<int64_t>{rows, 96})) << "the size is open still";
    for (double v : y.to_vector()) ASSERT_NEAR(v, 8, 1e-4);
  }
  expect_all(sources([&] { Model::load(file.model().string(), kTuned); }), "not tuned: nothing says what the size batch usually is");
}

TEST(UsualSizes, OfAPt2TakeThePlaceOfTheExamples) {
  const ScopedOption off("cache_programs", "0");
  const auto by_example = sources([] { Model::load(kOpenPt2, kTuned); });
  for (auto& s : by_example) EXPECT_FALSE(contains(s, "=7")) << s << ": the test needs other sizes than the example's";
  Model model;
  expect_all(sources([&] { model = Model::load(kOpenPt2, tokens(7, 19), kTuned); }), "timed at");
  std::string all;
  for (auto& s : sources([&] { model = Model::load(kOpenPt2, tokens(7, 19), kTuned); })) all += s + "\n";
  EXPECT_TRUE(contains(all, "=7")) << all;
  EXPECT_TRUE(contains(all, "=19")) << all;
  EXPECT_EQ(model.run(tokens(3, 5)).at(0).sizes()[0], 3);
}

TEST(UsualSizes, AreAPartOfTheKeyOfWhatIsKept) {
  const Product file;
  const test::Scratch cache;
  const auto load = [&](int64_t rows) { return sources([&] { Model::load(file.model().string(), operands(rows), kTuned); }); };
  expect_all(load(16), "batch=16");
  compiler::wait_for_background();
  EXPECT_TRUE(load(16).empty()) << "it is kept";
  expect_all(load(48), "batch=48");
  EXPECT_EQ(std::pair(cache.hits(), cache.misses()), std::pair(int64_t{1}, int64_t{2}));
}

TEST(UsualSizes, TuningBesideTheCallsTellsWhereThereAreNone) {
  const Product file;
  const ScopedOption off("cache_programs", "0");
  const Model without = Model::load(file.model().string(), in_background());
  const Model with = Model::load(file.model().string(), operands(16), in_background());
  compiler::wait_for_background();
  EXPECT_EQ(without.tuning(),
            "nothing was tuned beside the calls: nothing says what the size batch usually is; load the model with the inputs of a usual "
            "call: Model::load(path, inputs, options)");
  EXPECT_TRUE(with.tuning().starts_with("tuned beside the calls in")) << with.tuning();
  EXPECT_FALSE(contains(with.tuning(), "nothing says")) << with.tuning();
}

TEST(UsualSizes, OfInputsThatDoNotFitAreErrors) {
  const Product file;
  const auto refusal = [&](const std::string& path, const std::vector<Tensor>& inputs) {
    return user_error([&] { Model::load(path, inputs); });
  };
  EXPECT_TRUE(contains(refusal(file.model().string(), {full({16, 63}, 1), full({64, 96}, 1)}), "\"x\"")) << "63 columns in place of 64";
  EXPECT_TRUE(contains(refusal(kOpenPt2, {tokens(7, 19)[0]}), "takes 2 inputs, 1 were given"));
  EXPECT_TRUE(contains(refusal(kOpenPt2, tokens(100000, 19)), "is 100000, but the program"));
}

}  // namespace
}  // namespace toroid
