// Small pieces that the models share: activations by name, heads, masks.
#pragma once

#include "nn/errors.h"
#include "nn/layer_scope.h"
#include "toroid/nn/module.h"
#include "toroid/ops.h"

namespace toroid::nn {

// UserError unless the name is known.
inline void check_activation(const std::string& name) {
  require(name == "gelu" || name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "relu",
          "the activation \"{}\" is not supported; there are gelu, gelu_new, gelu_pytorch_tanh and relu", name);
}

inline Tensor activate(const Tensor& x, const std::string& name) {
  if (name == "relu") return relu(x);
  return gelu(x, name == "gelu" ? "none" : "tanh");
}

// [batch, length, heads * dim] -> [batch, heads, length, dim]
inline Tensor split_heads(const Tensor& x, int64_t heads, int64_t dim) {
  return transpose(view(x, {x.size(0), x.size(1), heads, dim}), 1, 2);
}
// And back.
inline Tensor merge_heads(const Tensor& x) {
  Tensor y = transpose(x, 1, 2);
  return reshape(y, {y.size(0), y.size(1), y.size(2) * y.size(3)});
}

// UserError where a layer's heads, or the features within its MLP, cannot be shared out among ranks: before anything of it is divided.
inline void require_shares(const char* model, int64_t heads, int64_t kv_heads, int64_t features, const TensorRanks& ranks) {
  require(heads % ranks.count == 0 && kv_heads % ranks.count == 0, "parallelize: {} ranks do not divide the {} heads of {}, of {} keys",
          ranks.count, heads, model, kv_heads);
  require(features % ranks.count == 0, "parallelize: {} ranks do not divide the {} features of {}'s MLP", ranks.count, features, model);
}

// attention_mask [batch, length] as Bool [batch, 1, 1, length].
inline Tensor keys_to_attend(const Tensor& attention_mask) {
  Tensor keep = is_bool(attention_mask.dtype()) ? attention_mask : ne(attention_mask, 0);
  return unsqueeze(unsqueeze(keep, 1), 1);
}

inline void check_ids(const char* model, const Tensor& input_ids, const Tensor& attention_mask) {
  require(input_ids.dim() == 2, "{}: input_ids are [batch, length], got {} dimensions", model, input_ids.dim());
  require(!attention_mask.defined() || attention_mask.dim() == 2, "{}: attention_mask is [batch, length], got {} dimensions", model,
          attention_mask.defined() ? attention_mask.dim() : 0);
}

}  // namespace toroid::nn
