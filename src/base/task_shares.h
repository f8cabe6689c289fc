// One thread's share of the tasks of a parallel loop, from which other threads take over what it has not begun.
//
// Processors are seldom equally fast (other work, clock limits, sleeping threads), and the slowest decides when a loop ends. Each thread
// eats its own share from the front in pieces that get smaller, so that something is left to take from the back. Compare Frigo, Leiserson
// and Randall, "The implementation of the Cilk-5 multithreaded language" (1998), section 5, for ranges instead of deques.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace toroid {

struct TaskRange {
  int64_t begin = 0, end = 0;
};

class TaskShare {
 public:
  static constexpr int64_t kMaxTasks = INT32_MAX;

  // The share of `part` of [0, tasks), the rest spread over the first parts.
  static TaskRange even(int part, int parts, int64_t tasks) {
    const int64_t base = tasks / parts, rest = tasks % parts, begin = part * base + std::min<int64_t>(part, rest);
    return {begin, begin + base + (part < rest)};
  }
  // Tasks that are worth taking at once.
  static uint64_t grain(int parts, int64_t tasks) {
    constexpr int64_t kPieces = 16;  // of a share
    return static_cast<uint64_t>(std::max<int64_t>(1, tasks / (parts * kPieces)));
  }

  // Ends are at most kMaxTasks. Nobody may take from this share meanwhile.
  void deal(TaskRange r) { left_.store(pack(static_cast<uint64_t>(r.begin), static_cast<uint64_t>(r.end)), std::memory_order_relaxed); }

  // The first half of what is left, at least a grain. False: nothing is left.
  bool take(uint64_t grain, TaskRange& out) {
    uint64_t seen = left_.load(std::memory_order_relaxed), begin, end;
    do {
      begin = seen >> 32;
      const uint64_t last = seen & UINT32_MAX;
      if (begin >= last) return false;
      end = std::min(last, begin + std::max(grain, (last - begin + 1) / 2));
    } while (!left_.compare_exchange_weak(seen, pack(end, seen & UINT32_MAX), std::memory_order_relaxed));
    out = {static_cast<int64_t>(begin), static_cast<int64_t>(end)};
    return true;
  }

  // Moves the last half of what another share has left (all of a grain) to this one, which is empty. False: nothing was left.
  bool take_over(TaskShare& other, uint64_t grain) {
    uint64_t seen = other.left_.load(std::memory_order_relaxed);
    for (;;) {
      const uint64_t begin = seen >> 32, end = seen & UINT32_MAX;
      if (begin >= end) return false;
      const uint64_t rest = end - begin, middle = rest <= grain ? begin : begin + rest / 2;
      if (!other.left_.compare_exchange_weak(seen, pack(begin, middle), std::memory_order_relaxed)) continue;
      left_.store(pack(middle, end), std::memory_order_relaxed);
      return true;
    }
  }

 private:
  static uint64_t pack(uint64_t begin, uint64_t end) { return begin << 32 | end; }

  std::atomic<uint64_t> left_{0};  // begin in the upper half, end in the lower: both change at once
};

}  // namespace toroid
