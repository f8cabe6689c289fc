// What models over token ids have in common.
#pragma once

#include "toroid/nn/layers.h"

namespace toroid::nn {

class TokenModel : public Module {
 public:
  // input_ids i64 [batch, length]; attention_mask [batch, length] is 0 at padding, or undefined: no padding. Returns the model's main
  // result: logits, or the last hidden state of a model without a head.
  virtual Tensor forward(const Tensor& input_ids, const Tensor& attention_mask) = 0;
  // forward(), with the caller's line for errors and reports.
  Tensor operator()(const Tensor& input_ids, const Tensor& attention_mask = {}, Tensor::Where where = Tensor::Where::current());
};

}  // namespace toroid::nn
