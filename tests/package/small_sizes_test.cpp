// Functions whose packages take sizes from 0 or 1 on.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "errors.h"
#include "package/package.h"
#include "temp_folder.h"
#include "toroid/grad.h"
#include "toroid/nn.h"
#include "toroid/ops.h"
#include "toroid/package.h"
#include "toroid/random.h"
#include "toroid/save_package.h"

namespace toroid {
namespace {

using test::contains;
using test::TempFolder;
using test::user_error;
using List = std::vector<Tensor>;
using ListFunction = std::function<List(const List&)>;

struct SizeCase {
  const char* name;
  ListFunction fn;
  std::function<List(int64_t)> inputs;  // of a batch
  bool takes_none = true;               // a batch of 0
};

std::vector<SizeCase> size_cases() {
  const auto rows = [](int64_t n) { return List{randn({n, 8})}; };
  const auto images = [](int64_t n) { return List{randn({n, 3, 8, 8})}; };
  const auto sequences = [](int64_t n) { return List{randn({n, 5, 8})}; };
  const auto linear = std::make_shared<nn::Linear>(8, 4);
  const auto conv = std::make_shared<nn::Conv2d>(3, 4, 3, nn::Conv2dOptions{.padding = {1, 1}});
  const auto norm = std::make_shared<nn::BatchNorm2d>(4);
  const auto attention = std::make_shared<nn::MultiheadAttention>(8, 2);
  const auto layer_norm = std::make_shared<nn::LayerNorm>(std::vector<int64_t>{8});
  const auto embedding = std::make_shared<nn::Embedding>(11, 8);
  const Tensor w = randn({8});
  return {
      {"pointwise", [w](const List& in) { return List{in[0] * w + 1}; }, rows},
      {"linear and softmax", [=](const List& in) { return List{softmax(relu(linear->forward(in[0])), -1)}; }, rows},
      {"network of images",
       [=](const List& in) {
         const Tensor x = max_pool2d(relu(norm->forward(conv->forward(in[0]))), {2, 2});
         return List{mean(flatten(x, 1), {1}), reshape(x, {x.size(0), 64})};
       },
       images},
      {"attention",
       [=](const List& in) { return List{layer_norm->forward(in[0] + attention->forward(in[0], in[0], in[0], {.is_causal = true}))}; },
       sequences},
      {"embedding", [=](const List& in) { return List{sum(embedding->forward(in[0]), {1})}; },
       [](int64_t n) {
         return List{randint(0, 11, {n, 6})};
       }},
      {"reductions",
       [](const List& in) {
         return List{sum(in[0], {0}), sum(in[0]), in[0] - sum(in[0], {0}, true)};
       },
       rows},
      {"joins and views",
       [](const List& in) {
         const Tensor x = in[0];
         return List{cat({x, x * 2}, 0), reshape(x, {-1, 2}), transpose(x, 0, 1), narrow(x, 1, 2, 3), stack({x, x}, 1), flip(x, {0})};
       },
       rows},
      {"made tensors",
       [](const List& in) {
         return List{in[0] + unsqueeze(arange(in[0].size(0), DType::F32), 1), ones({in[0].size(0), 2})};
       },
       rows},
      {"two inputs",
       [](const List& in) {
         return List{matmul(in[0], transpose(in[1], 0, 1)), in[0] + in[1]};
       },
       [](int64_t n) {
         return List{randn({n, 8}), randn({n, 8})};
       }},
      {"sorts and sums so far",
       [](const List& in) {
         return List{std::get<0>(sort(in[0], 0)), cumsum(in[0], 0)};
       },
       rows},
      {"largest of the batch", [](const List& in) { return List{amax(in[0], {0})}; }, rows, false},
      {"last row", [](const List& in) { return List{select(in[0], 0, -1)}; }, rows, false},
      {"means of the batch", [](const List& in) { return List{mean(in[0], {0})}; }, rows},
  };
}

void expect_close(const List& a, const List& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].sizes(), b[i].sizes()) << what << ", output " << i;
    const auto x = a[i].to_vector(), y = b[i].to_vector();
    for (size_t k = 0; k < x.size(); ++k)
      ASSERT_TRUE(std::abs(x[k] - y[k]) < 1e-4 || (std::isnan(x[k]) && std::isnan(y[k])))
          << what << ", output " << i << ", element " << k << ": " << x[k] << " and " << y[k];
  }
}

