// What attention is made of.
#pragma once

#include "ops/rows/dense_compose.h"

namespace toroid::ops {

struct Attention {
  Tensor query, key, value;  // heads of keys and values repeated, where each serves several of the queries
  double scale = 1;
  Tensor scores = {};   // scaled and masked
  Tensor weights = {};  // softmax of the scores: 0 for rows of nothing but -inf
};

// Of a call of scaled_dot_product_attention or one of its relatives, before dropout.
Attention attention_weights(const CallReader& c);

}  // namespace toroid::ops
