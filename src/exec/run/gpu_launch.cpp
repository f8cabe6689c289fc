#include "exec/run/gpu_launch.h"

namespace toroid::exec {

GpuLaunch::GpuLaunch(const Launch& launch, const KernelCode& code, const Symbols& symbols)
    : kernel_(code.gpu),
      shape_{evaluate(launch.tasks, symbols), launch.gpu.threads, launch.gpu.shared_bytes, launch.gpu.overlaps},
      arguments_(
          launch.gpu.tensor_maps, evaluate(launch.params, symbols),
          launch.buffers.size() + !(launch.gpu.scratch_bytes == Expr(0)) + !(launch.gpu.counters == Expr(0)),
          [&](const Expr& e) { return evaluate(e, symbols); }, launch.gpu.together) {}

void GpuLaunch::run(device::cuda::Gpu& gpu, std::span<void* const> pointers) {
  arguments_.set_pointers(pointers);
  gpu.launch(kernel_, shape_, arguments_.list());
}

void GpuLaunch::put_into(device::cuda::Graph& graph, device::cuda::CUgraphNode node) const {
  graph.set_arguments(node, kernel_, shape_, arguments_.list());
}

}  // namespace toroid::exec
