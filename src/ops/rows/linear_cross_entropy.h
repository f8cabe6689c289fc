// The cross-entropy of a projection, whose scores are never there as a whole.
#pragma once

#include <functional>

#include "ops/op.h"

namespace toroid::ops {

// A part of the rows of a call of prims.linear_cross_entropy.
struct ScoredRows {
  Tensor input;   // [n, features]
  Tensor target;  // [n]
  Tensor scores;  // [n, classes], f32 for halves
};
// Calls f on each of them, in order: what it does with one comes before the next one's scores.
void for_scored_rows(const CallReader& c, const std::function<void(const ScoredRows&)>& f);
// [n, 1]: the logarithm of the sum of the exponentials of each row.
Tensor log_sum_of(const ScoredRows& part);
// [n]: 1 where a row counts, 0 where its target is ignore_index.
Tensor counted_rows(const CallReader& c, const Tensor& target);
// What the loss is divided by: the number of rows that count, as f32 without dimensions; undefined: nothing.
Tensor loss_divisor(const CallReader& c);

}  // namespace toroid::ops
