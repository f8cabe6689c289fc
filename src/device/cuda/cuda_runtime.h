// Streams, events, copies and graphs of an NVIDIA GPU.
#pragma once

#include "device/cuda/gpu.h"
#include "device/runtime.h"

namespace toroid::device::cuda {

// Of the GPU of an index, made at the first call. EnvironmentError where there is none.
Runtime& runtime(int index);

// Memory of the host that the GPU copies from and to while the host goes on.
DeviceMemory& pinned_memory(int index);

}  // namespace toroid::device::cuda
