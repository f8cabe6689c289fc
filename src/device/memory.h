// Memory of a device: a caching allocator with private pools, whose states can be kept and restored.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "toroid/device_memory.h"

namespace toroid::device {

// A stream, as far as memory is concerned: what was freed in the order of one stream is handed out again in that order.
using StreamKey = const void*;

// Where the segments of a device's memory come from, and what the allocator has to know of the device's work.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  virtual Device device() const = 0;
  virtual std::string description() const = 0;    // "cuda:0 (NVIDIA H200)"
  virtual size_t total_bytes() const = 0;         // of the device
  virtual void* allocate(size_t bytes) = 0;       // null where there is not enough; at a multiple of 512
  virtual void free(void* p, size_t bytes) = 0;   // after synchronize()
  virtual bool can_free() const { return true; }  // false while work is captured
  virtual void synchronize() {}                   // waits until nothing that was started uses freed memory
  virtual StreamKey current_stream() const { return nullptr; }
  // Whether the source has a cache of its own: then allocations outside of private pools are made by it (null: not enough), and counted
  // there.
  virtual bool caches() const { return false; }
  virtual std::shared_ptr<void> allocate_directly(size_t) { return nullptr; }
  virtual MemoryStats direct_stats() const { return {}; }
  virtual void reset_direct_peak() {}
  // A point in a stream's work, and whether it has been passed. Null: passed at once.
  virtual std::shared_ptr<void> mark(StreamKey) { return nullptr; }
  virtual bool passed(void*) { return true; }
};

class DeviceMemory;

// Blocks that are in use, at their addresses: what a pool is brought back to.
struct PoolState {
  struct Block {
    std::byte* address = nullptr;
    size_t bytes = 0;
    StreamKey stream = nullptr;
  };
  uint64_t pool = 0;
  std::vector<Block> used;  // by address
};

// Segments of memory that share their free blocks with no other pool. It lives as long as a handle or one of its allocations; then its
// segments go back to the device. All members may be called from any thread.
class MemoryPool : public std::enable_shared_from_this<MemoryPool> {
 public:
  MemoryPool(DeviceMemory& memory, uint64_t id) : memory_(memory), id_(id) {}
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  uint64_t id() const { return id_; }  // 0: the default pool of its device
  DeviceMemory& memory() const { return memory_; }
  Device device() const;
  MemoryStats stats() const;

  // At least `bytes`, at a multiple of 512, for work of the calling thread's current stream. EnvironmentError (out of memory) where even
  // after giving back all that is unused there is not enough.
  std::shared_ptr<void> allocate(size_t bytes);
  // Whether an address lies in a segment of the pool; and in a block that is in use.
  bool holds(const void* p) const;
  bool in_use(const void* p) const;
  // Bytes of the block in use that begins at p; 0 for other addresses.
  size_t block_bytes(const void* p) const;

  // The blocks in use, to come back to.
  PoolState checkpoint() const;
  // The blocks in use become those of `state` whose addresses `live` lists; all other memory of the pool is free. The handles of all
  // allocations made before own nothing any more: the new ones come back, in the order of `live`. Segments that the pool has got since stay
  // with it. InternalError where an address of `live` is not one of the state, or the state is of another pool.
  std::vector<std::shared_ptr<void>> restore(const PoolState& state, std::span<void* const> live);

  // While pinned, segments without a block in use stay: recorded work has their addresses.
  void pin();
  void unpin();

 private:
  friend class DeviceMemory;
  struct Block {
    size_t bytes = 0;
    StreamKey stream = nullptr;
    uint64_t owner = 0;             // of the handle; 0: free
    std::vector<StreamKey> others;  // streams besides its own that use it
    bool is_used() const { return owner != 0 && owner != kKept; }
  };
  using Blocks = std::map<std::byte*, Block>;
  // The latest small blocks to be given back stay whole for a while: who asks for as much again, as steady calls do for their results,
  // gets one without a search. To the rest they are in use until they are joined with their neighbours.
  static constexpr uint64_t kKept = ~uint64_t{0};
  static constexpr size_t kMostKept = 4;
  using FreeKey = std::tuple<StreamKey, bool, size_t, std::byte*>;  // stream, small, bytes, address
  struct Segment {
    size_t bytes = 0;
    bool small = false;
  };
  // All with the mutex of the device's memory held.
  Blocks::iterator take(size_t bytes, StreamKey stream);  // blocks_.end(): there is none
  void add_segment(std::byte* p, size_t bytes, bool small, StreamKey stream);
  void make_free(Blocks::iterator block);
  void join(Blocks::iterator block);  // which nobody uses, with free neighbours
  void join_kept();
  std::shared_ptr<void> handle(Blocks::iterator block);
  void use(Blocks::iterator block, size_t bytes);
  void count_use(Blocks::iterator block);
  std::map<std::byte*, Segment>::const_iterator segment_of(const std::byte* p) const;
  std::vector<std::pair<void*, size_t>> take_unused_segments();

