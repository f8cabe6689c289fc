#include <gtest/gtest.h>

#include <complex>
#include <vector>

#include "tensor/tensor_impl.h"

namespace toroid {
namespace {

// Both parts survive the way to the other width and back, also where elements are not neighbours.
TEST(CopyElements, KeepsBothPartsOfComplexNumbers) {
  std::vector<std::complex<float>> numbers = {{1, 2}, {-3, 0.5F}, {0, -4}, {7, 8}};
  const std::vector<int64_t> sizes = {2, 2}, turned = {1, 2};
  const Tensor narrow = Tensor::from_blob(numbers.data(), sizes, DType::C64, turned);
  const Tensor wide = Tensor::empty(sizes, DType::C128), back = Tensor::empty(sizes, DType::C64);
  copy_elements(narrow, wide);
  copy_elements(wide, back);
  for (size_t i = 0; i < 4; ++i) {
    const std::complex<float> expected = numbers[(i % 2) * 2 + i / 2];
    EXPECT_EQ(wide.data<std::complex<double>>()[i], std::complex<double>(expected)) << i;
    EXPECT_EQ(back.data<std::complex<float>>()[i], expected) << i;
  }
}

}  // namespace
}  // namespace toroid
