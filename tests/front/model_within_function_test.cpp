// Loaded models and packages that functions call: never within a graph, and never without a word where a gradient is lost.
#include <gtest/gtest.h>

#include "data_models.h"
#include "errors.h"
#include "temp_folder.h"
#include "toroid/autograd.h"
#include "toroid/compile.h"
#include "toroid/control_flow.h"
#include "toroid/grad.h"
#include "toroid/model.h"
#include "toroid/ops.h"
#include "toroid/package.h"
#include "toroid/save_package.h"

namespace toroid {
namespace {

using test::contains;
using test::inputs_of;
using test::kModels;
using test::user_error;

using Way = std::function<std::vector<Tensor>(const Tensor&)>;

// A model and a package of it, run in order and by name.
struct Loaded {
  const test::TempFolder folder;
  const std::string path = kModels + "digitsnet/core.pt2";
  Model model = Model::load(path);
  PackageSession session = packaged(folder / "m.tpk");
  const Tensor x = inputs_of("digitsnet").at(0);
  const std::vector<Way> ways = {[this](const Tensor& t) { return model.run({t}); },
                                 [this](const Tensor& t) {
                                   return values_of(model.run({{model.inputs()[0].name, t}}));
                                 },
                                 [this](const Tensor& t) { return session.run({t}); },
                                 [this](const Tensor& t) {
                                   return values_of(session.run({{session.input_names()[0], t}}));
                                 }};

  PackageSession packaged(const std::string& to) const {
    save_package(path, to);
    return PackageFile::open(to).session();
  }
  static std::vector<Tensor> values_of(const std::map<std::string, Tensor>& results) { return {results.begin()->second}; }
};

TEST(ModelWithinFunction, TheGraphEndsThere) {
  Loaded l;
  for (const Way& run : l.ways) {
    auto f = compile([&](const Tensor& t) { return run(t * 2.0)[0] + 1.0; });
    for (const double by : {1.0, 0.5, 1.0}) EXPECT_TRUE(allclose(f(l.x * by), run(l.x * by * 2.0)[0] + 1.0));
    const CompileReport r = f.report();
    ASSERT_FALSE(r.graph_breaks.empty());
    EXPECT_TRUE(contains(to_string(r), "a program that was compiled before")) << to_string(r);
  }
}

// What has memory is no constant of a trace: the program runs at each call.
TEST(ModelWithinFunction, OnTensorsThatAreNoArguments) {
  Loaded l;
  Tensor held = l.x * 1.0;
  for (const Way& run : l.ways) {
    auto f = compile([&](const Tensor& t) { return run(held)[0] + t; });
    const Tensor zero = zeros({1});
    EXPECT_TRUE(equal(f(zero), run(held)[0]));
    copy_(held, l.x * 0.25);
    EXPECT_TRUE(equal(f(zero), run(held)[0]));
    auto made = compile([&](const Tensor& t) { return run(full({2, 1, 8, 8}, 0.5))[0] * t; });
    EXPECT_TRUE(equal(made(ones({1})), run(full({2, 1, 8, 8}, 0.5))[0]));
  }
}

TEST(ModelWithinFunction, WholeGraphsRefuseThem) {
  Loaded l;
  for (const Way& run : l.ways) {
    CompileConfig config;
    config.fullgraph = true;
    auto f = compile([&](const Tensor& t) { return run(t)[0]; }, config);
    EXPECT_TRUE(contains(user_error([&] { f(l.x); }), "a program that was compiled before"));
    const auto function = [&](const std::vector<Tensor>& in) { return run(in[0]); };
    EXPECT_TRUE(contains(user_error([&] { save_package(function, {l.x}, l.folder / "w.tpk"); }), "a program that was compiled before"));
    const auto branch = [&](const Tensor& t) { return run(t)[0]; };
    auto chosen = compile([&](const Tensor& t) { return cond(sum(t) > 0.0, branch, branch, t); });
    EXPECT_TRUE(contains(user_error([&] { chosen(l.x); }), "recorded as a whole"));
  }
}

TEST(ModelWithinFunction, NoGradientIsLostWithoutAWord) {
  Loaded l;
  for (const Way& run : l.ways) {
    EXPECT_TRUE(contains(user_error([&] { value_and_gradients([&] { return sum(run(l.x)[0]); }, {l.x}); }), "has no gradient"));
    Tensor x = l.x * 1.0;
    x.requires_grad_();
    EXPECT_TRUE(contains(user_error([&] { run(x); }), "requires gradients"));
    EXPECT_TRUE(equal(run(x.detach())[0], run(l.x)[0]));
    const NoGrad none;
    EXPECT_TRUE(equal(run(x)[0], run(l.x)[0]));
  }
}

}  // namespace
}  // namespace toroid
