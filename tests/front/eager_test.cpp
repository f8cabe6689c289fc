// Operations outside of compiled functions.
#include "front/eager.h"

#include <thread>

#include "front/harness.h"

namespace toroid {
namespace {

using namespace test;
using front::EagerDispatcher;
using Values = std::vector<double>;

TEST(Eager, ComputesAtOnce) {
  Tensor x = Tensor::of({1, -2, 3}, {3});
  EXPECT_EQ((relu(x) + 1).to_vector(), (Values{2, 1, 4}));
  EXPECT_EQ((1 - x).to_vector(), (Values{0, 3, -2}));
  EXPECT_EQ((6 / x).to_vector(), (Values{6, -3, 2}));
  EXPECT_EQ((0 < x).to_vector(), (Values{1, 0, 1}));
  EXPECT_EQ(where(x > 0, x, 0.0).to_vector(), (Values{1, 0, 3}));
  EXPECT_EQ(sum(counting({2, 3}), 1).to_vector(), (Values{3, 12}));
  EXPECT_EQ(matmul(counting({2, 2}), counting({2, 1})).to_vector(), (Values{1, 3}));
}

TEST(Eager, NumbersKeepTheDtype) {
  Tensor half = counting({2}, DType::F16);
  EXPECT_EQ((half + 0.5).dtype(), DType::F16);
  Tensor whole = counting({2}, DType::I32);
  EXPECT_EQ((whole + 1).dtype(), DType::I32);
  EXPECT_EQ((whole + 0.5).dtype(), DType::F32);
  EXPECT_EQ((counting({2}, DType::F64) + 0.1).to_vector()[0], 0.1);
}

TEST(Eager, ViewsShareMemory) {
  Tensor x = counting({2, 3});
  Tensor column = select(x, 1, 2), turned = transpose(x, 0, 1), tail = slice(x, 1, 1), flat = flatten(x);
  fill_(column, 9);
  EXPECT_EQ(x.to_vector(), (Values{0, 1, 9, 3, 4, 9}));
  EXPECT_EQ(turned.to_vector(), (Values{0, 3, 1, 4, 9, 9}));
  EXPECT_EQ(tail.to_vector(), (Values{1, 9, 4, 9}));
  EXPECT_EQ(flat.to_vector(), (Values{0, 1, 9, 3, 4, 9}));
  EXPECT_EQ(expand(select(x, 0, 0), {2, 3}).strides(), (std::vector<int64_t>{0, 1}));
}

TEST(Eager, WritesInPlace) {
  Tensor x = counting({3}, DType::F16);
  const std::byte* memory = x.raw_data();
  Tensor same = add_(mul_(x, 2), counting({3}));
  EXPECT_EQ(x.to_vector(), (Values{0, 3, 6}));
  EXPECT_EQ(same.raw_data(), memory);
  EXPECT_EQ(x.dtype(), DType::F16);
}

TEST(Eager, OneProgramForManySizesAndNumbers) {
  auto& eager = EagerDispatcher::instance();
  eager.set_backend(front::find_backend("reference"));
  int64_t before = eager.counts().compiles;
  for (int64_t n = 2; n < 10; ++n) EXPECT_EQ((counting({n, 5}) * static_cast<double>(n)).to_vector()[1], n);
  EXPECT_EQ(eager.counts().compiles - before, 2);
  eager.set_backend(front::find_backend("compiled"));
}

// The scale of attention is a number made of a size, so that this size cannot be open.
TEST(Eager, WhatCannotHaveOpenSizesIsCompiledForEach) {
  auto& eager = EagerDispatcher::instance();
  eager.set_backend(front::find_backend("compiled"));
  const auto before = eager.counts();
  for (int round = 0; round < 2; ++round)
    for (int64_t width : {3, 5, 6}) {
      const Tensor x = Tensor::full(std::vector<int64_t>{1, 2, 4, width}, 1.0, DType::F32);
      EXPECT_EQ(scaled_dot_product_attention(x, x, x * 3.0).to_vector()[0], 3);
    }
  const auto after = eager.counts();
  EXPECT_EQ(after.reference, before.reference);
  EXPECT_TRUE(after.fallbacks.empty());
  EXPECT_EQ(after.compiles - before.compiles, 3 + 2) << "attention for each width; the product with a number, and it with an open size";
}

TEST(Eager, ErrorsNameTheOperation) {
  EXPECT_TRUE(contains(user_error([] { counting({2}) + counting({3}); }), "add"));
  EXPECT_TRUE(contains(user_error([] { gelu(counting({2}), "sigmoid"); }), "approximate"));
}

TEST(Eager, SafeFromManyThreads) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int i = 0; i < 16; ++i)
    threads.emplace_back([&wrong] {
      for (int64_t n = 2; n < 12; ++n) wrong += sum(counting({n}) + 1).item() != static_cast<double>(n * (n + 1) / 2);
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace toroid
