// The gradient of attention on a GPU, by the kernel that the compiler chooses: a line a shape with the median microseconds of a launch and
// TFLOP/s. The row sums before it and the cast of the queries' gradient behind it do not count.
//   bench_gpu_attention_backward [--tiles|--ordered|--mma] [shape ...]
// --tiles: of every configuration. --ordered: with sums that give the same bits in each run. --mma: of the kernel for GPUs without wgmma.
// Each time is that of a replayed graph of launches, which take turns with sets of operands that together exceed the cache.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "codegen/cuda/generate.h"
#include "device/cuda/arguments.h"
#include "device/cuda/gpu.h"
#include "gpu_replays.h"
#include "jit/nvrtc.h"

using namespace toroid;

namespace {

struct Shape {
  const char* name;
  int64_t batch, heads, kv_heads, positions, depth;
  bool causal;
};

constexpr Shape kShapes[] = {{"llama-8b-8k", 1, 32, 8, 8192, 128, true},  {"llama-1b-8k", 1, 32, 8, 8192, 64, true},
                             {"gpt2-16x1k", 16, 12, 12, 1024, 64, true},  {"causal-4x2k", 4, 16, 16, 2048, 128, true},
                             {"bert-32x128", 32, 12, 12, 128, 64, false}, {"causal-16k", 1, 32, 32, 16384, 128, true},
                             {"full-4k", 1, 32, 32, 4096, 128, false},    {"full-4k-depth-64", 1, 32, 32, 4096, 64, false}};
constexpr DType kType = DType::BF16;

program::Program program_of(const Shape& s, bool ordered) {
  program::Program p;
  program::AttentionBackward a;
  const auto rows = [&](int64_t heads, DType dtype) {
    const int64_t head = s.positions * s.depth, numel = s.batch * heads * head;
    return program::Operand{p.new_buffer("b", dtype, numel, loop::BufferKind::Input), dtype, 0, {heads * head, head, s.depth, 1}};
  };
  const auto statistic = [&] {
    const int64_t numel = s.batch * s.heads * s.positions;
    return program::Operand{
        p.new_buffer("b", DType::F32, numel, loop::BufferKind::Input), DType::F32, 0, {s.heads * s.positions, s.positions, 1}};
  };
  a.batch = s.batch, a.heads = s.heads, a.kv_heads = s.kv_heads, a.queries = a.keys = s.positions;
  a.head_dim = a.value_dim = s.depth, a.causal = s.causal, a.ordered = ordered, a.scale = 1 / std::sqrt(static_cast<double>(s.depth));
  a.q = rows(s.heads, kType), a.k = rows(s.kv_heads, kType), a.v = rows(s.kv_heads, kType), a.grad_out = rows(s.heads, kType);
  a.logsumexp = statistic(), a.row_sums = statistic();
  a.grad_query = rows(s.heads, DType::F32), a.grad_key = rows(s.kv_heads, kType), a.grad_value = rows(s.kv_heads, kType);
  program::Node node;
  node.problem = a;
  p.nodes.push_back(std::move(node));
  return p;
}

// Median of the microseconds of a launch.
double measure(const program::Program& p, const Shape& s, const codegen::KernelText& text, device::cuda::Gpu& gpu) {
  const device::cuda::Kernel kernel =
      gpu.load(jit::nvrtc_compile(text.source, gpu.info().architecture, text.name), text.name, text.shared_bytes);
  int64_t set_bytes = 0;
  const auto bytes_of = [](const loop::Buffer& b) { return b.numel.constant() * static_cast<int64_t>(size_of(b.dtype)); };
  for (auto& b : p.buffers) set_bytes += bytes_of(b);
  const int64_t sets = std::clamp<int64_t>(2 * static_cast<int64_t>(gpu.info().l2_bytes) / set_bytes + 1, 1, 64);
  std::vector<std::vector<std::shared_ptr<void>>> memory(static_cast<size_t>(sets));
  for (auto& set : memory)
    for (auto& b : p.buffers) {
      set.push_back(gpu.allocate(static_cast<size_t>(bytes_of(b))));
      if (b.dtype != kType) {
        // Logarithms of sums of the usual size, so that weights are those of a softmax; row sums of ones.
        std::vector<float> values(static_cast<size_t>(b.numel.constant()), static_cast<float>(std::log(s.positions)));
        gpu.copy_in(set.back().get(), values.data(), values.size() * sizeof(float));
        continue;
      }
      std::vector<uint16_t> values(static_cast<size_t>(b.numel.constant()));
      uint32_t state = static_cast<uint32_t>(b.id) + 1;  // between 1/4 and 2, and their negatives
      for (uint16_t& v : values) {
        state = state * 1664525u + 1013904223u;
        v = static_cast<uint16_t>((state >> 16 & 0x8000u) | (0x3e80u + (state >> 20 & 0xffu)));
      }
      gpu.copy_in(set.back().get(), values.data(), values.size() * sizeof(uint16_t));
    }
  std::shared_ptr<void> counters;
  if (const int64_t count = text.counters.constant()) {
    counters = gpu.allocate(static_cast<size_t>(count) * 4);
    gpu.fill_zero(counters.get(), static_cast<size_t>(count) * 4);
  }
  const auto launch = [&](int64_t i) {
    std::vector<void*> pointers;
    for (int b : text.buffers) pointers.push_back(memory[static_cast<size_t>(i % sets)][static_cast<size_t>(b)].get());
    if (counters) pointers.push_back(counters.get());
    device::cuda::Arguments arguments(text.tensor_maps, {}, pointers.size(), [](const Expr& e) { return e.constant(); });
    arguments.set_pointers(pointers);
    gpu.launch(kernel, {text.tasks.constant(), text.block, text.shared_bytes, text.overlaps}, arguments.list());
  };
  launch(0);
  return replayed_us(gpu, launch, std::max<int64_t>(sets, 2), {.rounds = 7, .recording_us = 20000});
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string flag = argc > 1 && std::strncmp(argv[1], "--", 2) == 0 ? argv[1] : "";
  const std::vector<std::string> wanted(argv + (flag.empty() ? 1 : 2), argv + argc);
  device::cuda::Gpu& gpu = device::cuda::gpu(0);
  device::cuda::GpuInfo info = gpu.info();
  if (flag == "--mma") info.architecture = "sm_80";
  fmt::print("{}\n{:<20} {:>10} {:>8}  {}\n", gpu.info().name, "shape", "us", "TFLOP/s", "configuration");
  for (const Shape& s : kShapes) {
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), s.name) == wanted.end()) continue;
    program::Program p = program_of(s, flag == "--ordered");
    codegen::ConstantMemory constants;
    std::vector<program::Config> configs = codegen::cuda_configs(p.nodes[0], p, info);
    if (flag != "--tiles" || configs.empty()) configs.resize(1);
    for (auto& config : configs) {
      p.nodes[0].config = config;
      const codegen::KernelText text = codegen::generate_cuda(p.nodes[0], p, info, constants);
      const double us = measure(p, s, text, gpu);
      const double flops = 10.0 * static_cast<double>(s.batch * s.heads * s.depth) * static_cast<double>(s.positions * s.positions);
      fmt::print("{:<20} {:>10.2f} {:>8.0f}  {}\n", s.name, us, flops / (s.causal ? 2 : 1) / us / 1e6,
                 config.empty() ? text.plan : program::to_string(config));
      std::fflush(stdout);
    }
  }
  return 0;
} catch (const Error& e) {
  fmt::print(stderr, "{}\n", e.what());
  return 1;
}
