#include "device/cpu/host_memory.h"

#include <sys/mman.h>
#include <sys/sysinfo.h>

#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>

#include "base/check.h"
#include "device/faults.h"

namespace toroid::device {
namespace {

constexpr size_t kLine = 64, kHugePage = size_t{2} << 20;

// The allocator of now, null: malloc. Old ones stay, as memory goes back to them.
std::atomic<const HostAllocator*> current{nullptr};

void* take(const HostAllocator* from, size_t bytes, size_t align) {
  if (!from) return std::aligned_alloc(align, bytes);
  void* p = from->allocate(from->user, bytes, align);
  if (reinterpret_cast<uintptr_t>(p) % align == 0) return p;
  from->release(from->user, p, bytes, align);
  fail<UserError>("the allocator gave memory at {}, expected a multiple of {}, the alignment that it was asked for", p, align);
}

void give_back(const HostAllocator* to, void* p, size_t bytes, size_t align) {
  if (to)
    to->release(to->user, p, bytes, align);
  else
    std::free(p);
}

// Outside of private pools the allocator is the cache.
class HostSource final : public MemorySource {
 public:
  Device device() const override { return Device::cpu(); }
  std::string description() const override { return "cpu"; }
  size_t total_bytes() const override {
    struct sysinfo info = {};
    return sysinfo(&info) == 0 ? static_cast<size_t>(info.totalram) * info.mem_unit : 0;
  }
  // A spare page behind it, so that vectors may be read past the end of its last block.
  void* allocate(size_t bytes) override {
    const HostAllocator* from = current.load();
    void* p = take(from, bytes + kHugePage, kHugePage);
    if (p && !from) ask_for_huge_pages(p, bytes + kHugePage);
    if (p && from) {
      std::lock_guard lock(mutex_);
      segments_[p] = from;
    }
    return p;
  }
  void free(void* p, size_t bytes) override {
    const HostAllocator* to = nullptr;
    {
      std::lock_guard lock(mutex_);
      if (const auto at = segments_.find(p); at != segments_.end()) to = at->second, segments_.erase(at);
    }
    give_back(to, p, bytes + kHugePage, kHugePage);
  }

  bool caches() const override { return true; }
  std::shared_ptr<void> allocate_directly(size_t bytes) override {
    const HostAllocator* from = current.load();
    // Large memory asks for huge pages: packing the weights of a BERT costs a hundred page faults instead of eighty thousand.
    const bool large = bytes >= kHugePagesFrom;
    const size_t align = large ? kHugePage : kLine, size = (bytes + kLine + align - 1) / align * align;  // one spare line, see above
    if (take_fault(Fault::OutOfMemory)) return nullptr;
    // malloc finds the place, not aligned_alloc: glibc learns from what is freed which sizes are to stay in the process, and takes
    // aligned memory for smaller than what it asks the system for, so that each result of 12 MB would be cleared again.
    const bool by_malloc = large && !from;
    void* const base = by_malloc ? std::malloc(size + kHugePage) : take(from, size, align);
    if (!base) return nullptr;
    void* p = base;
    if (by_malloc) {
      p = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(base) + kHugePage - 1) / kHugePage * kHugePage);
      ask_for_huge_pages(p, size);
    }
    count(static_cast<int64_t>(bytes), 1);
    return {p, [this, from, base, bytes, size, align](void*) {
              give_back(from, base, size, align);
              count(-static_cast<int64_t>(bytes), -1);
            }};
  }
  MemoryStats direct_stats() const override {
    const auto now = static_cast<size_t>(bytes_.load()), most = static_cast<size_t>(peak_.load());
    return {now, most, now, most, static_cast<size_t>(allocations_.load()), 0};
  }
  void reset_direct_peak() override { peak_ = bytes_.load(); }

 private:
  // A wish: where it is refused, small pages do.
  static void ask_for_huge_pages(void* p, size_t bytes) { madvise(p, bytes, MADV_HUGEPAGE); }
  void count(int64_t bytes, int64_t allocations) {
    const int64_t now = bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    allocations_.fetch_add(allocations, std::memory_order_relaxed);
    int64_t most = peak_.load(std::memory_order_relaxed);
    while (now > most && !peak_.compare_exchange_weak(most, now, std::memory_order_relaxed)) {
    }
  }

  std::atomic<int64_t> bytes_{0}, allocations_{0}, peak_{0};
  std::mutex mutex_;
  std::map<void*, const HostAllocator*> segments_;  // of private pools, those that are not malloc's
};

}  // namespace

void set_host_allocator(const HostAllocator* allocator) {
  TOROID_USER_CHECK(!allocator || (allocator->allocate && allocator->release),
                    "an allocator needs two functions, which allocate and release; expected both, or no allocator");
  static std::mutex mutex;
  static std::deque<HostAllocator>& all = *new std::deque<HostAllocator>;
  std::lock_guard lock(mutex);
  current = allocator ? &all.emplace_back(*allocator) : nullptr;
}

DeviceMemory& host_memory() {
  static DeviceMemory& memory = *new DeviceMemory(std::make_unique<HostSource>());
  return memory;
}

}  // namespace toroid::device
