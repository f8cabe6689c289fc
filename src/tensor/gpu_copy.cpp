#include "base/check.h"
#include "device/cuda/gpu.h"
#include "tensor/tensor_impl.h"

namespace toroid {

void copy_with_gpu(const Tensor& from, const Tensor& to) {
  const Device source = from.device(), target = to.device();
  if (from.dtype() == to.dtype() && from.is_contiguous() && to.is_contiguous()) {
    const size_t bytes = static_cast<size_t>(from.numel()) * size_of(from.dtype());
    if (bytes == 0) return;
    if (!source.is_cuda()) return device::cuda::gpu(target.index).copy_in(to.raw_data(), from.raw_data(), bytes);
    if (!target.is_cuda()) return device::cuda::gpu(source.index).copy_out(to.raw_data(), from.raw_data(), bytes);
    if (source == target) {
      keep_for_capture(source, from);
      keep_for_capture(source, to);
      return device::cuda::gpu(source.index).copy_within(to.raw_data(), from.raw_data(), bytes);
    }
  }
  const Tensor host = from.to(Device::cpu());
  if (!target.is_cuda()) return copy_elements(host, to);
  if (!to.is_contiguous()) {  // what lies between its elements stays as it is
    const Tensor image = to.to(Device::cpu());
    copy_elements(host, image);
    const std::vector<int64_t> extent{static_cast<int64_t>(image.impl()->storage->bytes / size_of(image.dtype()))}, one{1};
    return copy_with_gpu(image.as_strided(extent, one), to.as_strided(extent, one));
  }
  Tensor dense = Tensor::empty(host.sizes(), to.dtype());
  copy_elements(host, dense);
  copy_with_gpu(dense, to);
}

}  // namespace toroid
