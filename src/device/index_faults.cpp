#include "device/index_faults.h"

#include <deque>
#include <map>
#include <mutex>
#include <new>

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

// The error that a record holds, which is empty afterwards; empty text where it holds none that has been written whole.
std::string take(Slot& s) {
  volatile IndexFault* const now = s.at;
  if (now->state != IndexFault::kFound) return "";
  std::atomic_thread_fence(std::memory_order_acquire);
  IndexFault copy;
  copy.site = now->site, copy.index = now->index, copy.size = now->size;
  std::atomic_thread_fence(std::memory_order_release);
  now->state = IndexFault::kNone;
  TOROID_CHECK(copy.site >= 0 && copy.site < static_cast<int64_t>(s.sites.size()), "a kernel reports an index of operand {} of {}",
               copy.site, s.sites.size());
  return index_error(s.sites[static_cast<size_t>(copy.site)], copy);
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
    (device_.is_cuda() ? retired_ : free_).push_back(&s);
    has_retired_ = !retired_.empty();
  }

  void check(bool all) {
    if (all && has_retired_.load(std::memory_order_relaxed)) reuse();
    volatile int64_t* const raised = raised_.load(std::memory_order_acquire);
    if (!raised || *raised == 0) return;
    std::string error;
    {
      std::lock_guard lock(mutex_);
      *raised = 0;  // a record that is not whole yet raises it again
      std::atomic_thread_fence(std::memory_order_seq_cst);
      for (Slot& s : slots_) {
        if (std::string now = take(s); error.empty()) error = std::move(now);
      }
    }
    if (!error.empty()) fail<UserError>("{}", error);
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

  void reuse() {
    std::lock_guard lock(mutex_);
    free_.insert(free_.end(), retired_.begin(), retired_.end());
    retired_.clear();
    has_retired_ = false;
  }

  const Device device_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<void>> blocks_;
  std::deque<Slot> slots_;
  std::vector<Slot*> free_, retired_;
  std::atomic<bool> has_retired_{false};
  std::atomic<volatile int64_t*> raised_{nullptr};
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
  const std::string error = take(slot_);
  TOROID_CHECK(!error.empty(), "a kernel has ended while it reports an index");
  toroid::fail<UserError>("{}", error);
}

void check_index_faults(const Device& device, bool all) { faults_of(device).check(all); }

}  // namespace toroid::device
