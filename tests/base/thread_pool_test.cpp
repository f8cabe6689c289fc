#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <thread>

#include "base/options.h"
#include "base/processors.h"
#include "toroid/error.h"

namespace toroid {
namespace {

TEST(ThreadPool, EveryTaskRunsOnceForEveryCount) {
  ThreadPool pool(3);
  ASSERT_EQ(pool.size(), 3);
  for (int64_t n : {0, 1, 2, 3, 4, 7, 100, 1001}) {
    std::vector<int> hits(static_cast<size_t>(n), 0);
    pool.parallel_for(n, [&](int64_t begin, int64_t end, int thread) {
      EXPECT_TRUE(thread >= 0 && thread < 3);
      for (int64_t i = begin; i < end; ++i) ++hits[static_cast<size_t>(i)];
    });
    EXPECT_EQ(std::count(hits.begin(), hits.end(), 1), n);
  }
}

TEST(ThreadPool, LoopsOfMoreTasksThanAShareCountsRunEachOnce) {
  ThreadPool pool(2, false);
  const int64_t n = (int64_t{5} << 31) + 3;
  std::mutex mutex;
  std::vector<std::pair<int64_t, int64_t>> ran;
  pool.parallel_for(n, [&](int64_t begin, int64_t end, int) {
    std::lock_guard lock(mutex);
    ran.emplace_back(begin, end);
  });
  std::sort(ran.begin(), ran.end());
  int64_t at = 0;
  for (auto& [begin, end] : ran) {
    EXPECT_EQ(begin, at);
    EXPECT_LT(begin, end);
    at = end;
  }
  EXPECT_EQ(at, n);
}

// Holds a worker of the pool inside a loop of another caller until it is let go, as a worker is that the system does not run.
class HeldWorkers {
 public:
  HeldWorkers(ThreadPool& pool, int threads)
      : holds_(threads), holder_([&pool, threads, this] {
          pool.parallel_for(threads, [&](int64_t, int64_t, int) {
            --holds_;
            while (!let_go_) std::this_thread::sleep_for(std::chrono::microseconds(50));
          });
        }) {
    while (holds_ > 0) std::this_thread::yield();
  }
  ~HeldWorkers() {
    let_go_ = true;
    holder_.join();
  }

