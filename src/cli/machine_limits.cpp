#include "cli/machine_limits.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <vector>

#include "base/compile_options.h"
#include "base/thread_pool.h"
#include "device/cpu/code_loader.h"
#include "device/cpu/isa.h"
#include "device/cuda/gpu.h"
#include "jit/jit.h"

namespace toroid::cli {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

// The shortest of some repetitions.
template <class F>
double best_seconds(int repetitions, F&& f) {
  double best = 1e30;
  for (int i = 0; i < repetitions; ++i) {
    auto start = Clock::now();
    f();
    best = std::min(best, seconds_since(start));
  }
  return best;
}

double copy_bandwidth(ThreadPool& pool) {
  size_t bytes = std::clamp<size_t>(2 * device::host().l3_bytes, size_t{64} << 20, size_t{256} << 20);
  auto from = std::make_unique<char[]>(bytes), to = std::make_unique<char[]>(bytes);
  int64_t parts = pool.size();
  auto part = static_cast<int64_t>(bytes) / parts;
  double s = best_seconds(6, [&] {
    pool.parallel_for(parts, [&](int64_t begin, int64_t end, int) {
      std::memcpy(to.get() + begin * part, from.get() + begin * part, static_cast<size_t>((end - begin) * part));
    });
  });
  return 2 * static_cast<double>(part * parts) / s / 1e9;
}

constexpr int kAccumulators = 12;  // enough to hide the latency of one by the others
constexpr int64_t kRounds = 1 << 20;

std::string peak_source(int lanes, bool fused) {
  std::string declare, step, sum;
  for (int i = 0; i < kAccumulators; ++i) {
    declare += fmt::format("  v a{0} = x + {0}.0f;\n", i);
    step += fmt::format(fmt::runtime(fused ? "    a{0} = __builtin_elementwise_fma(a{0}, x, y);\n" : "    a{0} = a{0} * x + y;\n"), i);
    sum += fmt::format("{}a{}", i ? " + " : "", i);
  }
  return fmt::format(
      "typedef float v __attribute__((ext_vector_type({})));\n"
      "void peak(float* out, long rounds, float sx, float sy) {{\n  v x = sx, y = sy;\n{}"
      "  for (long i = 0; i < rounds; ++i) {{\n{}  }}\n  v s = {};\n  *out = s[0] + s[1];\n}}\n",
      lanes, declare, step, sum);
}

double fma_peak(ThreadPool& pool) {
  auto isa = device::usable_isa(CompileOptions::of_process().get(options::kIsa));
  int lanes = isa == device::Isa::Avx512 ? 16 : isa == device::Isa::Avx2 ? 8 : 4;
  auto artefact = jit::compile_c({.source = peak_source(lanes, isa != device::Isa::Scalar)});
  auto code = device::LoadedCode::load(artefact.object, {}, "peak");
  auto* peak = code->function<void(float*, long, float, float)>("peak");
  std::vector<float> out(static_cast<size_t>(pool.size()) * 16);
  double s = best_seconds(5, [&] {
    pool.parallel_for(pool.size(), [&](int64_t begin, int64_t end, int) {
      for (int64_t t = begin; t < end; ++t) peak(&out[static_cast<size_t>(t) * 16], kRounds, 0.5f, 1.0f);
    });
  });
  return 2.0 * lanes * kAccumulators * static_cast<double>(kRounds) * pool.size() / s / 1e9;
}

}  // namespace

MachineLimits measure_machine() {
  ThreadPool& pool = ThreadPool::global();
  return {{}, pool.size(), copy_bandwidth(pool), fma_peak(pool)};
}

MachineLimits measure_gpu(int index) {
  constexpr size_t kBytes = size_t{1} << 30;  // many times what the caches hold
  constexpr int kRepetitions = 10;
  device::cuda::Gpu& gpu = device::cuda::gpu(index);
  auto from = gpu.allocate(kBytes), to = gpu.allocate(kBytes);
  gpu.fill_zero(from.get(), kBytes);
  double best_ms = 1e30;
  for (int i = 0; i < kRepetitions; ++i) best_ms = std::min(best_ms, gpu.time_ms([&] { gpu.copy_within(to.get(), from.get(), kBytes); }));
  MachineLimits out;
  out.gpu = gpu.info().name;
  out.copy_gb_per_s = 2.0 * static_cast<double>(kBytes) / best_ms / 1e6;
  return out;
}

}  // namespace toroid::cli
