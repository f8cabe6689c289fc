#include "toroid/nn/models/llama.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "nn/models/parts.h"
#include "toroid/collectives.h"

namespace toroid::nn {
namespace {

int64_t head_dim_of(const LlamaConfig& c) { return c.head_dim ? c.head_dim : c.hidden_size / c.num_attention_heads; }

const LlamaConfig& checked(const LlamaConfig& c) {
  require(c.num_attention_heads > 0 && c.num_key_value_heads > 0 && c.num_attention_heads % c.num_key_value_heads == 0,
          "Llama: {} attention heads are not a multiple of {} key and value heads; set LlamaConfig::num_key_value_heads",
          c.num_attention_heads, c.num_key_value_heads);
  require(c.head_dim > 0 || c.hidden_size % c.num_attention_heads == 0, "Llama: hidden_size {} is not a multiple of {} heads",
          c.hidden_size, c.num_attention_heads);
  int64_t dim = head_dim_of(c);
  require(dim > 0 && dim % 2 == 0 && dim <= 1 << 16, "Llama: rotary positions need an even head_dim of at most 65536, got {}", dim);
  return c;
}

// Each element turned with the one half a head away. Exchanging the halves is a view, so that this joins what comes before and after.
Tensor rotate(const Tensor& x, const LlamaContext& c, int64_t dim) {
  const Tensor exchanged = flatten(flip(unflatten(x, -1, {2, dim / 2}), -2), -2), turned = exchanged * c.sin;
  return x * c.cos + turned;
}

}  // namespace

LlamaConfig LlamaConfig::preset(const std::string& name) {
  LlamaConfig c;
  if (name == "llama-7b") return c;
  if (name == "llama-13b") {
    c.hidden_size = 5120, c.intermediate_size = 13824, c.num_hidden_layers = 40, c.num_attention_heads = c.num_key_value_heads = 40;
    return c;
  }
  if (name == "tinyllama") {
    c.hidden_size = 2048, c.intermediate_size = 5632, c.num_hidden_layers = 22, c.num_key_value_heads = 4, c.rms_norm_eps = 1e-5;
    return c;
  }
  require(name == "qwen2-0.5b", "there is no Llama preset \"{}\"; there are llama-7b, llama-13b, tinyllama and qwen2-0.5b", name);
  c.vocab_size = 151936, c.hidden_size = 896, c.intermediate_size = 4864, c.num_hidden_layers = 24, c.num_attention_heads = 14;
  c.num_key_value_heads = 2, c.max_position_embeddings = 131072, c.rope_theta = 1e6, c.qkv_bias = true, c.tie_word_embeddings = true;
  return c;
}

Tensor rope_frequencies(const LlamaConfig& c) {
  int64_t dim = head_dim_of(checked(c));
  Tensor out = Tensor::empty({dim / 2}, DType::F32);
  require(c.rope_type == "default" || c.rope_type == "linear" || c.rope_type == "llama3",
          "the rotary scaling \"{}\" is not supported; there are default, linear and llama3", c.rope_type);
  for (int64_t i = 0; i < dim / 2; ++i) {
    double f = 1 / std::pow(c.rope_theta, 2.0 * static_cast<double>(i) / static_cast<double>(dim));
    if (c.rope_type == "linear") f /= c.rope_factor;
    if (c.rope_type == "llama3") {
      // Waves longer than the original context are stretched, short ones are kept, those between blend.
      double turns = static_cast<double>(c.rope_original_positions) * f / (2 * std::numbers::pi);
      double keep = (turns - c.rope_low_freq_factor) / (c.rope_high_freq_factor - c.rope_low_freq_factor);
      keep = std::clamp(keep, 0.0, 1.0);
      f = f * keep + f / c.rope_factor * (1 - keep);
    }
    out.data<float>()[i] = static_cast<float>(f);
  }
  return out;
}

LlamaBlock::LlamaBlock(const LlamaConfig& c, const Init& init)
    : heads_(checked(c).num_attention_heads),
      kv_heads_(c.num_key_value_heads),
      head_dim_(head_dim_of(c)),
      q_(c.hidden_size, heads_ * head_dim_, c.qkv_bias, init),
      k_(c.hidden_size, kv_heads_ * head_dim_, c.qkv_bias, init),
      v_(c.hidden_size, kv_heads_ * head_dim_, c.qkv_bias, init),
      o_(heads_ * head_dim_, c.hidden_size, c.o_bias, init),
      gate_(c.hidden_size, c.intermediate_size, c.mlp_bias, init),
      up_(c.hidden_size, c.intermediate_size, c.mlp_bias, init),
      down_(c.intermediate_size, c.hidden_size, c.mlp_bias, init),
      input_norm_(c.hidden_size, c.rms_norm_eps, init),
      post_norm_(c.hidden_size, c.rms_norm_eps, init) {
  self_attn_.adopt("q_proj", q_);
  self_attn_.adopt("k_proj", k_);
  self_attn_.adopt("v_proj", v_);
  self_attn_.adopt("o_proj", o_);
  mlp_.adopt("gate_proj", gate_);
  mlp_.adopt("up_proj", up_);
  mlp_.adopt("down_proj", down_);
  add_child("self_attn", self_attn_);
  add_child("mlp", mlp_);
  add_child("input_layernorm", input_norm_);
  add_child("post_attention_layernorm", post_norm_);
  add_buffer("key_cache", key_cache_, false);
  add_buffer("value_cache", value_cache_, false);
}

void LlamaBlock::allocate_cache(int64_t batch, int64_t length, DType dtype, const Device& device) {
  for (Tensor* cache : {&key_cache_, &value_cache_}) *cache = zeros({batch, kv_heads_, length, head_dim_}, dtype, device);
}

bool LlamaBlock::divide(const TensorRanks& ranks) {
  require_shares("Llama", heads_, kv_heads_, down_.weight.sizes()[1], ranks);
  require(!key_cache_.defined(), "parallelize: the caches are of whole layers; call allocate_cache after it");
  for (Linear* l : {&q_, &k_, &v_, &gate_, &up_}) l->divide_outputs(ranks);
  for (Linear* l : {&o_, &down_}) l->divide_inputs(ranks);
  heads_ /= ranks.count;
  kv_heads_ /= ranks.count;
  return true;
}

Tensor LlamaBlock::forward(const Tensor& x, const LlamaContext& context) {
  const LayerScope here(*this);
  Tensor n = input_norm_(x);
  Tensor q = rotate(split_heads(q_(n), heads_, head_dim_), context, head_dim_);
  Tensor k = rotate(split_heads(k_(n), kv_heads_, head_dim_), context, head_dim_);
  Tensor v = split_heads(v_(n), kv_heads_, head_dim_);
  if (context.positions.defined()) {
    k = index_copy_(key_cache_, 2, context.positions, k);
    v = index_copy_(value_cache_, 2, context.positions, v);
  }
  Tensor y = scaled_dot_product_attention(q, k, v, context.mask, 0, !context.mask.defined(), std::nullopt, kv_heads_ != heads_);
  Tensor a = x + o_(merge_heads(y));
  Tensor m = post_norm_(a);
  const Tensor up = up_(m);
  return a + down_(silu(gate_(m)) * up);
}

LlamaForCausalLM::LlamaForCausalLM(const LlamaConfig& c, const Init& init)
    : config_(checked(c)),
      embed_(c.vocab_size, c.hidden_size, init, 0.02),
      norm_(c.hidden_size, c.rms_norm_eps, init),
      inv_freq_(rope_frequencies(c).to(init.device())) {
  for (int64_t i = 0; i < c.num_hidden_layers; ++i) layers_.emplace(c, init);
  model_.adopt("embed_tokens", embed_);
  model_.adopt("layers", layers_);
  model_.adopt("norm", norm_);
  add_child("model", model_);
  add_buffer("inv_freq", inv_freq_, false, true);
  if (!c.tie_word_embeddings) {
    lm_head_ = std::make_unique<Linear>(c.hidden_size, c.vocab_size, false, init);
    add_child("lm_head", *lm_head_);
  }
}

bool LlamaForCausalLM::divide(const TensorRanks& ranks) {
  Module::divide(ranks);
  if (lm_head_ && config_.vocab_size % ranks.count == 0) {
    lm_head_->divide_outputs(ranks);
    vocabulary_ = ranks;
  }
  return true;
}

// positions: i64 [length]
void LlamaForCausalLM::set_rotation(const Tensor& positions, DType dtype, LlamaContext& context) const {
  Tensor angles = unsqueeze(toroid::to(positions, DType::F32), 1) * inv_freq_;
  Tensor c = cos(angles), s = sin(angles);
  auto both = [&](const Tensor& first, const Tensor& second) {
    return toroid::to(unsqueeze(unsqueeze(cat({first, second}, -1), 0), 0), dtype);
  };
  context.cos = both(c, c);
  context.sin = both(-s, s);
}

Tensor LlamaForCausalLM::run(Tensor x, const LlamaContext& context, int64_t logits_to_keep) {
  const LayerScope here(*this);
  for (auto& layer : layers_) x = layer->forward(x, context);
  if (logits_to_keep > 0) x = slice(x, 1, -logits_to_keep);
  const Tensor logits = linear(norm_(x), lm_head_ ? lm_head_->weight : embed_.weight);
  if (vocabulary_.count == 1) return logits;
  const SymInt batch = x.size(0), length = x.size(1), part = config_.vocab_size / vocabulary_.count;
  const Tensor parts = reshape(distributed::all_gather(logits, vocabulary_.group), {vocabulary_.count, batch, length, part});
  return reshape(permute(parts, {1, 2, 0, 3}), {batch, length, config_.vocab_size});
}

Tensor LlamaForCausalLM::forward(const Tensor& input_ids, const Tensor& attention_mask) { return forward(input_ids, attention_mask, 0); }

Tensor LlamaForCausalLM::forward(const Tensor& input_ids, const Tensor& attention_mask, int64_t logits_to_keep) {
  const LayerScope here(*this);
  require(logits_to_keep >= 0, "Llama: logits_to_keep must not be negative, got {}", logits_to_keep);
  check_ids("Llama", input_ids, attention_mask);
  SymInt length = input_ids.size(1);
  require(config_.sliding_window == 0 || length <= config_.sliding_window,
          "Llama: inputs longer than the sliding window of {} positions are not supported", config_.sliding_window);
  Tensor x = embed_(input_ids);
  LlamaContext context;
  Tensor positions = arange(length, DType::I64, x.device());
  set_rotation(positions, x.dtype(), context);
  if (attention_mask.defined()) {
    const Tensor seen = unsqueeze(positions, 1) >= positions;
    context.mask = keys_to_attend(attention_mask) & seen;
  }
  return run(x, context, logits_to_keep);
}

void LlamaForCausalLM::allocate_cache(int64_t batch, int64_t length) {
  require(batch > 0 && length > 0, "allocate_cache: batch and length must be positive, got {} and {}", batch, length);
  require(config_.sliding_window == 0 || length <= config_.sliding_window,
          "Llama: caches longer than the sliding window of {} positions are not supported", config_.sliding_window);
  for (auto& layer : layers_) layer->allocate_cache(batch, length, embed_.weight.dtype(), embed_.weight.device());
  cache_batch_ = batch, cache_length_ = length;
}

Tensor LlamaForCausalLM::forward_cached(const Tensor& input_ids, const Tensor& positions) {
  const LayerScope here(*this);
  check_ids("Llama", input_ids, {});
  require(cache_length_ > 0, "forward_cached needs caches: call allocate_cache(batch, length) first");
  require(positions.dim() == 1, "forward_cached: positions are [length], got {} dimensions", positions.dim());
  require(positions.dtype() == DType::I64 || positions.dtype() == DType::I32, "forward_cached: positions are integers, got {}",
          name_of(positions.dtype()));
  require(input_ids.size(1) == positions.size(0),
          "forward_cached: input_ids are [batch, length] and positions [length], got {} tokens and {} positions", input_ids.size(1),
          positions.size(0));
  require(input_ids.size(0) == cache_batch_, "forward_cached: input_ids have a batch of {}, the caches were allocated for {}",
          input_ids.size(0), cache_batch_);
  Tensor x = embed_(input_ids);
  LlamaContext context;
  set_rotation(positions, x.dtype(), context);
  const Tensor last = unsqueeze(positions, 1);
  context.mask = unsqueeze(unsqueeze(arange(cache_length_, DType::I64, x.device()) <= last, 0), 0);
  context.positions = positions;
  return run(x, context);
}

}  // namespace toroid::nn
