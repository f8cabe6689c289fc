// Folders as Hugging Face lays them out.
#include <filesystem>
#include <fstream>

#include "base/files.h"
#include "import/safetensors.h"
#include "nn/harness.h"
#include "temp_folder.h"

namespace toroid::nn {
namespace {

using namespace test;
namespace fs = std::filesystem;

struct Folder : TempFolder {
  void write(const std::string& name, const std::string& text) const { std::ofstream(path / name) << text; }
  void write_tensors(const std::string& name, const std::map<std::string, Tensor>& tensors) const {
    std::vector<import::SafetensorsItem> items;
    for (auto& [n, t] : tensors)
      items.push_back({n, t.dtype(), t.sizes(), {t.raw_data(), static_cast<size_t>(t.numel()) * size_of(t.dtype())}});
    import::write_safetensors(path / name, items);
  }
  std::shared_ptr<TokenModel> load(PretrainedOptions o = {}) const { return load_pretrained(path.string(), o); }
};

constexpr const char* kLlama =
    R"({"architectures": ["LlamaForCausalLM"], "vocab_size": 20, "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2,
        "num_attention_heads": 2, "num_key_value_heads": 1, "rms_norm_eps": 1e-5})";

LlamaConfig llama_config() {
  return {.vocab_size = 20,
          .hidden_size = 8,
          .intermediate_size = 12,
          .num_hidden_layers = 2,
          .num_attention_heads = 2,
          .num_key_value_heads = 1,
          .rms_norm_eps = 1e-5};
}

std::vector<double> logits(TokenModel& m) {
  return compile([&](const Tensor& i) { return m.forward(i, {}); }, by_reference())(ids({1, 5}, 20)).to_vector();
}

TEST(Pretrained, OneFile) {
  Folder f;
  LlamaForCausalLM m(llama_config(), Init(1));
  f.write("config.json", kLlama);
  f.write_tensors("model.safetensors", m.state());
  EXPECT_EQ(logits(*f.load()), logits(m));
  EXPECT_EQ(f.load({.dtype = DType::BF16})->parameters()[0].dtype(), DType::BF16);
}

TEST(Pretrained, Shards) {
  Folder f;
  LlamaForCausalLM m(llama_config(), Init(1));
  std::map<std::string, Tensor> halves[2];
  std::string map;
  for (auto& [name, t] : m.state()) {
    size_t which = name.find("layers.1") != std::string::npos;
    halves[which][name] = t;
    map += (map.empty() ? "" : ",") + ("\"" + name + "\": \"part" + std::to_string(which) + ".safetensors\"");
  }
  f.write("config.json", kLlama);
  f.write_tensors("part0.safetensors", halves[0]);
  f.write_tensors("part1.safetensors", halves[1]);
  f.write("model.safetensors.index.json", R"({"metadata": {}, "weight_map": {)" + map + "}}");
  EXPECT_EQ(logits(*f.load()), logits(m));
}

TEST(Pretrained, CopiesMayBeWritten) {
  Folder f;
  f.write("config.json", kLlama);
  f.write_tensors("model.safetensors", LlamaForCausalLM(llama_config(), Init(1)).state());
  auto m = f.load({.copy = true});
  for (auto& t : m->parameters()) fill_(t, 0);
  EXPECT_EQ(logits(*m), std::vector<double>(5 * 20, 0));
}

TEST(Pretrained, BareGpt2Checkpoints) {
  Folder f;
  GPT2LMHeadModel m({.vocab_size = 20, .n_positions = 8, .n_embd = 8, .n_layer = 1, .n_head = 2}, Init(1));
  std::map<std::string, Tensor> bare;
  for (auto& [name, t] : m.state()) bare[name.substr(std::string("transformer.").size())] = t;
  bare["h.0.attn.bias"] = counting({1, 1, 8, 8});
  f.write("config.json",
          R"({"architectures": ["GPT2LMHeadModel"], "vocab_size": 20, "n_positions": 8, "n_embd": 8, "n_layer": 1, "n_head": 2})");
  f.write_tensors("model.safetensors", bare);
  EXPECT_EQ(logits(*f.load()), logits(m));
}

