// What is recorded on a device, and the memory that recordings share.
#pragma once

#include <array>

#include "device/memory.h"
#include "exec/record/captured.h"

namespace toroid::exec {

// What is counted of the calls of a function; as in CaptureCounters.
enum class Count : uint8_t {
  Calls,
  Warmups,
  Recordings,
  Rerecordings,
  Skipped,
  GraphLaunches,
  HostLaunches,
  HostCalls,
  InputCopies,
  Patches,
  Evictions,
};
inline constexpr size_t kCounts = 11;

// A program whose calls are recorded.
struct CaptureFunction {
  std::string name;
  Coverage coverage;
  CaptureOptions options;
  std::array<std::atomic<int64_t>, kCounts> counts{};

  std::mutex mutex;                                   // of all below
  std::vector<std::shared_ptr<Captured>> recordings;  // those in use live on when they are dropped here
  std::vector<CaptureSkip> skips;                     // of calls, each reason once
  std::vector<std::string> warnings;

  void count(Count what, int64_t n = 1) { counts[static_cast<size_t>(what)].fetch_add(n, std::memory_order_relaxed); }
};

class CaptureManager {
 public:
  // Of a device: made at the first call, never destroyed.
  static CaptureManager& of(const Device& device);
  explicit CaptureManager(const Device& device);

  // It is watched for as long as it is there.
  void add(const std::shared_ptr<CaptureFunction>& function);

  // Memory for one run, of which as many exist as runs go on at a time. A thread gets its own back, if that is
  // free, and what another stream's work may still use goes to that stream alone.
  std::unique_ptr<Lane> take_lane();
  void give_back(std::unique_ptr<Lane> lane);
  // Whether the lane is large enough for a run, without growing.
  static bool fits(const Lane& lane, const Bound& bound, const Placement& placement);
  // Makes the lane large enough, and leaves room for `exec_bytes` of a recording besides. Where that would exceed the budget (bytes, 0:
  // none), recordings are dropped first (evict), those that were not used for longest; false where that does not help.
  bool make_room(Lane& lane, const Bound& bound, const Placement& placement, int64_t exec_bytes, int64_t budget, bool evict);
  // Tells that recordings have become more or fewer.
  void note_use();
  uint64_t tick() { return ticks_.fetch_add(1, std::memory_order_relaxed) + 1; }

  // only: of one function; null: of all.
  CaptureReport report(const CaptureFunction* only = nullptr);
  void release();

 private:
  struct Use {
    std::shared_ptr<CaptureFunction> function;
    std::shared_ptr<Captured> recording;
  };
  std::vector<std::shared_ptr<CaptureFunction>> functions();
  std::vector<Use> recordings();
  bool evict_one();
  void trim(Lane* own);  // of the calling thread, or null
  int64_t exec_bytes();
  int64_t pool_bytes() const { return static_cast<int64_t>(pool_->stats().allocated); }
  std::shared_ptr<Storage> slab(size_t bytes);

  const Device device_;
  std::shared_ptr<device::MemoryPool> pool_;
  std::atomic<uint64_t> ticks_{0};
  std::mutex room_;   // one thread makes room at a time; before mutex_
  std::mutex mutex_;  // of all below
  std::vector<std::weak_ptr<CaptureFunction>> functions_;
  std::vector<std::unique_ptr<Lane>> idle_;
  int64_t peak_bytes_ = 0;
};

}  // namespace toroid::exec
