// Problems of cuBLASLt, as data.
#pragma once

#include <cstdint>

#include "toroid/dtype.h"

namespace toroid::external {

inline constexpr int64_t kCublasLtAlignment = 16;  // bytes, of operands that begin where their memory does

enum class CublasLtActivation : uint8_t { None, Relu, GeluTanh };

// out[i, m, n] = activation(sum over k of a[i, m, k] * b[i, k, n] + addend[i, m, n] + bias[n]), for i < batch.
struct CublasLtProblem {
  // Strides in elements. Of `row` and `column` one is 1.
  struct Matrix {
    int64_t offset = 0, row = 0, column = 1, batch = 0;
  };
  DType dtype = DType::BF16, out_dtype = DType::BF16;  // of a and b; of out, addend and bias
  int64_t m = 0, n = 0, k = 0, batch = 1;
  Matrix a, b, out;  // out: column 1
  Matrix addend;     // where has_addend; column 1
  bool has_addend = false, has_bias = false;
  int64_t bias_offset = 0;
  CublasLtActivation activation = CublasLtActivation::None;
  bool tf32 = false;  // f32 operands may be rounded to tf32
};

}  // namespace toroid::external
