#include "base/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include "base/options.h"

namespace toroid {

// The mailbox of a worker, on cache lines of its own. `signal` counts the loops that it was asked to join.
struct alignas(64) ThreadPool::Worker {
  std::atomic<uint64_t> signal{0};
  std::atomic<bool> sleeps{false};
  alignas(64) std::mutex mutex;
  std::condition_variable wakes;
  std::thread thread;
};

namespace {

// Threads do not survive fork(): a pool made before it runs its loops inline in the child.
std::atomic<int> fork_generation{0};

thread_local bool inside_loop = false;

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Spins until done() or until the window is over; returns done().
template <class Done>
bool spin(int64_t window_us, Done done) {
  if (done()) return true;
  if (window_us <= 0) return false;
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(window_us);
  do {
    for (int i = 0; i < 32; ++i) {
      pause_cpu();
      if (done()) return true;
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

}  // namespace

int processor_count() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

ThreadPool::ThreadPool(int n) : spin_us_(get_option(options::kSpinUs)), fork_generation_(fork_generation.load()) {
  static std::once_flag once;
  std::call_once(once, [] { ::pthread_atfork(nullptr, nullptr, [] { fork_generation.fetch_add(1); }); });
  workers_.reserve(static_cast<size_t>(std::max(0, n - 1)));
  for (int i = 1; i < n; ++i) {
    auto worker = std::make_unique<Worker>();
    try {
      worker->thread = std::thread([this, self = worker.get(), i] { work(*self, i); });
    } catch (const std::system_error&) {
      break;  // A limit on threads: the pool is smaller, and size() says so.
    }
    workers_.push_back(std::move(worker));
  }
  shares_ = std::make_unique<TaskShares>(size());
}

ThreadPool::~ThreadPool() {
  stop_.store(true);
  for (auto& worker : workers_) {
    if (fork_generation.load() != fork_generation_) {
      worker->thread.detach();  // The child of a fork has no such thread to join.
      (void)worker.release();
      continue;
    }
    {
      std::lock_guard lock(worker->mutex);
      worker->signal.fetch_add(1);
      worker->wakes.notify_one();
    }
    worker->thread.join();
  }
}

void ThreadPool::work(Worker& self, int index) {
  inside_loop = true;
  uint64_t seen = 0;
  for (;;) {
    const auto signalled = [&] { return self.signal.load(std::memory_order_acquire) != seen; };
    if (!spin(spin_us_, signalled)) {
      std::unique_lock lock(self.mutex);
      // Either the owner sees `sleeps` after its signal, or this thread sees the signal: both are sequentially consistent.
      self.sleeps.store(true);
      while (self.signal.load() == seen) self.wakes.wait(lock);
      self.sleeps.store(false);
    }
    ++seen;
    if (stop_.load(std::memory_order_relaxed)) return;
    run_part(index);
    if (pending_.fetch_sub(1) == 1 && owner_sleeps_.load()) {
      std::lock_guard lock(owner_mutex_);
      owner_wakes_.notify_one();
    }
  }
}

void ThreadPool::run_part(int part) {
  try {
    shares_->run(part, n_tasks_, [&](int64_t begin, int64_t end) { fn_(ctx_, begin, end, part); });
  } catch (...) {
    std::lock_guard lock(error_mutex_);
    if (!error_) error_ = std::current_exception();
  }
}

void ThreadPool::wait_for_workers() {
  const auto done = [&] { return pending_.load(std::memory_order_acquire) == 0; };
  if (spin(spin_us_, done)) return;
  std::unique_lock lock(owner_mutex_);
  owner_sleeps_.store(true);
  while (pending_.load() != 0) owner_wakes_.wait(lock);
  owner_sleeps_.store(false);
}

void ThreadPool::parallel_for(int64_t n_tasks, LoopBody fn, void* ctx) {
  if (n_tasks <= 0) return;
  const int parts = static_cast<int>(std::min<int64_t>(size(), n_tasks));
  if (parts == 1 || inside_loop || fork_generation.load(std::memory_order_relaxed) != fork_generation_ ||
      busy_.exchange(true, std::memory_order_acquire)) {
    fn(ctx, 0, n_tasks, 0);
    return;
  }
  inside_loop = true;
  fn_ = fn;
  ctx_ = ctx;
  n_tasks_ = n_tasks;
  for (int i = 0; i < size(); ++i) shares_->deal(i, n_tasks);
  error_ = nullptr;
  pending_.store(parts - 1, std::memory_order_relaxed);
  for (int i = 0; i < parts - 1; ++i) {
    Worker& worker = *workers_[static_cast<size_t>(i)];
    worker.signal.fetch_add(1);
    if (worker.sleeps.load()) {
      std::lock_guard lock(worker.mutex);
      worker.wakes.notify_one();
    }
  }
  run_part(0);
  wait_for_workers();
  const std::exception_ptr error = std::exchange(error_, nullptr);
  inside_loop = false;
  busy_.store(false, std::memory_order_release);
  if (error) std::rethrow_exception(error);
}

ThreadPool& ThreadPool::global() {
  // Never destroyed: at exit its workers sleep, and there is nothing to wait for.
  static ThreadPool* const pool = [] {
    const int wanted = static_cast<int>(get_option(options::kThreads));
    settle_option(options::kThreads, "the kernel threads were started");
    settle_option(options::kSpinUs, "the kernel threads were started");
    return new ThreadPool(wanted > 0 ? wanted : processor_count());
  }();
  return *pool;
}

void run_parallel(const std::vector<std::function<void()>>& jobs, int threads) {
  if (threads <= 0) threads = static_cast<int>(get_option(options::kCompileThreads));
  if (threads <= 0) threads = processor_count();
  std::atomic<size_t> next{0};
  std::vector<std::exception_ptr> errors(jobs.size());
  const auto drain = [&] {
    for (size_t i = next.fetch_add(1); i < jobs.size(); i = next.fetch_add(1)) {
      try {
        jobs[i]();
      } catch (...) {
        errors[i] = std::current_exception();
      }
    }
  };
  std::vector<std::thread> helpers;
  const size_t wanted = std::min<size_t>(static_cast<size_t>(threads), jobs.size());
  helpers.reserve(wanted);
  while (helpers.size() + 1 < wanted) {
    try {
      helpers.emplace_back(drain);
    } catch (const std::system_error&) {
      break;  // A limit on threads: those that exist do all the work.
    }
  }
  drain();
  for (std::thread& helper : helpers) helper.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace toroid
