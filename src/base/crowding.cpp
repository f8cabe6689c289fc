#include "base/crowding.h"

#include <algorithm>

namespace toroid {

void Crowding::lost(int64_t now, int64_t ns, int threads) {
  std::lock_guard lock(mutex_);
  const int out = left_out_.load(std::memory_order_relaxed);
  if (threads <= 1 || (out > 0 && now - since_ < kEcho)) return;
  bucket_ = std::max<int64_t>(0, bucket_ - (now - seen_) / kTolerated) + ns;
  seen_ = now;
  if (bucket_ < kTooMuch) return;
  bucket_ = 0;
  // Soon after the threads came back: they are tried again ever more seldom.
  hold_ = hold_ > 0 && now - until_ < 2 * hold_ ? std::min(2 * hold_, kLongestHold) : kFirstHold;
  left_out_.store(std::min(threads - 1, out == 0 ? 1 : 2 * out), std::memory_order_relaxed);
  since_ = now;
  until_ = now + hold_;
}

int Crowding::try_again(int64_t now) {
  std::lock_guard lock(mutex_);
  int out = left_out_.load(std::memory_order_relaxed);
  if (out > 0 && now >= until_) {
    out /= 2;
    left_out_.store(out, std::memory_order_relaxed);
    bucket_ = 0;
    seen_ = since_ = until_ = now;
    if (out > 0) until_ += hold_;
  }
  return out;
}

}  // namespace toroid
