#include "base/crowding.h"

#include <algorithm>

namespace toroid {

void Crowding::helped(int64_t now, int64_t ran, int64_t lost, int threads) {
  std::lock_guard lock(mutex_);
  age(now);
  ran_ += ran, lost_ += lost;
  judge(now, threads);
}

void Crowding::called(int64_t now, int64_t waited, int64_t lost, int threads) {
  std::lock_guard lock(mutex_);
  age(now);
  waited_ += waited, caller_lost_ += lost;
  judge(now, threads);
}

void Crowding::age(int64_t now) {
  if (now - window_ < kWindow) return;
  window_ = now;
  for (int64_t* sum : {&ran_, &lost_, &waited_, &caller_lost_}) *sum /= 2;
}

void Crowding::judge(int64_t now, int threads) {
  const int out = left_out_.load(std::memory_order_relaxed);
  if (threads <= 1 || (out > 0 && now - since_ < kEcho)) return forget(now);
  // Uneven tasks are waited for as well, by callers whose helpers lose nothing.
  const int64_t harm = std::min(waited_, lost_) + caller_lost_;
  // The last of the helpers does one part in so many of what they do, and a part of that is looking for work.
  constexpr int64_t kOverhead = 2;
  if (harm < kTooMuch || harm * kOverhead * (threads - 1) <= ran_) return;
  hold_ = hold_ > 0 && now - until_ < kAtOnce ? std::min(2 * hold_, kLongestHold) : kFirstHold;
  left_out_.store(std::min(threads - 1, out == 0 ? 1 : 2 * out), std::memory_order_relaxed);
  since_ = now;
  until_ = now + hold_;
  forget(now);
}

void Crowding::forget(int64_t now) {
  ran_ = lost_ = waited_ = caller_lost_ = 0;
  window_ = now;
}

int Crowding::try_again(int64_t now) {
  std::lock_guard lock(mutex_);
  int out = left_out_.load(std::memory_order_relaxed);
  if (out > 0 && now >= until_) {
    out /= 2;
    left_out_.store(out, std::memory_order_relaxed);
    since_ = until_ = now;
    if (out > 0) until_ += hold_;
    forget(now);
  }
  return out;
}

}  // namespace toroid
