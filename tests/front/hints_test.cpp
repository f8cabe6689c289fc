// What a report says of options that would make calls faster.
#include <gtest/gtest.h>

#include <array>

#include "errors.h"
#include "front/harness.h"
#include "toroid/ops.h"

namespace toroid {
namespace {

using test::by_reference;
using test::contains;

template <class F>
std::string hint_of(F fn, CompileConfig config = {}) {
  auto f = compile(std::move(fn), by_reference(std::move(config)));
  f(ones({2, 64}));
  const CompileReport r = f.report();
  return r.hints.empty() ? "" : r.hints.at(0);
}

TEST(Hints, CapturedWeightsOfProductsThatCouldBeFrozen) {
  Tensor w = ones({128, 64}), v = ones({64, 128}), bias = ones({128});
  const auto product = [&](const Tensor& x) { return linear(x, w, bias); };
  EXPECT_TRUE(contains(hint_of(product), "1 captured weight of products may change"));
  EXPECT_TRUE(contains(hint_of(product), "{.options = {{\"freezing\", \"1\"}}}"));
  EXPECT_TRUE(contains(hint_of([&](const Tensor& x) { return matmul(x, v) + matmul(x, transpose(w, 0, 1)) + linear(x, w); }),
                       "2 captured weights"));
  auto f = compile(product, by_reference());
  f(ones({2, 64}));
  f(ones({3, 64}));
  EXPECT_EQ(f.report().hints.size(), 1u);
  EXPECT_TRUE(contains(to_string(f.report()), "\nhint: 1 captured weight"));
}

TEST(Hints, NoneWhereFreezingWouldNotHelpOrNotBeRight) {
  Tensor w = ones({128, 64}), few = ones({8, 64}), other = ones({2, 64});
  EXPECT_EQ(hint_of([&](const Tensor& x) { return linear(x, w); }, {.options = {{"freezing", "1"}}}), "");
  EXPECT_EQ(hint_of([&](const Tensor& x) { return linear(x, few); }), "");
  EXPECT_EQ(hint_of([&](const Tensor& x) { return x * other; }), "");
  EXPECT_EQ(hint_of([&](const Tensor& x) {
              Tensor y = linear(x, w);
              sub_(w, 0.5);
              return y;
            }),
            "");
  auto f = compile([](const Tensor& x, const Tensor& w) { return linear(x, w); }, by_reference());
  f(ones({2, 64}), w);
  EXPECT_TRUE(f.report().hints.empty());
}

TEST(Results, MayBeAnArray) {
  auto f = compile([](const Tensor& x) { return std::array<Tensor, 2>{x + 1, x * 3}; }, by_reference());
  const auto [sum, product] = f(Tensor::of({1, 2}, {2}));
  EXPECT_EQ(sum.to_vector(), (std::vector<double>{2, 3}));
  EXPECT_EQ(product.to_vector(), (std::vector<double>{3, 6}));
}

}  // namespace
}  // namespace toroid
