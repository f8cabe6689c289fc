// A number of threads for each program.
#include <gtest/gtest.h>

#include <thread>

#include "base/options.h"
#include "base/thread_pool.h"
#include "front/compile_model.h"
#include "front/settings.h"
#include "toroid/compile.h"
#include "toroid/error.h"

namespace toroid {
namespace {

std::unique_ptr<graph::Graph> sum_of_rows() {
  return graph::parse("graph \"g\"(%x: f32[64, 4096]) {\n  %y: f32[64] = sum.dim_IntList(%x, [1])\n  return %y\n}");
}

TEST(Threads, OfAModelReachItsPlan) {
  for (int threads : {0, 1, 3}) {
    auto model = front::compile_model(sum_of_rows(), {.threads = threads});
    EXPECT_EQ(model.executable().plan().options.get(options::kMaxThreads), threads);
    for (double v : model.run(std::vector<Tensor>{Tensor::full(std::vector<int64_t>{64, 4096}, 0.5)})[0].to_vector()) EXPECT_EQ(v, 2048);
  }
  EXPECT_THROW(front::compile_model(sum_of_rows(), {.threads = -1}), UserError);
}

TEST(Threads, OfACompiledFunctionAreItsOwnAndNotTheProcesss) {
  const int all = ThreadPool::global().size();
  for (const char* bad : {"-1", "many", "2000"}) EXPECT_THROW(front::read_settings({.options = {{"max_threads", bad}}}), UserError) << bad;
  auto fn = compile([](const Tensor& x) { return sum(x * x); }, {.options = {{"max_threads", "1"}}});
  const Tensor x = Tensor::full(std::vector<int64_t>{512, 512}, 2);
  EXPECT_EQ(fn(x).item(), 4.0 * 512 * 512);
  EXPECT_EQ(ThreadPool::global().size(), all);
}

// Callers of one compiled function while the number of threads changes.
TEST(Threads, ChangeWhileCallersRun) {
  auto fn = compile([](const Tensor& x) { return sum(exp(x) + x, {1}); });
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  fn(Tensor::full(std::vector<int64_t>{300, 300}, 0));
  std::vector<std::thread> callers;
  for (int c = 0; c < 2; ++c)
    callers.emplace_back([&] {
      const Tensor x = Tensor::full(std::vector<int64_t>{300, 300}, 0);
      while (!stop)
        for (double v : fn(x).to_vector()) wrong += v != 300;
    });
  for (const char* threads : {"1", "2", "0", "1", "0"}) {
    const ScopedOption changed("threads", threads);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  stop = true;
  for (auto& c : callers) c.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace toroid