TEST(Pretrained, QwenHasBiasesAndTiedEmbeddings) {
  Folder f;
  LlamaConfig c = llama_config();
  c.qkv_bias = c.tie_word_embeddings = true;
  LlamaForCausalLM m(c, Init(1));
  EXPECT_TRUE(m.state().count("model.layers.0.self_attn.q_proj.bias"));
  std::string config = kLlama;
  config.replace(config.find("LlamaFor"), 8, "Qwen2For");
  config.replace(config.rfind('}'), 1, R"(, "tie_word_embeddings": true, "use_sliding_window": false, "sliding_window": 4})");
  f.write("config.json", config);
  f.write_tensors("model.safetensors", m.state());
  EXPECT_EQ(logits(*f.load()), logits(m));
}

TEST(Pretrained, ConfigurationsWithoutWeightsMakeNewModels) {
  const std::map<std::string, ConfigValue> config{{"architectures.0", "GPT2LMHeadModel"},
                                                  {"vocab_size", int64_t{20}},
                                                  {"n_embd", int64_t{8}},
                                                  {"n_head", int64_t{2}},
                                                  {"n_layer", int64_t{1}},
                                                  {"n_positions", int64_t{6}}};
  const auto a = make_model(config, "here", Init(1)), b = make_model(config, "here", Init(1)), c = make_model(config, "here", Init(2));
  EXPECT_EQ(logits(*a), logits(*b));
  EXPECT_NE(logits(*a), logits(*c));
  auto with = [&](const std::string& key, ConfigValue v) {
    auto out = config;
    out[key] = std::move(v);
    return out;
  };
  EXPECT_NO_THROW(make_model(with("n_embed", int64_t{8}), "here", Init(1)));
  const std::string what = user_error([&] { make_model(with("n_embed", int64_t{8}), "here", Init(1), true); });
  EXPECT_TRUE(contains(what, "here: GPT2LMHeadModel does not take \"n_embed\"; did you mean \"n_embd\"?")) << what;
  EXPECT_TRUE(contains(user_error([&] { make_model({}, "here"); }), "here: "));
  EXPECT_TRUE(contains(user_error([&] { make_model(with("n_layer", int64_t{2000000000}), "here"); }), "at most 4096 layers"));
  for (const char* size : {"n_embd", "vocab_size", "n_positions"})
    EXPECT_TRUE(contains(user_error([&] { make_model(with(size, int64_t{0}), "here"); }), "must be positive")) << size;
}

TEST(Pretrained, SaysWhatItCannotLoad) {
  Folder f;
  EXPECT_TRUE(contains(user_error([&] { load_pretrained((f.path / "none").string()); }), "config.json"));
  EXPECT_TRUE(contains(user_error([&] { f.load(); }), "config.json"));
  f.write("config.json", R"({"architectures": ["T5Model"]})");
  std::string what = user_error([&] { f.load(); });
  EXPECT_TRUE(contains(what, "\"T5Model\" is not supported"));
  for (auto& a : supported_architectures()) EXPECT_TRUE(contains(what, a)) << a;
  f.write("config.json", kLlama);
  EXPECT_TRUE(contains(user_error([&] { f.load(); }), "safetensors"));
  auto state = LlamaForCausalLM(llama_config(), Init(1)).state();
  state.erase("model.norm.weight");
  f.write_tensors("model.safetensors", state);
  EXPECT_TRUE(contains(user_error([&] { f.load(); }), "1 missing: model.norm.weight"));
  f.write("config.json", R"({"architectures": ["LlamaForCausalLM"], "hidden_size": "wide"})");
  EXPECT_TRUE(contains(user_error([&] { f.load(); }), "\"hidden_size\" must be an integer"));
  f.write("config.json", R"({"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2000000000})");
  EXPECT_TRUE(contains(user_error([&] { f.load(); }), "num_hidden_layers"));
  f.write("config.json", R"({"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2, "rope_scaling": {"rope_type": "yarn"}})");
  EXPECT_TRUE(contains(user_error([&] { f.load(); }), "\"yarn\" is not supported"));
}

}  // namespace
}  // namespace toroid::nn
