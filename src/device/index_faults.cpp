#include "device/index_faults.h"

#include <deque>
#include <map>
#include <mutex>
#include <new>
#include <optional>

#include "base/check.h"
#include "device/cuda/cuda_runtime.h"
#include "device/memory.h"

namespace toroid::device {
namespace {

class Faults;

}  // namespace

struct IndexFaultRecord::Slot {
  IndexFault* at = nullptr;
  std::vector<IndexSite> sites;
  Faults* owner = nullptr;
};

namespace {

using Slot = IndexFaultRecord::Slot;

struct Found {
  IndexSite site;
  IndexFault fault;
};

// What a record holds, which is empty afterwards; nothing where it holds none that has been written whole.
std::optional<Found> take(Slot& s) {
  const std::atomic_ref<int64_t> state(s.at->state);
  if (state.load() != IndexFault::kFound) return std::nullopt;
  const IndexFault copy = *s.at;
  state.store(IndexFault::kNone, std::memory_order_release);
  TOROID_CHECK(copy.site >= 0 && copy.site < static_cast<int64_t>(s.sites.size()), "a kernel reports an index of operand {} of {}",
               copy.site, s.sites.size());
  return Found{s.sites[static_cast<size_t>(copy.site)], copy};
}

// All records of a device. Never destroyed: launches may write them whenever they end.
class Faults {
 public:
  explicit Faults(const Device& device) : device_(device) {}

  Slot& add(std::vector<IndexSite> sites) {
    std::lock_guard lock(mutex_);
    if (free_.empty()) grow();
    Slot& s = *free_.back();
    free_.pop_back();
    s.sites = std::move(sites);
    *s.at = {};
    s.at->flag = device_.is_cuda() ? flag() : nullptr;
    return s;
  }

  void retire(Slot& s) {
    std::lock_guard lock(mutex_);
    if (!device_.is_cuda()) return free_.push_back(&s);
    retired_.push_back(&s);
    retirements_.fetch_add(1, std::memory_order_relaxed);
  }

  uint64_t retirements() const { return retirements_.load(std::memory_order_relaxed); }

  void check(uint64_t settled) {
    int64_t* const raised = raised_.load(std::memory_order_acquire);
    const bool is_raised = raised && std::atomic_ref(*raised).load(std::memory_order_relaxed) != 0;
    if (!is_raised && settled <= freed_.load(std::memory_order_relaxed)) return;
    std::optional<Found> found;
    {
      std::lock_guard lock(mutex_);
      if (is_raised) {
        std::atomic_ref(*raised).exchange(0);  // before records are read: one that is not whole yet raises it again
        for (Slot& s : slots_)
          if (auto now = take(s); !found) found = std::move(now);
      }
      reuse(settled);  // now that they have been read
    }
    if (found) fail_at(found->site, found->fault);
  }

 private:
  static constexpr size_t kSlots = 63;  // of a block of memory, behind the flag

  // A line of the cache for each record, outside of what is counted as tensors' memory.
  static std::shared_ptr<void> host_block(size_t bytes) {
    constexpr std::align_val_t kLine{64};
    return {::operator new(bytes, kLine), [](void* p) { ::operator delete(p, kLine); }};
  }

  int64_t* flag() const { return reinterpret_cast<int64_t*>(blocks_.front().get()); }

  void grow() {
    const size_t bytes = (kSlots + 1) * sizeof(IndexFault);
    auto block = device_.is_cuda() ? cuda::pinned_memory(device_.index).allocate(bytes) : host_block(bytes);
    auto* at = static_cast<IndexFault*>(block.get());
    blocks_.push_back(std::move(block));
    for (size_t i = 0; i <= kSlots; ++i) at[i] = {};
    if (blocks_.size() == 1) raised_.store(flag(), std::memory_order_release);
    for (size_t i = 1; i <= kSlots; ++i) {
      slots_.push_back({at + i, {}, this});
      free_.push_back(&slots_.back());
    }
  }

  // The first `settled` of all that ever were retired.
  void reuse(uint64_t settled) {
    for (; freed_.load(std::memory_order_relaxed) < settled; freed_.fetch_add(1, std::memory_order_relaxed)) {
      free_.push_back(retired_.front());
      retired_.pop_front();
    }
  }

  const Device device_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<void>> blocks_;
  std::deque<Slot> slots_;
  std::vector<Slot*> free_;
  std::deque<Slot*> retired_;  // in the order of their retirements
  std::atomic<uint64_t> retirements_{0}, freed_{0};
  std::atomic<int64_t*> raised_{nullptr};
};

Faults& faults_of(const Device& device) {
  static std::mutex mutex;
  static auto& all = *new std::map<int, std::unique_ptr<Faults>>;
  std::lock_guard lock(mutex);
  auto& it = all[device.is_cuda() ? device.index : -1];
  if (!it) it = std::make_unique<Faults>(device);
  return *it;
}

}  // namespace

IndexFaultRecord::IndexFaultRecord(const Device& device, std::vector<IndexSite> sites) : slot_(faults_of(device).add(std::move(sites))) {}

IndexFaultRecord::~IndexFaultRecord() { slot_.owner->retire(slot_); }

IndexFault* IndexFaultRecord::at() const { return slot_.at; }

void IndexFaultRecord::fail() {
  const auto found = take(slot_);
  TOROID_CHECK(found, "a kernel has ended while it reports an index");
  fail_at(found->site, found->fault);
}

uint64_t retired_index_faults(const Device& device) { return device.is_cuda() ? faults_of(device).retirements() : 0; }

void check_index_faults(const Device& device, uint64_t settled) {
  if (device.is_cuda()) faults_of(device).check(settled);  // on the CPU, who runs a step looks at its record
}

}  // namespace toroid::device
