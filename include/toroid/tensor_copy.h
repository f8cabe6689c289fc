// Copies between host and device that go on beside the host, and the pinned memory that they need.
#pragma once

#include "toroid/device_stream.h"
#include "toroid/tensor.h"

namespace toroid {

// The same elements in memory of the host that the device copies from and to by itself (or t, when it lies in such memory). t must be on
// the CPU. For the CPU as the device any memory is such.
Tensor pin_memory(const Tensor& t, const Device& device = Device::cuda());
bool is_pinned(const Tensor& t, const Device& device = Device::cuda());

// Starts to copy the elements of `from` into `to` on the current stream of the device that either is on (PyTorch's copy_ with
// non_blocking). Until the stream has come past it `from` must not be changed, and `to` not be read, by others. Without pinned memory on
// the host's side the call may wait. Both must have the same sizes and dtype and be contiguous: UserError. Can be captured.
void copy_async(const Tensor& to, const Tensor& from);

// Tells that work on a stream uses t, which was made for work of another: its memory is handed out again when that work is done too.
void record_stream(const Tensor& t, const Stream& stream);

}  // namespace toroid
