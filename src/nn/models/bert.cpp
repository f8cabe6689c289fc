#include "toroid/nn/models/bert.h"

#include "nn/models/parts.h"

namespace toroid::nn {
namespace {

constexpr double kDeviation = 0.02;  // of first embeddings

const BertConfig& checked(const BertConfig& c) {
  require(c.num_attention_heads > 0 && c.hidden_size % c.num_attention_heads == 0, "BERT: hidden_size {} is not a multiple of {} heads",
          c.hidden_size, c.num_attention_heads);
  check_activation(c.activation);
  return c;
}

}  // namespace

BertConfig BertConfig::preset(const std::string& name) {
  BertConfig c;
  if (name == "bert-base") return c;
  if (name == "bert-large") {
    c.hidden_size = 1024, c.num_hidden_layers = 24, c.num_attention_heads = 16, c.intermediate_size = 4096;
    return c;
  }
  require(name == "minilm-l6", "there is no BERT preset \"{}\"; there are bert-base, bert-large and minilm-l6", name);
  c.hidden_size = 384, c.num_hidden_layers = 6, c.intermediate_size = 1536;
  return c;
}

BertLayer::BertLayer(const BertConfig& c, const Init& init)
    : activation_(checked(c).activation),
      heads_(c.num_attention_heads),
      query_(c.hidden_size, c.hidden_size, true, init),
      key_(c.hidden_size, c.hidden_size, true, init),
      value_(c.hidden_size, c.hidden_size, true, init),
      attention_dense_(c.hidden_size, c.hidden_size, true, init),
      attention_norm_(c.hidden_size, c.layer_norm_eps, true, init),
      intermediate_(c.hidden_size, c.intermediate_size, true, init),
      output_(c.intermediate_size, c.hidden_size, true, init),
      output_norm_(c.hidden_size, c.layer_norm_eps, true, init),
      dropout_(c.dropout) {
  self_.adopt("query", query_);
  self_.adopt("key", key_);
  self_.adopt("value", value_);
  attention_output_.adopt("dense", attention_dense_);
  attention_output_.adopt("LayerNorm", attention_norm_);
  attention_.adopt("self", self_);
  attention_.adopt("output", attention_output_);
  intermediate_part_.adopt("dense", intermediate_);
  output_part_.adopt("dense", output_);
  output_part_.adopt("LayerNorm", output_norm_);
  add_child("attention", attention_);
  add_child("intermediate", intermediate_part_);
  add_child("output", output_part_);
  add_child("dropout", dropout_);
}

bool BertLayer::divide(const TensorRanks& ranks) {
  require_shares("BERT", heads_, heads_, output_.weight.sizes()[1], ranks);
  for (Linear* l : {&query_, &key_, &value_, &intermediate_}) l->divide_outputs(ranks);
  for (Linear* l : {&attention_dense_, &output_}) l->divide_inputs(ranks);
  heads_ /= ranks.count;
  return true;
}

Tensor BertLayer::forward(const Tensor& x, const Tensor& mask) {
  const LayerScope here(*this);
  int64_t dim = query_.weight.sizes()[0] / heads_;
  const Tensor value = split_heads(value_(x), heads_, dim), key = split_heads(key_(x), heads_, dim);
  Tensor y = scaled_dot_product_attention(split_heads(query_(x), heads_, dim), key, value, mask);
  Tensor a = attention_norm_(dropout_(attention_dense_(merge_heads(y))) + x);
  return output_norm_(dropout_(output_(activate(intermediate_(a), activation_))) + a);
}

BertModel::BertModel(const BertConfig& c, bool pooler, const Init& init)
    : config_(checked(c)),
      words_(c.vocab_size, c.hidden_size, init, kDeviation),
      positions_(c.max_position_embeddings, c.hidden_size, init, kDeviation),
      types_(c.type_vocab_size, c.hidden_size, init, kDeviation),
      embeddings_norm_(c.hidden_size, c.layer_norm_eps, true, init),
      dropout_(c.dropout) {
  embeddings_.adopt("word_embeddings", words_);
  embeddings_.adopt("position_embeddings", positions_);
  embeddings_.adopt("token_type_embeddings", types_);
  embeddings_.adopt("LayerNorm", embeddings_norm_);
  embeddings_.adopt("dropout", dropout_);
  add_child("embeddings", embeddings_);
  for (int64_t i = 0; i < c.num_hidden_layers; ++i) layers_.emplace(c, init);
  encoder_.adopt("layer", layers_);
  add_child("encoder", encoder_);
  if (!pooler) return;
  pooler_ = std::make_unique<Linear>(c.hidden_size, c.hidden_size, true, init);
  pooler_part_.adopt("dense", *pooler_);
  add_child("pooler", pooler_part_);
}

Tensor BertModel::forward(const Tensor& input_ids, const Tensor& attention_mask, const Tensor& token_type_ids) {
  const LayerScope here(*this);
  check_ids("BERT", input_ids, attention_mask);
  require(input_ids.size(1) <= config_.max_position_embeddings, "BERT: the input is longer than the {} positions that the model has",
          config_.max_position_embeddings);
  Tensor types = token_type_ids.defined() ? types_(token_type_ids) : slice(types_.weight, 0, 0, 1);
  const Tensor places = slice(positions_.weight, 0, 0, input_ids.size(1));
  Tensor x = words_(input_ids) + types + places;
  x = dropout_(embeddings_norm_(x));
  Tensor mask = attention_mask.defined() ? keys_to_attend(attention_mask) : Tensor();
  for (auto& layer : layers_) x = layer->forward(x, mask);
  return x;
}

Tensor BertModel::pool(const Tensor& hidden) {
  const LayerScope here(*this);
  require(pooler_ != nullptr, "this BertModel was built without a pooler");
  return tanh((*pooler_)(select(hidden, 1, 0)));
}

BertForSequenceClassification::BertForSequenceClassification(const BertConfig& c, int64_t num_labels, const Init& init)
    : bert_(c, true, init), dropout_(c.dropout), classifier_(c.hidden_size, num_labels, true, init) {
  add_child("bert", bert_);
  add_child("dropout", dropout_);
  add_child("classifier", classifier_);
}

Tensor BertForSequenceClassification::forward(const Tensor& input_ids, const Tensor& attention_mask, const Tensor& token_type_ids) {
  const LayerScope here(*this);
  return classifier_(dropout_(bert_.pool(bert_.forward(input_ids, attention_mask, token_type_ids))));
}

}  // namespace toroid::nn
