#include "compile/background.h"

#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace toroid::compiler {
namespace {

class Background {
 public:
  // Never destroyed: the threads end while the process does.
  static Background& of_returns() {
    static Background& b = *new Background([] { of_returns().end(); });
    return b;
  }
  static Background& of_tuning() {
    static Background& b = *new Background([] { of_tuning().end(); });
    return b;
  }

  // Whether the thread will do it.
  bool add(std::function<void()>& work) {
    std::lock_guard lock(mutex_);
    forget_if_forked();
    if (ending_) return false;
    if (!busy_) {
      if (thread_.joinable()) thread_.join();
      try {
        thread_ = std::thread([this] { run(); });
      } catch (const std::system_error&) {
        return false;
      }
      busy_ = true;
    }
    waiting_.push_back(std::move(work));
    // Now, so that it comes before the ends of what the process has begun to use.
    std::atexit(at_exit_);
    return true;
  }

  bool ends() const { return ends_; }

  void wait() {
    std::unique_lock lock(mutex_);
    forget_if_forked();
    idle_.wait(lock, [&] { return !busy_; });
  }

 private:
  explicit Background(void (*at_exit)()) : at_exit_(at_exit) {}

  void run() {
    constexpr int kLowest = 19;
    ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kLowest);
    for (std::unique_lock lock(mutex_);;) {
      if (waiting_.empty()) {
        busy_ = false;
        idle_.notify_all();
        return;
      }
      std::function<void()> work = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      work();
      work = nullptr;
      lock.lock();
    }
  }

  void end() {
    ends_ = true;
    std::unique_lock lock(mutex_);
    forget_if_forked();
    idle_.wait(lock, [&] { return !busy_; });
    ending_ = true;
    if (thread_.joinable()) thread_.join();
  }

  // Under mutex_. A fork has not the thread, and what waits is done by the process that it was forked from.
  void forget_if_forked() {
    if (process_ == ::getpid()) return;
    process_ = ::getpid();
    if (thread_.joinable()) thread_.detach();
    waiting_.clear();
    busy_ = false;
  }

  void (*const at_exit_)();
  std::atomic<bool> ends_{false};
  std::mutex mutex_;  // of all below
  std::condition_variable idle_;
  std::deque<std::function<void()>> waiting_;
  bool busy_ = false, ending_ = false;
  std::thread thread_;
  int process_ = ::getpid();
};

}  // namespace

void after_return(std::function<void()> work) {
  if (!Background::of_returns().add(work)) work();
}

bool beside_calls(std::function<void()> work) { return Background::of_tuning().add(work); }
bool background_ends() { return Background::of_tuning().ends(); }

void wait_for_background() {
  Background::of_returns().wait();
  Background::of_tuning().wait();
}

}  // namespace toroid::compiler
