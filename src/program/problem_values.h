// The formulas of problems: what a template computes for one point.
#pragma once

#include <span>

#include "program/program.h"

namespace toroid::program {

// at: batch..., m, n. The sum over k of a[batch..., m, k] * b[batch..., k, n], in double (64-bit integers where it accumulates integers),
// then as `accumulate`.
Number gemm_value(const Tensor& a, const Tensor& b, DType accumulate, std::span<const int64_t> at);

// at: image, output channel, row, column. Elements of the window outside of the input add nothing.
Number convolution_value(const Convolution& c, const Tensor& input, const Tensor& weight, std::span<const int64_t> at);

// Attention, row of scores by row: those of the latest query are kept.
class AttentionRows {
 public:
  // q [b, h, i, d], k and v [b, kv head, j, d], mask [b, h, i, j] or undefined.
  AttentionRows(const Attention& problem, Tensor q, Tensor k, Tensor v, Tensor mask);
  // at: batch, head, query, value dimension. Where all scores of a query are minus infinity, its weights are 0.
  Number value(std::span<const int64_t> at);

 private:
  void weigh(int64_t batch, int64_t head, int64_t query);

  const Attention& problem_;
  Tensor q_, k_, v_, mask_;
  std::vector<int64_t> row_;     // that weights_ are of
  std::vector<double> weights_;  // one a key
};

// Stable; NaN is the largest element. Where defined, `values` and `positions` take the first elements of each row and where they were.
void sort_rows(const Tensor& keys, bool descending, const Tensor& values, const Tensor& positions);

}  // namespace toroid::program
