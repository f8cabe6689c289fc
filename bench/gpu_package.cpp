// A decoding step of a language model as a package for a GPU: made without one, and started from nothing.
//   bench_gpu_package save FILE [model] [layers] [target]    llama-7b, all layers, sm_90a; CUDA_VISIBLE_DEVICES= hides the GPU
//   bench_gpu_package start FILE [nanoseconds]               since the epoch, when the process was begun: date +%s%N
//   bench_gpu_package jit [model] [layers]                   the same step compiled here, for the time of a step
//   bench_gpu_package warm [model] [layers]                  from weights on the GPU to the first token by a compiled function: the second
//                                                            process finds the program in the cache
#include <fmt/core.h>

#include <algorithm>
#include <chrono>

#include "base/check.h"
#include "base/stopwatch.h"
#include "device/cuda/gpu.h"
#include "exec/run/executable.h"
#include "package/package.h"
#include "toroid/cache.h"
#include "toroid/compile.h"
#include "toroid/nn.h"
#include "toroid/save_package.h"

using namespace toroid;

namespace {

constexpr int64_t kPositions = 1024, kPosition = 1000;

Tensor number(const std::vector<int64_t>& sizes, double value) { return Tensor::full(sizes, value, DType::I64); }
std::vector<Tensor> inputs() { return {number({1, 1}, 7), number({1}, kPosition)}; }

std::unique_ptr<nn::LlamaForCausalLM> build(int argc, char** argv, int at, const Device& device = Device::cpu()) {
  nn::LlamaConfig c = nn::LlamaConfig::preset(argc > at ? argv[at] : "llama-7b");
  if (argc > at + 1) c.num_hidden_layers = std::atoi(argv[at + 1]);
  auto model = std::make_unique<nn::LlamaForCausalLM>(c, nn::Init(1, DType::BF16, device));
  model->allocate_cache(1, kPositions);
  return model;
}

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

void save(int argc, char** argv) {
  const auto model = build(argc, argv, 3);
  const Stopwatch watch;
  PackageOptions options;
  options.targets = {argc > 5 ? argv[5] : "sm_90a"};
  options.model.mode = Mode::ReduceOverhead;
  save_package([&](const std::vector<Tensor>& in) { return std::vector<Tensor>{model->forward_cached(in[0], in[1])}; }, inputs(), argv[2],
               options);
  fmt::print("{}: {:.2f} GB, made in {:.1f} s, {} GPUs in sight\n", argv[2], static_cast<double>(std::filesystem::file_size(argv[2])) / 1e9,
             watch.ms() / 1e3, cuda_device_count());
}

// Milliseconds of a step: the median of rounds of 20.
template <class F>
double step_ms(F&& step) {
  std::vector<double> ms;
  for (int round = 0; round < 7; ++round) {
    const Stopwatch watch;
    for (int i = 0; i < 20; ++i) step();
    synchronize(Device::cuda());
    ms.push_back(watch.ms() / 20);
  }
  std::sort(ms.begin(), ms.end());
  return ms[ms.size() / 2];
}

void start(int argc, char** argv) {
  const int64_t begun = argc > 3 ? std::atoll(argv[3]) : now_ns();
  const auto passed = [&] { return static_cast<double>(now_ns() - begun) / 1e6; };
  const double main_ms = passed();
  device::cuda::gpu(0);
  const double gpu_ms = passed();
  const auto package = package::Package::open(argv[2]);
  const auto program = package->load("", Device::cuda());
  synchronize(Device::cuda());
  const double loaded_ms = passed();
  const auto session = program->session();
  std::vector<Tensor> in;
  for (auto& t : inputs()) in.push_back(t.to(Device::cuda()));
  const auto logits = session->run(in)[0].to(Device::cpu());
  const double first_ms = passed();
  double third[2];
  for (double& ms : third) {
    const Stopwatch watch;
    session->run(in)[0].to(Device::cpu());
    ms = watch.ms();
  }
  fmt::print("main {:.0f} ms, GPU open {:.0f}, package loaded {:.0f}, first token {:.0f}; second {:.2f} ms, third {:.2f}\n", main_ms,
             gpu_ms, loaded_ms, first_ms, third[0], third[1]);
  fmt::print("a step {:.3f} ms; logits {:.6f} {:.6f}\n", step_ms([&] { session->run(in); }), logits.to_vector()[0], logits.to_vector()[1]);
}

void jit(int argc, char** argv) {
  const auto model = build(argc, argv, 2);
  model->to(Device::cuda());
  CompileConfig config{.mode = Mode::ReduceOverhead};
  config.options.emplace("freezing", std::string(1, '1'));  // as packages are made
  auto step = compile([&](const Tensor& ids, const Tensor& at) { return model->forward_cached(ids, at); }, config);
  std::vector<Tensor> in;
  for (auto& t : inputs()) in.push_back(t.to(Device::cuda()));
  Tensor logits;
  for (int i = 0; i < 3; ++i) logits = step(in[0], in[1]);
  const auto values = logits.to(Device::cpu()).to_vector();
  fmt::print("compiled here: a step {:.3f} ms; logits {:.6f} {:.6f}\n", step_ms([&] { step(in[0], in[1]); }), values[0], values[1]);
}

void warm(int argc, char** argv) {
  const auto model = build(argc, argv, 2, Device::cuda());
  std::vector<Tensor> in;
  for (auto& t : inputs()) in.push_back(t.to(Device::cuda()));
  synchronize(Device::cuda());
  Stopwatch watch;
  auto step = compile([&](const Tensor& ids, const Tensor& at) { return model->forward_cached(ids, at); }, {.mode = Mode::ReduceOverhead});
  std::vector<double> ms;
  for (int i = 0; i < 4; ++i) {
    step(in[0], in[1]);
    ms.push_back(watch.lap());  // the host has its work behind it
    synchronize(Device::cuda());
    ms.push_back(watch.lap());
  }
  const auto c = program_cache_counters();
  fmt::print(
      "{}: first call {:.1f} + {:.1f} ms (host, then the GPU alone), second {:.2f} + {:.2f}, third {:.2f} + {:.2f}; a step {:.3f} ms {}\n",
      c.hits ? "found" : "compiled", ms[0], ms[1], ms[2], ms[3], ms[4], ms[5], step_ms([&] { step(in[0], in[1]); }), c.problem);
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string what = argc > 1 ? argv[1] : "";
  TOROID_USER_CHECK((what == "save" && argc > 2) || (what == "start" && argc > 2) || what == "jit" || what == "warm",
                    "expected save FILE, start FILE, jit or warm; the head of bench/gpu_package.cpp says what each does");
  if (what == "save") save(argc, argv);
  if (what == "start") start(argc, argv);
  if (what == "jit") jit(argc, argv);
  if (what == "warm") warm(argc, argv);
} catch (const std::exception& e) {
  fmt::print(stderr, "{}\n", e.what());
  return 1;
}
