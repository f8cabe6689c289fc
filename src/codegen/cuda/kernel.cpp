#include "codegen/cuda/kernel.h"

#include "codegen/cuda/writer.h"

namespace toroid::codegen {

KernelText generate_cuda_loop(const loop::Domain& d, const loop::Body& b, const device::cuda::GpuInfo& gpu,
                              const std::set<int>& constants) {
  CudaPlan plan = make_cuda_plan(d, b, {gpu.is_hopper(), constants});
  CudaArguments arguments;
  const std::string body = CudaWriter(plan, arguments).kernel_body();
  KernelText k = arguments.kernel(name_kernel(plan.body), body, plan.block, plan.wide, plan.blocks, plan.overlaps);
  k.tasks = plan.grid;
  k.plan = to_string(plan);
  return k;
}

}  // namespace toroid::codegen
