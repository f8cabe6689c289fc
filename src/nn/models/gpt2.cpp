#include "toroid/nn/models/gpt2.h"

#include "nn/models/parts.h"
#include "toroid/collectives.h"

namespace toroid::nn {
namespace {

constexpr double kDeviation = 0.02;

int64_t inner_of(const GPT2Config& c) { return c.n_inner ? c.n_inner : 4 * c.n_embd; }

const GPT2Config& checked(const GPT2Config& c) {
  require(c.n_embd > 0 && c.n_positions > 0 && c.vocab_size > 0, "GPT-2: n_embd {}, n_positions {} and vocab_size {} must be positive",
          c.n_embd, c.n_positions, c.vocab_size);
  require(c.n_head > 0 && c.n_embd % c.n_head == 0, "GPT-2: n_embd {} is not a multiple of {} heads", c.n_embd, c.n_head);
  check_activation(c.activation);
  return c;
}

}  // namespace

GPT2Config GPT2Config::preset(const std::string& name) {
  GPT2Config c;
  if (name == "gpt2") return c;
  if (name == "gpt2-medium") {
    c.n_embd = 1024, c.n_layer = 24, c.n_head = 16;
    return c;
  }
  require(name == "gpt2-large", "there is no GPT-2 preset \"{}\"; there are gpt2, gpt2-medium and gpt2-large", name);
  c.n_embd = 1280, c.n_layer = 36, c.n_head = 20;
  return c;
}

Conv1D::Conv1D(int64_t in_features, int64_t out_features, const Init& init)
    : weight(init.normal({in_features, out_features}, 0, kDeviation)), bias(init.constant({out_features}, 0)) {
  add_parameter("weight", weight);
  add_parameter("bias", bias);
}
Tensor Conv1D::forward(const Tensor& x) {
  const LayerScope here(*this);
  const Tensor y = matmul(x, weight);
  return (summed_over_.empty() ? y : distributed::all_reduce(y, "sum", summed_over_)) + bias;
}
void Conv1D::divide_outputs(const TensorRanks& ranks, int64_t blocks) {
  divide_parameter(weight, 1, ranks, blocks);
  divide_parameter(bias, 0, ranks, blocks);
}
void Conv1D::divide_inputs(const TensorRanks& ranks) {
  divide_parameter(weight, 0, ranks);
  summed_over_ = ranks.group;
}

GPT2Block::GPT2Block(const GPT2Config& c, const Init& init)
    : activation_(checked(c).activation),
      heads_(c.n_head),
      ln_1_(c.n_embd, c.layer_norm_epsilon, true, init),
      c_attn_(c.n_embd, 3 * c.n_embd, init),
      attn_proj_(c.n_embd, c.n_embd, init),
      ln_2_(c.n_embd, c.layer_norm_epsilon, true, init),
      c_fc_(c.n_embd, inner_of(c), init),
      mlp_proj_(inner_of(c), c.n_embd, init),
      dropout_(c.dropout) {
  attn_.adopt("c_attn", c_attn_);
  attn_.adopt("c_proj", attn_proj_);
  mlp_.adopt("c_fc", c_fc_);
  mlp_.adopt("c_proj", mlp_proj_);
  add_child("ln_1", ln_1_);
  add_child("attn", attn_);
  add_child("ln_2", ln_2_);
  add_child("mlp", mlp_);
  add_child("dropout", dropout_);
}

bool GPT2Block::divide(const TensorRanks& ranks) {
  require_shares("GPT-2", heads_, heads_, mlp_proj_.weight.sizes()[0], ranks);
  c_attn_.divide_outputs(ranks, 3);
  c_fc_.divide_outputs(ranks);
  for (Conv1D* l : {&attn_proj_, &mlp_proj_}) l->divide_inputs(ranks);
  heads_ /= ranks.count;
  return true;
}

Tensor GPT2Block::forward(const Tensor& x, const Tensor& mask) {
  const LayerScope here(*this);
  auto q_k_v = chunk(c_attn_(ln_1_(x)), 3, -1);
  int64_t dim = attn_proj_.weight.sizes()[0] / heads_;
  for (auto& t : q_k_v) t = split_heads(t, heads_, dim);
  Tensor y = scaled_dot_product_attention(q_k_v[0], q_k_v[1], q_k_v[2], mask, 0, !mask.defined());
  Tensor a = dropout_(attn_proj_(merge_heads(y))) + x;
  return a + dropout_(mlp_proj_(activate(c_fc_(ln_2_(a)), activation_)));
}

GPT2LMHeadModel::GPT2LMHeadModel(const GPT2Config& c, const Init& init)
    : config_(checked(c)),
      wte_(c.vocab_size, c.n_embd, init, kDeviation),
      wpe_(c.n_positions, c.n_embd, init, kDeviation),
      ln_f_(c.n_embd, c.layer_norm_epsilon, true, init),
      dropout_(c.dropout) {
  for (int64_t i = 0; i < c.n_layer; ++i) blocks_.emplace(c, init);
  transformer_.adopt("wte", wte_);
  transformer_.adopt("wpe", wpe_);
  transformer_.adopt("drop", dropout_);
  transformer_.adopt("h", blocks_);
  transformer_.adopt("ln_f", ln_f_);
  add_child("transformer", transformer_);
}

Tensor GPT2LMHeadModel::forward(const Tensor& input_ids, const Tensor& attention_mask) {
  const LayerScope here(*this);
  check_ids("GPT-2", input_ids, attention_mask);
  SymInt length = input_ids.size(1);
  require(length <= config_.n_positions, "GPT-2: the input is longer than the {} positions that the model has", config_.n_positions);
  const Tensor places = slice(wpe_.weight, 0, 0, length);
  Tensor x = dropout_(wte_(input_ids) + places);
  Tensor mask;
  if (attention_mask.defined()) {
    Tensor positions = arange(length, DType::I64, x.device());
    const Tensor seen = unsqueeze(positions, 1) >= positions;
    mask = keys_to_attend(attention_mask) & seen;
  }
  for (auto& block : blocks_) x = block->forward(x, mask);
  return linear(ln_f_(x), wte_.weight);
}

}  // namespace toroid::nn
