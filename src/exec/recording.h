// The launches of one call, recorded: replayed in a single parallel region with no host work between kernels.
#pragma once

#include <cstring>

#include "base/mutants.h"
#include "base/thread_pool.h"
#include "exec/plan.h"

namespace toroid::exec {

// Tells a kernel that its launch begins: see Launch.
inline void mark_fresh(void* scratch, int64_t bytes_per_thread, int thread) {
  if (mutant(Mutant::StaleRows)) return;
  constexpr int64_t kFresh = -1;
  std::memcpy(static_cast<std::byte*>(scratch) + thread * bytes_per_thread, &kFresh, sizeof kFresh);
}

class Recording {
 public:
  // Appends a launch; `alone`: all of it on one thread. params outlive the recording. slots[i] is the plan's buffer behind bufs[i], or -1
  // for memory that never moves. The scratch memory comes last, scratch_bytes a thread.
  void add(const Launch& l, std::span<void* const> bufs, std::span<const int> slots, const int64_t* params, int64_t tasks, bool alone,
           int64_t scratch_bytes);
  bool empty() const { return entries_.empty(); }
  // Replays with the addresses that `at` gives the plan's buffers. All threads of the pool walk through the list together; each launch
  // starts when the one before has ended on all of them. One replay at a time.
  void replay(std::span<void* const> at, ThreadPool& pool);

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
  void walk(int part, int parts, int thread);

  std::vector<Entry> entries_;
  std::vector<void*> bufs_;
  std::vector<std::pair<size_t, int>> patches_;  // position in bufs_, buffer of the plan
  std::vector<TaskShares> shares_;               // of the even and of the odd entries
  alignas(64) std::atomic<int64_t> arrived_{0};
};

}  // namespace toroid::exec