// Whatever the batch of the examples is.
TEST(SmallSizes, APackageTakesWhatMarkDynamicSays) {
  const TempFolder folder;
  const std::string path = folder / "f.tpk";
  for (const SizeCase& c : size_cases()) {
    for (const int64_t least : {0, 1}) {
      for (const int64_t given : {1, 4}) {
        const List examples = c.inputs(given);
        for (auto& x : examples) mark_dynamic(x, 0, least, 16);
        save_package(c.fn, examples, path);
        PackageSession session = PackageFile::open(path).session();
        for (const int64_t n : {1, 2, 3, 16, 1}) {
          const List in = c.inputs(n);
          expect_close(session.run(in), c.fn(in), fmt::format("{}: {} of {}", c.name, n, given));
        }
        const List none = c.inputs(0);
        if (least == 0 && c.takes_none)
          expect_close(session.run(none), c.fn(none), std::string(c.name) + ": none");
        else
          EXPECT_NE(user_error([&] { session.run(none); }), "no error") << c.name;
        EXPECT_TRUE(contains(user_error([&] { session.run(c.inputs(17)); }), "16")) << c.name;
      }
    }
  }
}

TEST(SmallSizes, WhatIsNotAskedForIsRefused) {
  const TempFolder folder;
  const ListFunction twice = [](const List& in) { return List{in[0] * 2}; };
  const auto packed = [&](int64_t batch, int64_t min, int64_t max) {
    return user_error([&] {
      const Tensor x = ones({batch, 3});
      mark_dynamic(x, 0, min, max);
      save_package(twice, {x}, folder / "f.tpk");
    });
  };
  EXPECT_TRUE(contains(packed(1, 2, 8), "was marked dynamic from 2 on, but it is 1")) << packed(1, 2, 8);
  EXPECT_TRUE(contains(packed(0, 1, 8), "mark it from 0 on")) << packed(0, 1, 8);
  EXPECT_TRUE(contains(packed(9, 1, 8), "from 1 to 8, but it is 9")) << packed(9, 1, 8);
  EXPECT_TRUE(contains(packed(4, -1, 8), "-1..8 begins below 0")) << packed(4, -1, 8);
  EXPECT_TRUE(contains(packed(4, 5, 3), "5..3 is empty")) << packed(4, 5, 3);
  EXPECT_TRUE(contains(packed(1, 1, 1), "1..1 ends below 2")) << packed(1, 1, 1);
  EXPECT_EQ(packed(4, 2, 8), "no error");
  EXPECT_NE(user_error([&] { PackageFile::open(folder / "f.tpk").session().run({ones({1, 3})}); }), "no error");
}

// Broadcasting is other code for a size of 1, whichever size the example has.
TEST(SmallSizes, CodeForOneSizeAloneIsNamed) {
  const TempFolder folder;
  const Tensor w = ones({4, 3});
  const auto packed = [&](int64_t batch, const ListFunction& fn) {
    return user_error([&] {
      const Tensor x = ones({batch, 3});
      mark_dynamic(x, 0, 1, 8);
      save_package(fn, {x}, folder / "f.tpk");
    });
  };
  for (const int64_t batch : {1, 4}) {
    const std::string said = packed(batch, [&](const List& in) { return List{in[0] + w}; });
    EXPECT_TRUE(contains(said, "but the function needs it to be " + std::to_string(batch)) && contains(said, "small_sizes_test.cpp"))
        << said;
    const std::string branches = packed(batch, [&](const List& in) { return List{in[0].size(0) > 1 ? in[0] : in[0] * 2}; });
    EXPECT_TRUE(contains(branches, "was marked dynamic from 1 to 8, but") || contains(branches, "needs it to be 1")) << branches;
  }
}

// What one of two equal sizes was taken for holds of the other.
TEST(SmallSizes, EqualSizesHaveWhatTheirRangesHaveInCommon) {
  const TempFolder folder;
  const Tensor x = ones({4}), y = ones({4});
  mark_dynamic(x, 0, 0, 8), mark_dynamic(y, 0, 2, 64);
  save_package([](const List& in) { return List{in[1].size(0) > 1 ? in[0] + in[1] : in[0] - in[1]}; }, {x, y}, folder / "f.tpk");
  PackageSession session = PackageFile::open(folder / "f.tpk").session();
  EXPECT_EQ(session.run({ones({8}), ones({8})})[0].to_vector(), std::vector<double>(8, 2));
  for (const int64_t n : {0, 1, 9}) {
    const std::string said = user_error([&] { session.run({ones({n}), ones({n})}); });
    EXPECT_TRUE(contains(said, "2..8")) << said;
  }
}

