#include "program/problems/attention_backward.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace toroid::program {
namespace {

// Rows of numbers, of one head.
struct Matrix {
  int64_t rows, columns;
  std::vector<double> at = std::vector<double>(static_cast<size_t>(rows * columns));
  double* row(int64_t i) { return at.data() + i * columns; }
};

// A head of a tensor [b, h, position, dim].
Matrix load(const Tensor& t, int64_t batch, int64_t head) {
  Matrix m{t.sizes()[2], t.sizes()[3]};
  for (int64_t i = 0; i < m.rows; ++i)
    for (int64_t d = 0; d < m.columns; ++d) m.row(i)[d] = element(t, {batch, head, i, d}).as_double();
  return m;
}

void store(const Tensor& t, int64_t batch, int64_t head, Matrix& m) {
  for (int64_t i = 0; i < m.rows; ++i)
    for (int64_t d = 0; d < m.columns; ++d) set_element(t, std::array{batch, head, i, d}, Number::of(m.row(i)[d]));
}

double dot(const double* a, const double* b, int64_t n) {
  double sum = 0;
  for (int64_t d = 0; d < n; ++d) sum += a[d] * b[d];
  return sum;
}

void add(double* to, double factor, const double* x, int64_t n) {
  for (int64_t d = 0; d < n; ++d) to[d] += factor * x[d];
}

}  // namespace

void compute(const AttentionBackward& a, const Tensors& operands) {
  const Tensor &q = operands[0], &k = operands[1], &v = operands[2], &grad_out = operands[3], &logsumexp = operands[4];
  const Tensor &row_sums = operands[5], &grad_query = operands[6], &grad_key = operands[7], &grad_value = operands[8];
  const int64_t keys = k.sizes()[2], queries = q.sizes()[2], kv_heads = k.sizes()[1], group = q.sizes()[1] / kv_heads;
  for (int64_t b = 0; b < q.sizes()[0]; ++b)
    for (int64_t own = 0; own < kv_heads; ++own) {
      Matrix key = load(k, b, own), value = load(v, b, own);
      Matrix of_key{keys, a.head_dim}, of_value{keys, a.value_dim};
      for (int64_t h = own * group; h < (own + 1) * group; ++h) {
        Matrix query = load(q, b, h), change = load(grad_out, b, h), of_query = load(grad_query, b, h);
        for (int64_t i = 0; i < queries; ++i) {
          const double logarithm = element(logsumexp, {b, h, i}).as_double(), sum = element(row_sums, {b, h, i}).as_double();
          if (logarithm == -HUGE_VAL) continue;
          const int64_t seen = a.causal ? std::min(keys, i + 1 + keys - queries) : keys;
          for (int64_t j = 0; j < seen; ++j) {
            const double weight = std::exp(a.scale * dot(query.row(i), key.row(j), a.head_dim) - logarithm);
            const double slope = a.scale * weight * (dot(change.row(i), value.row(j), a.value_dim) - sum);
            add(of_value.row(j), weight, change.row(i), a.value_dim);
            add(of_key.row(j), slope, query.row(i), a.head_dim);
            add(of_query.row(i), slope, key.row(j), a.head_dim);
          }
        }
        store(grad_query, b, h, of_query);
      }
      store(grad_key, b, own, of_key);
      store(grad_value, b, own, of_value);
    }
}

}  // namespace toroid::program
