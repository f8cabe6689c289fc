#include "tune/region/time_limit.h"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"

namespace toroid::tune {
namespace {

// What the thread that works and the one that waits share.
struct Work {
  std::mutex mutex;  // of all below
  std::condition_variable changed;
  bool ended = false;
  std::exception_ptr error;

  bool has_ended() {
    std::lock_guard lock(mutex);
    return ended;
  }
};

struct Late {
  std::shared_ptr<Work> work;
  std::thread thread;
  int process = ::getpid();  // that has the thread: its forks do not
};

// Threads whose work was given up.
class LateThreads {
 public:
  static LateThreads& global() {
    static LateThreads& all = *new LateThreads;  // never destroyed: some may begin to be late while the process ends
    return all;
  }

  void add(Late late) {
    std::lock_guard lock(mutex_);
    drop_ended();
    threads_.push_back(std::move(late));
    // Now, so that it comes before the ends of what the work has begun to use.
    std::atexit([] { global().join_all(); });
  }

  size_t count() {
    std::lock_guard lock(mutex_);
    drop_ended();
    return threads_.size();
  }

 private:
  static void end(Late& t) { t.process == ::getpid() ? t.thread.join() : t.thread.detach(); }

  // Under mutex_.
  void drop_ended() {
    std::erase_if(threads_, [](Late& t) {
      const bool has_ended = t.process != ::getpid() || t.work->has_ended();
      if (has_ended) end(t);
      return has_ended;
    });
  }

  void join_all() {
    std::unique_lock lock(mutex_);
    std::vector<Late> all = std::exchange(threads_, {});
    lock.unlock();
    for (auto& t : all) end(t);
  }

  std::mutex mutex_;
  std::vector<Late> threads_;
};

std::thread started(std::function<void()> f) try { return std::thread(std::move(f)); } catch (const std::system_error& e) {
  fail<EnvironmentError>("no thread can be started: {}; end other processes, or allow more threads", e.what());
}

}  // namespace

bool run_within(double most_ms, std::function<void()> work) {
  auto shared = std::make_shared<Work>();
  std::thread thread = started([shared, work = std::move(work)]() mutable {
    std::exception_ptr error;
    try {
      work();
    } catch (...) {
      error = std::current_exception();
    }
    work = nullptr;  // before it counts as ended
    std::lock_guard lock(shared->mutex);
    shared->error = std::move(error);
    shared->ended = true;
    shared->changed.notify_all();
  });
  std::unique_lock lock(shared->mutex);
  const bool in_time = shared->changed.wait_for(lock, std::chrono::duration<double, std::milli>(most_ms), [&] { return shared->ended; });
  lock.unlock();
  if (!in_time) {
    LateThreads::global().add({std::move(shared), std::move(thread)});
    return false;
  }
  thread.join();
  if (shared->error) std::rethrow_exception(shared->error);
  return true;
}

size_t late_works() { return LateThreads::global().count(); }

}  // namespace toroid::tune
