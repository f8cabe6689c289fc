// BERT encoders, with the parameter names of Hugging Face.
#pragma once

#include "toroid/nn/models/token_model.h"

namespace toroid::nn {

struct BertConfig {
  int64_t vocab_size = 30522, hidden_size = 768, num_hidden_layers = 12, num_attention_heads = 12, intermediate_size = 3072;
  int64_t max_position_embeddings = 512, type_vocab_size = 2;
  double layer_norm_eps = 1e-12, dropout = 0.1;
  std::string activation = "gelu";  // "gelu", "gelu_new" or "relu"
  // "bert-base", "bert-large" or "minilm-l6". UserError for other names.
  static BertConfig preset(const std::string& name);
};

// One encoder layer: attention and feed-forward, each followed by its residual sum and norm.
class BertLayer : public Layer {
 public:
  BertLayer(const BertConfig& config, const Init& init);
  Tensor forward(const Tensor& x) override { return forward(x, {}); }
  // mask: Bool, broadcast to [batch, heads, queries, keys]; may be undefined.
  Tensor forward(const Tensor& x, const Tensor& mask);
  bool divide(const TensorRanks& ranks) override;

 private:
  std::string activation_;
  int64_t heads_;
  Linear query_, key_, value_, attention_dense_;
  LayerNorm attention_norm_;
  Linear intermediate_, output_;
  LayerNorm output_norm_;
  Dropout dropout_;
  Scope self_, attention_output_, attention_, intermediate_part_, output_part_;
};

class BertModel : public TokenModel {
 public:
  explicit BertModel(const BertConfig& config, bool pooler = true, const Init& init = Init::standard());
  using TokenModel::operator();
  // The last hidden state [batch, length, hidden].
  Tensor forward(const Tensor& input_ids, const Tensor& attention_mask) override { return forward(input_ids, attention_mask, {}); }
  Tensor forward(const Tensor& input_ids, const Tensor& attention_mask, const Tensor& token_type_ids);
  // The pooler's view of a last hidden state: [batch, hidden]. UserError for a model without pooler.
  Tensor pool(const Tensor& hidden);

 private:
  BertConfig config_;
  Embedding words_, positions_, types_;
  LayerNorm embeddings_norm_;
  Dropout dropout_;
  ModuleList<BertLayer> layers_;
  std::unique_ptr<Linear> pooler_;
  Scope embeddings_, encoder_, pooler_part_;
};

class BertForSequenceClassification : public TokenModel {
 public:
  BertForSequenceClassification(const BertConfig& config, int64_t num_labels, const Init& init = Init::standard());
  using TokenModel::operator();
  // Logits [batch, labels].
  Tensor forward(const Tensor& input_ids, const Tensor& attention_mask) override { return forward(input_ids, attention_mask, {}); }
  Tensor forward(const Tensor& input_ids, const Tensor& attention_mask, const Tensor& token_type_ids);

 private:
  BertModel bert_;
  Dropout dropout_;
  Linear classifier_;
};

}  // namespace toroid::nn
