#include "program/problems/attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

namespace toroid::program {
namespace {

// Row of scores by row: those of the latest query are kept.
class AttentionRows {
 public:
  // q [b, h, i, d], k and v [b, kv head, j, d], mask [b, h, i, j] or undefined.
  // logsumexp [b, h, i] or undefined: is written.
  AttentionRows(const Attention& problem, const Tensors& operands);
  // at: batch, head, query, value dimension. Where all scores of a query are minus infinity, its weights are 0.
  Number value(std::span<const int64_t> at);

 private:
  void weigh(int64_t batch, int64_t head, int64_t query);

  const Attention& problem_;
  Tensor q_, k_, v_, mask_, logsumexp_;
  std::vector<int64_t> row_;     // that weights_ are of
  std::vector<double> weights_;  // one a key
};

AttentionRows::AttentionRows(const Attention& problem, const Tensors& operands)
    : problem_(problem),
      q_(operands[0]),
      k_(operands[1]),
      v_(operands[2]),
      mask_(operands[3]),
      logsumexp_(problem.logsumexp ? operands[4] : Tensor()) {}

void AttentionRows::weigh(int64_t batch, int64_t head, int64_t query) {
  const int64_t keys = k_.sizes()[2], own = head / (q_.sizes()[1] / k_.sizes()[1]);
  weights_.assign(static_cast<size_t>(keys), -HUGE_VAL);
  for (int64_t j = 0; j < keys; ++j) {
    if (problem_.causal && j > query + keys - q_.sizes()[2]) continue;
    double score = 0;
    for (int64_t d = 0; d < problem_.head_dim; ++d)
      score += element(q_, {batch, head, query, d}).as_double() * element(k_, {batch, own, j, d}).as_double();
    score *= problem_.scale;
    if (mask_.defined()) {
      const Number m = element(mask_, {batch, head, query, j});
      score = is_bool(mask_.dtype()) ? (m.i ? score : -HUGE_VAL) : score + m.as_double();
    }
    weights_[static_cast<size_t>(j)] = score;
  }
  double most = -HUGE_VAL, sum = 0;
  for (double s : weights_) most = std::isnan(s) || std::isnan(most) ? NAN : std::max(most, s);
  for (double& s : weights_) sum += s = s == -HUGE_VAL ? 0 : std::exp(s - most);
  for (double& s : weights_) s = sum == 0 ? 0 : s / sum;
  if (logsumexp_.defined())
    set_element(logsumexp_, std::array{batch, head, query}, Number::of(sum == 0 ? -HUGE_VAL : most + std::log(sum)));
}

Number AttentionRows::value(std::span<const int64_t> at) {
  if (!std::equal(row_.begin(), row_.end(), at.begin(), at.begin() + 3)) {
    weigh(at[0], at[1], at[2]);
    row_.assign(at.begin(), at.begin() + 3);
  }
  const int64_t own = at[1] / (q_.sizes()[1] / k_.sizes()[1]);
  double sum = 0;
  for (size_t j = 0; j < weights_.size(); ++j) sum += weights_[j] * element(v_, {at[0], own, static_cast<int64_t>(j), at[3]}).as_double();
  return convert(Number::of(sum), DType::F32);
}

}  // namespace

loop::Accumulated formula(const Attention& a, const Tensors& operands) {
  auto rows = std::make_shared<AttentionRows>(a, operands);
  return [rows](std::span<const int64_t> at, int64_t) { return rows->value(at); };
}

}  // namespace toroid::program
