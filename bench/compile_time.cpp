// What compiling a training step takes, stage by stage, and how it grows with the number of equal layers: forward, backward and AdamW of
// a llama of small width, from the traced graph to the kernels' texts for a GPU of sm_90a, which need not be there.
//   bench_compile_time [nvrtc] [LAYERS...]     nvrtc: compiles each distinct text, too, one after the other; layers: 4 16 64 unless told
#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "base/stopwatch.h"
#include "compile/pipeline.h"
#include "front/backend.h"
#include "jit/nvrtc.h"
#include "toroid/compile.h"
#include "toroid/grad.h"
#include "toroid/nn.h"
#include "toroid/train/optimizers.h"

using namespace toroid;

namespace {

constexpr int64_t kTokens = 8192;

struct Made {
  size_t nodes = 0, kernels = 0;
  compiler::CompileReport report;
  std::map<std::string, std::string> sources;  // names by text
};

// The graph of the step, and what becomes of it.
Made compiled_step(int64_t layers) {
  nn::LlamaConfig c;
  c.vocab_size = 4096, c.hidden_size = 512, c.intermediate_size = 2048, c.num_hidden_layers = layers, c.num_attention_heads = 8;
  c.num_key_value_heads = 2, c.max_position_embeddings = kTokens;
  nn::LlamaForCausalLM model(c, nn::Init(1, DType::BF16));
  model.train();
  train::AdamW optimizer(model.parameters(), {.lr = 1e-4});
  const std::vector<int64_t> sizes{1, kTokens};
  const Tensor tokens = Tensor::full(sizes, 1, DType::I64);

  Made out;
  const Stopwatch all;
  front::register_backend("texts", [&](std::unique_ptr<graph::Graph> graph, const front::BackendOptions& options) {
    out.report.stages.push_back({"trace", all.ms()});
    device::cuda::GpuInfo gpu;
    gpu.architecture = "sm_90a";
    const compiler::Job job = compiler::job_of("step", {.device = Device::cuda(), .options = options.options}, {}, &gpu);
    const auto kernels = compiler::advance<compiler::Kernels>(compiler::Imported{std::move(graph)}, job, out.report);
    out.nodes = out.report.graph_nodes, out.kernels = kernels.texts.size();
    for (auto& [node, text] : kernels.texts) out.sources.emplace(text.source, text.name);
    return [outputs = kernels.program.outputs.size()](std::span<const Tensor>) { return std::vector<Tensor>(outputs, Tensor()); };
  });
  auto step = compile(
      [&] {
        auto [loss, gradients] =
            value_and_gradients([&] { return cross_entropy(to(flatten(model.forward(tokens, {}), 0, 1), DType::F32), flatten(tokens)); },
                                optimizer.parameters());
        optimizer.step(gradients);
        return loss;
      },
      {.fullgraph = true, .options = {{"backend", "texts"}}});
  step();
  return out;
}

// The texts that take NVRTC longest.
void print_nvrtc(const Made& made) {
  std::vector<std::pair<double, std::string>> times;
  double sum = 0;
  for (auto& [source, name] : made.sources) {
    const Stopwatch watch;
    jit::nvrtc_compile(source, "sm_90a", name);
    times.emplace_back(watch.ms(), name);
    sum += times.back().first;
  }
  std::sort(times.rbegin(), times.rend());
  fmt::print("  NVRTC: {} texts, {:.0f} ms\n", times.size(), sum);
  for (size_t i = 0; i < std::min<size_t>(times.size(), 8); ++i) fmt::print("  {:>6.0f} ms {}\n", times[i].first, times[i].second);
}

}  // namespace

int main(int argc, char** argv) {
  const bool nvrtc = argc > 1 && std::string(argv[1]) == "nvrtc";
  std::vector<int64_t> layers;
  for (int i = nvrtc ? 2 : 1; i < argc; ++i) layers.push_back(std::stoll(argv[i]));
  if (layers.empty()) layers = {4, 16, 64};
  for (const int64_t n : layers) {
    const Made made = compiled_step(n);
    double sum = 0;
    std::string stages;
    for (auto& [name, ms] : made.report.stages) sum += ms, stages += fmt::format(", \"{}\": {:.0f}", name, ms);
    fmt::print("{{\"layers\": {}, \"nodes\": {}, \"kernels\": {}, \"ms\": {:.0f}{}}}\n", n, made.nodes, made.kernels, sum, stages);
    for (auto& p : made.report.passes.passes)
      if (p.milliseconds > 0.01 * sum) fmt::print("  {} {:.0f} ms\n", p.name, p.milliseconds);
    for (auto& p : made.report.schedule.passes.passes)
      if (p.milliseconds > 0.01 * sum) fmt::print("  {} {:.0f} ms\n", p.name, p.milliseconds);
    if (nvrtc) print_nvrtc(made);
    std::fflush(stdout);
  }
  return 0;
}
