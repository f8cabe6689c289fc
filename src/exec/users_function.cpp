#include "exec/users_function.h"

#include "base/check.h"
#include "base/index_fault.h"
#include "device/cuda/gpu.h"
#include "device/runtime.h"
#include "ops/cuda_kernels.h"
#include "ops/opaque.h"

namespace toroid::exec {
namespace {

// thrown: what the function threw, if it did, with the operation and the line of the call.
void refuse_broken_capture(const ops::Op& op, const device::cuda::Gpu& gpu, std::string thrown) {
  if (!gpu.capture_is_broken()) return;
  if (const std::string place = OperationPlace::current(); thrown.empty())
    thrown = ops::opaque_name(op) + (place.empty() ? "" : " (called at " + place + ")");
  fail<EnvironmentError>(
      "{}: a CUDA graph cannot record what its function for GPUs did: it waited for the GPU, or for work that the recording does not have; "
      "let it start work alone, or register it with CudaFunctionOptions{{.capturable = false}}",
      thrown);
}

}  // namespace

void run_cuda_function(const ops::Op& op, std::span<const Arg<Tensor>> args, std::span<const Tensor> outputs, const Device& device) {
  if (!ops::is_capturable(op))
    device::refuse_in_capture(device, ops::opaque_name(op) + ", whose function for GPUs was registered as not capturable");
  device::cuda::Gpu& gpu = device::cuda::gpu(device.index);
  gpu.use();
  try {
    ops::run_cuda_function(op, args, outputs, {gpu.stream(), device});
  } catch (const std::exception& e) {
    refuse_broken_capture(op, gpu, e.what());
    throw;
  }
  refuse_broken_capture(op, gpu, "");
}

}  // namespace toroid::exec
