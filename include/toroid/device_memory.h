// Memory of devices: private pools, statistics.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "toroid/device.h"

namespace toroid {

namespace device {
class MemoryPool;
class PoolScope;
}  // namespace device

// Bytes. Reserved is what has been taken from the device: what is in use, and what is kept for later allocations.
struct MemoryStats {
  size_t allocated = 0, peak = 0;  // of allocated
  size_t reserved = 0, peak_reserved = 0;
  size_t allocations = 0, segments = 0;  // blocks in use, pieces of the device's memory
};

// A private pool of a device's memory: its free blocks serve nobody else. A handle; the memory goes back to the device when the last
// handle, graph and tensor that uses it is gone.
class MemPool {
 public:
  MemPool() = default;  // no pool
  explicit MemPool(const Device& device);
  explicit MemPool(std::shared_ptr<device::MemoryPool> pool) : pool_(std::move(pool)) {}

  uint64_t id() const;  // of one device; 0: no pool, or the default one
  Device device() const;
  MemoryStats stats() const;
  const std::shared_ptr<device::MemoryPool>& impl() const { return pool_; }
  explicit operator bool() const { return pool_ != nullptr; }
  bool operator==(const MemPool&) const = default;

 private:
  std::shared_ptr<device::MemoryPool> pool_;
};

// Tensors that this thread makes on the pool's device lie in the pool, for the life of this object. UserError for no pool.
class MemPoolScope {
 public:
  explicit MemPoolScope(const MemPool& pool);
  ~MemPoolScope();
  MemPoolScope(const MemPoolScope&) = delete;
  MemPoolScope& operator=(const MemPoolScope&) = delete;

 private:
  std::unique_ptr<device::PoolScope> scope_;
};

// A pool for several graphs to share: graphs that are replayed in the order of their capture may (see CudaGraph).
MemPool graph_pool_handle(const Device& device = Device::cuda());

// Of all pools of a device together. On the CPU what tensors use outside of pools counts as allocated and reserved.
MemoryStats memory_stats(const Device& device);
void reset_peak_memory_stats(const Device& device);
// Gives what is kept for later allocations back to the device, except memory that graphs may still use.
void empty_cache(const Device& device);
// For people: the sums, and a line a pool.
std::string memory_summary(const Device& device);

}  // namespace toroid
