#include "program/problems/gemm.h"

#include "program/problems/sum.h"

namespace toroid::program {
namespace {

Number gemm_value(const Tensor& a, const Tensor& b, DType accumulate, std::span<const int64_t> at) {
  const size_t row = at.size() - 2, column = at.size() - 1;
  const int64_t length = a.sizes()[column];
  const auto bytes = [](const Tensor& t) { return static_cast<int64_t>(size_of(t.dtype())); };
  const std::byte *left = a.raw_data(), *right = b.raw_data();
  for (size_t d = 0; d < column; ++d) left += at[d] * a.strides()[d] * bytes(a);
  for (size_t d = 0; d <= column; ++d)
    if (d != row) right += at[d] * b.strides()[d] * bytes(b);
  const int64_t left_step = a.strides()[column] * bytes(a), right_step = b.strides()[row] * bytes(b);
  Sum sum;
  for (int64_t k = 0; k < length; ++k, left += left_step, right += right_step)
    sum.add(load_number(left, a.dtype()), load_number(right, b.dtype()));
  return sum.as(accumulate);
}

}  // namespace

loop::Accumulated formula(const Gemm& g, const Tensors& operands) {
  return [operands, accumulate = g.accumulate](std::span<const int64_t> at, int64_t second) {
    return gemm_value(operands[0], operands[second ? 2 : 1], accumulate, at);
  };
}

}  // namespace toroid::program
