#include "exec/record/gpu_recording.h"

#include <algorithm>

#include "base/check.h"
#include "base/log.h"
#include "toroid/device_error.h"

namespace toroid::exec {

void GpuRecording::record(const std::function<void()>& steps) { graph_ = gpu_.record(steps); }

void GpuRecording::add(const Launch& launch, const Symbols& symbols, const BoundStep& s, std::vector<void*> pointers,
                       std::span<const int> slots) {
  auto entry = std::unique_ptr<Entry>(new Entry{{launch, *s.kernel, symbols}, nullptr, std::move(pointers)});
  entry->launch.run(gpu_, entry->pointers);
  for (size_t i = 0; i < slots.size(); ++i)
    if (slots[i] >= 0) moving_.add(slots[i], entry->pointers[i], entry.get(), i);
  entry->node = gpu_.recorded_node();
  entries_.push_back(std::move(entry));
}

int64_t GpuRecording::spread(const Order& order) {
  const int64_t width = width_of(order);
  if (width < 2 || entries_.size() != order.size()) return 1;
  std::vector<device::cuda::CUgraphNode> nodes;
  std::unique_ptr<device::cuda::Graph> graph;
  try {
    graph = gpu_.record([&] {
      for (size_t i = 0; i < order.size(); ++i) {
        std::vector<device::cuda::CUgraphNode> before;
        for (size_t b : order[i]) before.push_back(nodes[b]);
        gpu_.record_after(before);
        entries_[i]->launch.run(gpu_, entries_[i]->pointers);
        nodes.push_back(gpu_.recorded_node());
      }
    });
  } catch (const DeviceError& e) {
    if (!e.is(DeviceErrorCode::OutOfMemory)) throw;
    log(Artifact::Captures, fmt::format("launches stay one after the other: {}", e.what()));
    return 1;
  }
  constexpr int kRounds = 5;
  constexpr double kWorthwhile = 0.98;
  double least[2] = {1e30, 1e30};
  for (int r = 0; r < kRounds; ++r)
    for (int i = 0; i < 2; ++i) least[i] = std::min(least[i], gpu_.time_ms([&] { gpu_.launch(i == 0 ? *graph_ : *graph); }));
  log(Artifact::Captures, fmt::format("{} launches: {:.1f} us one after the other, {:.1f} us with up to {} at a time", order.size(),
                                      1e3 * least[0], 1e3 * least[1], width));
  if (least[1] > kWorthwhile * least[0]) return 1;
  graph_ = std::move(graph);
  for (size_t i = 0; i < nodes.size(); ++i) entries_[i]->node = nodes[i];
  return width;
}

void GpuRecording::set_pointers(size_t i, std::span<void* const> pointers) {
  Entry& e = *entries_.at(i);
  e.pointers.assign(pointers.begin(), pointers.end());
  e.launch.rebind(*graph_, e.node, e.pointers);
  moving_.forget();
}

int64_t GpuRecording::replay(std::span<void* const> at) {
  int64_t changed = 0;
  moving_.follow(
      at, [](Entry& e, size_t position, void* now) { e.pointers[position] = now; },
      [&](Entry& e) { changed += e.launch.rebind(*graph_, e.node, e.pointers); });
  gpu_.launch(*graph_);
  return changed;
}

int64_t GpuRecording::bytes() const { return forecast(graph_ ? graph_->nodes() : 0); }

int64_t GpuRecording::forecast(size_t launches) { return device::cuda::GraphMemory::share(launches); }

}  // namespace toroid::exec
