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
  return pack(how, from).tensor;
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

TEST(Rearrange, OtherTypesAreBugs) {
  program::Rearranged r;
  r.parts.push_back({{0, DType::BF16, 0, {1}}, 0, {1}, {4}});
  EXPECT_THROW(rearranged(r, DType::BF16, 4, {{0, counting(4)}}), InternalError);
}

}  // namespace
}  // namespace toroid::codegen
