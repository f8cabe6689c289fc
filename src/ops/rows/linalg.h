// What the rows of linear algebra share: type rules over batches of matrices, and batches on host memory.
#pragma once

#include "base/check.h"
#include "ops/rows/dense_compose.h"
#include "ops/rows/dense_values.h"

namespace toroid::ops {

struct MatrixShape {
  std::vector<Expr> batch;
  Expr m, n;
  DType dtype = DType::F32;

  // Sizes of a result with the same batch.
  std::vector<Expr> sizes(std::vector<Expr> last) const {
    std::vector<Expr> out = batch;
    out.insert(out.end(), last.begin(), last.end());
    return out;
  }
};

// Shape of a matrix argument. UserError unless it has f32, f64, c64 or c128 and at least 2 dimensions (`square`: equal ones).
MatrixShape matrix_shape(MetaCall& c, std::string_view name, bool square);
void require_equal(MetaCall& c, const Expr& a, const Expr& b, const char* what);

// f is called with a double or a std::complex<double>.
template <class F>
void with_field(DType dtype, F&& f) {
  if (is_complex(dtype))
    f(std::complex<double>());
  else
    f(0.0);
}

// Elements of a batch of matrices (or vectors), repeated to the batch sizes `batch`.
template <class T>
struct Batch {
  std::vector<T> data;
  int64_t m = 1, n = 1, count = 1;
  T* at(int64_t i) { return data.data() + i * m * n; }
  std::vector<T> copy(int64_t i) { return {at(i), at(i) + m * n}; }
};

// `core`: how many trailing dimensions are one item (1 or 2; a vector has m elements and n = 1).
Tensor broadcast_batch(const Tensor& t, std::span<const int64_t> batch, int64_t core);
template <class T>
Batch<T> load_batch(const Tensor& t, std::span<const int64_t> batch, int64_t core = 2) {
  Tensor wide = broadcast_batch(t, batch, core);
  Batch<T> b{load_values<T>(wide)};
  auto& s = wide.sizes();
  b.m = s[s.size() - static_cast<size_t>(core)];
  b.n = core == 2 ? s.back() : 1;
  for (int64_t d : batch) b.count *= d;
  return b;
}
// The first dimensions of a tensor.
std::vector<int64_t> batch_sizes(const Tensor& t, int64_t core);

template <class T>
void append(std::vector<T>& all, const std::vector<T>& part) {
  all.insert(all.end(), part.begin(), part.end());
}

// UserError when check_errors is set and a factorisation failed.
void check_infos(const KernelCall& c, const std::vector<int64_t>& infos);
// UserError unless all pivots are between 1 and n.
void check_pivots(const KernelCall& c, const std::vector<int64_t>& pivots, int64_t n);

// Parts of add_linalg_rows.
void add_linalg_factor_rows(Table& t);
void add_linalg_solve_rows(Table& t);
void add_linalg_spectral_rows(Table& t);
void add_linalg_composite_rows(Table& t);
void add_linalg_norm_rows(Table& t);

}  // namespace toroid::ops
