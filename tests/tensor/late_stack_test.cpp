#include "tensor/late_stack.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace toroid {
namespace {

Tensor counting(std::vector<int64_t> sizes, double from) {
  Tensor t = Tensor::empty(sizes, DType::F32);
  for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>(from + static_cast<double>(i));
  return t;
}

TEST(LateStack, HoldsThePartsInOrder) {
  Tensor turned = counting({2, 3}, 10).as_strided(std::vector<int64_t>{3, 2}, std::vector<int64_t>{1, 3});
  Tensor t = stack_late({counting({1, 2}, 0), turned});
  EXPECT_EQ(t.sizes(), (std::vector<int64_t>{4, 2}));
  EXPECT_EQ(t.to_vector(), (std::vector<double>{0, 1, 10, 13, 11, 14, 12, 15}));
}

TEST(LateStack, IsCopiedWhenItIsReadFirst) {
  Tensor part = counting({2}, 0);
  Tensor t = stack_late({part, part});
  part.data<float>()[0] = 7;
  EXPECT_EQ(t.to_vector(), (std::vector<double>{7, 1, 7, 1}));
  part.data<float>()[0] = 8;
  EXPECT_EQ(t.to_vector(), (std::vector<double>{7, 1, 7, 1}));
}

TEST(LateStack, ViewsReadItToo) {
  Tensor t = stack_late({counting({2, 2}, 0), counting({2, 2}, 4)});
  EXPECT_EQ(t.as_strided(std::vector<int64_t>{2}, std::vector<int64_t>{1}, 3).to_vector(), (std::vector<double>{3, 4}));
}

TEST(LateStack, IsCopiedOnceForAllThreads) {
  Tensor t = stack_late({counting({1000}, 0), counting({1000}, 1000)});
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int k = 0; k < 8; ++k)
    threads.emplace_back([&] {
      const float* data = t.data<float>();
      for (int i = 0; i < 2000; ++i) wrong += data[i] != static_cast<float>(i);
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(LateStack, TellsItsParts) {
  Tensor a = counting({2, 2}, 0), b = counting({1, 2}, 4), t = stack_late({a, b});
  auto parts = late_parts(t);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].impl(), a.impl());
  EXPECT_EQ(parts[1].impl(), b.impl());
  EXPECT_EQ(late_parts(a).size(), 1u);
  EXPECT_EQ(late_parts(t.as_strided(std::vector<int64_t>{2, 2}, std::vector<int64_t>{2, 1}, 0)).size(), 1u) << "only a part of it";
}

}  // namespace
}  // namespace toroid