 private:
  std::atomic<int> holds_;
  std::atomic<bool> let_go_{false};
  std::thread holder_;
};

// The other thread stands at its first task until this one has run what an even split would not give it.
TEST(ThreadPool, EarlyThreadTakesOverWork) {
  constexpr int kTasks = 64, kTakenOver = 8;
  ThreadPool pool(2, false);
  std::vector<int> ran_by(kTasks, -1);
  std::atomic<bool> started{false};
  std::atomic<int> ran_here{0};
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  pool.parallel_for(kTasks, [&](int64_t begin, int64_t end, int thread) {
    if (thread == 1) started = true;
    while (!started) std::this_thread::yield();
    for (int64_t i = begin; i < end; ++i) {
      ran_by[static_cast<size_t>(i)] = thread;
      if (thread == 0) ++ran_here;
      while (thread == 1 && ran_here < kTasks / 2 + kTakenOver && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    }
  });
  const auto there = std::count(ran_by.begin(), ran_by.end(), 1);
  EXPECT_GE(there, 1);
  EXPECT_LE(there, kTasks / 2 - kTakenOver);
  EXPECT_EQ(there + std::count(ran_by.begin(), ran_by.end(), 0), kTasks);
}

TEST(ThreadPool, ManyLoopsWakeSleepingWorkers) {
  const auto start = std::chrono::steady_clock::now();
  ThreadPool pool(2, false);
  int64_t sum = 0;
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::microseconds(300));
    int64_t part[2] = {0, 0};
    pool.parallel_for(10, [&](int64_t begin, int64_t end, int thread) {
      if (thread == 1) std::this_thread::sleep_for(std::chrono::microseconds(300));
      part[thread] += end - begin;
    });
    sum += part[0] + part[1];
  }
  EXPECT_EQ(sum, 200);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST(ThreadPool, NestedCallRunsInline) {
  ThreadPool pool(2, false);
  std::atomic<int64_t> count{0};
  pool.parallel_for(2, [&](int64_t, int64_t, int) {
    pool.parallel_for(10, [&](int64_t begin, int64_t end, int thread) {
      EXPECT_EQ(thread, 0);
      EXPECT_EQ(end - begin, 10);
      count += end - begin;
    });
  });
  EXPECT_EQ(count.load(), 20);
}

TEST(ThreadPool, ManyApplicationThreadsShareOnePool) {
  ThreadPool pool(3, false);
  std::atomic<int64_t> count{0};
  std::vector<std::thread> callers;
  for (int t = 0; t < 4; ++t)
    callers.emplace_back([&] {
      for (int run = 0; run < 20; ++run) {
        std::optional<ThreadPool::Use> use;
        if (run % 2) use.emplace(pool);
        for (int i = 0; i < 25; ++i) pool.parallel_for(8, [&](int64_t begin, int64_t end, int) { count += end - begin; });
      }
    });
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(count.load(), 4 * 500 * 8);
}

// Whatever the number of tasks: also one for each thread, of which a worker that does not come would have had one.
TEST(ThreadPool, ACallerDoesTheWorkOfWorkersThatDoNotCome) {
  ThreadPool pool(2, false);
  const HeldWorkers held(pool, 2);
  for (int64_t n : {2, 3, 100}) {
    std::vector<int> hits(static_cast<size_t>(n), 0);
    pool.parallel_for(n, [&](int64_t begin, int64_t end, int thread) {
      EXPECT_EQ(thread, 0);
      for (int64_t i = begin; i < end; ++i) ++hits[static_cast<size_t>(i)];
    });
    EXPECT_EQ(std::count(hits.begin(), hits.end(), 1), n);
  }
}

// A worker that is slow to come finds that it is not needed any more, and the pool lives. Loops follow so closely here that many
// invitations are taken back while the worker is on its way.
TEST(ThreadPool, InvitationsAreTakenBackWhileWorkersComeForThem) {
  const ScopedOption asleep("spin_us", "0");
  ThreadPool pool(4, false);
  const ThreadPool::Use use(pool);
  for (int round = 0; round < 3000; ++round) {
    std::atomic<int> sum{0};  // of this round: a late worker would write to a dead one
    pool.parallel_for(4, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) sum += static_cast<int>(i) + 1;
    });
    ASSERT_EQ(sum.load(), 10);
  }
}

// Loops so short that most invitations are taken back, and then one in which each thread waits for all others.
TEST(ThreadPool, NoWorkerIsLostWhereInvitationsAreTakenBack) {
  constexpr int kThreads = 8;
  ThreadPool pool(kThreads, false);
  for (int i = 0; i < 200'000; ++i) pool.parallel_for(kThreads, [](int64_t, int64_t, int) {});
  std::atomic<int> arrived{0};
  std::atomic<bool> alone{false};
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  pool.parallel_for(kThreads, [&](int64_t, int64_t, int) {
    ++arrived;
    while (arrived < kThreads && !alone) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      if (std::chrono::steady_clock::now() > end) alone = true;
    }
  });
  EXPECT_FALSE(alone) << "some of the workers have ended";
}

TEST(ThreadPool, CallersShareTheWorkers) {
  ThreadPool pool(5, false);
  EXPECT_EQ(pool.share(), 5);
  std::atomic<int> there{0}, shares{0};
  std::atomic<bool> leave{false};
  std::vector<std::thread> callers;
  for (int i = 0; i < 2; ++i)
    callers.emplace_back([&] {
      const ThreadPool::Use use(pool);
      pool.parallel_for(2, [](int64_t, int64_t, int) {});
      ++there;
      while (there < 2) std::this_thread::yield();
      shares += pool.share();
      ++there;
      while (!leave) std::this_thread::yield();
    });
  while (there < 4) std::this_thread::yield();
  EXPECT_EQ(pool.share(), 2) << "the third caller: one of two workers";
  EXPECT_EQ(shares.load(), 6) << "each of two callers: up to two of three workers";
  leave = true;
  for (auto& caller : callers) caller.join();
}

