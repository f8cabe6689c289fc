// The memory of the host, as that of a device.
#pragma once

#include "device/memory.h"

namespace toroid::device {

// Never destroyed: tensors may outlive main.
DeviceMemory& host_memory();

}  // namespace toroid::device
