// Eager operations with ever other sizes and layouts: each call is right, none ends at the reference evaluator, and programs are few.
#include <cmath>

#include "base/check.h"
#include "front/eager.h"
#include "front/harness.h"
#include "ops/reference.h"

namespace toroid {
namespace {

using namespace test;
using front::EagerDispatcher;

class EagerSizes : public testing::Test {
 protected:
  void SetUp() override { EagerDispatcher::instance().set_backend(front::find_backend("compiled")); }
  EagerDispatcher::Counts before_ = EagerDispatcher::instance().counts();

  int64_t compiles() const { return EagerDispatcher::instance().counts().compiles - before_.compiles; }
  ~EagerSizes() override {
    const auto after = EagerDispatcher::instance().counts();
    EXPECT_EQ(after.reference, before_.reference);
    EXPECT_TRUE(after.fallbacks.empty());
  }
};

// Numbers from -1 to 1 in memory whose layout is row-major (0), column-major (1) or that of every second element (2).
Tensor numbers(std::vector<int64_t> sizes, int layout) {
  std::vector<int64_t> strides(sizes.size());
  int64_t step = layout == 2 ? 2 : 1, n = 0;
  for (size_t k = 0; k < sizes.size(); ++k) {
    const size_t d = layout == 1 ? k : sizes.size() - 1 - k;
    strides[d] = step;
    step *= std::max<int64_t>(sizes[d], 1);
  }
  std::vector<double> values(static_cast<size_t>(step) + 1);
  for (auto& v : values) v = static_cast<double>(n++ * 37 % 21 - 10) / 10;
  return Tensor::of(values, std::vector<int64_t>{step + 1}).as_strided(sizes, strides);
}

void expect_close(const Tensor& got, const Tensor& want) {
  ASSERT_EQ(got.sizes(), want.sizes());
  const auto g = got.to_vector(), w = want.to_vector();
  for (size_t k = 0; k < w.size(); ++k) ASSERT_NEAR(g[k], w[k], 1e-4 * (1 + std::fabs(w[k]))) << to_string(want);
}

void expect_as_evaluated(const char* name, const CallArgs& given) {
  SCOPED_TRACE(name);
  const ops::Op& op = ops::get(name);
  const CallArgs args = ops::complete(op, given);
  const auto got = ops::call(op, args), want = ops::evaluate(op, args);
  for (size_t i = 0; i < want.size(); ++i) expect_close(got[i], want[i]);
}

TEST_F(EagerSizes, OfEachKindOfOperation) {
  for (int64_t n : {3, 4, 1, 7, 0, 5})
    for (int layout : {0, 1, 2}) {
      const Tensor x = numbers({n, 6}, layout), y = numbers({6, n}, layout);
      expect_as_evaluated("mul.Tensor", {x, numbers({6}, layout)});
      expect_as_evaluated("mm", {x, y});
      expect_as_evaluated("cat", {std::vector<Tensor>{x, numbers({2, 6}, layout)}, Expr(0)});
      expect_as_evaluated("sum.dim_IntList", {y, std::vector<Expr>{1}});
      expect_as_evaluated("cumsum", {y, Expr(1)});
    }
}

// Whether one result has a step depends on its size, not on that of the input, which is open.
TEST_F(EagerSizes, OfAFilterWithOneResult) {
  for (int64_t n : {6, 7, 9})
    expect_as_evaluated("_upsample_bicubic2d_aa",
                        {numbers({1, 2, n, n}, 0), std::vector<Expr>{1, 2}, true, std::monostate{}, std::monostate{}});
}

// The scale of attention is a number made of a size: that one cannot be open, but all others stay so.
TEST_F(EagerSizes, OneThatCannotBeOpenLeavesTheOthersOpen) {
  for (int64_t width : {3, 5, 6})
    expect_as_evaluated("scaled_dot_product_attention",
                        {numbers({1, 2, 4, width}, 0), numbers({1, 2, 4, width}, 0), numbers({1, 2, 4, width}, 0)});
  const int64_t known = compiles();
  for (int64_t length = 5; length < 15; ++length) {
    const Tensor x = numbers({1, 2, length, 6}, 0);
    expect_as_evaluated("scaled_dot_product_attention", {x, x, x});
  }
  EXPECT_EQ(compiles() - known, 1);
}

// Which heads share keys is asked of sizes that are open by then: of the heads first, then of all but the width.
TEST_F(EagerSizes, OfHeadsThatShareKeys) {
  auto compiled = compile([](const Tensor& q, const Tensor& k) { return scaled_dot_product_attention(q, k, k, {}, 0, true, {}, true); },
                          {.dynamic = true});
  struct Sizes {
    int64_t batch, heads, shared, length;
  };
  for (auto [batch, heads, shared, length] :
       std::vector<Sizes>{{2, 8, 4, 7}, {2, 4, 2, 7}, {1, 8, 4, 5}, {1, 6, 2, 6}, {3, 4, 4, 5}, {1, 2, 2, 9}, {2, 4, 1, 3}}) {
    const Tensor q = numbers({batch, heads, length, 4}, 0), k = numbers({batch, shared, length, 4}, 0);
    const CallArgs args = {q, k, k, std::monostate{}, 0.0, true, std::monostate{}, true};
    expect_as_evaluated("scaled_dot_product_attention", args);
    expect_close(compiled(q, k), ops::evaluate(ops::get("scaled_dot_product_attention"), args)[0]);
  }
}

TEST_F(EagerSizes, OpenRowsOfPairwiseDistances) {
  auto f = compile([](const Tensor& x) { return ops::call1("pdist", {x, 2.0}); }, by_reference({.dynamic = true}));
  for (int64_t rows : {3, 4}) EXPECT_EQ(f(counting({rows, 2})).numel(), rows * (rows - 1) / 2);
}

TEST_F(EagerSizes, ManyLayoutsAreFewPrograms) {
  for (int64_t step = 1; step < 40; ++step) {
    const Tensor x = Tensor::full(std::vector<int64_t>{200}, 2).as_strided(std::vector<int64_t>{5}, std::vector<int64_t>{step});
    Tensor y = counting({5});
    y.set_requires_grad(step % 2);
    EXPECT_EQ((x * y).to_vector()[3], 6);
  }
  EXPECT_LE(compiles(), 6);
}

TEST_F(EagerSizes, EverNewAttributesMakeRoomForThemselves) {
  EagerDispatcher::instance().set_backend(front::find_backend("reference"));
  const Tensor x = counting({2});
  constexpr int kMany = 8400;  // more than all operations may have in all
  tanh(x);
  for (int i = 0; i < kMany; ++i) EXPECT_EQ(clamp(x, 1 + i).to_vector()[0], 1 + i);
  tanh(x);
  EXPECT_EQ(compiles(), 1 + kMany) << "the other operation kept its program";
  EagerDispatcher::instance().set_backend(front::find_backend("compiled"));
}

TEST_F(EagerSizes, IndicesAreLookedAt) {
  const Tensor x = counting({3, 2}), row = Tensor::of({-4, 1}, {2, 1}, DType::I64), far = Tensor::of({7}, {1}, DType::I32);
  EXPECT_TRUE(contains(user_error([&] { scatter_add(x, 1, row, x); }), "scatter_add: index -4 is out of range for dimension 1 of size 2"));
  EXPECT_TRUE(contains(user_error([&] { index(x, {Tensor(), far}); }), "index 7 is out of range for dimension 1 of size 2"));
  EXPECT_TRUE(contains(user_error([&] {
                         cross_entropy(x, Tensor::of({0, 1, 2}, {3}, DType::I64));
                       }),
                       "cross_entropy_loss: index 2 is out of range for dimension 1 of size 2"));
  EXPECT_EQ(cross_entropy(x, Tensor::of({0, 1, -100}, {3}, DType::I64)).dim(), 0) << "-100 is left out";
  EXPECT_TRUE(contains(user_error([&] { ops::call1("take_along_dim", {x, Tensor::of({5}, {1, 1}, DType::I64), Expr(1)}); }), "index 5"));
  EXPECT_TRUE(contains(user_error([&] { embedding(x, far); }), "embedding: index 7 is out of range for dimension 0 of size 3"));
}

TEST_F(EagerSizes, ErrorsSayWhoCalledWhere) {
  const Tensor x = counting({2, 3});
  Tensor one = counting({1});
  const auto says = [](const std::function<void()>& call, const std::string& what) {
    const std::string error = user_error(call);
    EXPECT_TRUE(contains(error, what) && contains(error, " (called at eager_sizes_test.cpp:")) << error;
  };
  says([&] { linear(x, counting({4, 5})); }, "linear: mm: columns of the first matrix f32[2, 3]");
  says([&] { relu(Tensor()); }, "relu: argument \"self\" is an undefined tensor");
  says([&] { add_(one, x); }, "add_.Tensor: the result has the sizes [2, 3], which do not fit into the tensor that is written, [1]");
  says([&] { layer_norm(x, {4}); }, "layer_norm: normalized_shape has 4 where the input has 3");
  says([&] { cat({x, Tensor()}); }, "cat: tensor 1 of 2 is undefined");
  says([&] { narrow(x, 0, 0, -1); }, "narrow: the length is -1");
  says([&] { compile([](const Tensor& t) { return bmm(t, t); }, by_reference())(x); }, "bmm: both operands must have 3 dimensions");
}

}  // namespace
}  // namespace toroid
