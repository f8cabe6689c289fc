// Models that several ranks share give what one gives alone. Ranks are threads.
#include "toroid/nn/parallel.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "errors.h"
#include "toroid/compile.h"
#include "toroid/distributed.h"
#include "toroid/nn/models/bert.h"
#include "toroid/nn/models/gpt2.h"
#include "toroid/nn/models/llama.h"

namespace toroid::nn {
namespace {

using distributed::Mesh;
using distributed::rank;
using distributed::run_local;
using distributed::size;
using test::contains;
using test::user_error;

Init init_of(uint64_t seed) { return Init(seed, DType::F32, Device::cpu()); }

Tensor token_ids(int64_t batch, int64_t length) {
  Tensor out = Tensor::empty({batch, length}, DType::I64);
  for (int64_t i = 0; i < out.numel(); ++i) out.data<int64_t>()[i] = (i * 37 + 11) % 50;
  return out;
}

LlamaConfig small_llama() {
  LlamaConfig c;
  c.vocab_size = 50, c.hidden_size = 32, c.intermediate_size = 48, c.num_hidden_layers = 2, c.num_attention_heads = 8;
  c.num_key_value_heads = 4, c.qkv_bias = c.o_bias = c.mlp_bias = true;
  return c;
}
GPT2Config small_gpt2() {
  GPT2Config c;
  c.vocab_size = 50, c.n_positions = 16, c.n_embd = 32, c.n_layer = 2, c.n_head = 4;
  return c;
}
BertConfig small_bert() {
  BertConfig c;
  c.vocab_size = 50, c.hidden_size = 32, c.num_hidden_layers = 2, c.num_attention_heads = 4, c.intermediate_size = 40;
  c.max_position_embeddings = 16;
  return c;
}

// Numbers that are no biases of 0, so that one that is added by each rank shows.
void fill(Module& m) {
  double k = 0.1;
  std::map<std::string, Tensor> state = m.state();
  for (auto& [name, t] : state)
    if (name.ends_with("bias")) t = Tensor::full(t.sizes(), std::sin(k++), t.dtype());
  m.load_state(state);
}

void expect_close(const Tensor& found, const Tensor& want) {
  const auto v = found.to_vector(), w = want.to_vector();
  ASSERT_EQ(v.size(), w.size());
  for (size_t i = 0; i < v.size(); ++i) ASSERT_NEAR(v[i], w[i], 2e-5 * (1 + std::fabs(w[i]))) << "element " << i << " on rank " << rank();
}

template <class Make, class Run>
void compare(const Make& make, const Run& run) {
  auto whole = make(1), divided = make(1), loaded = make(2);
  fill(*whole), fill(*divided);
  const int64_t count = whole->parameter_count();
  const Mesh mesh({size()}, {"tp"});
  for (auto* m : {divided.get(), loaded.get()}) parallelize(*m, mesh, {.tensor = "tp"});
  EXPECT_LT(divided->parameter_count(), count) << "a rank has a part";
  loaded->load_state(whole->state());
  const Tensor want = run(*whole);
  expect_close(run(*divided), want);
  expect_close(run(*loaded), want);
  loaded->load_state(divided->state());
  auto fast = compile([&](const Tensor&) { return run(*loaded); });
  expect_close(fast(Tensor::full(std::vector<int64_t>{1}, 0)), want);
  int64_t sum = 0;
  for (auto& [name, t] : divided->named_parameters())
    if (contains(name, "mlp") || contains(name, "intermediate")) sum += t.numel();
  EXPECT_GT(sum, 0);
}

TEST(Parallelize, ModelsGiveWhatOneRankGives) {
  for (int ranks : {2, 4})
    run_local(ranks, [] {
      compare([](uint64_t seed) { return std::make_unique<LlamaForCausalLM>(small_llama(), init_of(seed)); },
              [](LlamaForCausalLM& m) { return m.forward(token_ids(2, 7), {}); });
      compare([](uint64_t seed) { return std::make_unique<GPT2LMHeadModel>(small_gpt2(), init_of(seed)); },
              [](GPT2LMHeadModel& m) { return m.forward(token_ids(2, 7), {}); });
      compare([](uint64_t seed) { return std::make_unique<BertForSequenceClassification>(small_bert(), 3, init_of(seed)); },
              [](BertForSequenceClassification& m) { return m.forward(token_ids(2, 7), {}, {}); });
    });
}

TEST(Parallelize, DecodesWithCaches) {
  run_local(2, [] {
    LlamaForCausalLM whole(small_llama(), init_of(3)), divided(small_llama(), init_of(3));
    parallelize(divided, Mesh({2}, {"tp"}), {.tensor = "tp"});
    for (auto* m : {&whole, &divided}) m->allocate_cache(1, 12);
    auto fast = compile([&](const Tensor& ids, const Tensor& at) { return divided.forward_cached(ids, at); });
    for (int64_t i = 0; i < 10; ++i) {
      const Tensor ids = Tensor::full(std::vector<int64_t>{1, 1}, static_cast<double>(i * 7 % 50), DType::I64);
      const Tensor at = Tensor::full(std::vector<int64_t>{1}, static_cast<double>(i), DType::I64);
      expect_close(fast(ids, at), whole.forward_cached(ids, at));
    }
  });
}

// Ranks along one dimension of a mesh share a model, the other dimension has copies.
TEST(Parallelize, OneDimensionOfAMesh) {
  run_local(4, [] {
    const Mesh mesh({2, 2}, {"data", "tp"});
    EXPECT_EQ(mesh.rank("data"), rank() / 2);
    EXPECT_EQ(mesh.rank("tp"), rank() % 2);
    EXPECT_EQ(mesh.size("tp"), 2);
    EXPECT_NE(mesh.group("tp"), mesh.group("data"));
    LlamaForCausalLM whole(small_llama(), init_of(3)), divided(small_llama(), init_of(3));
    parallelize(divided, mesh, {.tensor = "tp"});
    expect_close(divided.forward(token_ids(1, 5), {}), whole.forward(token_ids(1, 5), {}));
    EXPECT_TRUE(contains(user_error([&] { mesh.size("pt"); }), "no dimension \"pt\"; it has data, tp"));
  });
}

TEST(Parallelize, RefusesWhatDoesNotFit) {
  run_local(3, [] {
    const Mesh mesh({3}, {"tp"});
    LlamaForCausalLM llama(small_llama(), init_of(3));
    EXPECT_TRUE(contains(user_error([&] { parallelize(llama, mesh, {.tensor = "tp"}); }), "3 ranks do not divide the 8 heads"));
    EXPECT_TRUE(contains(user_error([&] { parallelize(llama, mesh, {.tensor = "dp"}); }), "no dimension \"dp\""));
    Linear alone(4, 4);
    EXPECT_TRUE(contains(user_error([&] { parallelize(alone, mesh, {.tensor = "tp"}); }), "nothing that 3 ranks could share"));
    EXPECT_TRUE(contains(user_error([&] { Mesh({2}, {"tp"}); }), "a mesh of [2] has 2 ranks, the world has 3"));
    EXPECT_TRUE(contains(user_error([&] {
                           Mesh({rank() == 1 ? 3 : 1, rank() == 1 ? 1 : 3}, {"a", "b"});
                         }),
                         "the ranks disagree about the mesh"));
    EXPECT_TRUE(contains(user_error([&] { Mesh({1, 3}, {"a", "a"}); }), "two dimensions \"a\""));
  });
  run_local(2, [] {
    const Mesh mesh({2}, {"tp"});
    LlamaForCausalLM llama(small_llama(), init_of(3));
    parallelize(llama, mesh, {.tensor = "tp"});
    EXPECT_TRUE(contains(user_error([&] { parallelize(llama, mesh, {.tensor = "tp"}); }), "divided already"));
    LlamaConfig odd = small_llama();
    odd.intermediate_size = 49;
    LlamaForCausalLM uneven(odd, init_of(3));
    const int64_t count = uneven.parameter_count();
    EXPECT_TRUE(contains(user_error([&] { parallelize(uneven, mesh, {.tensor = "tp"}); }), "do not divide the 49 features"));
    EXPECT_EQ(uneven.parameter_count(), count) << "nothing is divided";
    LlamaForCausalLM cached(small_llama(), init_of(3));
    cached.allocate_cache(1, 4);
    EXPECT_TRUE(contains(user_error([&] { parallelize(cached, mesh, {.tensor = "tp"}); }), "call allocate_cache after it"));
  });
}

}  // namespace
}  // namespace toroid::nn
