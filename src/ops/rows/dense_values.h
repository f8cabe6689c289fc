// Elements of host tensors as flat arrays of an accumulator type: what the reference kernels of the dense families compute with.
#pragma once

#include <complex>
#include <span>

#include "base/check.h"
#include "toroid/tensor.h"

namespace toroid::ops {

// All elements in row-major order. T is double, int64_t or std::complex<double>.
template <class T>
std::vector<T> load_values(const Tensor& t);
// Writes all elements of a row-major tensor, rounding to its dtype.
template <class T>
void store_values(const Tensor& t, std::span<const T> values);
template <class T>
void store_values(const Tensor& t, const std::vector<T>& values) {
  store_values<T>(t, std::span<const T>(values));
}

// Calls f with a value of the type in which sums of this dtype are accumulated.
template <class F>
void with_accumulator(DType dtype, F&& f) {
  if (is_complex(dtype))
    f(std::complex<double>());
  else if (is_float(dtype))
    f(0.0);
  else
    f(int64_t{0});
}

}  // namespace toroid::ops
