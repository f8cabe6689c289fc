// Equal calls and equal kernels are looked at once: programs are the same, byte by byte, as where each is looked at by itself.
#include "graph/sharing.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "compile/stages.h"
#include "front/backend.h"
#include "graph/random_graph.h"
#include "import/load_model.h"
#include "toroid/compile.h"
#include "toroid/grad.h"
#include "toroid/nn.h"
#include "toroid/train/optimizers.h"

namespace toroid {
namespace {

size_t kernels_seen = 0;

using MakeGraph = std::function<std::unique_ptr<graph::Graph>()>;

// All that a compile up to the kernels' texts says; or its error.
std::string compiled_text(const MakeGraph& make, bool gpu) try {
  device::cuda::GpuInfo hopper;
  hopper.architecture = "sm_90a";
  const compiler::Setup setup = front::setup_of({.device = gpu ? Device::cuda() : Device::cpu()});
  compiler::Job job = compiler::job_of("step", setup, {}, gpu ? &hopper : nullptr);
  compiler::CompileReport report;
  auto g = make();
  std::string out = graph::to_string(*g);
  auto transformed = compiler::advance<compiler::Transformed>(compiler::Imported{std::move(g)}, job, report);
  out += graph::to_string(*transformed.graph) + report.partition;
  const auto kernels = compiler::advance<compiler::Kernels>(std::move(transformed), job, report);
  out += program::to_string(kernels.program);
  kernels_seen += kernels.texts.size();
  for (auto& [node, text] : kernels.texts) {
    out += std::to_string(node) + " " + text.name + "\n" + text.source;
    for (int b : text.buffers) out += " " + std::to_string(b);
  }
  return out;
} catch (const UserError& e) {
  return e.what();
}

// Of a graph that is made twice.
void is_the_same_alone(const MakeGraph& make, bool gpu) {
  const std::string shared = compiled_text(make, gpu);
  const graph::EachByItself alone;
  EXPECT_FALSE(graph::shares_equal_work());
  // Not EXPECT_EQ, which would compare the lines of megabytes.
  EXPECT_TRUE(shared == compiled_text(make, gpu)) << (gpu ? "for a GPU" : "for this CPU");
}

TEST(SharedWork, RandomGraphs) {
  kernels_seen = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    is_the_same_alone(
        [&] {
          return graph::random_graph(seed, {.nodes = 20, .dynamic_sizes = seed % 4 == 0, .in_place = true, .control_flow = seed % 5 == 0});
        },
        seed % 2);
  }
  EXPECT_GT(kernels_seen, 300u);
}

TEST(SharedWork, Models) {
  size_t count = 0;
  for (auto& entry : std::filesystem::recursive_directory_iterator(TOROID_SOURCE_DIR "/tests/data/models")) {
    if (entry.path().extension() != ".pt2") continue;
    SCOPED_TRACE(entry.path().string());
    is_the_same_alone([&] { return import::load_model(entry.path().string()); }, false);
    ++count;
  }
  EXPECT_GT(count, 3u);
}

// The graph of a training step of equal layers.
std::unique_ptr<graph::Graph> traced_step() {
  nn::LlamaConfig c;
  c.vocab_size = 64, c.hidden_size = 32, c.intermediate_size = 64, c.num_hidden_layers = 3, c.num_attention_heads = 4;
  c.num_key_value_heads = 2, c.max_position_embeddings = 16;
  nn::LlamaForCausalLM model(c, nn::Init(1));
  model.train();
  train::AdamW optimizer(model.parameters(), {.lr = 1e-4});
  const Tensor tokens = Tensor::full(std::vector<int64_t>{1, 16}, 1, DType::I64);
  std::unique_ptr<graph::Graph> out;
  front::register_backend("graph of a step", [&](std::unique_ptr<graph::Graph> g, const front::BackendOptions&) {
    const size_t outputs = g->outputs.size();
    out = std::move(g);
    return [outputs](std::span<const Tensor>) { return std::vector<Tensor>(outputs, Tensor()); };
  });
  auto step = compile(
      [&] {
        auto [loss, gradients] = value_and_gradients(
            [&] { return cross_entropy(flatten(model.forward(tokens, {}), 0, 1), flatten(tokens)); }, optimizer.parameters());
        optimizer.step(gradients);
        return loss;
      },
      {.fullgraph = true, .options = {{"backend", "graph of a step"}}});
  step();
  return out;
}

TEST(SharedWork, TrainingSteps) {
  for (const bool gpu : {false, true}) is_the_same_alone(traced_step, gpu);
}

}  // namespace
}  // namespace toroid
