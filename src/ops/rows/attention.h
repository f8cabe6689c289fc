// What attention and its gradient are made of.
#pragma once

#include <array>
#include <optional>

#include "ops/rows/dense_compose.h"

namespace toroid::ops {

// A call of scaled_dot_product_attention or one of its relatives, before dropout.
struct AttentionCall {
  Tensor query, key, value, mask;        // mask: undefined where there is none
  bool causal = false, grouped = false;  // grouped: key heads serve several query heads each, where they are fewer
  std::optional<double> scale = {};      // the usual one where unset
  bool fixed_width = true;               // heads have a width that is known, as templates want it
  std::string_view name = {};            // for errors
};
AttentionCall attention_call(const CallReader& c);

struct Attention {
  Tensor query, key, value;  // heads of keys and values repeated, where each serves several of the queries
  double scale = 1;
  Tensor scores = {};   // scaled and masked; f32 of halves, as their products are summed
  Tensor weights = {};  // softmax of the scores, of their dtype: 0 for rows of nothing but -inf
};
Attention attention_weights(const AttentionCall& call);
// The product of two of its operands in the dtype of the scores.
Tensor scores_product(const AttentionCall& call, const Tensor& a, const Tensor& b);

// What a call gave, and what a change of each result changes.
struct AttentionChange {
  Tensor out, grad_out;
  Tensor grad_logsumexp = {};  // undefined: 0
};
// Gradients of query, key, value and mask that are wanted, of the sizes that broadcasting gave them; others are undefined. The weights are
// made anew of queries and keys (T. Dao and others, "FlashAttention", 2022, of which this is the recomputation alone), of so many heads at
// a time that they have at most so many bytes, where that can be: a mask whose gradient is wanted, and sizes that vary, leave the heads
// together.
inline constexpr int64_t kMostAttentionWeights = int64_t{512} << 20;
std::array<Tensor, 4> attention_gradients(const AttentionCall& call, const AttentionChange& change, const std::array<bool, 4>& wanted,
                                          int64_t most_bytes = kMostAttentionWeights);

}  // namespace toroid::ops