// A caller whose loops are limited to one thread takes one processor, and no part of the workers.
TEST(ThreadPool, ALimitedCallerLeavesTheWorkersToOthers) {
  ThreadPool pool(4, false);
  std::atomic<bool> there{false}, leave{false};
  std::thread other([&] {
    const ThreadPool::Use use(pool);
    pool.run({8, [](void*, int64_t begin, int64_t end, int) { EXPECT_EQ(end - begin, 8); }, nullptr, 1});
    there = true;
    while (!leave) std::this_thread::yield();
  });
  while (!there) std::this_thread::yield();
  EXPECT_EQ(pool.share(), 3);
  leave = true;
  other.join();
  EXPECT_EQ(pool.share(), 4);
}

TEST(ThreadPool, ACallerForWhomNoProcessorIsLeftWorksAlone) {
  ThreadPool pool(2, false);
  std::atomic<bool> there{false}, leave{false};
  std::thread other([&] {
    const ThreadPool::Use use(pool);
    pool.parallel_for(2, [](int64_t, int64_t, int) {});
    there = true;
    while (!leave) std::this_thread::yield();
  });
  while (!there) std::this_thread::yield();
  EXPECT_EQ(pool.share(), 1);
  int calls = 0;
  pool.parallel_for(100, [&](int64_t begin, int64_t end, int thread) {
    ++calls;
    EXPECT_EQ(thread, 0);
    EXPECT_EQ(end - begin, 100);
  });
  EXPECT_EQ(calls, 1);
  leave = true;
  other.join();
}

TEST(ThreadPool, UsesNestAndThoseOfOtherPoolsAreTheirOwn) {
  ThreadPool pool(3, false), other(2, false);
  std::atomic<int64_t> count{0};
  const auto body = [&](int64_t begin, int64_t end, int) { count += end - begin; };
  {
    const ThreadPool::Use outer(pool);
    pool.parallel_for(10, body);
    {
      const ThreadPool::Use inner(pool), another(other);
      pool.parallel_for(10, body);
      other.parallel_for(10, body);
      EXPECT_EQ(pool.share(), 3);
    }
    pool.parallel_for(10, body);
  }
  EXPECT_EQ(count.load(), 40);
  EXPECT_EQ(pool.share(), 3);
  EXPECT_EQ(other.share(), 2);
}

TEST(ThreadPool, ALoopsLimitBoundsItsThreads) {
  ThreadPool pool(4, false);
  const ThreadPool::Use use(pool);
  for (int limit : {3, 1, 2, 0, 2}) {
    std::array<std::atomic<int>, 4> begun{};
    std::atomic<int64_t> count{0};
    struct Context {
      std::array<std::atomic<int>, 4>& begun;
      std::atomic<int64_t>& count;
      int limit;
    } context{begun, count, limit > 0 ? limit : 4};
    pool.run({1000,
              [](void* c, int64_t begin, int64_t end, int thread) {
                auto& it = *static_cast<Context*>(c);
                ASSERT_LT(thread, it.limit);
                EXPECT_EQ(it.begun[static_cast<size_t>(thread)], 1) << "ThreadBegins comes first, and once";
                it.count += end - begin;
              },
              &context, limit, [](void* c, int thread) { ++static_cast<Context*>(c)->begun[static_cast<size_t>(thread)]; }});
    EXPECT_EQ(count.load(), 1000);
  }
}

