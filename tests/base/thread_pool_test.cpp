#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>

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

TEST(ThreadPool, LoopsOfMoreTasksThanFitAShareAreSplitEvenly) {
  ThreadPool pool(2);
  const int64_t n = (int64_t{5} << 31) + 3;
  int64_t begins[2] = {-1, -1}, ends[2] = {-1, -1};
  pool.parallel_for(n, [&](int64_t begin, int64_t end, int thread) {
    EXPECT_EQ(begins[thread], -1);
    begins[thread] = begin, ends[thread] = end;
  });
  EXPECT_EQ(begins[0], 0);
  EXPECT_EQ(ends[0], begins[1]);
  EXPECT_EQ(ends[0], n / 2 + 1);
  EXPECT_EQ(ends[1], n);
}

// The other thread stands at its first task until this one has run what an even split would not give it.
TEST(ThreadPool, EarlyThreadTakesOverWork) {
  constexpr int kTasks = 64, kTakenOver = 8;
  ThreadPool pool(2);
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
  ThreadPool pool(2);
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
  ThreadPool pool(2);
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
  ThreadPool pool(2);
  std::atomic<int64_t> count{0};
  std::vector<std::thread> callers;
  for (int t = 0; t < 4; ++t)
    callers.emplace_back([&] {
      for (int i = 0; i < 500; ++i) pool.parallel_for(8, [&](int64_t begin, int64_t end, int) { count += end - begin; });
    });
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(count.load(), 4 * 500 * 8);
}

TEST(ThreadPool, ExceptionOfAWorkerReachesTheCallerAndThePoolLives) {
  ThreadPool pool(2);
  const auto throwing = [](int64_t, int64_t, int thread) {
    if (thread == 1) throw UserError("planted");
  };
  EXPECT_THROW(pool.parallel_for(2, throwing), UserError);
  std::atomic<int64_t> count{0};
  pool.parallel_for(2, [&](int64_t begin, int64_t end, int) { count += end - begin; });
  EXPECT_EQ(count.load(), 2);
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
