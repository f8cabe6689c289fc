// How many threads to leave out while others want the processors, too.
//
// A helper that can run and does not is waited for if it has begun a task: for a slice of the scheduler, which is as long as hundreds of
// loops. What that costs is set against what the helpers do. Where it does not pay, threads are left out for a while, and tried again after
// that.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

namespace toroid {

class Crowding {
 public:
  // Times are nanoseconds; `now` is that of a steady clock, `threads` the most that loops may use.
  // A helper ran so long, and for so long could have run a task that it had, but others did.
  void helped(int64_t now, int64_t ran, int64_t lost, int threads);
  // A caller waited so long for helpers, and lost so much itself.
  void called(int64_t now, int64_t waited, int64_t lost, int threads);
  // How many threads loops do without now; clock() is asked for the time only where some are left out.
  template <class Clock>
  int left_out(Clock clock) {
    return left_out_.load(std::memory_order_relaxed) == 0 ? 0 : try_again(clock());
  }

  static constexpr int64_t kMs = 1'000'000;
  static constexpr int64_t kTooMuch = 4 * kMs;   // of harm; less is an accident
  static constexpr int64_t kWindow = 100 * kMs;  // what was longer ago counts for half
  static constexpr int64_t kAtOnce = 100 * kMs;  // threads that have come back and do harm within that are tried more seldom
  static constexpr int64_t kFirstHold = 50 * kMs, kLongestHold = 1000 * kMs;
  static constexpr int64_t kEcho = 5 * kMs;  // threads that have been left out still tell what they lost before that

 private:
  void age(int64_t now);
  void judge(int64_t now, int threads);
  int try_again(int64_t now);
  void forget(int64_t now);

  std::atomic<int> left_out_{0};
  std::mutex mutex_;
  int64_t ran_ = 0, lost_ = 0, waited_ = 0, caller_lost_ = 0;  // in the window that began at
  int64_t window_ = 0;
  int64_t hold_ = 0, since_ = 0, until_ = 0;  // how long threads are left out
};

}  // namespace toroid
