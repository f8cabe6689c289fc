// A launch on a GPU.
#pragma once

#include <span>

#include "device/cuda/arguments.h"
#include "exec/load.h"
#include "exec/run/sizes.h"

namespace toroid::exec {

// One launch on a GPU, with its sizes known.
class GpuLaunch {
 public:
  GpuLaunch(const Launch& launch, const KernelCode& code, const Symbols& symbols);
  // pointers: of the buffers, then scratch memory and counters where the kernel takes them.
  void run(device::cuda::Gpu& gpu, std::span<void* const> pointers);
  // Takes other pointers for what follows; whether they differ from those before.
  bool set_pointers(std::span<void* const> pointers) { return arguments_.set_pointers(pointers); }
  // Gives them to a recorded launch of this kernel.
  void put_into(device::cuda::Graph& graph, device::cuda::CUgraphNode node) const;

 private:
  const device::cuda::Kernel& kernel_;
  device::cuda::LaunchShape shape_;
  device::cuda::Arguments arguments_;
};

}  // namespace toroid::exec
