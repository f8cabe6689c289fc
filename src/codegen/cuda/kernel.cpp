#include "codegen/cuda/kernel.h"

#include "codegen/cuda/writer.h"

namespace toroid::codegen {

KernelText generate_cuda_loop(const loop::Domain& d, const loop::Body& b) {
  CudaPlan plan = make_cuda_plan(d, b);
  CudaArguments arguments;
  const std::string body = CudaWriter(plan, arguments).kernel_body();
  KernelText k = arguments.kernel(name_kernel(plan.body), body, plan.block, plan.wide);
  k.tasks = plan.grid;
  k.plan = to_string(plan);
  return k;
}

}  // namespace toroid::codegen
