// GPT-2, with the parameter names of Hugging Face.
#pragma once

#include "toroid/nn/models/token_model.h"

namespace toroid::nn {

struct GPT2Config {
  int64_t vocab_size = 50257, n_positions = 1024, n_embd = 768, n_layer = 12, n_head = 12;
  int64_t n_inner = 0;  // 0: 4 * n_embd
  double layer_norm_epsilon = 1e-5, dropout = 0.1;
  std::string activation = "gelu_new";  // "gelu", "gelu_new" or "relu"
  // "gpt2", "gpt2-medium" or "gpt2-large". UserError for other names.
  static GPT2Config preset(const std::string& name);
};

// A linear layer whose weight is [in, out].
class Conv1D : public Layer {
 public:
  Conv1D(int64_t in_features, int64_t out_features, const Init& init);
  Tensor forward(const Tensor& x) override;
  // As Linear's. blocks: parts of the results, each of which is divided.
  void divide_outputs(const TensorRanks& ranks, int64_t blocks = 1);
  void divide_inputs(const TensorRanks& ranks);
  Tensor weight, bias;

 private:
  std::string summed_over_;
};

class GPT2Block : public Layer {
 public:
  GPT2Block(const GPT2Config& config, const Init& init);
  Tensor forward(const Tensor& x) override { return forward(x, {}); }
  // mask: Bool [batch, 1, queries, keys], which includes the causal one; undefined: causal.
  Tensor forward(const Tensor& x, const Tensor& mask);
  bool divide(const TensorRanks& ranks) override;

 private:
  std::string activation_;
  int64_t heads_;
  LayerNorm ln_1_;
  Conv1D c_attn_, attn_proj_;
  LayerNorm ln_2_;
  Conv1D c_fc_, mlp_proj_;
  Dropout dropout_;
  Scope attn_, mlp_;
};

// The output projection is the word embedding.
class GPT2LMHeadModel : public TokenModel {
 public:
  explicit GPT2LMHeadModel(const GPT2Config& config, const Init& init = Init::standard());
  // Logits [batch, length, vocabulary].
  Tensor forward(const Tensor& input_ids, const Tensor& attention_mask) override;

 private:
  GPT2Config config_;
  Embedding wte_, wpe_;
  ModuleList<GPT2Block> blocks_;
  LayerNorm ln_f_;
  Dropout dropout_;
  Scope transformer_;
};

}  // namespace toroid::nn
