// The models at their real sizes (without memory for weights), and small ones with random weights.
#include "nn/harness.h"

namespace toroid::nn {
namespace {

using namespace test;

TEST(Models, PresetsHaveTheSizesOfTheOriginals) {
  Init shapes = Init::shapes_only();
  EXPECT_EQ(BertModel(BertConfig::preset("bert-base"), true, shapes).parameter_count(), 109482240);
  EXPECT_EQ(BertModel(BertConfig::preset("minilm-l6"), true, shapes).parameter_count(), 22713216);
  EXPECT_EQ(GPT2LMHeadModel(GPT2Config::preset("gpt2"), shapes).parameter_count(), 124439808);
  EXPECT_EQ(LlamaForCausalLM(LlamaConfig::preset("llama-7b"), shapes).parameter_count(), 6738415616);
  EXPECT_EQ(LlamaForCausalLM(LlamaConfig::preset("tinyllama"), shapes).parameter_count(), 1100048384);
  EXPECT_EQ(LlamaForCausalLM(LlamaConfig::preset("qwen2-0.5b"), shapes).parameter_count(), 494032768);
  EXPECT_EQ(ResNet(ResNetConfig::preset("resnet50"), shapes).parameter_count(), 25557032);
}

TEST(Models, UnknownPresetsNameTheKnownOnes) {
  EXPECT_TRUE(contains(user_error([] { BertConfig::preset("bert"); }), "bert-base, bert-large and minilm-l6"));
  EXPECT_TRUE(contains(user_error([] { LlamaConfig::preset("llama-70b"); }), "tinyllama"));
}

TEST(Models, TorchvisionNames) {
  ResNet m(ResNetConfig::preset("resnet50"), Init::shapes_only());
  auto state = m.state();
  EXPECT_EQ(state.size(), 320u);
  EXPECT_EQ(state.at("layer2.0.downsample.0.weight").sizes(), (std::vector<int64_t>{512, 256, 1, 1}));
  EXPECT_TRUE(state.count("layer4.2.bn3.num_batches_tracked"));
}

// What lies elsewhere would be brought there, and back, in each call.
TEST(Models, AllTensorsAreOnTheDeviceOfTheirInit) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  const Init init(1, DType::F32, Device::cuda());
  std::vector<std::unique_ptr<Module>> all;
  all.push_back(std::make_unique<ResNet>(ResNetConfig{.blocks = {1, 1}, .num_classes = 10, .base_width = 8}, init));
  all.push_back(std::make_unique<BertForSequenceClassification>(
      BertConfig{.vocab_size = 9, .hidden_size = 8, .num_hidden_layers = 1, .num_attention_heads = 2, .intermediate_size = 8}, 2, init));
  GPT2Config gpt2 = GPT2Config::preset("gpt2");
  gpt2.vocab_size = 9, gpt2.n_embd = 8, gpt2.n_layer = 1, gpt2.n_head = 2;
  all.push_back(std::make_unique<GPT2LMHeadModel>(gpt2, init));
  LlamaConfig llama;
  llama.vocab_size = 9, llama.hidden_size = 8, llama.intermediate_size = 8, llama.num_hidden_layers = 1, llama.num_attention_heads = 2;
  llama.num_key_value_heads = 1;
  all.push_back(std::make_unique<LlamaForCausalLM>(llama, init));
  all.push_back(std::make_unique<GroupNorm>(2, 4, 1e-5, init));
  all.push_back(std::make_unique<Embedding>(9, 4, init));
  for (auto& module : all)
    for (const bool buffers : {false, true})
      for (auto& [name, t] : buffers ? module->named_buffers() : module->named_parameters()) EXPECT_TRUE(t.device().is_cuda()) << name;
}

TEST(Models, SmallResNetRunsCompiled) {
  ResNet m({.blocks = {1, 1}, .num_classes = 10, .base_width = 8}, Init(1));
  Tensor x = Init(2).normal({2, 3, 32, 32}, 0, 1);
  Tensor expected = compile([&](const Tensor& v) { return m.forward(v); }, by_reference())(x);
  for (const char* freezing : {"true", "false"}) {
    CompileConfig config;
    config.options["freezing"] = freezing;
    EXPECT_LT(error_of(compile([&](const Tensor& v) { return m.forward(v); }, config)(x), expected), 1e-4) << "freezing " << freezing;
  }
  EXPECT_EQ(expected.sizes(), (std::vector<int64_t>{2, 10}));
}

TEST(Models, GroupedQueryLlamaRunsCompiledInBf16) {
  LlamaConfig c;
  c.vocab_size = 50, c.hidden_size = 32, c.intermediate_size = 48, c.num_hidden_layers = 2, c.num_attention_heads = 4;
  c.num_key_value_heads = 2;
  LlamaForCausalLM m(c, Init(1, DType::BF16));
  auto f = compile([&](const Tensor& i) { return m.forward(i, {}); });
  Tensor got = f(ids({1, 8}, 50));
  EXPECT_EQ(got.dtype(), DType::BF16);
  m.to(DType::F32);
  auto g = compile([&](const Tensor& i) { return m.forward(i, {}); }, by_reference());
  EXPECT_LT(error_of(got, g(ids({1, 8}, 50))), 0.05);
}

TEST(Models, LlamaKeepsTheLastLogits) {
  LlamaForCausalLM m({.vocab_size = 9,
                      .hidden_size = 8,
                      .intermediate_size = 8,
                      .num_hidden_layers = 1,
                      .num_attention_heads = 2,
                      .num_key_value_heads = 2});
  const Tensor tokens = ids({2, 5}, 9);
  const Tensor all = compile([&](const Tensor& i) { return slice(m.forward(i, {}), 1, -2); }, by_reference())(tokens);
  const Tensor kept = compile([&](const Tensor& i) { return m.forward(i, {}, 2); }, by_reference())(tokens);
  EXPECT_EQ(kept.sizes(), (std::vector<int64_t>{2, 2, 9}));
  EXPECT_LT(error_of(kept, all), 1e-6);
  EXPECT_TRUE(contains(user_error([&] { m.forward(tokens, {}, -1); }), "logits_to_keep"));
}

TEST(Models, StretchedRotaryFrequencies) {
  LlamaConfig c;
  c.head_dim = 64, c.rope_theta = 500000;
  auto plain = rope_frequencies(c).to_vector();
  c.rope_type = "linear", c.rope_factor = 4;
  EXPECT_NEAR(rope_frequencies(c).to_vector()[5], plain[5] / 4, 1e-7);
  c.rope_type = "llama3", c.rope_factor = 8, c.rope_low_freq_factor = 1, c.rope_high_freq_factor = 4;
  auto stretched = rope_frequencies(c).to_vector();
  EXPECT_EQ(stretched[0], plain[0]);                 // short waves stay
  EXPECT_NEAR(stretched[31], plain[31] / 8, 1e-12);  // long ones are stretched
  c.rope_type = "yarn";
  EXPECT_TRUE(contains(user_error([&] { rope_frequencies(c); }), "default, linear and llama3"));
}

TEST(Models, TellWhatIsWrongWithAnInput) {
  BertConfig c;
  c.hidden_size = 8, c.num_attention_heads = 2, c.intermediate_size = 8, c.num_hidden_layers = 1, c.max_position_embeddings = 4;
  BertModel m(c, false, Init(1));
  EXPECT_TRUE(contains(user_error([&] { m(ids({1, 5}, 9)); }), "longer than the 4 positions"));
  EXPECT_TRUE(contains(user_error([&] { m(ids({5}, 9)); }), "input_ids are [batch, length]"));
  EXPECT_TRUE(contains(user_error([&] { m.pool(counting({1, 1, 8})); }), "without a pooler"));
  LlamaForCausalLM l({.vocab_size = 9,
                      .hidden_size = 8,
                      .intermediate_size = 8,
                      .num_hidden_layers = 1,
                      .num_attention_heads = 2,
                      .num_key_value_heads = 2});
  EXPECT_TRUE(contains(user_error([&] { l.forward_cached(ids({1, 1}, 9), arange(1)); }), "allocate_cache"));
  l.allocate_cache(1, 4);
  auto decode = compile([&](const Tensor& i, const Tensor& p) { return l.forward_cached(i, p); });
  decode(ids({1, 1}, 9), arange(3, 4, 1, DType::I64));
  for (int64_t beyond : {4, 5000})
    EXPECT_TRUE(contains(user_error([&] {
                           decode(ids({1, 1}, 9), arange(beyond, beyond + 1, 1, DType::I64));
                         }),
                         "index " + std::to_string(beyond) + " is out of range for dimension 2 of size 4"));
}

}  // namespace
}  // namespace toroid::nn
