#include "exec/recording.h"

#include <immintrin.h>

#include <thread>

namespace toroid::exec {

void Recording::add(const Launch& l, std::span<void* const> bufs, std::span<const int> slots, const int64_t* params, int64_t tasks,
                    bool alone, int64_t scratch_bytes) {
  if (tasks <= 0) return;
  entries_.push_back({l.function, bufs_.size(), params, tasks, alone, bufs.back(), scratch_bytes});
  for (size_t i = 0; i < bufs.size(); ++i) {
    if (slots[i] >= 0) patches_.emplace_back(bufs_.size(), slots[i]);
    bufs_.push_back(bufs[i]);
  }
}

void Recording::walk(int part, int parts, int thread) {
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

void Recording::replay(std::span<void* const> at, ThreadPool& pool) {
  for (auto& [position, buffer] : patches_) bufs_[position] = at[static_cast<size_t>(buffer)];
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
}

}  // namespace toroid::exec
