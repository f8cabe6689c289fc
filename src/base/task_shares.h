// The tasks of one parallel loop, dealt out evenly; a thread that is done early takes over part of another's.
//
// Processors are seldom equally fast (other work, clock limits, sleeping threads), and the slowest decides when a loop ends. Each thread
// eats its own share from the front in pieces that get smaller, so that something is left to take from the back. Compare Frigo, Leiserson
// and Randall, "The implementation of the Cilk-5 multithreaded language" (1998), section 5, for ranges instead of deques.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>

namespace toroid {

class TaskShares {
 public:
  explicit TaskShares(int parts) : shares_(std::make_unique<Share[]>(static_cast<size_t>(parts))), parts_(parts) {}

  // Gives `part` its even share of [0, n_tasks). No thread may be inside run() meanwhile with the same shares.
  void deal(int part, int64_t n_tasks) {
    if (is_shared(n_tasks)) shares_[static_cast<size_t>(part)].left.store(pack(even(part, n_tasks)), std::memory_order_relaxed);
  }

  // Runs body(begin, end) over the share of `part`, then over what can be taken from others. Every task runs once, on some thread. A loop
  // of no more tasks than threads, or of 2^31 and more, is not shared: each part runs its own.
  template <class Body>
  void run(int part, int64_t n_tasks, Body&& body) {
    if (!is_shared(n_tasks)) {
      if (const Range own = even(part, n_tasks); own.begin < own.end) body(own.begin, own.end);
      return;
    }
    Share& own = shares_[static_cast<size_t>(part)];
    const uint64_t grain = static_cast<uint64_t>(std::max<int64_t>(1, n_tasks / (parts_ * kPieces)));
    do {
      uint64_t begin, end;
      while (take(own, grain, begin, end)) body(static_cast<int64_t>(begin), static_cast<int64_t>(end));
    } while (take_over(part, own, grain));
  }

 private:
  static constexpr int64_t kMaxTasks = INT32_MAX, kPieces = 16;
  static constexpr int kNeighbours = 8;  // whose shares a thread looks at: on large machines a look at all would cost more than it finds

  struct alignas(64) Share {
    std::atomic<uint64_t> left{0};  // begin in the upper half, end in the lower: both change at once
  };
  struct Range {
    int64_t begin, end;
  };

  bool is_shared(int64_t n_tasks) const { return n_tasks > parts_ && n_tasks <= kMaxTasks; }
  Range even(int part, int64_t n_tasks) const {
    const int64_t base = n_tasks / parts_, rest = n_tasks % parts_, begin = part * base + std::min<int64_t>(part, rest);
    return {begin, begin + base + (part < rest)};
  }
  static uint64_t pack(Range r) { return static_cast<uint64_t>(r.begin) << 32 | static_cast<uint64_t>(r.end); }

  // The first half of what is left, at least a grain.
  static bool take(Share& own, uint64_t grain, uint64_t& begin, uint64_t& end) {
    uint64_t seen = own.left.load(std::memory_order_relaxed);
    do {
      begin = seen >> 32;
      const uint64_t last = seen & UINT32_MAX;
      if (begin >= last) return false;
      end = std::min(last, begin + std::max(grain, (last - begin + 1) / 2));
    } while (!own.left.compare_exchange_weak(seen, end << 32 | (seen & UINT32_MAX), std::memory_order_relaxed));
    return true;
  }

  // Moves the last half of some neighbour's rest to the empty share of `part`.
  bool take_over(int part, Share& own, uint64_t grain) {
    for (int i = 1; i < std::min(parts_, kNeighbours + 1); ++i) {
      Share& other = shares_[static_cast<size_t>((part + i) % parts_)];
      uint64_t seen = other.left.load(std::memory_order_relaxed);
      for (;;) {
        const uint64_t begin = seen >> 32, end = seen & UINT32_MAX;
        if (begin >= end) break;
        const uint64_t rest = end - begin, middle = rest <= grain ? begin : begin + rest / 2;
        if (other.left.compare_exchange_weak(seen, begin << 32 | middle, std::memory_order_relaxed)) {
          own.left.store(middle << 32 | end, std::memory_order_relaxed);
          return true;
        }
      }
    }
    return false;
  }

  std::unique_ptr<Share[]> shares_;
  int parts_;
};

}  // namespace toroid
