// Llama and its relatives (Mistral, Qwen2), with the parameter names of Hugging Face.
#pragma once

#include "toroid/nn/models/token_model.h"

namespace toroid::nn {

struct LlamaConfig {
  int64_t vocab_size = 32000, hidden_size = 4096, intermediate_size = 11008, num_hidden_layers = 32;
  int64_t num_attention_heads = 32, num_key_value_heads = 32;
  int64_t head_dim = 0;  // 0: hidden_size / num_attention_heads
  int64_t max_position_embeddings = 2048;
  int64_t sliding_window = 0;  // 0: none. Longer inputs than the window are refused.
  double rms_norm_eps = 1e-6, rope_theta = 10000;
  bool qkv_bias = false, o_bias = false, mlp_bias = false, tie_word_embeddings = false;
  // How rotary frequencies are stretched: "default", "linear" (all by the factor) or "llama3" (the slow ones).
  std::string rope_type = "default";
  double rope_factor = 1, rope_low_freq_factor = 1, rope_high_freq_factor = 4;
  int64_t rope_original_positions = 8192;
  // "llama-7b", "llama-13b", "tinyllama" or "qwen2-0.5b". UserError for other names.
  static LlamaConfig preset(const std::string& name);
};

// What the layers of one call share.
struct LlamaContext {
  Tensor cos, sin;   // [batch or 1, 1, length, head_dim]; the first half of sin is negated
  Tensor mask;       // Bool, broadcast to [batch, heads, queries, keys]; undefined: causal
  Tensor positions;  // where new keys go in the caches, i64 [length]; undefined: no caches
};

class LlamaBlock : public Module {
 public:
  LlamaBlock(const LlamaConfig& config, const Init& init);
  Tensor forward(const Tensor& x, const LlamaContext& context);
  // Makes key and value buffers for `length` positions, all 0.
  void allocate_cache(int64_t batch, int64_t length, DType dtype, const Device& device = Device::cpu());
  bool divide(const TensorRanks& ranks) override;

 private:
  int64_t heads_, kv_heads_, head_dim_;
  Linear q_, k_, v_, o_, gate_, up_, down_;
  RMSNorm input_norm_, post_norm_;
  Tensor key_cache_, value_cache_;
  Scope self_attn_, mlp_;
};

class LlamaForCausalLM : public TokenModel {
 public:
  explicit LlamaForCausalLM(const LlamaConfig& config, const Init& init = Init::standard());
  using TokenModel::operator();
  // Logits [batch, length, vocabulary] of whole sequences; caches are neither read nor written.
  Tensor forward(const Tensor& input_ids, const Tensor& attention_mask) override;
  // The logits of the last `logits_to_keep` positions alone, [batch, logits_to_keep, vocabulary]; 0: of all.
  Tensor forward(const Tensor& input_ids, const Tensor& attention_mask, int64_t logits_to_keep);
  // Room for `length` positions in every layer. Forgets what earlier caches held.
  void allocate_cache(int64_t batch, int64_t length);
  // The tokens input_ids [batch, length] stand at `positions` i64 [length], the same for each sequence: writes their keys and values
  // into the caches and attends to everything up to them. Serves prefill (positions 0, 1, ...) and decoding (one position).
  // UserError for positions beyond the caches, of which nothing is written then; on a GPU it comes when the host waits next.
  // Returns logits like forward().
  Tensor forward_cached(const Tensor& input_ids, const Tensor& positions);
  const LlamaConfig& config() const { return config_; }
  bool divide(const TensorRanks& ranks) override;

 private:
  void set_rotation(const Tensor& positions, DType dtype, LlamaContext& context) const;
  Tensor run(Tensor x, const LlamaContext& context, int64_t logits_to_keep = 0);

  LlamaConfig config_;
  Embedding embed_;
  ModuleList<LlamaBlock> layers_;
  RMSNorm norm_;
  std::unique_ptr<Linear> lm_head_;  // null: tied to the embedding
  Tensor inv_freq_;
  int64_t cache_batch_ = 0, cache_length_ = 0;
  TensorRanks vocabulary_;  // that have a part of lm_head each
  Scope model_;
};

// The rotary frequencies of a configuration, f32 [head_dim / 2]. UserError for an unknown rope_type.
Tensor rope_frequencies(const LlamaConfig& config);

}  // namespace toroid::nn
