// All-reduce of bf16 between the GPUs of one host, whose ranks are threads, or processes under mpirun: a line a size with the median
// microseconds of one of a recorded chain, by the form that the rule takes, or of every form.
//   bench_gpu_collectives [--forms|--tails|--tuned|--kinds|--products] [RANKS [BYTES ...]]
// --tails: instead, compiled chains of all_reduce alone and with relu and a factor behind it, of products that are reduced, alone and with
// bias and gelu, each with what follows in the same kernel and in one of its own. --tuned: compiled chains, by the forms that ranks find
// fastest together. --kinds: the other collectives, several of each in one compiled function; bytes of the larger side. --products: square
// products whose rows are gathered, and whose result is reduced and scattered, in pieces and in sequence; sizes in place of bytes.
// Each time is the largest of the ranks'. Peers on the same machine: bench/peers/collectives.py.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "codegen/cuda/generate.h"
#include "device/cuda/arguments.h"
#include "device/cuda/gpu.h"
#include "dist/agree.h"
#include "dist/p2p/peer_memory.h"
#include "jit/nvrtc.h"
#include "toroid/collectives.h"
#include "toroid/compile.h"
#include "toroid/distributed.h"
#include "toroid/ops.h"
#include "toroid/tuning.h"

using namespace toroid;

