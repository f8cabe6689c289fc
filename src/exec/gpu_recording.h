// The launches of one call on a GPU, recorded as a graph: replayed by one launch, with the caller's memory put in their place.
#pragma once

#include <memory>

#include "exec/plan.h"
#include "exec/sizes.h"

namespace toroid::exec {

// One launch on a GPU, with its sizes known.
class GpuLaunch {
 public:
  GpuLaunch(const Launch& launch, const Symbols& symbols);
  // pointers: of the buffers, then scratch memory and counters where the kernel takes them.
  void run(device::cuda::Gpu& gpu, std::span<void* const> pointers);
  // Changes a recorded launch where the pointers differ from its own.
  void rebind(device::cuda::Graph& graph, device::cuda::CUgraphNode node, std::span<void* const> pointers);

 private:
  const Launch& launch_;
  device::cuda::LaunchShape shape_;
  device::cuda::Arguments arguments_;
};

class GpuRecording {
 public:
  // Within record(): launches, with the plan's buffer behind each pointer, or -1 for memory that never moves; and buffers whose
  // addresses are recorded for good.
  void add(device::cuda::Gpu& gpu, const Launch& launch, const Symbols& symbols, std::vector<void*> pointers, std::vector<int> slots);
  void fix(int slot, void* address) { fixed_.emplace_back(slot, address); }
  void record(device::cuda::Gpu& gpu, const std::function<void()>& steps) { graph_ = gpu.record(steps); }

  // Whether a replay at these addresses (of the plan's buffers) is possible.
  bool serves(std::span<void* const> at) const;
  void replay(device::cuda::Gpu& gpu, std::span<void* const> at);

 private:
  struct Entry {
    GpuLaunch launch;
    device::cuda::CUgraphNode node;
    std::vector<void*> pointers;
    std::vector<std::pair<size_t, int>> moving;  // position in pointers, buffer of the plan
  };
  std::vector<std::unique_ptr<Entry>> entries_;  // those with moving pointers
  std::vector<std::pair<int, void*>> fixed_;
  std::unique_ptr<device::cuda::Graph> graph_;
};

}  // namespace toroid::exec
