// How many kernels programs become. The limits are what the design promises; `toroid bench --json` shows the kernels of whole models.
#include <gtest/gtest.h>

#include "compile/harness.h"
#include "front/compile_model.h"
#include "graph/pass.h"
#include "lower/lowering.h"
#include "sched/fuse.h"
#include "toroid/nn.h"

namespace toroid {
namespace {

using test::Forward;
using test::graph_of;

struct Counts {
  size_t kernels = 0, host_calls = 0, products = 0;
  std::string names;  // for messages
};

Counts counts_of(const Forward& forward, const std::vector<Tensor>& inputs) {
  auto model = front::compile_model(graph_of(forward, inputs));
  Counts c;
  for (auto& s : model.executable().plan().steps) {
    std::string name = std::visit([](auto& step) { return step.name; }, s);
    c.names += (c.names.empty() ? "" : ", ") + name;
    c.products += name.starts_with("gemm");
    ++(std::holds_alternative<exec::Launch>(s) ? c.kernels : c.host_calls);
  }
  return c;
}

Tensor random(const std::vector<int64_t>& sizes) { return nn::Init(1).normal(sizes, 0, 1); }

void expect_kernels(const Counts& c, size_t most) {
  EXPECT_LE(c.kernels, most) << c.names;
  EXPECT_EQ(c.host_calls, 0u) << c.names;
}

TEST(KernelCount, BertLayer) {
  nn::BertConfig config;
  config.hidden_size = 256, config.num_attention_heads = 4, config.intermediate_size = 512;
  nn::BertLayer layer(config, nn::Init(1));
  expect_kernels(counts_of([&](auto& in) { return layer.forward(in[0]); }, {random({1, 64, 256})}), 8);
}

TEST(KernelCount, Gpt2Block) {
  nn::GPT2Config config;
  config.n_embd = 256, config.n_head = 4;
  nn::GPT2Block block(config, nn::Init(1));
  expect_kernels(counts_of([&](auto& in) { return block.forward(in[0]); }, {random({1, 64, 256})}), 8);
}

nn::LlamaConfig llama() {
  nn::LlamaConfig c;
  c.hidden_size = 256, c.num_attention_heads = 4, c.num_key_value_heads = 2, c.intermediate_size = 512;
  return c;
}

TEST(KernelCount, LlamaBlock) {
  nn::LlamaBlock block(llama(), nn::Init(1));
  auto forward = [&](auto& in) { return block.forward(in[0], {.cos = in[1], .sin = in[2], .mask = {}, .positions = {}}); };
  expect_kernels(counts_of(forward, {random({1, 32, 256}), random({1, 1, 32, 64}), random({1, 1, 32, 64})}), 7);
}

TEST(KernelCount, LlamaBlockDecodingWithCaches) {
  nn::LlamaBlock block(llama(), nn::Init(1));
  block.allocate_cache(1, 64, DType::F32);
  auto forward = [&](auto& in) { return block.forward(in[0], {.cos = in[1], .sin = in[2], .mask = in[3], .positions = in[4]}); };
  std::vector<Tensor> inputs{random({1, 1, 256}), random({1, 1, 1, 64}), random({1, 1, 1, 64}),
                             Tensor::full(std::vector<int64_t>{1, 1, 1, 64}, 1, DType::Bool), Tensor::of({5}, {1}, DType::I64)};
  expect_kernels(counts_of(forward, inputs), 7);
}

TEST(KernelCount, GeluMlp) {
  nn::Linear up(128, 512, true, nn::Init(1)), down(512, 128, true, nn::Init(2));
  Counts c = counts_of([&](auto& in) { return down(gelu(up(in[0]))); }, {random({64, 128})});
  EXPECT_EQ(c.products, 2u) << c.names;
  expect_kernels(c, 4);
}

// Windows of a pooling see elements several times: what is done to each is done in the epilogue before.
TEST(KernelCount, ConvolutionsFinishWhatPoolingsRead) {
  const nn::Init init(1);
  nn::Conv2d layer(8, 32, 3, {.padding = {1, 1}}, init);
  for (int64_t padding : {0, 1}) {
    const Counts c = counts_of(
        [&](auto& in) {
          return max_pool2d(tanh(layer(in[0])), {3, 3}, {2, 2}, {padding, padding});
        },
        {random({1, 8, 20, 20})});
    EXPECT_NE(c.names.find("convolution_add_tanh"), std::string::npos) << c.names;
    const std::string pooling = c.names.substr(c.names.rfind(' ') + 1);
    EXPECT_EQ(pooling.find("tanh"), std::string::npos) << c.names;
  }
}

TEST(KernelCount, ReluOfASumReadsEachInputOnce) {
  Tensor x = random({64, 128}), bias = random({128});
  auto forward = [](auto& in) { return relu(in[0] + in[1]); };
  expect_kernels(counts_of(forward, {x, bias}), 1);
  auto g = graph::run_passes(graph_of(forward, {x, bias}), graph::pipeline(graph::kFrozen));
  program::Program p = sched::fuse(lower::lower(*g));
  ASSERT_EQ(p.nodes.size(), 1u);
  int loads = 0, stores = 0;
  for (auto& s : p.nodes[0].body.steps) {
    loads += s.step == loop::Step::Load;
    stores += s.step == loop::Step::Store;
  }
  EXPECT_EQ(loads, 2);
  EXPECT_EQ(stores, 1);
}

TEST(KernelCount, Softmax) {
  expect_kernels(counts_of([](auto& in) { return softmax(in[0], -1); }, {random({64, 128})}), 1);
}

TEST(KernelCount, LayerNormOfASum) {
  nn::LayerNorm n(128);
  expect_kernels(counts_of([&](auto& in) { return n(in[0] + in[1]); }, {random({64, 128}), random({64, 128})}), 1);
}

TEST(KernelCount, RmsNormOfASum) {
  nn::RMSNorm n(128);
  expect_kernels(counts_of([&](auto& in) { return n(in[0] + in[1]); }, {random({64, 128}), random({64, 128})}), 1);
}

}  // namespace
}  // namespace toroid
