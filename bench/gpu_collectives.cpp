// All-reduce of bf16 between the GPUs of one host, whose ranks are threads: a line a size with the median microseconds of one of a recorded
// chain, by the form that the rule takes, or of every form.
//   bench_gpu_collectives [--forms] [RANKS [BYTES ...]]
// Each time is the largest of the ranks'. Peers on the same machine: bench/peers/collectives.py.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "codegen/cuda/generate.h"
#include "device/cuda/arguments.h"
#include "device/cuda/gpu.h"
#include "dist/agree.h"
#include "dist/p2p/peer_memory.h"
#include "jit/nvrtc.h"
#include "toroid/distributed.h"

using namespace toroid;

namespace {

constexpr int64_t kSizes[] = {4 << 10, 8 << 10, 32 << 10, 128 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20, 16 << 20, 256 << 20};
constexpr int kRounds = 15;

// A node that does nothing but reduce.
program::Program program_of(int64_t elements, int64_t ranks) {
  program::Program p;
  program::AllReduce a;
  a.group = "world";
  a.ranks = ranks;
  a.sizes = {elements};
  a.input = {p.new_buffer("in", DType::BF16, elements, loop::BufferKind::Input), DType::BF16, 0, {1}};
  const int out = p.new_buffer("out", DType::BF16, elements, loop::BufferKind::Output);
  a.peers = {p.peers(a.group), DType::I64, 0, {}};
  a.faults = {p.faults(), DType::I64, 0, {}};
  program::Node node;
  node.problem = a;
  const Expr at = sym::loop_symbol("i", elements);
  node.domain.vars.push_back({at, false});
  loop::BodyBuilder b(node.body);
  b.store(out, DType::BF16, at, b.accumulator(DType::F32));
  p.nodes.push_back(std::move(node));
  return p;
}

// Median microseconds of one of a recorded chain, the slowest rank's.
double measure(const program::Program& p, const codegen::KernelText& text, int64_t bytes, distributed::Group& group, const Device& device) {
  device::cuda::Gpu& gpu = device::cuda::gpu(device.index);
  const auto kernel =
      gpu.load(jit::nvrtc_compile(text.source, gpu.info().architecture, text.name), text.name, text.shared_bytes, text.overlaps);
  std::vector<std::shared_ptr<void>> memory;
  std::vector<void*> pointers;
  for (int b : text.buffers) {
    if (p.buffers[static_cast<size_t>(b)].kind == loop::BufferKind::Peers) {
      pointers.push_back(distributed::p2p::peer_memory(group, device)->table());
      continue;
    }
    memory.push_back(gpu.allocate(static_cast<size_t>(std::max<int64_t>(bytes, 64))));
    gpu.fill_zero(memory.back().get(), static_cast<size_t>(std::max<int64_t>(bytes, 64)));
    pointers.push_back(memory.back().get());
  }
  device::cuda::Arguments arguments(text.tensor_maps, {}, pointers.size(), [](const Expr& e) { return e.constant(); });
  arguments.set_pointers(pointers);
  const device::cuda::LaunchShape shape{text.tasks.constant(), text.block, text.shared_bytes, text.overlaps};
  const int count = bytes > (32 << 20) ? 5 : 30;
  const auto graph = gpu.record([&] {
    for (int i = 0; i < count; ++i) gpu.launch(kernel, shape, arguments.list());
  });
  std::vector<double> us;
  for (int i = 0; i < kRounds + 2; ++i) {
    group.run({.kind = distributed::Kind::Barrier});
    const double own = gpu.time_ms([&] { gpu.launch(*graph); }) * 1e3 / count;
    double most = 0;
    group.run({.kind = distributed::Kind::AllReduce,
               .dtype = DType::F64,
               .op = distributed::ReduceOp::Max,
               .in = reinterpret_cast<const std::byte*>(&own),
               .out = reinterpret_cast<std::byte*>(&most),
               .count = 1});
    if (i >= 2) us.push_back(most);
  }
  std::sort(us.begin(), us.end());
  return us[us.size() / 2];
}

void run_size(int64_t bytes, bool forms) {
  distributed::Group& group = distributed::current_world().world();
  const Device device = Device::cuda(distributed::rank());
  const auto& gpu = device::cuda::gpu(device.index).info();
  program::Program p = program_of(bytes / 2, group.size());
  std::vector<program::Config> configs = codegen::cuda_configs(p.nodes[0], p, gpu);
  if (!forms) configs.resize(1);
  for (auto& config : configs) {
    p.nodes[0].config = config;
    codegen::ConstantMemory constants;
    const codegen::KernelText text = codegen::generate_cuda(p.nodes[0], p, gpu, constants);
    const double us = measure(p, text, bytes, group, device);
    if (group.rank() == 0)
      fmt::print("all_reduce bf16, {} ranks: {:>10} bytes {:9.2f} us, {:6.1f} GB/s in and out of a GPU  {}\n", group.size(), bytes, us,
                 2.0 * static_cast<double>(bytes) * (group.size() - 1) / group.size() / us / 1e3, program::to_string(config));
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> rest(argv + 1, argv + argc);
  const auto at = std::find(rest.begin(), rest.end(), "--forms");
  const bool forms = at != rest.end();
  if (forms) rest.erase(at);
  const int ranks = rest.empty() ? cuda_device_count() : std::stoi(rest[0]);
  std::vector<int64_t> sizes(std::begin(kSizes), std::end(kSizes));
  if (rest.size() > 1) sizes.clear();
  for (size_t i = 1; i < rest.size(); ++i) sizes.push_back(std::stoll(rest[i]));
  try {
    distributed::run_local(ranks, [&] {
      for (const int64_t bytes : sizes) run_size(bytes, forms);
    });
  } catch (const Error& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}
