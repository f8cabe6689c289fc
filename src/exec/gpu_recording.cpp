#include "exec/gpu_recording.h"

#include <algorithm>

namespace toroid::exec {

GpuLaunch::GpuLaunch(const Launch& launch, const Symbols& symbols)
    : launch_(launch),
      shape_{evaluate(launch.tasks, symbols), launch.gpu.threads, launch.gpu.shared_bytes, launch.gpu.overlaps},
      arguments_(launch.gpu.tensor_maps, evaluate(launch.params, symbols),
                 launch.buffers.size() + !(launch.gpu.scratch_bytes == Expr(0)) + !(launch.gpu.counters == Expr(0)),
                 [&](const Expr& e) { return evaluate(e, symbols); }) {}

void GpuLaunch::run(device::cuda::Gpu& gpu, std::span<void* const> pointers) {
  arguments_.set_pointers(pointers);
  gpu.launch(launch_.gpu.kernel, shape_, arguments_.list());
}

void GpuLaunch::rebind(device::cuda::Graph& graph, device::cuda::CUgraphNode node, std::span<void* const> pointers) {
  if (arguments_.set_pointers(pointers)) graph.set_arguments(node, launch_.gpu.kernel, shape_, arguments_.list());
}

void GpuRecording::add(device::cuda::Gpu& gpu, const Launch& launch, const Symbols& symbols, std::vector<void*> pointers,
                       std::vector<int> slots) {
  auto entry = std::unique_ptr<Entry>(new Entry{{launch, symbols}, nullptr, std::move(pointers), {}});
  entry->launch.run(gpu, entry->pointers);
  for (size_t i = 0; i < slots.size(); ++i)
    if (slots[i] >= 0) entry->moving.emplace_back(i, slots[i]);
  if (entry->moving.empty() || evaluate(launch.tasks, symbols) <= 0) return;
  entry->node = gpu.recorded_node();
  entries_.push_back(std::move(entry));
}

bool GpuRecording::serves(std::span<void* const> at) const {
  return std::all_of(fixed_.begin(), fixed_.end(), [&](auto& f) { return at[static_cast<size_t>(f.first)] == f.second; });
}

void GpuRecording::replay(device::cuda::Gpu& gpu, std::span<void* const> at) {
  for (auto& e : entries_) {
    for (auto& [position, slot] : e->moving) e->pointers[position] = at[static_cast<size_t>(slot)];
    e->launch.rebind(*graph_, e->node, e->pointers);
  }
  gpu.launch(*graph_);
}

}  // namespace toroid::exec
