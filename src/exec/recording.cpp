// Recordings on the CPU.
#include "exec/recording.h"

#include <immintrin.h>

#include <algorithm>
#include <thread>

#include "base/check.h"
#include "base/thread_pool.h"
#include "exec/gpu_recording.h"

namespace toroid::exec {
namespace {

// Replayed in a single parallel region with no host work between kernels. All threads of the pool walk through the list together; each
// launch starts when the one before has ended on all of them.
class CpuRecording : public Recording {
 public:
  void record(const std::function<void()>& steps) override {
    steps();
    alone_ = std::all_of(entries_.begin(), entries_.end(), [](auto& e) { return e.alone; });
    entries_.shrink_to_fit();
    bufs_.shrink_to_fit();
    patches_.shrink_to_fit();
  }
  void add(const Launch& l, const Symbols&, const BoundStep& s, std::vector<void*> pointers, std::span<const int> slots) override;
  void set_pointers(size_t i, std::span<void* const> pointers) override;
  int64_t replay(std::span<void* const> at) override;
  size_t launches() const override { return entries_.size(); }
  int64_t bytes() const override { return forecast(entries_.capacity(), bufs_.capacity(), patches_.capacity()); }
  static int64_t forecast(size_t launches, size_t pointers, size_t moving) {
    return static_cast<int64_t>(sizeof(CpuRecording) + launches * sizeof(Entry) + pointers * sizeof(void*) + moving * sizeof(Patch));
  }

 private:
  struct Entry {
    KernelFunction function;
    size_t bufs;  // first of its pointers
    const int64_t* params;
    int64_t tasks;
    bool alone;  // on one thread
    void* scratch;
    int64_t scratch_bytes;
  };
  using Patch = std::pair<size_t, int>;  // position in bufs_, buffer of the plan
  void walk(int part, int parts, int thread);

  std::vector<Entry> entries_;
  std::vector<void*> bufs_;
  std::vector<Patch> patches_;
  bool alone_ = false;              // all of them
  std::vector<TaskShares> shares_;  // of the even and of the odd entries
  alignas(64) std::atomic<int64_t> arrived_{0};
};

void CpuRecording::add(const Launch& l, const Symbols&, const BoundStep& s, std::vector<void*> pointers, std::span<const int> slots) {
  entries_.push_back({l.function, bufs_.size(), s.params.data(), s.tasks, s.alone || s.tasks == 1, pointers.back(), s.scratch_bytes});
  for (size_t i = 0; i < slots.size(); ++i)
    if (slots[i] >= 0) patches_.emplace_back(bufs_.size() + i, slots[i]);
  bufs_.insert(bufs_.end(), pointers.begin(), pointers.end());
}

void CpuRecording::set_pointers(size_t i, std::span<void* const> pointers) {
  Entry& e = entries_.at(i);
  std::copy(pointers.begin(), pointers.end(), bufs_.begin() + static_cast<long>(e.bufs));
  e.scratch = pointers.back();
}

void CpuRecording::walk(int part, int parts, int thread) {
  constexpr int kSpins = 4096;  // then let others have the processor
  int64_t passed = 0;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const Entry& e = entries_[i];
    const auto run = [&](int64_t begin, int64_t end) { e.function(bufs_.data() + e.bufs, e.params, begin, end, thread); };
    if (e.scratch_bytes > 0) mark_fresh(e.scratch, e.scratch_bytes, thread);
    if (e.alone || parts == 1) {
      if (part == 0) run(0, e.tasks);
    } else {
      shares_[i % 2].run(part, e.tasks, run);
    }
    if (parts == 1) continue;
    // Nobody looks at the shares of the next entry before all have passed this barrier.
    if (i + 1 < entries_.size()) shares_[(i + 1) % 2].deal(part, entries_[i + 1].tasks);
    passed += parts;
    arrived_.fetch_add(1, std::memory_order_acq_rel);
    for (int spin = 0; arrived_.load(std::memory_order_acquire) < passed; ++spin) {
      if (spin < kSpins)
        _mm_pause();
      else
        std::this_thread::yield();
    }
  }
}

int64_t CpuRecording::replay(std::span<void* const> at) {
  int64_t changed = 0;
  for (auto& [position, buffer] : patches_) {
    void* const now = at[static_cast<size_t>(buffer)];
    changed += bufs_[position] != now;
    bufs_[position] = now;
  }
  if (alone_) {  // nobody is woken for it
    walk(0, 1, 0);
    return changed;
  }
  ThreadPool& pool = ThreadPool::global();
  arrived_.store(0, std::memory_order_relaxed);
  const int parts = pool.size();
  if (shares_.empty())
    for (int i = 0; i < 2; ++i) shares_.emplace_back(parts);
  if (!entries_.empty())
    for (int i = 0; i < parts; ++i) shares_[0].deal(i, entries_[0].tasks);
  pool.parallel_for(parts, [&](int64_t begin, int64_t end, int thread) {
    // The pool gives each of its threads one part, or, when it is busy elsewhere, all of them to the caller.
    if (end - begin == parts)
      walk(0, 1, thread);
    else
      walk(static_cast<int>(begin), parts, thread);
  });
  return changed;
}

}  // namespace

std::unique_ptr<Recording> make_recording(const Device& device) {
  if (device.is_cuda()) return std::make_unique<GpuRecording>(device::cuda::gpu(device.index));
  return std::make_unique<CpuRecording>();
}

int64_t forecast_recording(const Device& device, size_t launches, size_t pointers, size_t moving) {
  if (device.is_cuda()) return GpuRecording::forecast(launches);
  return CpuRecording::forecast(launches, pointers, moving);
}

}  // namespace toroid::exec
