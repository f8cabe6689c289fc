// Helpers of reference kernels: elements as numbers, and tensors seen as lines along one dimension.
#pragma once

#include <cmath>
#include <complex>

#include "ops/table.h"

namespace toroid::ops::host {

// Element i (row-major) of a contiguous tensor.
inline Number get(const Tensor& t, int64_t i) {
  return load_number(t.raw_data() + i * static_cast<int64_t>(size_of(t.dtype())), t.dtype());
}
inline void put(const Tensor& t, int64_t i, const Number& v) {
  store_number(t.raw_data() + i * static_cast<int64_t>(size_of(t.dtype())), t.dtype(), v);
}
inline double get_real(const Tensor& t, int64_t i) { return get(t, i).as_double(); }
inline int64_t get_int(const Tensor& t, int64_t i) { return get(t, i).as_int(); }
std::complex<double> get_complex(const Tensor& t, int64_t i);
void put_complex(const Tensor& t, int64_t i, std::complex<double> v);
// The same with the number types that kernels accumulate in.
template <class T>
T get_as(const Tensor& t, int64_t i) {
  if constexpr (std::is_same_v<T, std::complex<double>>)
    return get_complex(t, i);
  else if constexpr (std::is_same_v<T, double>)
    return get_real(t, i);
  else {
    Number n = get(t, i);
    return n.kind == Number::Kind::Float ? static_cast<T>(n.f) : static_cast<T>(n.i);
  }
}
template <class T>
void put_as(const Tensor& t, int64_t i, T v) {
  if constexpr (std::is_same_v<T, std::complex<double>>)
    put_complex(t, i, v);
  else
    put(t, i, Number::of(v));
}
// Calls fn(T{}) with the type in which elements of `dtype` accumulate: double, int64_t or complex<double>.
template <class F>
void with_accumulator(DType dtype, F&& fn) {
  if (is_complex(dtype))
    fn(std::complex<double>{});
  else if (is_float(dtype))
    fn(double{});
  else
    fn(int64_t{});
}
// Copies element `from` of a to element `to` of b (contiguous, one dtype).
void copy_element(const Tensor& a, int64_t from, const Tensor& b, int64_t to);
void fill_zero(const Tensor& t);
bool is_nan(const Number& v);
// Order of sorting: NaN is the largest.
bool less(const Number& a, const Number& b);

// The dimensions of a tensor around `dim`: element (o, k, i) of a contiguous tensor lies at (o * n + k) * inner + i. A 0-d tensor has
// one line of one element.
struct Lines {
  int64_t outer = 1, n = 1, inner = 1;
  Lines(const Tensor& t, int64_t dim);
  int64_t count() const { return outer * inner; }
  // Offset of element k of line l.
  int64_t at(int64_t l, int64_t k) const { return (l / inner * n + k) * inner + l % inner; }
};

// Contiguous copy with the dimensions `dims` (all when empty) moved last and joined: [kept, reduced].
Tensor joined_last(const Tensor& t, const std::vector<int64_t>& dims);
// The index into dimension `dim` (-1: all elements) of `size`. UserError naming the operation when out of range. wraps: negative ones count
// from the end.
int64_t checked_index(std::string_view operation, int64_t index, int64_t size, int64_t dim, bool wraps);

// A dimension argument, made non-negative.
inline int64_t dim_of(const KernelCall& c, const Tensor& t, std::string_view param = "dim") {
  return normal_dim(c.op(), c.integer(param), t.dim());
}

}  // namespace toroid::ops::host
