// Attention on a GPU, by the template that the compiler chooses: a line a shape with the median microseconds of a launch, TFLOP/s, and GB/s
// of keys and values. bench/peers/gpu_attention.py runs this beside PyTorch.
//   bench_gpu_attention [--json | --warm] [shape ...]
// Each time is that of a replayed graph of many launches, which take turns with sets of inputs that together exceed the cache.
// --warm: with one set, as calls of PyTorch on the same tensors have it (gpu_train.py).
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
  int64_t batch, heads, kv_heads, queries, keys, depth;
  bool causal;
  DType dtype;
  bool trains = false;  // keeps the logarithms of the sums for the backward pass
};

// As in bench/peers/gpu_attention.py; those of training as in gpu_train.py, which times PyTorch.
constexpr Shape kShapes[] = {
    {"bert-base", 1, 12, 12, 128, 128, 64, false, DType::F16},
    {"vit-batch-8", 8, 12, 12, 197, 197, 64, false, DType::F16},
    {"llama-7b-prefill-1k", 1, 32, 32, 1024, 1024, 128, true, DType::BF16},
    {"causal-4k", 1, 32, 32, 4096, 4096, 128, true, DType::BF16},
    {"causal-8k", 1, 32, 32, 8192, 8192, 128, true, DType::BF16},
    {"causal-4k-gqa-8", 1, 32, 8, 4096, 4096, 128, true, DType::BF16},
    {"full-4k", 1, 32, 32, 4096, 4096, 128, false, DType::BF16},
    {"causal-4k-depth-64", 4, 16, 16, 4096, 4096, 64, true, DType::F16},
    {"decode-4k", 1, 32, 32, 1, 4096, 128, false, DType::BF16},
    {"decode-32k", 1, 32, 32, 1, 32768, 128, false, DType::BF16},
    {"decode-4k-gqa-8", 1, 32, 8, 1, 4096, 128, false, DType::BF16},
    {"decode-32k-gqa-8", 1, 32, 8, 1, 32768, 128, false, DType::BF16},
    {"decode-4k-gqa-8-batch-8", 8, 32, 8, 1, 4096, 128, false, DType::BF16},
    {"train-llama-8b-8k", 1, 32, 8, 8192, 8192, 128, true, DType::BF16, true},
    {"train-gpt2-16x1k", 16, 12, 12, 1024, 1024, 64, true, DType::BF16, true},
    {"train-causal-4x2k", 4, 16, 16, 2048, 2048, 128, true, DType::BF16, true},
    {"train-bert-32x128", 32, 12, 12, 128, 128, 64, false, DType::BF16, true},
    {"train-causal-16k", 1, 32, 32, 16384, 16384, 128, true, DType::BF16, true},
};

program::Operand rows(int buffer, const Shape& s, int64_t heads, int64_t length) {
  return {buffer, s.dtype, 0, {heads * length * s.depth, length * s.depth, s.depth, 1}};
}

program::Program program_of(const Shape& s) {
  program::Program p;
  using Kind = loop::BufferKind;
  const int64_t q = s.batch * s.heads * s.queries * s.depth, kv = s.batch * s.kv_heads * s.keys * s.depth;
  p.new_buffer("q", s.dtype, q, Kind::Input);
  p.new_buffer("k", s.dtype, kv, Kind::Input);
  p.new_buffer("v", s.dtype, kv, Kind::Input);
  p.new_buffer("out", s.dtype, q, Kind::Output);
  program::Attention a;
  a.batch = s.batch, a.heads = s.heads, a.kv_heads = s.kv_heads, a.queries = s.queries, a.keys = s.keys;
  a.head_dim = a.value_dim = s.depth;
  a.q = rows(0, s, s.heads, s.queries), a.k = rows(1, s, s.kv_heads, s.keys), a.v = rows(2, s, s.kv_heads, s.keys);
  a.causal = s.causal;
  if (s.trains) {
    const int64_t sums = s.batch * s.heads * s.queries;
    const int lse = p.new_buffer("logsumexp", DType::F32, sums, Kind::Output);
    a.logsumexp = program::Operand{lse, DType::F32, 0, {s.heads * s.queries, s.queries, 1}};
  }
  a.scale = 1 / std::sqrt(static_cast<double>(s.depth));
  const loop::Nest nest = loop::parse(fmt::format(
      "loop (i0: {}, i1: {}, i2: {}, i3: {}) {{\nv0: f32 = accumulate\nv1: {} = Cast v0\nstore %3 [((i0*{} + i1)*{} + i2)*{} + i3] v1\n}}",
      s.batch, s.heads, s.queries, s.depth, name_of(s.dtype), s.heads, s.queries, s.depth));
  program::Node node;
  node.problem = a;
  node.domain = nest.domain, node.body = nest.body;
  p.nodes.push_back(std::move(node));
  return p;
}

