// Small random models, with the weights, inputs and outputs that PyTorch's implementations gave.
#include "nn/harness.h"

namespace toroid::nn {
namespace {

using namespace test;

std::string folder(const std::string& name) { return std::string(TOROID_SOURCE_DIR) + "/tests/data/nn/" + name; }
std::map<std::string, Tensor> inputs_of(const std::string& name, const std::string& file = "in") {
  return load_tensors(folder(name) + "/" + file + ".safetensors");
}
std::map<std::string, Tensor> outputs_of(const std::string& name) { return inputs_of(name, "out"); }

template <class M>
std::shared_ptr<M> load(const std::string& name) {
  auto m = std::dynamic_pointer_cast<M>(load_pretrained(folder(name)));
  if (!m) throw UserError("the folder holds another model");
  return m;
}

TEST(ReferenceModels, BertClassifier) {
  auto m = load<BertForSequenceClassification>("bert");
  auto in = inputs_of("bert");
  auto f = compile([&](const Tensor& i, const Tensor& a, const Tensor& t) { return m->forward(i, a, t); });
  EXPECT_LT(error_of(f(in["000"], in["001"], in["002"]), outputs_of("bert")["000"]), 1e-4);
}

TEST(ReferenceModels, SentenceEmbedding) {
  auto m = load<BertModel>("minilm");
  auto in = inputs_of("minilm");
  auto f = compile([&](const Tensor& i, const Tensor& a) {
    Tensor weights = to(unsqueeze(a, -1), DType::F32);
    Tensor x = sum(m->forward(i, a) * weights, 1) / clamp(sum(weights, 1), 1e-9);
    return x / clamp(norm(x, 2, 1, true), 1e-12);
  });
  EXPECT_LT(error_of(f(in["000"], in["001"]), outputs_of("minilm")["000"]), 1e-4);
}

TEST(ReferenceModels, Gpt2) {
  auto m = load<GPT2LMHeadModel>("gpt2");
  auto in = inputs_of("gpt2");
  auto f = compile([&](const Tensor& i, const Tensor& a) { return m->forward(i, a); });
  EXPECT_LT(error_of(f(in["000"], in["001"]), outputs_of("gpt2")["000"]), 1e-4);
}

TEST(ReferenceModels, LlamaPrefill) {
  auto m = load<LlamaForCausalLM>("llama");
  auto in = inputs_of("llama");
  auto f = compile([&](const Tensor& i, const Tensor& a) { return m->forward(i, a); });
  EXPECT_LT(error_of(f(in["000"], in["001"]), outputs_of("llama")["000"]), 1e-4);
}

TEST(ReferenceModels, LlamaDecodesWithCaches) {
  auto m = load<LlamaForCausalLM>("llama");
  m->allocate_cache(1, 32);
  auto in = inputs_of("llama", "decode_in"), out = inputs_of("llama", "decode_out");
  auto f = compile([&](const Tensor& i, const Tensor& p) { return m->forward_cached(i, p); });
  EXPECT_LT(error_of(f(in["000"], in["001"]), out["000"]), 1e-4);
  EXPECT_LT(error_of(f(in["call1.000"], in["call1.001"]), out["call1.000"]), 1e-4);
  EXPECT_EQ(f.report().compiles, 1);
}

TEST(ReferenceModels, CachedPrefillAndDecodeAgreeWithTheWholeSequence) {
  auto m = load<LlamaForCausalLM>("llama");
  Tensor tokens = ids({1, 9}, 100);
  Tensor whole = compile([&](const Tensor& i) { return m->forward(i, {}); })(tokens);
  m->allocate_cache(1, 16);
  auto f = compile([&](const Tensor& i, const Tensor& p) { return m->forward_cached(i, p); });
  Tensor first = f(narrow(tokens, 1, 0, 8).contiguous(), arange(8));
  EXPECT_LT(error_of(first, narrow(whole, 1, 0, 8).contiguous()), 1e-4);
  Tensor last = f(narrow(tokens, 1, 8, 1).contiguous(), arange(8, 9, 1));
  EXPECT_LT(error_of(last, narrow(whole, 1, 8, 1).contiguous()), 1e-4);
}

}  // namespace
}  // namespace toroid::nn
