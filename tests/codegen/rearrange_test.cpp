// Constants that are made of others.
#include "codegen/rearrange.h"

#include <gtest/gtest.h>

#include "errors.h"

namespace toroid::codegen {
namespace {

// Element i is i + 1.
Tensor counting(int64_t n) {
  Tensor t = Tensor::empty({n}, DType::F32);
  for (int64_t i = 0; i < n; ++i) t.data<float>()[i] = static_cast<float>(i + 1);
  return t;
}

Tensor rearranged(const program::Rearranged& r, DType dtype, int64_t numel, const std::map<int, Tensor>& constants) {
  const auto [how, from] = packing_of(r, dtype, numel, constants);
  const Packed made = pack(how, from);
  for (auto& job : made.jobs) job();
  return made.tensor;
}

TEST(Rearrange, PartsLieSideBySideWithZerosBetween) {
  program::Rearranged r;
  r.buffer = 2;
  r.parts.push_back({{0, DType::F32, 0, {3, 1}}, 0, {1, 4}, {2, 3}});  // [2, 3], transposed into rows of 4
  r.parts.push_back({{1, DType::F32, 1, {1}}, 2, {4}, {3}});           // behind each of its columns
  const Tensor t = rearranged(r, DType::F32, 12, {{0, counting(6)}, {1, counting(4)}});
  EXPECT_EQ(t.to_vector(), (std::vector<double>{1, 4, 2, 0, 2, 5, 3, 0, 3, 6, 4, 0}));
}

TEST(Rearrange, ManyDimensionsAndBlocks) {
  constexpr int64_t kA = 2, kB = 3, kRows = 40, kColumns = 70;
  program::Rearranged r;
  r.buffer = 1;
  r.parts.push_back({{0, DType::F32, 0, {kB * kRows * kColumns, kRows * kColumns, kColumns, 1}},
                     0,
                     {kB * kRows * kColumns, kRows * kColumns, 1, kRows},
                     {kA, kB, kRows, kColumns}});
  const Tensor from = counting(kA * kB * kRows * kColumns), to = rearranged(r, DType::F32, from.numel(), {{0, from}});
  for (int64_t m = 0; m < kA * kB; ++m)
    for (int64_t i = 0; i < kRows; ++i)
      for (int64_t j = 0; j < kColumns; ++j)
        ASSERT_EQ(to.data<float>()[(m * kColumns + j) * kRows + i], from.data<float>()[(m * kRows + i) * kColumns + j]);
}

TEST(Rearrange, ManyJobsMakeOneTensor) {
  constexpr int64_t kRows = 700, kColumns = 1000;
  program::Rearranged r;
  r.parts.push_back({{0, DType::F32, 0, {kColumns, 1}}, 0, {1, kRows}, {kRows, kColumns}});
  const Tensor from = counting(kRows * kColumns), to = rearranged(r, DType::F32, from.numel(), {{0, from}});
  EXPECT_GT(pack(packing_of(r, DType::F32, from.numel(), {{0, from}}).first, {from}).jobs.size(), 1u);
  for (int64_t i = 0; i < kRows; ++i)
    for (int64_t j = 0; j < kColumns; ++j) ASSERT_EQ(to.data<float>()[j * kRows + i], from.data<float>()[i * kColumns + j]);
}

// Packings come from files too: whatever one number of them becomes, it is refused, or reaches what is there alone.
TEST(Rearrange, NumbersOfAnybodyReachNothingElse) {
  program::Rearranged r;
  r.parts.push_back({{0, DType::F32, 2, {3, 1}}, 1, {1, 4}, {2, 3}});
  const Tensor from = counting(8);
  const Packing how = packing_of(r, DType::F32, 12, {{0, from}}).first;
  EXPECT_EQ(pack(how, {from}).jobs.size(), 1u);
  size_t refused = 0, made = 0;
  for (size_t i = 0; i < how.numbers.size(); ++i)
    for (const int64_t value : {int64_t{-1}, int64_t{0}, int64_t{1}, int64_t{5}, int64_t{13}, int64_t{255}, INT64_MAX, INT64_MIN}) {
      if (i == 1 && value > 255) continue;  // a result that no memory holds
      Packing forged = how;
      forged.numbers[i] = value;
      try {
        const Packed p = pack(forged, {from});
        for (auto& job : p.jobs) job();  // within both tensors: the sanitizers look on
        ++made;
      } catch (const UserError& e) {
        EXPECT_TRUE(test::contains(e.what(), "rearranged")) << e.what();
        ++refused;
      }
    }
  EXPECT_GT(refused, 40u);
  EXPECT_GT(made, 5u);
  for (size_t count = 0; count < how.numbers.size(); ++count) {
    if (count == 2) continue;  // a result without parts
    Packing cut = how;
    cut.numbers.resize(count);
    EXPECT_THROW(pack(cut, {from}), UserError) << count;
  }
}

TEST(Rearrange, OtherTypesAreRefused) {
  program::Rearranged r;
  r.parts.push_back({{0, DType::BF16, 0, {1}}, 0, {1}, {4}});
  EXPECT_THROW(rearranged(r, DType::BF16, 4, {{0, counting(4)}}), UserError);
}

}  // namespace
}  // namespace toroid::codegen
