#include "toroid/nn/layers.h"

#include <limits>

#include "nn/errors.h"
#include "nn/layer_scope.h"
#include "nn/size_text.h"
#include "toroid/collectives.h"

namespace toroid::nn {

namespace {

// Unknown where a size is open.
std::optional<int64_t> values_of_a_channel(const std::vector<SymInt>& sizes) {
  int64_t n = 1;
  for (size_t d = 0; d < sizes.size(); ++d) {
    const auto known = d == 1 ? std::optional<int64_t>(1) : sizes[d].expr().maybe_constant();
    if (!known) return std::nullopt;
    n *= *known;
  }
  return n;
}

}  // namespace

Linear::Linear(int64_t in_features, int64_t out_features, bool with_bias, const Init& init)
    : weight(init.kaiming_uniform({out_features, in_features}, in_features)) {
  if (with_bias) bias = init.kaiming_uniform({out_features}, in_features);
  add_parameter("weight", weight);
  add_parameter("bias", bias);
}
Tensor Linear::forward(const Tensor& x) {
  const LayerScope here(*this);
  if (summed_over_.empty()) return linear(x, weight, bias);
  const Tensor sum = distributed::all_reduce(linear(x, weight), "sum", summed_over_);
  return bias.defined() ? sum + bias : sum;
}
void Linear::divide_outputs(const TensorRanks& ranks) {
  divide_parameter(weight, 0, ranks);
  divide_parameter(bias, 0, ranks);
}
void Linear::divide_inputs(const TensorRanks& ranks) {
  divide_parameter(weight, 1, ranks);
  summed_over_ = ranks.group;
}

Embedding::Embedding(int64_t num_embeddings, int64_t embedding_dim, const Init& init, double deviation)
    : weight(init.normal({num_embeddings, embedding_dim}, 0, deviation)) {
  add_parameter("weight", weight);
}
Tensor Embedding::forward(const Tensor& indices) {
  const LayerScope here(*this);
  return embedding(weight, indices);
}

LayerNorm::LayerNorm(std::vector<int64_t> normalized_shape, double eps, bool elementwise_affine, const Init& init)
    : normalized_shape_(std::move(normalized_shape)), eps_(eps) {
  if (elementwise_affine) {
    weight = init.constant(normalized_shape_, 1);
    bias = init.constant(normalized_shape_, 0);
  }
  add_parameter("weight", weight);
  add_parameter("bias", bias);
}
Tensor LayerNorm::forward(const Tensor& x) {
  const LayerScope here(*this);
  return layer_norm(x, normalized_shape_, weight, bias, eps_);
}

RMSNorm::RMSNorm(std::vector<int64_t> normalized_shape, std::optional<double> eps, const Init& init)
    : weight(init.constant(normalized_shape, 1)), normalized_shape_(std::move(normalized_shape)), eps_(eps) {
  add_parameter("weight", weight);
}
Tensor RMSNorm::forward(const Tensor& x) {
  const LayerScope here(*this);
  return rms_norm(x, normalized_shape_, weight, eps_);
}

GroupNorm::GroupNorm(int64_t num_groups, int64_t num_channels, double eps, const Init& init)
    : weight(init.constant({num_channels}, 1)), bias(init.constant({num_channels}, 0)), groups_(num_groups), eps_(eps) {
  require(num_groups > 0 && num_channels % num_groups == 0, "GroupNorm: {} channels cannot be split into {} groups", num_channels,
          num_groups);
  add_parameter("weight", weight);
  add_parameter("bias", bias);
}
Tensor GroupNorm::forward(const Tensor& x) {
  const LayerScope here(*this);
  return group_norm(x, groups_, weight, bias, eps_);
}

BatchNorm::BatchNorm(const char* kind, int64_t fewest_dims, int64_t most_dims, int64_t num_features, double eps, double momentum,
                     const Init& init)
    : weight(init.constant({num_features}, 1)),
      bias(init.constant({num_features}, 0)),
      running_mean(init.constant({num_features}, 0)),
      running_var(init.constant({num_features}, 1)),
      num_batches_tracked(Tensor::full({}, 0, DType::I64, init.device())),
      kind_(kind),
      fewest_dims_(fewest_dims),
      most_dims_(most_dims),
      eps_(eps),
      momentum_(momentum) {
  add_parameter("weight", weight);
  add_parameter("bias", bias);
  add_buffer("running_mean", running_mean);
  add_buffer("running_var", running_var);
  add_buffer("num_batches_tracked", num_batches_tracked);
}
Tensor BatchNorm::forward(const Tensor& x) {
  const LayerScope here(*this);
  here.require(x.dim() == fewest_dims_ || x.dim() == most_dims_, "{}: the input needs {} dimensions, got {}", kind_,
               fewest_dims_ == most_dims_ ? fmt::format("{}", most_dims_) : fmt::format("{} or {}", fewest_dims_, most_dims_), x.dim());
  if (is_training()) {
    const auto sizes = x.sym_sizes();
    here.require(values_of_a_channel(sizes) != 1, "{}: Expected more than 1 value per channel when training, got input size {}", kind_,
                 size_text(sizes));
    add_(num_batches_tracked, 1);
  }
  return batch_norm(x, weight, bias, running_mean, running_var, is_training(), momentum_, eps_);
}

Tensor GELU::forward(const Tensor& x) {
  const LayerScope here(*this);
  return gelu(x, approximate_);
}
Tensor ReLU::forward(const Tensor& x) {
  const LayerScope here(*this);
  return relu(x);
}
Tensor SiLU::forward(const Tensor& x) {
  const LayerScope here(*this);
  return silu(x);
}
Tensor Sigmoid::forward(const Tensor& x) {
  const LayerScope here(*this);
  return sigmoid(x);
}
Tensor Tanh::forward(const Tensor& x) {
  const LayerScope here(*this);
  return tanh(x);
}
Tensor Flatten::forward(const Tensor& x) {
  const LayerScope here(*this);
  return flatten(x, start_, end_);
}
Tensor Softmax::forward(const Tensor& x) {
  const LayerScope here(*this);
  return softmax(x, dim_);
}

Dropout::Dropout(double p) : p_(p) { require(p >= 0 && p <= 1, "Dropout: p must lie in [0, 1], got {}", p); }
Tensor Dropout::forward(const Tensor& x) {
  const LayerScope here(*this);
  return is_training() ? dropout(x, p_, true) : x;
}

MultiheadAttention::MultiheadAttention(int64_t embed_dim, int64_t num_heads, bool with_bias, const Init& init)
    : in_proj_weight(init.xavier_uniform({3 * embed_dim, embed_dim}, embed_dim, 3 * embed_dim)),
      out_proj(embed_dim, embed_dim, with_bias, init),
      embed_dim_(embed_dim),
      heads_(num_heads) {
  require(num_heads > 0 && embed_dim % num_heads == 0, "MultiheadAttention: embed_dim {} is not a multiple of num_heads {}", embed_dim,
          num_heads);
  if (with_bias) {
    in_proj_bias = init.constant({3 * embed_dim}, 0);
    out_proj.bias = init.constant({embed_dim}, 0);
  }
  add_parameter("in_proj_weight", in_proj_weight);
  add_parameter("in_proj_bias", in_proj_bias);
  add_child("out_proj", out_proj);
}

Tensor MultiheadAttention::forward(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionMask& mask) {
  const LayerScope here(*this);
  for (auto* t : {&query, &key, &value})
    here.require(t->dim() == 3, "MultiheadAttention: query, key and value are [batch, length, {}], got {} dimensions", embed_dim_,
                 t->dim());
  std::vector<Tensor> q_k_v;
  if (query.impl() == key.impl() && key.impl() == value.impl()) {
    q_k_v = chunk(linear(query, in_proj_weight, in_proj_bias), 3, -1);
  } else {
    auto weights = chunk(in_proj_weight, 3, 0);
    auto biases = in_proj_bias.defined() ? chunk(in_proj_bias, 3, 0) : std::vector<Tensor>(3);
    const Tensor* given[] = {&query, &key, &value};
    for (size_t i = 0; i < 3; ++i) q_k_v.push_back(linear(*given[i], weights[i], biases[i]));
  }
  for (auto& t : q_k_v) t = transpose(view(t, {t.size(0), t.size(1), heads_, embed_dim_ / heads_}), 1, 2);
  Tensor attend = mask.attn_mask;
  if (mask.key_padding_mask.defined()) {
    Tensor keep = unsqueeze(unsqueeze(logical_not(mask.key_padding_mask), 1), 1);
    if (!attend.defined())
      attend = keep;
    else
      attend = is_bool(attend.dtype()) ? attend & keep : where(keep, attend, -std::numeric_limits<double>::infinity());
  }
  bool causal = mask.is_causal;
  if (causal && attend.defined()) {
    auto positions = [&](const Tensor& t) { return arange(t.size(1), DType::I64, query.device()); };
    const Tensor keys = positions(key), seen = unsqueeze(positions(query), 1) >= keys;
    attend = is_bool(attend.dtype()) ? attend & seen : where(seen, attend, -std::numeric_limits<double>::infinity());
    causal = false;
  }
  Tensor y = scaled_dot_product_attention(q_k_v[0], q_k_v[1], q_k_v[2], attend, 0, causal);
  return out_proj(reshape(transpose(y, 1, 2), {query.size(0), query.size(1), embed_dim_}));
}

}  // namespace toroid::nn
