#include "toroid/tensor_copy.h"

#include "base/check.h"
#include "device/cuda/cuda_runtime.h"
#include "device/runtime.h"
#include "tensor/tensor_impl.h"

namespace toroid {
namespace {

device::DeviceMemory& pinned_memory_for(const Device& d) {
  return d.is_cuda() ? device::cuda::pinned_memory(d.index) : device::memory_of(d);
}

size_t bytes_of(const Tensor& t) { return static_cast<size_t>(t.numel()) * size_of(t.dtype()); }

}  // namespace

bool is_pinned(const Tensor& t, const Device& device) {
  if (t.device().is_cuda()) return false;
  return !device.is_cuda() || pinned_memory_for(device).default_pool()->holds(t.raw_data());
}

Tensor pin_memory(const Tensor& t, const Device& device) {
  TOROID_USER_CHECK(!t.device().is_cuda(), "memory of {} cannot be pinned: that is for tensors on the CPU", to_string(t.device()));
  if (is_pinned(t, device)) return t;
  auto owner = pinned_memory_for(device).allocate(bytes_of(t));
  void* data = owner.get();
  Tensor out = Tensor::from_blob(data, t.sizes(), t.dtype(), {}, std::move(owner));
  copy_elements(t, out);
  return out;
}

void copy_async(const Tensor& to, const Tensor& from) {
  TOROID_USER_CHECK(to.sizes() == from.sizes() && to.dtype() == from.dtype(),
                    "copy_async of {} elements of {} to {} of {}: sizes and dtypes must be the same", from.numel(), name_of(from.dtype()),
                    to.numel(), name_of(to.dtype()));
  TOROID_USER_CHECK(to.is_contiguous() && from.is_contiguous(), "copy_async between tensors that are not contiguous");
  const Device device = to.device().is_cuda() ? to.device() : from.device();
  TOROID_USER_CHECK(!from.device().is_cuda() || from.device() == device, "copy_async from {} to {}", to_string(from.device()),
                    to_string(device));
  auto stream = device::runtime_of(device).current_stream();
  stream->copy(to.raw_data(), from.raw_data(), bytes_of(to));
  to.impl()->storage->writes.note();
  for (const Tensor* t : {&to, &from}) {
    keep_for_capture(device, *t);
    if (device.is_cuda() && is_pinned(*t, device)) pinned_memory_for(device).record_stream(t->raw_data(), stream->key());
  }
}

void record_stream(const Tensor& t, const Stream& stream) {
  TOROID_USER_CHECK(stream.impl(), "record_stream: the stream was moved from");
  device::memory_of(t.device()).record_stream(t.raw_data(), stream.impl()->key());
}

void keep_for_capture(const Device& device, const Tensor& t) {
  if (!device::captures_under_way()) return;
  device::Runtime& runtime = device::runtime_of(device);
  device::Capture* capture = runtime.current_capture();
  if (!capture) return;
  if (auto pool = runtime.memory().current_pool(); !pool || !pool->holds(t.raw_data())) capture->retain(t.impl()->storage);
}

}  // namespace toroid