  DeviceMemory& memory_;
  const uint64_t id_;
  std::map<std::byte*, Segment> segments_;
  Blocks blocks_;
  std::set<FreeKey> free_;
  std::array<Blocks::iterator, kMostKept> kept_;  // the latest last
  size_t kept_count_ = 0;
  uint64_t restores_ = 0;  // handles made before the latest one know nothing of blocks_
  MemoryStats stats_;
  int pins_ = 0;
};

// All memory of a device that this process has.
class DeviceMemory {
 public:
  explicit DeviceMemory(std::unique_ptr<MemorySource> source);
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  MemorySource& source() const { return *source_; }
  // From the pool that the calling thread's innermost scope for this device names, else from the default one.
  std::shared_ptr<void> allocate(size_t bytes);
  // The one that allocate() takes from; null: the default one.
  std::shared_ptr<MemoryPool> current_pool() const;
  const std::shared_ptr<MemoryPool>& default_pool() const { return default_pool_; }
  std::shared_ptr<MemoryPool> make_pool();

  // Tells that work of another stream than the one it was allocated for uses a block: it is handed out again when that has passed too.
  void record_stream(const void* p, StreamKey stream);
  // Over all pools; the peak is that of the sum.
  MemoryStats stats() const;
  void reset_peak();
  // Gives segments without a block in use back to the device, except those of pinned pools.
  void release_unused();
  // "2.0 GiB in use, ...", and a line a pool.
  std::string summary() const;

 private:
  friend class MemoryPool;
  std::shared_ptr<void> allocate(MemoryPool& pool, size_t bytes);
  void give_back(MemoryPool& pool, MemoryPool::Blocks::iterator block, uint64_t owner, uint64_t restores);
  void retire(MemoryPool& pool);
  // With the mutex held.
  void release_unused_locked();
  void settle_pending();
  void free_orphans();
  MemoryStats stats_locked() const;
  std::string summary_locked() const;
  [[noreturn]] void fail_out_of_memory(const MemoryPool& pool, size_t bytes) const;
  void count(MemoryPool& pool, int64_t allocated, int64_t reserved);

  // A block that waits for streams besides its own.
  struct Pending {
    std::shared_ptr<MemoryPool> pool;
    std::byte* address;
    uint64_t owner;
    std::vector<StreamKey> unmarked;  // freed while work was captured: marked later
    std::vector<std::shared_ptr<void>> marks;
  };

  std::unique_ptr<MemorySource> source_;
  mutable std::recursive_mutex mutex_;  // of all below, and of the pools; the last handle of a pool may go while it is held
  uint64_t next_owner_ = 1;
  MemoryStats stats_;
  std::map<uint64_t, MemoryPool*> pools_;
  std::vector<std::pair<void*, size_t>> orphans_;  // segments of pools that are gone, to be freed when that can be
  std::vector<Pending> pending_;
  std::shared_ptr<MemoryPool> default_pool_;
};

// Directs allocations of the calling thread on the pool's device into it, until the end of this object; scopes nest.
class PoolScope {
 public:
  explicit PoolScope(std::shared_ptr<MemoryPool> pool);
  ~PoolScope();
  PoolScope(const PoolScope&) = delete;
  PoolScope& operator=(const PoolScope&) = delete;

  // Sets all scopes of the calling thread aside; puts them back.
  static PoolScope* suspend() { return std::exchange(innermost_, nullptr); }
  static void resume(PoolScope* scopes) { innermost_ = scopes; }

 private:
  friend class DeviceMemory;
  std::shared_ptr<MemoryPool> pool_;
  PoolScope* outer_;
  static inline thread_local PoolScope* innermost_ = nullptr;
};

// The memory of a device, made at the first call. EnvironmentError where there is no such device.
DeviceMemory& memory_of(const Device& device);

// "512 bytes", "1.50 MiB".
std::string bytes_text(size_t bytes);

}  // namespace toroid::device
