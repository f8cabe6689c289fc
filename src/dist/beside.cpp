#include "dist/beside.h"

#include <utility>

namespace toroid::distributed {

Beside& Beside::own() {
  static thread_local Beside beside;
  return beside;
}

Beside::~Beside() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

uint64_t Beside::begin(Group& group, Collective c) {
  std::lock_guard lock(mutex_);
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  waiting_.push_back({&group, std::move(c)});
  changed_.notify_all();
  return ++begun_;
}

void Beside::end(uint64_t number) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return ended_ >= number; });
  if (!failure_) return;
  changed_.wait(lock, [&] { return ended_ == begun_; });
  std::rethrow_exception(std::exchange(failure_, nullptr));
}

void Beside::end_all() noexcept {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return ended_ == begun_; });
  failure_ = nullptr;
}

void Beside::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stops_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const Call call = std::move(waiting_.front());
    waiting_.pop_front();
    const bool runs = !failure_;
    std::exception_ptr failure;
    lock.unlock();
    if (runs) try {
        call.group->run(call.what);
      } catch (...) {
        failure = std::current_exception();
      }
    lock.lock();
    if (failure) failure_ = failure;
    ++ended_;
    changed_.notify_all();
  }
}

}  // namespace toroid::distributed
