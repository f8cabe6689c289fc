// A fork/join pool for kernels whose fork and join cost about a microsecond, and a helper that runs long jobs side by side.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/task_shares.h"

namespace toroid {

class ThreadPool {
 public:
  // A loop body: runs the tasks [begin, end) on the thread of that index (0 is the caller).
  using LoopBody = void (*)(void* ctx, int64_t begin, int64_t end, int thread);

  // A pool of n threads: the caller of parallel_for and n - 1 workers (fewer where the system refuses more).
  explicit ThreadPool(int n);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return static_cast<int>(workers_.size()) + 1; }

  // Splits [0, n_tasks) over the threads and returns when all are done. Each thread starts with one contiguous share, which it runs in a
  // few pieces; one that is done early takes over tasks of another. With no more tasks than threads each thread runs at most one. Any
  // thread may call it at any time. A call from inside a loop body, and one that finds the pool at work for another thread, runs the whole
  // range itself as thread 0. The first exception of a body is rethrown after the join.
  void parallel_for(int64_t n_tasks, LoopBody fn, void* ctx);

  // The same with any callable (begin, end, thread).
  template <class F>
  void parallel_for(int64_t n_tasks, F&& body) {
    using Body = std::remove_reference_t<F>;
    parallel_for(
        n_tasks, [](void* ctx, int64_t begin, int64_t end, int thread) { (*static_cast<Body*>(ctx))(begin, end, thread); },
        const_cast<void*>(static_cast<const void*>(std::addressof(body))));
  }

  // The pool of the process; option `threads` at the first call sets its size.
  static ThreadPool& global();

 private:
  struct Worker;

  void work(Worker& self, int index);
  void run_part(int part);
  void wait_for_workers();

  // The loop under way: written by the owner before it signals the workers, read only by those it signals.
  LoopBody fn_ = nullptr;
  void* ctx_ = nullptr;
  int64_t n_tasks_ = 0;
  std::unique_ptr<TaskShares> shares_;
  std::exception_ptr error_;
  std::mutex error_mutex_;

  alignas(64) std::atomic<bool> busy_{false};
  alignas(64) std::atomic<int> pending_{0};
  std::atomic<bool> owner_sleeps_{false};
  std::mutex owner_mutex_;
  std::condition_variable owner_wakes_;

  std::atomic<bool> stop_{false};
  int64_t spin_us_;
  int fork_generation_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

// Number of processors this process may use, at least 1.
int processor_count();

// Runs all jobs on up to `threads` threads (0: option compile_threads) and returns when all have ended. Jobs start in order. If some throw,
// the exception of the first of them in list order is rethrown after the others have ended.
void run_parallel(const std::vector<std::function<void()>>& jobs, int threads = 0);

}  // namespace toroid