// Medians of the microseconds of a launch.
double measure(const Shape& s, const codegen::KernelText& text, device::cuda::Gpu& gpu, bool warm) {
  const device::cuda::Kernel kernel =
      gpu.load(jit::nvrtc_compile(text.source, gpu.info().architecture, text.name), text.name, text.shared_bytes);
  const auto element = static_cast<int64_t>(size_of(s.dtype));
  const int64_t q = s.batch * s.heads * s.queries * s.depth * element, kv = s.batch * s.kv_heads * s.keys * s.depth * element;
  const int64_t sums = s.trains ? s.batch * s.heads * s.queries * static_cast<int64_t>(sizeof(float)) : 0;
  const int64_t set_bytes = 2 * q + 2 * kv + sums,
                sets = warm ? 1 : std::clamp<int64_t>(4 * static_cast<int64_t>(gpu.info().l2_bytes) / set_bytes + 1, 2, 64);
  const std::shared_ptr<void> memory = gpu.allocate(static_cast<size_t>(sets * set_bytes));
  std::vector<uint16_t> values(static_cast<size_t>(set_bytes / element));
  uint32_t state = 1;  // halves of both kinds between 1/4 and 2, and their negatives: the scores are those of independent vectors
  for (uint16_t& v : values) {
    state = state * 1664525u + 1013904223u;
    v = static_cast<uint16_t>((state >> 16 & 0x8000u) |
                              (s.dtype == DType::BF16 ? 0x3e80u + (state >> 20 & 0xffu) : 0x3400u + (state >> 20 & 0x7ffu)));
  }
  for (int64_t i = 0; i < sets; ++i)
    gpu.copy_in(static_cast<char*>(memory.get()) + i * set_bytes, values.data(), static_cast<size_t>(set_bytes));
  std::shared_ptr<void> scratch, counters;
  if (const int64_t bytes = text.scratch_bytes.constant()) scratch = gpu.allocate(static_cast<size_t>(bytes));
  if (const int64_t count = text.counters.constant()) {
    counters = gpu.allocate(static_cast<size_t>(count) * 4);
    gpu.fill_zero(counters.get(), static_cast<size_t>(count) * 4);
  }
  std::vector<int64_t> params;
  for (auto& p : text.params) params.push_back(p.constant());
  auto launch = [&](int64_t set) {
    char* at = static_cast<char*>(memory.get()) + set * set_bytes;
    const std::vector<void*> buffers = {at, at + q, at + q + kv, at + q + 2 * kv, at + 2 * q + 2 * kv};
    std::vector<void*> pointers;
    for (int b : text.buffers) pointers.push_back(buffers[static_cast<size_t>(b)]);
    if (scratch) pointers.push_back(scratch.get());
    if (counters) pointers.push_back(counters.get());
    device::cuda::Arguments arguments(text.tensor_maps, params, pointers.size(), [](const Expr& e) { return e.constant(); });
    arguments.set_pointers(pointers);
    gpu.launch(kernel, {text.tasks.constant(), text.block, text.shared_bytes, text.overlaps}, arguments.list());
  };
  return replayed_us(gpu, launch, sets, {.rounds = 9, .recording_us = 4000});
}

}  // namespace

int main(int argc, char** argv) try {
  const bool json = argc > 1 && std::strcmp(argv[1], "--json") == 0, warm = argc > 1 && std::strcmp(argv[1], "--warm") == 0;
  const std::vector<std::string> wanted(argv + (json || warm ? 2 : 1), argv + argc);
  device::cuda::Gpu& gpu = device::cuda::gpu(0);
  if (!json) fmt::print("{}\n{:<24} {:>10} {:>8} {:>8}  {}\n", gpu.info().name, "shape", "us", "TFLOP/s", "GB/s", "template");
  for (const Shape& s : kShapes) {
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), s.name) == wanted.end()) continue;
    program::Program p = program_of(s);
    codegen::ConstantMemory constants;
    const codegen::KernelText text = codegen::generate_cuda(p.nodes[0], p, gpu.info(), constants);
    const double us = measure(s, text, gpu, warm);
    const double flops = 4.0 * static_cast<double>(s.batch * s.heads * s.queries * s.keys * s.depth) / (s.causal ? 2 : 1);
    const double bytes = 2.0 * static_cast<double>(s.batch * s.kv_heads * s.keys * s.depth) * static_cast<double>(size_of(s.dtype));
    if (json)
      fmt::print("{{\"shape\": \"{}\", \"us\": {:.2f}}}\n", s.name, us);
    else
      fmt::print("{:<24} {:>10.2f} {:>8.0f} {:>8.0f}  {}\n", s.name, us, flops / us / 1e6, bytes / us / 1e3,
                 text.plan.substr(0, text.plan.find('\n')));
    std::fflush(stdout);
  }
  return 0;
} catch (const Error& e) {
  fmt::print(stderr, "{}\n", e.what());
  return 1;
}
