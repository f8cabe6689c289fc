#include "exec/run/gpu_timing.h"

#include <algorithm>

namespace toroid::exec {
namespace {

constexpr int kRuns = 16;
constexpr int64_t kSmallWeights = 1 << 20;

double replay_ms(device::cuda::Gpu& gpu, const std::function<void()>& once) {
  const auto graph = gpu.record([&] {
    for (int i = 0; i < kRuns; ++i) once();
  });
  gpu.launch(*graph);
  const double ms = gpu.time_ms([&] { gpu.launch(*graph); });
  gpu.synchronize();
  return ms / kRuns;
}

}  // namespace

int64_t time_repeatedly(device::cuda::Gpu& gpu, const std::function<void()>& work, int64_t weights) {
  work();
  const auto cache = static_cast<int64_t>(gpu.info().l2_bytes);
  if (weights < kSmallWeights || weights > 2 * cache) return static_cast<int64_t>(replay_ms(gpu, work) * 1e6);
  const auto bytes = static_cast<size_t>(2 * cache);
  const std::shared_ptr<void> other = gpu.allocate(bytes);
  const auto flush = [&] { gpu.fill_zero(other.get(), bytes); };
  const double both = replay_ms(gpu, [&] { flush(), work(); });
  return static_cast<int64_t>(std::max(both - replay_ms(gpu, flush), 0.0) * 1e6);
}

}  // namespace toroid::exec
