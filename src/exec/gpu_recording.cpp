#include "exec/gpu_recording.h"

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

bool GpuLaunch::rebind(device::cuda::Graph& graph, device::cuda::CUgraphNode node, std::span<void* const> pointers) {
  if (!arguments_.set_pointers(pointers)) return false;
  graph.set_arguments(node, launch_.gpu.kernel, shape_, arguments_.list());
  return true;
}

void GpuRecording::record(const std::function<void()>& steps) {
  graph_ = gpu_.record(steps);
  for (auto& e : entries_)
    if (!e->moving.empty()) moving_.push_back(e.get());
}

void GpuRecording::add(const Launch& launch, const Symbols& symbols, const BoundStep&, std::vector<void*> pointers,
                       std::span<const int> slots) {
  auto entry = std::unique_ptr<Entry>(new Entry{{launch, symbols}, nullptr, std::move(pointers), {}});
  entry->launch.run(gpu_, entry->pointers);
  for (size_t i = 0; i < slots.size(); ++i)
    if (slots[i] >= 0) entry->moving.emplace_back(i, slots[i]);
  entry->node = gpu_.recorded_node();
  entries_.push_back(std::move(entry));
}

void GpuRecording::set_pointers(size_t i, std::span<void* const> pointers) {
  Entry& e = *entries_.at(i);
  e.pointers.assign(pointers.begin(), pointers.end());
  e.launch.rebind(*graph_, e.node, e.pointers);
}

int64_t GpuRecording::replay(std::span<void* const> at) {
  int64_t changed = 0;
  for (Entry* e : moving_) {
    for (auto& [position, slot] : e->moving) e->pointers[position] = at[static_cast<size_t>(slot)];
    changed += e->launch.rebind(*graph_, e->node, e->pointers);
  }
  gpu_.launch(*graph_);
  return changed;
}

int64_t GpuRecording::bytes() const { return forecast(graph_ ? graph_->nodes() : 0); }

int64_t GpuRecording::forecast(size_t launches) { return device::cuda::GraphMemory::share(launches); }

}  // namespace toroid::exec
