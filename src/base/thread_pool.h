// A fork/join pool for kernels whose fork and join cost about a microsecond, and a helper that runs long jobs side by side.
//
// The threads of a loop claim its tasks piece by piece. Nobody waits for a thread that has not begun: the caller takes its invitation back
// and does the work itself, so that a loop ends although other processes, a quota or a debugger keep the workers from running. Threads that
// call at the same time each get a part of the workers (class Use); a caller for whom none is left works alone. While processors are wanted
// elsewhere, loops do with fewer threads (base/crowding.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <type_traits>
#include <vector>

#include "base/crowding.h"
#include "base/task_shares.h"

namespace toroid {

class ThreadPool {
 public:
  static constexpr int kMaxThreads = 1024;
  // A loop body: runs the tasks [begin, end) on the thread of that index (0 is the caller). No two calls with the same index run at a time.
  using LoopBody = void (*)(void* ctx, int64_t begin, int64_t end, int thread);
  // Called on a thread before its first tasks of a loop.
  using ThreadBegins = void (*)(void* ctx, int thread);

  struct Loop {
    int64_t tasks = 0;
    LoopBody body = nullptr;
    void* ctx = nullptr;
    int threads = 0;  // at most so many, with indices below it; 0: any
    ThreadBegins begins = nullptr;
  };

  class Use;

  // A pool of n threads: the caller of a loop and n - 1 workers (fewer where the system refuses more). gives_way: loops do with fewer while
  // others want the processors.
  explicit ThreadPool(int n, bool gives_way = true);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Threads that a loop has at most; their indices are below that.
  int size() const { return size_.load(std::memory_order_relaxed); }
  // Gives the loops that begin from now on n threads at most (1 to kMaxThreads). Any thread may call it at any time.
  void resize(int n);
  // Threads that a loop of the calling thread would be offered now.
  int share() const;

  // Runs all tasks and returns when they are done. Each thread that takes part has one contiguous share, which it runs in a few pieces; one
  // that is done early takes over tasks of another. How many threads take part, and which runs what, is open: the caller may have to run
  // all tasks, so that no task may wait for another. Any thread may call it at any time. A call from inside a loop body runs the whole
  // range itself as thread 0. The first exception of a body is rethrown after the join; tasks that had not begun then may not run.
  void run(const Loop& loop);
  void parallel_for(int64_t n_tasks, LoopBody fn, void* ctx) { run({n_tasks, fn, ctx}); }

  // The same with any callable (begin, end, thread).
  template <class F>
  void parallel_for(int64_t n_tasks, F&& body) {
    using Body = std::remove_reference_t<F>;
    parallel_for(
        n_tasks, [](void* ctx, int64_t begin, int64_t end, int thread) { (*static_cast<Body*>(ctx))(begin, end, thread); },
        const_cast<void*>(static_cast<const void*>(std::addressof(body))));
  }

  // The pool of the process, of kernel_threads() threads. It follows the option.
  static ThreadPool& global();

 private:
  struct Worker;
  struct Team;
  struct Part;

  void work(Worker& self);
  Team* wait_for_mail(Worker& self);
  void sleep(Worker& self);
  void tell_help(int64_t now);
  void run_part(Team& team, const Part& part, TaskShare& own, int neighbours);
  void run_team(Team& team, const Loop& loop, int parts);
  void post(Worker& worker, Team& team, const Part& part);
  void finish_late(Team& team, const Part& part);
  void doze(Team& team);
  void make_workers(int count);

  Team* take_team();
  void give_back(Team* team);
  // Adds workers to the team, or lets some go, until it has so many, or all teams have `spare`.
  void form(Team& team, int helpers, int spare);
  int helpers_due(int callers) const;
  int callers_now();
  void leave();

  std::atomic<int> size_{1};
  std::atomic<int> callers_{0};   // who are in a Use that has met a loop for several threads,
  std::atomic<int> lone_{0};      // and those whose loops are limited to one
  std::atomic<int> reserved_{0};  // workers that are in a team
  std::atomic<int> peak_{0};      // of callers_, lately
  std::atomic<int64_t> peak_until_{0};
  mutable Crowding crowding_;

  std::atomic<bool> stop_{false};
  const bool gives_way_;
  const int64_t spin_ns_;
  const int fork_generation_;
  std::mutex mutex_;  // of all below
  std::unique_ptr<std::unique_ptr<Worker>[]> workers_;
  int made_ = 0;
  std::vector<std::unique_ptr<Team>> teams_;
  std::vector<Team*> idle_teams_;
};

// What the loops of a thread have in common while it runs a program: the thread keeps its workers from loop to loop, and other callers
// leave them to it. Within another Use of the same pool it changes nothing. Loops outside of any are a use of their own.
class ThreadPool::Use {
 public:
  explicit Use(ThreadPool& pool);
  ~Use();
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

 private:
  friend class ThreadPool;
  // The one that the calling thread is in; null: none.
  static Use* current(const ThreadPool& pool);
  // The team of a loop that could use `helpers` workers; null: there are none for it.
  Team* team(int helpers);
  void enter(bool alone);
  void look_at_clock();

  ThreadPool& pool_;
  Use* const outer_;   // of this thread, of any pool
  const bool nested_;  // within another of the same pool
  Team* team_ = nullptr;
  enum { Outside, Alone, Sharing } state_ = Outside;
  int loops_ = 0;
  int64_t seen_ = 0;  // when this thread's use of its processor was looked at; 0: it is not
};

// Threads that run kernels: the option `threads` or, where it is 0 or more than can run at a time, processor_count().
int kernel_threads();

// How many threads compile: `wanted`, else the option compile_threads, else one for each processor.
int compile_threads(int wanted = 0);

// Runs all jobs on up to `threads` threads (0: option compile_threads) and returns when all have ended. Jobs start in order. If some throw,
// the exception of the first of them in list order is rethrown after the others have ended.
void run_parallel(const std::vector<std::function<void()>>& jobs, int threads = 0);

}  // namespace toroid
