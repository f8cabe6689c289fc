#include "toroid/nn/pretrained.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <set>

#include "base/text.h"
#include "nn/errors.h"
#include "toroid/model.h"
#include "toroid/nn/models/bert.h"
#include "toroid/nn/models/gpt2.h"
#include "toroid/nn/models/llama.h"
#include "toroid/weights.h"

namespace toroid::nn {
namespace {

using State = std::map<std::string, Tensor>;

// config.json, read by name; what is absent or null has the default of the field.
class Config {
 public:
  Config(std::string path, std::map<std::string, ConfigValue> values) : path_(std::move(path)), values_(std::move(values)) {}

  bool has(const std::string& key) const {
    asked_.insert(key);
    auto it = values_.find(key);
    return it != values_.end() && !std::holds_alternative<std::monostate>(it->second);
  }
  void read(const std::string& key, int64_t& field) const {
    if (!has(key)) return;
    auto* v = std::get_if<int64_t>(&values_.at(key));
    require(v && *v >= 0 && *v < (int64_t{1} << 31), "{}: \"{}\" must be an integer from 0 to 2^31", path_, key);
    field = *v;
  }
  void read(const std::string& key, double& field) const {
    if (!has(key)) return;
    auto* i = std::get_if<int64_t>(&values_.at(key));
    auto* d = std::get_if<double>(&values_.at(key));
    require(i || d, "{}: \"{}\" must be a number", path_, key);
    field = i ? static_cast<double>(*i) : *d;
  }
  void read(const std::string& key, bool& field) const {
    if (!has(key)) return;
    auto* v = std::get_if<bool>(&values_.at(key));
    require(v, "{}: \"{}\" must be true or false", path_, key);
    field = *v;
  }
  void read(const std::string& key, std::string& field) const {
    if (!has(key)) return;
    auto* v = std::get_if<std::string>(&values_.at(key));
    require(v, "{}: \"{}\" must be a text", path_, key);
    field = *v;
  }
  // A number of layers: each has weights, so that there cannot be more of them than tensors, where there are any yet.
  void read_layers(const std::string& key, int64_t& field, const State& state) const {
    read(key, field);
    constexpr int64_t kMostNew = 4096;  // of a model that has no weights yet
    require(!state.empty() || field <= kMostNew, "{}: \"{}\" is {}; a new model has at most {} layers", path_, key, field, kMostNew);
    require(state.empty() || field <= static_cast<int64_t>(state.size()), "{}: \"{}\" is {}, but there are only {} weights", path_, key,
            field, state.size());
  }
  // Number of keys "<prefix>.<...>".
  int64_t count(const std::string& prefix) const {
    return std::count_if(values_.begin(), values_.end(), [&](auto& v) { return v.first.starts_with(prefix + "."); });
  }
  // UserError for a key that nobody has asked for.
  void refuse_others() const {
    const std::vector<std::string_view> known(asked_.begin(), asked_.end());
    for (auto& [key, value] : values_)
      require(asked_.count(key) > 0 || key.starts_with("id2label."), "{}: {} does not take \"{}\"{}; it takes {}", path_,
              std::get<std::string>(values_.at("architectures.0")), key, did_you_mean(key, known), fmt::join(known, ", "));
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::map<std::string, ConfigValue> values_;
  mutable std::set<std::string> asked_;
};

// Puts `prefix` before all names unless some have it already (checkpoints of bare models).
void add_prefix(State& state, const std::string& prefix) {
  if (std::any_of(state.begin(), state.end(), [&](auto& t) { return t.first.starts_with(prefix); })) return;
  State out;
  for (auto& [name, t] : state) out[prefix + name] = t;
  state = std::move(out);
}
// And takes it away.
void drop_prefix(State& state, const std::string& prefix) {
  State out;
  for (auto& [name, t] : state) out[name.starts_with(prefix) ? name.substr(prefix.size()) : name] = t;
  state = std::move(out);
}
void drop_if(State& state, const std::function<bool(const std::string&)>& condition) {
  std::erase_if(state, [&](auto& t) { return condition(t.first); });
}

BertConfig bert_config(const Config& c, const State& state) {
  BertConfig out;
  c.read("vocab_size", out.vocab_size);
  c.read("hidden_size", out.hidden_size);
  c.read_layers("num_hidden_layers", out.num_hidden_layers, state);
  c.read("num_attention_heads", out.num_attention_heads);
  c.read("intermediate_size", out.intermediate_size);
  c.read("max_position_embeddings", out.max_position_embeddings);
  c.read("type_vocab_size", out.type_vocab_size);
  c.read("layer_norm_eps", out.layer_norm_eps);
  c.read("hidden_dropout_prob", out.dropout);
  c.read("hidden_act", out.activation);
  std::string positions = "absolute";
  c.read("position_embedding_type", positions);
  require(positions == "absolute", "{}: position_embedding_type \"{}\" is not supported; only \"absolute\" is", c.path(), positions);
  return out;
}

// Names of old checkpoints, and buffers that are no weights.
void clean_bert(State& state) {
  drop_if(state, [](const std::string& n) { return n.ends_with("position_ids") || n.starts_with("cls."); });
  State out;
  for (auto& [name, t] : state) {
    std::string now = name;
    for (auto [from, into] : {std::pair("LayerNorm.gamma", "LayerNorm.weight"), std::pair("LayerNorm.beta", "LayerNorm.bias")})
      if (now.ends_with(from)) now = now.substr(0, now.size() - std::string_view(from).size()) + into;
    out[now] = t;
  }
  state = std::move(out);
}

std::shared_ptr<TokenModel> make_bert(const Config& c, State& state, const Init& init) {
  clean_bert(state);
  drop_prefix(state, "bert.");
  drop_if(state, [](const std::string& n) { return n.starts_with("classifier."); });
  return std::make_shared<BertModel>(bert_config(c, state), state.empty() || state.count("pooler.dense.weight") > 0, init);
}

std::shared_ptr<TokenModel> make_bert_classifier(const Config& c, State& state, const Init& init) {
  clean_bert(state);
  int64_t labels = c.has("id2label.0") ? c.count("id2label") : 2;
  c.read("num_labels", labels);
  return std::make_shared<BertForSequenceClassification>(bert_config(c, state), labels, init);
}

std::shared_ptr<TokenModel> make_gpt2(const Config& c, State& state, const Init& init) {
  GPT2Config config;
  c.read("vocab_size", config.vocab_size);
  c.read("n_positions", config.n_positions);
  c.read("n_embd", config.n_embd);
  c.read_layers("n_layer", config.n_layer, state);
  c.read("n_head", config.n_head);
  c.read("n_inner", config.n_inner);
  c.read("layer_norm_epsilon", config.layer_norm_epsilon);
  c.read("resid_pdrop", config.dropout);
  c.read("activation_function", config.activation);
  bool tied = true, by_layer = false, scaled = true;
  c.read("tie_word_embeddings", tied);
  c.read("scale_attn_by_inverse_layer_idx", by_layer);
  c.read("scale_attn_weights", scaled);
  require(tied && !by_layer && scaled, "{}: GPT-2 with untied embeddings or other attention scales is not supported", c.path());
  drop_if(state,
          [](const std::string& n) { return n == "lm_head.weight" || n.ends_with(".attn.bias") || n.ends_with(".attn.masked_bias"); });
  add_prefix(state, "transformer.");
  return std::make_shared<GPT2LMHeadModel>(config, init);
}

LlamaConfig llama_config(const Config& c, const State& state) {
  LlamaConfig out;
  c.read("vocab_size", out.vocab_size);
  c.read("hidden_size", out.hidden_size);
  c.read("intermediate_size", out.intermediate_size);
  c.read_layers("num_hidden_layers", out.num_hidden_layers, state);
  c.read("num_attention_heads", out.num_attention_heads);
  out.num_key_value_heads = out.num_attention_heads;
  c.read("num_key_value_heads", out.num_key_value_heads);
  c.read("head_dim", out.head_dim);
  c.read("max_position_embeddings", out.max_position_embeddings);
  c.read("rms_norm_eps", out.rms_norm_eps);
  c.read("tie_word_embeddings", out.tie_word_embeddings);
  c.read("rope_theta", out.rope_theta);
  for (std::string at : {"rope_scaling.", "rope_parameters."}) {
    c.read(at + "rope_theta", out.rope_theta);
    c.read(at + "type", out.rope_type);
    c.read(at + "rope_type", out.rope_type);
    c.read(at + "factor", out.rope_factor);
    c.read(at + "low_freq_factor", out.rope_low_freq_factor);
    c.read(at + "high_freq_factor", out.rope_high_freq_factor);
    c.read(at + "original_max_position_embeddings", out.rope_original_positions);
  }
  std::string activation = "silu";
  c.read("hidden_act", activation);
  require(activation == "silu", "{}: hidden_act \"{}\" is not supported; only \"silu\" is", c.path(), activation);
  require(out.rope_factor > 0 && out.rope_high_freq_factor > out.rope_low_freq_factor,
          "{}: the factors of the rotary scaling are out of range", c.path());
  return out;
}

std::shared_ptr<TokenModel> finish_llama(LlamaConfig config, State& state, const Init& init) {
  drop_if(state, [&](const std::string& n) {
    return n.ends_with("rotary_emb.inv_freq") || (config.tie_word_embeddings && n == "lm_head.weight");
  });
  return std::make_shared<LlamaForCausalLM>(config, init);
}

std::shared_ptr<TokenModel> make_llama(const Config& c, State& state, const Init& init) {
  LlamaConfig config = llama_config(c, state);
  bool attention_bias = false;
  c.read("attention_bias", attention_bias);
  c.read("mlp_bias", config.mlp_bias);
  config.qkv_bias = config.o_bias = attention_bias;
  return finish_llama(config, state, init);
}

std::shared_ptr<TokenModel> make_mistral(const Config& c, State& state, const Init& init) {
  LlamaConfig config = llama_config(c, state);
  c.read("sliding_window", config.sliding_window);
  return finish_llama(config, state, init);
}

std::shared_ptr<TokenModel> make_qwen2(const Config& c, State& state, const Init& init) {
  LlamaConfig config = llama_config(c, state);
  config.qkv_bias = true;
  bool windows = false;
  c.read("use_sliding_window", windows);
  if (windows) c.read("sliding_window", config.sliding_window);
  return finish_llama(config, state, init);
}

struct Architecture {
  const char* name;
  std::shared_ptr<TokenModel> (*make)(const Config&, State&, const Init&);
};
constexpr Architecture kArchitectures[] = {
    {"BertModel", make_bert},
    {"BertForMaskedLM", make_bert},
    {"BertForSequenceClassification", make_bert_classifier},
    {"GPT2LMHeadModel", make_gpt2},
    {"GPT2Model", make_gpt2},
    {"LlamaForCausalLM", make_llama},
    {"MistralForCausalLM", make_mistral},
    {"Qwen2ForCausalLM", make_qwen2},
};

const Architecture& architecture_of(const Config& config) {
  std::string name;
  config.read("architectures.0", name);
  auto known = std::find_if(std::begin(kArchitectures), std::end(kArchitectures), [&](auto& a) { return a.name == name; });
  require(known != std::end(kArchitectures), "{}: the architecture \"{}\" is not supported; there are {}", config.path(), name,
          fmt::join(supported_architectures(), ", "));
  return *known;
}

// The float dtype that most elements have.
DType dtype_of(const State& state, const std::string& path) {
  std::map<DType, int64_t> counts;
  for (auto& [name, t] : state)
    if (is_float(t.dtype())) counts[t.dtype()] += t.numel();
  require(!counts.empty(), "{}: there are no weights of a float dtype", path);
  return std::max_element(counts.begin(), counts.end(), [](auto& a, auto& b) { return a.second < b.second; })->first;
}

}  // namespace

std::vector<std::string> supported_architectures() {
  std::vector<std::string> out;
  for (auto& a : kArchitectures) out.emplace_back(a.name);
  return out;
}

std::shared_ptr<TokenModel> make_model(const std::map<std::string, ConfigValue>& values, const std::string& source, const Init& init,
                                       bool strict) {
  const Config config(source, values);
  State none;
  auto model = architecture_of(config).make(config, none, init);
  if (strict) config.refuse_others();
  return model;
}

std::shared_ptr<TokenModel> load_pretrained(const std::string& folder, const PretrainedOptions& options) {
  namespace fs = std::filesystem;
  std::string path = (fs::path(folder) / "config.json").string();
  std::error_code error;
  require(fs::is_directory(folder, error), "{}: expected a folder with config.json and model.safetensors", folder);
  const Config config(path, load_config(path));
  const Architecture& architecture = architecture_of(config);
  State state = load_tensors(folder);
  DType dtype = options.dtype ? *options.dtype : dtype_of(state, folder);
  require(is_float(dtype), "load_pretrained: parameters cannot be of the dtype {}", name_of(dtype));
  auto model = architecture.make(config, state, Init::shapes_only(dtype));
  try {
    if (options.copy)
      for (auto& [name, t] : state) t = clone(t);
    model->load_state(state);
  } catch (const UserError& e) {
    require(false, "{} ({}): {}", folder, architecture.name, e.what());
  }
  return model;
}

}  // namespace toroid::nn