TEST(ThreadPool, ResizeTakesEffectWithTheNextLoop) {
  ThreadPool pool(1, false);
  for (int size : {3, 2, 4, 1, 3}) {
    pool.resize(size);
    EXPECT_EQ(pool.size(), size);
    // With all threads at once in the loop, its indices are those below the size.
    std::atomic<int> here{0};
    std::atomic<unsigned> seen{0};
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    pool.parallel_for(size, [&](int64_t, int64_t, int thread) {
      seen |= 1u << thread;
      ++here;
      while (here < size && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    });
    EXPECT_EQ(seen.load(), (1u << size) - 1);
  }
  pool.resize(0);
  EXPECT_EQ(pool.size(), 1);
}

TEST(ThreadPool, ResizeWhileOthersCall) {
  ThreadPool pool(2, false);
  std::atomic<bool> stop{false};
  std::atomic<int64_t> count{0}, expected{0};
  std::vector<std::thread> callers;
  for (int t = 0; t < 2; ++t)
    callers.emplace_back([&] {
      while (!stop) {
        const ThreadPool::Use use(pool);
        for (int i = 0; i < 5; ++i) pool.parallel_for(16, [&](int64_t begin, int64_t end, int) { count += end - begin; });
        expected += 80;
      }
    });
  for (int i = 0; i < 100; ++i) {
    pool.resize(1 + i % 6);
    std::this_thread::yield();
  }
  stop = true;
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(count.load(), expected.load());
}

TEST(ThreadPool, ThePoolOfTheProcessFollowsTheOption) {
  const int all = ThreadPool::global().size();
  {
    const ScopedOption one("threads", "1");
    EXPECT_EQ(ThreadPool::global().size(), 1);
    ThreadPool::global().parallel_for(4, [](int64_t begin, int64_t end, int) { EXPECT_EQ(end - begin, 4); });
  }
  EXPECT_EQ(ThreadPool::global().size(), all);
#if !defined(__SANITIZE_THREAD__)
  const ScopedOption many("threads", "1024");
  EXPECT_EQ(ThreadPool::global().size(), std::min(1024, processor_count())) << "more threads than processors only wait for each other";
#endif
}

TEST(ThreadPool, SleepingWorkersWakeUpForALoop) {
  const ScopedOption asleep("spin_us", "0");
  ThreadPool pool(2, false);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  std::atomic<int> here{0};
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  pool.parallel_for(2, [&](int64_t, int64_t, int) {
    ++here;
    while (here < 2 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  });
  EXPECT_EQ(here.load(), 2);
}

TEST(ThreadPool, TheFirstExceptionReachesTheCallerAndThePoolLives) {
  ThreadPool pool(2, false);
  for (int thrower : {0, 1}) {
    std::atomic<int> here{0};
    const auto throwing = [&](int64_t, int64_t, int thread) {
      ++here;
      while (here < 2) std::this_thread::yield();  // both threads have a task
      if (thread == thrower) throw UserError("planted");
    };
    EXPECT_THROW(pool.parallel_for(2, throwing), UserError);
    std::atomic<int64_t> count{0};
    pool.parallel_for(2, [&](int64_t begin, int64_t end, int) { count += end - begin; });
    EXPECT_EQ(count.load(), 2);
  }
}

// Both threads of the pool of the process are in one loop at a time.
bool meet_in_a_loop(ThreadPool& pool) {
  std::atomic<int> here{0};
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  pool.parallel_for(2, [&](int64_t, int64_t, int) {
    ++here;
    while (here < 2 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  });
  return here == 2;
}

// As servers have that load a model and fork. A child of a child, too; and a pool from before serves without its threads.
TEST(ThreadPool, AChildOfAForkHasKernelThreadsOfItsOwn) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer starts no threads in a child of fork()";
#endif
  if (kernel_threads() < 2) GTEST_SKIP() << "one kernel thread alone";
  ThreadPool& before = ThreadPool::global();
  ASSERT_TRUE(meet_in_a_loop(before));
  const auto passes = [&](auto&& self, int generations) -> bool {
    const pid_t child = ::fork();
    if (child == 0) {
      int64_t count = 0;
      before.parallel_for(100, [&](int64_t begin, int64_t end, int) { count += end - begin; });
      const bool fine = count == 100 && &ThreadPool::global() != &before && meet_in_a_loop(ThreadPool::global());
      ::_exit(fine && (generations == 0 || self(self, generations - 1)) ? 7 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 7;
  };
  EXPECT_TRUE(passes(passes, 1));
  EXPECT_EQ(&ThreadPool::global(), &before);
  EXPECT_TRUE(meet_in_a_loop(before));
}

TEST(RunParallel, AllJobsRunAndTheFirstErrorInListOrderIsThrown) {
  std::atomic<int> ran{0};
  std::vector<std::function<void()>> jobs;
  for (int i = 0; i < 20; ++i)
    jobs.emplace_back([&ran, i] {
      ++ran;
      if (i == 7 || i == 13) throw UserError("job " + std::to_string(i));
    });
  try {
    run_parallel(jobs, 3);
    FAIL() << "no exception";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "job 7");
  }
  EXPECT_EQ(ran.load(), 20);
  run_parallel({}, 2);
}

}  // namespace
}  // namespace toroid
