#include "backend/backend.h"

#include "backend/cpu/cpu_backend.h"
#include "backend/cuda/cuda_backend.h"

namespace toroid::backend {

std::unique_ptr<Backend> make_backend(const Device& device, const CompileOptions& options, const device::cuda::GpuInfo* absent) {
  if (!device.is_cuda()) return make_cpu_backend(options, absent != nullptr);
  return make_cuda_backend(device.index, absent ? *absent : device::cuda::gpu(device.index).info(), options);
}

std::vector<PassTable> pass_tables() {
  std::vector<PassTable> out;
  for (auto to : {program::Stage::Lowered, program::Stage::Scheduled}) {
    out.push_back({"cpu", to, cpu_passes(to)});
    out.push_back({"cuda", to, cuda_passes(to)});
  }
  return out;
}

}  // namespace toroid::backend
