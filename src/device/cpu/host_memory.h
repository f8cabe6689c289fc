// The memory of the host, as that of a device.
#pragma once

#include "device/memory.h"

namespace toroid::device {

// From so many bytes on memory of the host asks for huge pages.
inline constexpr size_t kHugePagesFrom = size_t{4} << 20;

// Where memory of the host comes from, in place of malloc. Functions are called by any thread, several at once, and throw nothing.
struct HostAllocator {
  void* (*allocate)(void* user, size_t bytes, size_t alignment) = nullptr;  // null where there is not enough
  void (*release)(void* user, void* memory, size_t bytes, size_t alignment) = nullptr;
  void* user = nullptr;
};
// From now on; null: malloc again. What an allocator gave goes back to it, so that it must work as long as that is in use.
void set_host_allocator(const HostAllocator* allocator);

// Never destroyed: tensors may outlive main.
DeviceMemory& host_memory();

}  // namespace toroid::device
