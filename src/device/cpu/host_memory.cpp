#include "device/cpu/host_memory.h"

#include <sys/mman.h>
#include <sys/sysinfo.h>

#include <cstdlib>

#include "device/faults.h"

namespace toroid::device {
namespace {

constexpr size_t kLine = 64, kHugePage = size_t{2} << 20;

// Outside of private pools malloc is the cache.
class HostSource final : public MemorySource {
 public:
  Device device() const override { return Device::cpu(); }
  std::string description() const override { return "cpu"; }
  size_t total_bytes() const override {
    struct sysinfo info = {};
    return sysinfo(&info) == 0 ? static_cast<size_t>(info.totalram) * info.mem_unit : 0;
  }
  // A spare page behind it, so that vectors may be read past the end of its last block.
  void* allocate(size_t bytes) override { return aligned(bytes + kHugePage, kHugePage); }
  void free(void* p, size_t) override { std::free(p); }

  bool caches() const override { return true; }
  std::shared_ptr<void> allocate_directly(size_t bytes) override {
    // Large memory asks for huge pages: packing the weights of a BERT costs a hundred page faults instead of eighty thousand.
    const size_t align = bytes >= kHugePagesFrom ? kHugePage : kLine;
    const size_t size = (bytes + kLine + align - 1) / align * align;  // one spare line, see above
    void* p = take_fault(Fault::OutOfMemory) ? nullptr : aligned(size, align);
    if (!p) return nullptr;
    count(static_cast<int64_t>(bytes), 1);
    return {p, [this, bytes](void* memory) {
              std::free(memory);
              count(-static_cast<int64_t>(bytes), -1);
            }};
  }
  MemoryStats direct_stats() const override {
    const auto now = static_cast<size_t>(bytes_.load()), most = static_cast<size_t>(peak_.load());
    return {now, most, now, most, static_cast<size_t>(allocations_.load()), 0};
  }
  void reset_direct_peak() override { peak_ = bytes_.load(); }

 private:
  static void* aligned(size_t bytes, size_t align) {
    void* p = std::aligned_alloc(align, bytes);
    if (p && align == kHugePage) madvise(p, bytes, MADV_HUGEPAGE);  // a wish: where it is refused, small pages do
    return p;
  }
  void count(int64_t bytes, int64_t allocations) {
    const int64_t now = bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    allocations_.fetch_add(allocations, std::memory_order_relaxed);
    int64_t most = peak_.load(std::memory_order_relaxed);
    while (now > most && !peak_.compare_exchange_weak(most, now, std::memory_order_relaxed)) {
    }
  }

  std::atomic<int64_t> bytes_{0}, allocations_{0}, peak_{0};
};

}  // namespace

DeviceMemory& host_memory() {
  static DeviceMemory& memory = *new DeviceMemory(std::make_unique<HostSource>());
  return memory;
}

}  // namespace toroid::device