TEST(SmallSizes, ACompiledFunctionTakesThemByOneVariant) {
  for (const int64_t first : {4, 1, 0}) {
    auto f = compile([](const Tensor& x) { return relu(x) * 2 + 1; });
    const Tensor marked = ones({first, 3});
    mark_dynamic(marked, 0, 0, 8);
    f(marked);
    for (const int64_t n : {0, 1, 2, 8}) EXPECT_EQ(f(ones({n, 3})).to_vector(), std::vector<double>(static_cast<size_t>(n) * 3, 3)) << n;
    EXPECT_EQ(f.report().compiles, 1) << first;
  }
}

// A size that was not marked begins at 2, and code that it decides is no code for 1.
TEST(SmallSizes, AnUnmarkedSizeDoesNotNarrowAMarkedOne) {
  auto f = compile([](const Tensor& x, const Tensor& y) { return y.size(0) > 1 ? x + y : x - y; }, {.dynamic = true});
  const Tensor x = ones({4});
  mark_dynamic(x, 0, 1, 8);
  const std::string said = user_error([&] { f(x, ones({4})); });
  EXPECT_TRUE(contains(said, "size of dimension 0 of input 0 was marked dynamic from 1 to 8") && contains(said, "Mark that one, too"))
      << said;
  auto g = compile([](const Tensor& x, const Tensor& y) { return x + y; }, {.dynamic = true});
  const Tensor y = ones({4});
  mark_dynamic(y, 0, 1, 8);
  EXPECT_EQ(g(x, y).to_vector(), std::vector<double>(4, 2));
  EXPECT_EQ(g(ones({1}), ones({1})).to_vector(), std::vector<double>{2});
  EXPECT_EQ(g.report().compiles, 1);
  EXPECT_EQ(g(ones({1}), ones({4})).to_vector(), std::vector<double>(4, 2)) << "broadcast, by a variant of its own";
  EXPECT_EQ(g.report().compiles, 2);
}

TEST(SmallSizes, GradientsOfThemAreThoseOfEagerCalls) {
  const auto loss = [](const Tensor& x) { return sum(softmax(x * 2, -1) * x + mean(x, {0}, true)); };
  auto f = compile(loss);
  for (const int64_t n : {4, 1, 3, 0}) {
    Tensor x = randn({n, 3}), y = clone(x);
    mark_dynamic(x, 0, 0, 8);
    x.requires_grad_(), y.requires_grad_();
    f(x).backward(), loss(y).backward();
    expect_close({x.grad()}, {y.grad()}, fmt::format("{} rows", n));
  }
  EXPECT_EQ(f.report().entries, 1u);
}

TEST(SmallSizes, PartsOfAFunctionTakeThem) {
  auto f = compile([](const Tensor& x) {
    const Tensor y = x * 2;
    return sum(y).item<float>() > 0 ? y + 1 : y - 1;
  });
  const Tensor marked = ones({4, 3});
  mark_dynamic(marked, 0, 1, 8);
  EXPECT_EQ(f(marked).to_vector(), std::vector<double>(12, 3));
  const Tensor one = ones({1, 3});
  mark_dynamic(one, 0, 1, 8);
  EXPECT_EQ(f(one).to_vector(), std::vector<double>(3, 3));
  EXPECT_EQ(f.report().compiles, 2) << "its two parts";
}

// The mean of nothing has no gradient to give, and a sum of nothing is 0 whatever it is multiplied by.
TEST(SmallSizes, GradientsOfNothingAreZeros) {
  const Tensor w = Tensor::full(std::vector<int64_t>{4}, 2);
  auto step = compile([&](const Tensor& x) { return value_and_gradients([&] { return mean(x * w); }, {w}).second[0]; });
  for (int64_t n : {3, 0, 1}) {
    const Tensor x = Tensor::full(std::vector<int64_t>{n, 4}, 8);
    mark_dynamic(x, 0, 0, 16);
    EXPECT_EQ(step(x).to_vector(), std::vector<double>(4, n == 0 ? 0 : 2)) << n;
  }
}

}  // namespace
}  // namespace toroid