namespace {

constexpr int64_t kSizes[] = {4 << 10, 8 << 10, 32 << 10, 128 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20, 16 << 20, 256 << 20};
constexpr int kRounds = 15;

// A node that does nothing but reduce.
program::Program program_of(int64_t elements, int64_t ranks) {
  program::Program p;
  program::Meeting a;
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
    const double slowest = distributed::greatest(group, own);
    if (i >= 2) us.push_back(slowest);
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

// Median microseconds of one of the `count` calls that the compiled function `fast` replays as a whole; the slowest rank's.
template <class Fast>
double replayed(Fast& fast, const Tensor& x, int count) {
  distributed::Group& group = distributed::current_world().world();
  device::cuda::Gpu& gpu = device::cuda::gpu(x.device().index);
  for (int i = 0; i < 4; ++i) fast(x);
  std::vector<double> us;
  for (int i = 0; i < kRounds; ++i) {
    synchronize(x.device());
    group.run({.kind = distributed::Kind::Barrier});
    const double own = gpu.time_ms([&] { fast(x); }) * 1e3 / count;
    us.push_back(distributed::greatest(group, own));
  }
  std::sort(us.begin(), us.end());
  return us[us.size() / 2];
}

// Of a link of a chain of `links` calls of `step`.
double chained(const std::function<Tensor(const Tensor&)>& step, const Tensor& x, int links, CompileConfig config) {
  config.options["freezing"] = "1";
  auto fast = compile(
      [&](const Tensor& first) {
        Tensor y = first;
        for (int i = 0; i < links; ++i) y = step(y);
        return y;
      },
      config);
  return replayed(fast, x, links);
}

void say(const std::string& line) {
  if (distributed::rank() == 0) fmt::print("{}\n", line);
}

CompileConfig config_of(Mode mode, bool fuses) {
  CompileConfig config;
  config.mode = mode;
  if (!fuses) config.options["fusion"] = "none";
  return config;
}

Tensor tail(const Tensor& x) { return relu(x) * 0.5; }

void run_tails() {
  const Device own = Device::cuda(distributed::rank());
  constexpr int kLinks = 16;
  for (const int64_t bytes : {int64_t{4} << 10, int64_t{128} << 10, int64_t{1} << 20, int64_t{16} << 20}) {
    const Tensor x = Tensor::full(std::vector<int64_t>{bytes / 2}, 1, DType::BF16).to(own);
    const auto alone = [](const Tensor& y) { return distributed::all_reduce(y, "avg"); };
    const auto with = [](const Tensor& y) { return tail(distributed::all_reduce(y, "avg")); };
    const double a = chained(alone, x, kLinks, config_of(Mode::ReduceOverhead, true));
    const double fused = chained(with, x, kLinks, config_of(Mode::ReduceOverhead, true));
    const double apart = chained(with, x, kLinks, config_of(Mode::ReduceOverhead, false));
    say(fmt::format(
        "all_reduce of {:>9} bytes: alone {:7.2f} us, relu and factor in its kernel {:7.2f} ({:.3f}x), in kernels of their own {:7.2f}",
        bytes, a, fused, fused / a, apart));
  }
  constexpr int64_t kFeatures = 4096;
  const Tensor weight = Tensor::full(std::vector<int64_t>{kFeatures, kFeatures}, 1.0 / kFeatures, DType::BF16).to(own);
  const Tensor bias = Tensor::full(std::vector<int64_t>{kFeatures}, 0.5, DType::BF16).to(own);
  for (const int64_t rows : {1, 8, 64, 512}) {
    const Tensor x = Tensor::full(std::vector<int64_t>{rows, kFeatures}, 1, DType::BF16).to(own);
    const auto alone = [&](const Tensor& y) { return distributed::all_reduce(matmul(y, weight), "avg"); };
    const auto with = [&](const Tensor& y) { return gelu(distributed::all_reduce(matmul(y, weight), "avg") + bias); };
    const double a = chained(alone, x, kLinks, config_of(Mode::ReduceOverhead, true));
    const double fused = chained(with, x, kLinks, config_of(Mode::ReduceOverhead, true));
    const double apart = chained(with, x, kLinks, config_of(Mode::ReduceOverhead, false));
    const double tuned_alone = chained(alone, x, kLinks, config_of(Mode::MaxAutotune, true));
    const double tuned = chained(with, x, kLinks, config_of(Mode::MaxAutotune, true));
    say(fmt::format(
        "{}x{} by {}x{}, all_reduce: alone {:7.2f} us, bias and gelu in its kernel {:7.2f} ({:.3f}x), in kernels of their own {:7.2f}; "
        "tuned: alone {:7.2f}, with both {:7.2f} ({:.3f}x)",
        rows, kFeatures, kFeatures, kFeatures, a, fused, fused / a, apart, tuned_alone, tuned, tuned / tuned_alone));
  }
}

void run_tuned(int64_t bytes) {
  const Tensor x = Tensor::full(std::vector<int64_t>{bytes / 2}, 1, DType::BF16).to(Device::cuda(distributed::rank()));
  const auto step = [](const Tensor& y) { return distributed::all_reduce(y, "avg"); };
  const int links = bytes > (32 << 20) ? 4 : 16;
  std::atomic<double> timing_ms = 0;
  const TuneFeedback feedback([&](const TuneResult& r) { timing_ms = r.timing_ms; });
  const double tuned = chained(step, x, links, config_of(Mode::MaxAutotune, true));
  const double ruled = chained(step, x, links, config_of(Mode::ReduceOverhead, true));
  say(fmt::format("all_reduce of {:>9} bytes: tuned {:8.2f} us, by the rule {:8.2f} (checks and times took {:.0f} ms)", bytes, tuned, ruled,
                  timing_ms.load()));
}

// Of one of `count` independent calls of `step`.
double repeated(const std::function<Tensor(const Tensor&)>& step, const Tensor& x, int count) {
  auto fast = compile(
      [&](const Tensor& given) {
        std::vector<Tensor> out;
        for (int i = 0; i < count; ++i) out.push_back(step(given));
        return out;
      },
      config_of(Mode::ReduceOverhead, true));
  return replayed(fast, x, count);
}

void run_kinds(int64_t bytes) {
  const int64_t ranks = distributed::size(), elements = bytes / 2, part = elements / ranks;
  const int count = bytes > (8 << 20) ? 4 : 16;
  const auto ones = [](int64_t n) { return Tensor::full(std::vector<int64_t>{n}, 1, DType::BF16).to(Device::cuda(distributed::rank())); };
  const std::vector<SymInt> even(static_cast<size_t>(ranks), part);
  const double gather = repeated([](const Tensor& x) { return distributed::all_gather(x); }, ones(part), count);
  const double scatter = repeated([](const Tensor& x) { return distributed::reduce_scatter(x); }, ones(elements), count);
  const double exchange = repeated([&](const Tensor& x) { return distributed::all_to_all(x, even, even); }, ones(elements), count);
  say(fmt::format("{:>9} bytes, {} ranks: all_gather {:8.2f} us, reduce_scatter {:8.2f}, all_to_all {:8.2f}", bytes, ranks, gather, scatter,
                  exchange));
}

// Square products of `size`, the best of several runs of each way by turns.
void run_products(int64_t size) {
  const int64_t ranks = distributed::size();
  const Device own = Device::cuda(distributed::rank());
  const auto filled = [&](int64_t rows, int64_t round) {
    Tensor x = Tensor::empty(std::vector<int64_t>{rows, size}, DType::F32);
    for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = static_cast<float>((i + round) * 7919 % 1021 - 510) / 512;
    return to(x, DType::BF16).to(own);
  };
  const int count = size >= 4096 ? 4 : 16;
  const Tensor all = filled(size, 0), part = filled(size / ranks, 0);
  std::vector<Tensor> weights;
  for (int i = 0; i < count; ++i) weights.push_back(filled(size, i));
  struct Function {
    const char* name;
    const Tensor& x;
    std::function<Tensor(const Tensor&, const Tensor&)> step;
  };
  const Function functions[] = {
      {"all_gather, product", part, [](const Tensor& x, const Tensor& w) { return matmul(distributed::all_gather(x), w); }},
      {"product, reduce_scatter", all, [](const Tensor& x, const Tensor& w) { return distributed::reduce_scatter(matmul(x, w)); }},
      {"product", all, [](const Tensor& x, const Tensor& w) { return matmul(x, w); }}};
  for (auto& f : functions)
    for (const char* by : {"template", "cublaslt"}) {
      std::string line = fmt::format("{} ranks, {} x {} x {} bf16, {} ({}):", ranks, size, size, size, f.name, by);
      for (const char* passes : {"", "overlap_products", "", "overlap_products"}) {
        CompileConfig config = config_of(Mode::ReduceOverhead, true);
        config.options["gemm_backends"] = by;
        config.options["collective_order"] = "any";
        config.options["disable_passes"] = passes;
        auto fast = compile(
            [&](const Tensor& given) {
              std::vector<Tensor> out;
              for (auto& w : weights) out.push_back(f.step(given, w));
              return out;
            },
            config);
        line += fmt::format(" {} {:8.2f} us,", *passes ? "in sequence" : "in pieces", replayed(fast, f.x, count));
      }
      line.pop_back();
      say(line);
    }
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> rest(argv + 1, argv + argc);
  const std::string flag = !rest.empty() && rest[0].starts_with("--") ? rest[0] : "";
  if (!flag.empty()) rest.erase(rest.begin());
  const int ranks = rest.empty() ? cuda_device_count() : std::stoi(rest[0]);
  std::vector<int64_t> sizes(std::begin(kSizes), std::end(kSizes));
  if (flag == "--products") sizes = {1024, 2048, 4096, 8192};
  if (rest.size() > 1) sizes.clear();
  for (size_t i = 1; i < rest.size(); ++i) sizes.push_back(std::stoll(rest[i]));
  const auto body = [&] {
    if (flag == "--tails") return run_tails();
    for (const int64_t bytes : sizes) {
      if (flag == "--tuned")
        run_tuned(bytes);
      else if (flag == "--kinds")
        run_kinds(bytes);
      else if (flag == "--products")
        run_products(bytes);
      else
        run_size(bytes, flag == "--forms");
    }
  };
  try {
    if (!std::getenv("OMPI_COMM_WORLD_RANK")) {
      distributed::run_local(ranks, body);
      return 0;
    }
    distributed::init();
    body();
    distributed::finalize();
  } catch (const Error& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}
