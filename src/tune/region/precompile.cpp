#include "tune/region/precompile.h"

#include <algorithm>
#include <limits>

#include "base/thread_pool.h"

namespace toroid::tune {

Precompiling::Precompiling(std::vector<std::shared_ptr<ChoiceCaller>> callers, int threads, double most_ms, std::function<void()> done)
    : callers_(std::move(callers)), most_ms_(most_ms), done_(std::move(done)), is_done_(callers_.size(), false) {
  for (int i = 0; i < std::min(threads, static_cast<int>(callers_.size())); ++i)
    threads_.emplace_back([this] {
      while (compile_next()) {
      }
    });
}

Precompiling::~Precompiling() {
  std::lock_guard lock(mutex_);
  next_ = callers_.size();
}

bool Precompiling::compile_next() {
  size_t i = 0;
  {
    std::lock_guard lock(mutex_);
    if (next_ >= callers_.size() || since_start_.ms() > most_ms_) return false;
    i = next_++;
  }
  callers_[i]->precompile();
  if (done_) {
    std::lock_guard lock(telling_);
    done_();
  }
  std::lock_guard lock(mutex_);
  is_done_[i] = true;
  ++finished_;
  spent_ms_ = since_start_.ms();
  changed_.notify_all();
  return true;
}

bool Precompiling::is_done(const ChoiceCaller& caller) const {
  const auto at = std::find_if(callers_.begin(), callers_.end(), [&](auto& c) { return c.get() == &caller; });
  return at == callers_.end() || is_done_[static_cast<size_t>(at - callers_.begin())];
}

void Precompiling::wait_for_all() {
  while (compile_next()) {
  }
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return finished_ == next_; });
}

void Precompiling::wait_for(std::span<const std::shared_ptr<ChoiceCaller>> some, double most_ms) {
  constexpr double kLongest = 1e9;
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::duration<double, std::milli>(std::min(most_ms, kLongest)),
                    [&] { return std::all_of(some.begin(), some.end(), [&](auto& c) { return is_done(*c); }); });
}

double Precompiling::spent_ms() const {
  std::lock_guard lock(mutex_);
  return spent_ms_;
}

void precompile(std::span<const std::shared_ptr<ChoiceCaller>> callers, int workers) {
  constexpr double kNoLimit = std::numeric_limits<double>::infinity();
  Precompiling({callers.begin(), callers.end()}, compile_threads(workers) - 1, kNoLimit).wait_for_all();
}

}  // namespace toroid::tune
