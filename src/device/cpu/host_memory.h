// The memory of the host, as that of a device.
#pragma once

#include "device/memory.h"

namespace toroid::device {

// From so many bytes on memory of the host asks for huge pages.
inline constexpr size_t kHugePagesFrom = size_t{4} << 20;

// Never destroyed: tensors may outlive main.
DeviceMemory& host_memory();

}  // namespace toroid::device
