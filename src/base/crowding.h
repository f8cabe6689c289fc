// How many threads to leave out while others want the processors, too.
//
// A thread that can run and does not is seen by the time that it loses. Whoever waits for such a thread waits for a slice of the scheduler,
// which is as long as hundreds of loops. Threads are left out for a while then, and tried again after that.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

namespace toroid {

class Crowding {
 public:
  // Tells that a thread lost so much time until `now` (nanoseconds of a steady clock), of `threads` that loops may use.
  void lost(int64_t now, int64_t ns, int threads);
  // How many threads loops do without now; clock() is asked for the time only where some are left out.
  template <class Clock>
  int left_out(Clock clock) {
    return left_out_.load(std::memory_order_relaxed) == 0 ? 0 : try_again(clock());
  }

  static constexpr int64_t kMs = 1'000'000;
  static constexpr int64_t kTolerated = 50;        // of a time, one part in so many may be lost for nothing to happen,
  static constexpr int64_t kTooMuch = 3 * kMs / 2;  // and this much beside it
  static constexpr int64_t kFirstHold = 50 * kMs, kLongestHold = 1000 * kMs;
  static constexpr int64_t kEcho = 5 * kMs;  // threads that have been left out still tell what they lost before that

 private:
  int try_again(int64_t now);

  std::atomic<int> left_out_{0};
  std::mutex mutex_;
  int64_t bucket_ = 0, seen_ = 0;         // what has been lost beyond what is tolerated, until then
  int64_t hold_ = 0, since_ = 0, until_ = 0;  // how long threads are left out
};

}  // namespace toroid
