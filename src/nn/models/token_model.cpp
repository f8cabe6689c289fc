#include "toroid/nn/models/token_model.h"

#include "nn/layer_scope.h"

namespace toroid::nn {

Tensor TokenModel::operator()(const Tensor& input_ids, const Tensor& attention_mask, Tensor::Where where) {
  const CallerScope called(where);
  return forward(input_ids, attention_mask);
}

}  // namespace toroid::nn
