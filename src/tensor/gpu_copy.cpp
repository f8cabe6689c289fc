#include "base/check.h"
#include "device/cuda/gpu.h"
#include "tensor/dispatch.h"
#include "tensor/late_stack.h"
#include "tensor/layout.h"
#include "tensor/upload.h"

namespace toroid {

namespace {
constexpr size_t kWorthThreads = size_t{32} << 20;
}

void upload(std::span<const CopyPair> pairs) {
  std::vector<device::cuda::HostBlock> blocks;
  std::vector<Tensor> kept;
  for (auto& p : pairs) {
    std::byte* to = p.to.raw_data();
    for (auto& part : late_parts(p.from)) {
      kept.push_back(made_dense(part));
      const size_t bytes = static_cast<size_t>(part.numel()) * size_of(part.dtype());
      blocks.push_back({to, kept.back().raw_data(), bytes});
      to += bytes;
    }
  }
  if (!blocks.empty()) device::cuda::gpu(pairs[0].to.device().index).upload(blocks);
}

void copy_with_gpu(const Tensor& from, const Tensor& to) {
  const Device source = from.device(), target = to.device();
  if (from.dtype() == to.dtype() && from.is_contiguous() && to.is_contiguous()) {
    const size_t bytes = static_cast<size_t>(from.numel()) * size_of(from.dtype());
    if (bytes == 0) return;
    const CopyPair pair{from, to};
    if (!source.is_cuda() && bytes >= kWorthThreads) return upload({&pair, 1});
    if (!source.is_cuda()) return device::cuda::gpu(target.index).copy_in(to.raw_data(), from.raw_data(), bytes);
    if (!target.is_cuda()) return device::cuda::gpu(source.index).copy_out(to.raw_data(), from.raw_data(), bytes);
    if (source == target) {
      keep_for_capture(source, from);
      keep_for_capture(source, to);
      return device::cuda::gpu(source.index).copy_within(to.raw_data(), from.raw_data(), bytes);
    }
  }
  if (Dispatcher* eager = eager_dispatcher(); source == target && eager && eager->copy(from, to)) return;
  const Tensor host = moved(from, Device::cpu());
  if (!target.is_cuda()) return copy_elements(host, to);
  if (!to.is_contiguous()) {  // what lies between its elements stays as it is
    const Tensor image = moved(to, Device::cpu());
    copy_elements(host, image);
    const std::vector<int64_t> extent{static_cast<int64_t>(image.impl()->storage->bytes / size_of(image.dtype()))}, one{1};
    return copy_with_gpu(seen_as(image, extent, one), seen_as(to, extent, one));
  }
  Tensor dense = Tensor::empty(host.sizes(), to.dtype());
  copy_elements(host, dense);
  copy_with_gpu(dense, to);
}

}  // namespace toroid
