// How fast weights come from the host's memory to a GPU, and what a model costs from there to the end of its first call.
//   bench_gpu_start [model] [layers]     llama-7b with all its layers, unless said otherwise
#include <fmt/core.h>

#include <cstring>

#include "base/stopwatch.h"
#include "device/cuda/gpu.h"
#include "front/compile_model.h"
#include "toroid/compile.h"
#include "toroid/nn.h"
#include "trace/tracer.h"

using namespace toroid;

namespace {

template <class F>
double timed(F&& f) {
  const Stopwatch watch;
  f();
  synchronize(Device::cuda());
  return watch.ms();
}

void copies() {
  constexpr size_t kBytes = size_t{4} << 30;
  Tensor host = Tensor::full(std::vector<int64_t>{kBytes / 4}, 0), there = Tensor::empty({kBytes / 4}, DType::F32, Device::cuda());
  std::memset(host.raw_data(), 1, kBytes);
  device::cuda::Gpu& gpu = device::cuda::gpu(0);
  const device::cuda::HostBlock block{there.raw_data(), host.raw_data(), kBytes};
  auto rate = [](double ms) { return static_cast<double>(kBytes) / ms / 1e6; };
  fmt::print("copy of {:.1f} GB by the driver {:.1f} GB/s;", static_cast<double>(kBytes) / 1e9,
             rate(timed([&] { gpu.copy_in(block.to, block.from, kBytes); })));
  for (int i = 0; i < 3; ++i) fmt::print(" by threads {:.1f}", rate(timed([&] { gpu.upload({&block, 1}); })));
  fmt::print(" GB/s\n");
}

std::unique_ptr<nn::LlamaForCausalLM> build(const nn::LlamaConfig& c, const Device& device) {
  return std::make_unique<nn::LlamaForCausalLM>(c, nn::Init(1, DType::BF16, device));
}

std::unique_ptr<graph::Graph> decode_step(nn::LlamaForCausalLM& model, const Tensor& ids, const Tensor& at) {
  trace::Tracer tracer("decode", nullptr);
  std::vector<Tensor> results;
  {
    Tensor i = tracer.argument(ids, "ids", {}), p = tracer.argument(at, "position", {});
    trace::Tracer::Scope scope(&tracer);
    results = {model.forward_cached(i, p)};
  }
  return std::move(tracer.finish(std::move(results)).graph);
}

}  // namespace

int main(int argc, char** argv) {
  copies();
  nn::LlamaConfig c = nn::LlamaConfig::preset(argc > 1 ? argv[1] : "llama-7b");
  if (argc > 2) c.num_hidden_layers = std::atoi(argv[2]);
  std::unique_ptr<nn::LlamaForCausalLM> model;
  fmt::print("random weights on the host {:.0f} ms\n", timed([&] { model = build(c, Device::cpu()); }));
  const double bytes = static_cast<double>(model->parameter_count()) * 2;
  const double ms = timed([&] { model->to(Device::cuda()); });
  fmt::print("{:.2f} GB to the GPU {:.0f} ms: {:.1f} GB/s\n", bytes / 1e9, ms, bytes / ms / 1e6);
  model->allocate_cache(1, 1024);
  Tensor ids = Tensor::full(std::vector<int64_t>{1, 1}, 7, DType::I64, Device::cuda());
  Tensor at = Tensor::full(std::vector<int64_t>{1}, 5, DType::I64, Device::cuda());
  for (const char* round : {"first", "again"}) {
    std::unique_ptr<graph::Graph> graph;
    const double trace_ms = timed([&] { graph = decode_step(*model, ids, at); });
    std::optional<compiler::CompiledModel> compiled;
    const ModelOptions options{.device = Device::cuda(), .mode = Mode::ReduceOverhead};
    const double compile_ms = timed([&] { compiled.emplace(front::compile_model(std::move(graph), options)); });
    auto call = [&] { compiled->run(std::vector{ids, at}); };
    const double first = timed(call), second = timed(call), third = timed(call);
    fmt::print(
        "{}: to the end of the first call {:.0f} ms: trace {:.0f}, compile {:.0f}, call {:.1f}; second call {:.2f}, third {:.2f}\n  {}\n",
        round, trace_ms + compile_ms + first, trace_ms, compile_ms, first, second, third, compiler::time_text(compiled->report()));
  }
  for (int round = 0; round < 2; ++round) {
    model.reset();
    fmt::print("random weights on the GPU {:.0f} ms\n", timed([&] { model = build(c, Device::cuda()); }));
  }
}
