// Memory of recorded calls: what they share, what is forecast, what a budget does; and results that later calls overwrite.
#include <gtest/gtest.h>

#include <thread>

#include "base/options.h"
#include "errors.h"
#include "exec/plans.h"
#include "exec/run/executable.h"
#include "toroid/error.h"

namespace toroid::exec {
namespace {

using test::contains;
using test::user_error;

constexpr int64_t kUnit = 4096;  // elements of a row: 16 KiB

Tensor filled(int64_t n, float value) {
  Tensor t = Tensor::empty({n, kUnit}, DType::F32);
  std::fill_n(t.data<float>(), t.numel(), value);
  return t;
}

// A call of a chain of 5.
Tensor run(Executable& e, int64_t n, float value = 1) {
  Tensor y = e.run(std::vector<Tensor>{filled(n, value)})[0];
  EXPECT_EQ(y.data<float>()[0], value + 5);
  EXPECT_EQ(y.data<float>()[y.numel() - 1], value + 5);
  return y;
}
void record(Executable& e, int64_t n) {
  for (int i = 0; i < 2; ++i) run(e, n);
}

// Each test begins without recordings of others.
class CaptureMemory : public testing::Test {
 protected:
  CaptureMemory() { release_captures(); }
};

TEST_F(CaptureMemory, SixteenSizesShareOnePool) {
  int64_t largest_alone = 0;
  {
    Runnable e(chain(5, true, kUnit));
    record(e, 256);
    largest_alone = capture_report().pool_bytes;
  }
  release_captures();
  Runnable e(chain(5, true, kUnit));
  for (int64_t n = 16; n <= 256; n += 16) record(e, n);
  const CaptureReport r = capture_report();
  ASSERT_EQ(r.recordings.size(), 16u);
  EXPECT_LE(static_cast<double>(r.pool_bytes), 1.3 * static_cast<double>(largest_alone));
  for (auto& row : r.recordings) EXPECT_GE(row.shared_bytes, row.pool_bytes * (row.sizes == "s0=256" ? 15 : 16) / 16 - 512) << row.sizes;
  for (int64_t n = 16; n <= 256; n += 16) run(e, n, 3);
  EXPECT_EQ(e.captures().counters.recordings, 16) << "recordings follow a pool that has grown";
}

TEST_F(CaptureMemory, TheForecastIsRight) {
  Runnable e(chain(5, true, kUnit));
  for (int64_t n : {3, 30, 300}) record(e, n);
  int64_t most = 0;
  for (auto& row : e.captures().recordings) {
    EXPECT_NEAR(static_cast<double>(row.forecast_bytes), static_cast<double>(row.exec_bytes), 0.1 * static_cast<double>(row.exec_bytes));
    most = std::max(most, row.pool_bytes);
  }
  EXPECT_NEAR(static_cast<double>(capture_report().pool_bytes), static_cast<double>(most), 0.05 * static_cast<double>(most));
}

TEST_F(CaptureMemory, ABudgetDropsWhatWasNotUsedForLongest) {
  ScopedOption budget("capture_memory_kb", "3000");  // the largest here takes 2.2 MB of the pool
  Runnable e(chain(5, true, kUnit));
  for (int round = 0; round < 3; ++round)
    for (int64_t n : {8, 64, 32}) {
      record(e, n);
      const CaptureReport r = capture_report();
      EXPECT_LE(r.pool_bytes + r.exec_bytes, 3000 << 10);
    }
  EXPECT_LE(capture_report().peak_bytes, 3000 << 10);
  EXPECT_EQ(e.captures().counters.skipped, 0);
  EXPECT_EQ(e.captures().counters.evictions, 0) << "sizes share the pool, and recordings are small";
  record(e, 100);
  record(e, 100);
  EXPECT_EQ(e.captures().counters.skipped, 3) << "this one can never fit: it runs step by step, and is right";
  EXPECT_EQ(e.captures().counters.evictions, 0);
  EXPECT_TRUE(contains(to_string(e.captures()), "more than capture_memory_kb (3000) leaves")) << to_string(e.captures());
  EXPECT_LE(capture_report().peak_bytes, 3000 << 10);
}

TEST_F(CaptureMemory, RecordingsAreDroppedWhenTheyAloneAreTooMany) {
  ScopedOption budget("capture_memory_kb", "12");
  Runnable e(chain(20, true));
  for (int round = 0; round < 2; ++round)
    for (int64_t n = 1; n <= 20; ++n)
      for (int i = 0; i < 2; ++i) e.run(std::vector<Tensor>{Tensor::full(std::vector<int64_t>{n}, 1)});
  const CaptureReport r = e.captures();
  EXPECT_GT(r.counters.evictions, 0);
  EXPECT_LE(capture_report().peak_bytes, 12 << 10);
  EXPECT_LT(r.recordings.size(), 20u);
  EXPECT_EQ(r.counters.warmups, 20) << "what was dropped needs no second warm-up";
  ScopedOption refuse("capture_over_budget", "refuse");
  Runnable other(chain(20, true));
  for (int i = 0; i < 3; ++i) other.run(std::vector<Tensor>{Tensor::full(std::vector<int64_t>{500}, 1)});
  EXPECT_EQ(other.captures().counters.recordings, 0);
  EXPECT_EQ(other.captures().counters.evictions, 0);
  EXPECT_TRUE(contains(to_string(other.captures()), "capture_over_budget=evict")) << to_string(other.captures());
}

TEST_F(CaptureMemory, ReleasedRecordingsAreMadeAgain) {
  Runnable e(chain(5, true, kUnit));
  record(e, 64);
  EXPECT_GT(capture_report().pool_bytes, 0);
  release_captures();
  EXPECT_EQ(capture_report().pool_bytes, 0);
  EXPECT_TRUE(e.captures().recordings.empty());
  run(e, 64, 2);
  EXPECT_EQ(e.captures().counters.recordings, 2);
  EXPECT_EQ(e.captures().counters.warmups, 1);
}

TEST_F(CaptureMemory, ResultsOfTheirOwnStay) {
  Runnable e(chain(5, true, kUnit));
  std::vector<Tensor> results;
  for (int i = 0; i < 6; ++i) results.push_back(run(e, 4, static_cast<float>(i)));
  for (int i = 0; i < 6; ++i) EXPECT_EQ(results[static_cast<size_t>(i)].data<float>()[0], i + 5);
}

TEST_F(CaptureMemory, AnOverwrittenResultIsAnErrorThatNamesTheLines) {
  ScopedOption shared("capture_results", "pool");
  Runnable e(chain(5, true, kUnit));
  record(e, 4);
  const Tensor kept = run(e, 4, 7);
  const Tensor view = kept.as_strided(std::vector<int64_t>{2}, std::vector<int64_t>{1});
  run(e, 4, 8);
  const std::string message = user_error([&] { kept.raw_data(); });
  const std::string line = "capture_memory_test.cpp:" + std::to_string(__LINE__ - 1);
  EXPECT_TRUE(contains(message, "output 0 of \"chain\" (computed at step.cpp:7) was overwritten by a later run of \"chain\"")) << message;
  EXPECT_TRUE(contains(message, line) && contains(message, "cudagraph_mark_step_begin")) << message;
  EXPECT_NE(user_error([&] { view.to_vector(); }), "no error");
  EXPECT_TRUE(contains(user_error([&] { e.run(std::vector<Tensor>{kept}); }), "was overwritten")) << "as an input, too";
}

TEST_F(CaptureMemory, MarksKeepTheResultsOfAStep) {
  ScopedOption shared("capture_results", "pool");
  std::thread([] {  // marks are of a thread
    Runnable e(chain(5, true, kUnit));
    for (int step = 0; step < 6; ++step) {
      cudagraph_mark_step_begin();
      const Tensor a = run(e, 4, 1), b = run(e, 4, 2), c = run(e, 8, 3);
      EXPECT_EQ(a.data<float>()[0], 6);
      EXPECT_EQ(b.data<float>()[0], 7);
      EXPECT_EQ(c.data<float>()[0], 8);
    }
    const CaptureReport r = e.captures();
    EXPECT_EQ(r.counters.rerecordings, 1) << "the second call of a step leaves the first one's result alone, in a recording of its own";
    EXPECT_EQ(r.recordings.size(), 3u);
    EXPECT_EQ(r.counters.graph_launches, 6 * 3 - 1 - 1) << "one warm-up a size";
  })
      .join();
}

TEST_F(CaptureMemory, AResultFedBackIsNotOverwrittenWhileItIsRead) {
  ScopedOption shared("capture_results", "pool");
  Runnable e(chain(5, true, kUnit));
  Tensor x = filled(4, 0);
  for (int i = 0; i < 20; ++i) x = e.run(std::vector<Tensor>{x})[0];
  EXPECT_EQ(x.data<float>()[0], 100);
  EXPECT_EQ(x.data<float>()[x.numel() - 1], 100);
  EXPECT_LE(e.captures().recordings.size(), 2u) << "two sets take turns";
}

TEST_F(CaptureMemory, DeadResultsAreReused) {
  ScopedOption shared("capture_results", "pool");
  Runnable a(chain(5, true, kUnit)), b(chain(5, true, kUnit)), c(chain(5, true, kUnit));
  for (int i = 0; i < 3; ++i) run(a, 64), run(b, 64);
  const int64_t before = capture_report().pool_bytes;
  for (int i = 0; i < 3; ++i) run(a, 64), run(c, 64);
  EXPECT_EQ(capture_report().pool_bytes, before) << "another branch works in the same memory";
}

TEST_F(CaptureMemory, ByOptionAHeldResultIsMovedBeforeItIsOverwritten) {
  ScopedOption shared("capture_results", "pool-clone");
  Runnable e(chain(5, true, kUnit));
  record(e, 4);
  std::vector<Tensor> kept;
  for (int i = 0; i < 5; ++i) kept.push_back(run(e, 4, static_cast<float>(i)));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(kept[static_cast<size_t>(i)].data<float>()[3 * kUnit], i + 5);
  EXPECT_EQ(e.captures().recordings.size(), 1u);
}

TEST_F(CaptureMemory, ThreadsKeepTheirResults) {
  ScopedOption shared("capture_results", "pool");
  Runnable e(chain(5, true, kUnit));
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const Tensor x = filled(2 + t % 2, static_cast<float>(t));
        const Tensor y = e.run(std::vector<Tensor>{x})[0];
        std::this_thread::yield();
        for (float v : {y.data<float>()[0], y.data<float>()[y.numel() - 1]}) wrong += v != static_cast<float>(t) + 5;
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace toroid::exec
