// Sixteen threads compile and run at once. Run with ThreadSanitizer by scripts/tsan.sh.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <latch>
#include <mutex>
#include <thread>

#include "base/files.h"
#include "base/options.h"
#include "front/harness.h"
#include "jit/jit.h"
#include "toroid/autograd.h"
#include "toroid/model.h"
#include "toroid/ops.h"

namespace toroid {
namespace {

using namespace test;
using Values = std::vector<double>;

constexpr int kThreads = 16;

// Calls work(0), ..., work(15), each on a thread of its own that starts when all are there. An exception is a failure of the test.
void at_once(const std::function<void(int)>& work) {
  std::latch start(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      start.arrive_and_wait();
      try {
        work(t);
      } catch (const std::exception& e) {
        ADD_FAILURE() << "thread " << t << ": " << e.what();
      }
    });
  for (auto& t : threads) t.join();
}

// 1 * factor + offset, 2 * factor + offset, ...
Values line(int64_t n, double factor, double offset) {
  Values v;
  for (int64_t i = 1; i <= n; ++i) v.push_back(static_cast<double>(i) * factor + offset);
  return v;
}
Tensor from_one(int64_t n) {
  Tensor t = Tensor::empty({n}, DType::F32);
  for (int64_t i = 0; i < n; ++i) t.data<float>()[i] = static_cast<float>(i + 1);
  return t;
}
Tensor filled(int64_t n, double value) { return Tensor::full(std::vector<int64_t>{n}, value); }

// Numbers that several threads report; each of 1, ..., count must come once.
class Tickets {
 public:
  void add(double number) {
    std::lock_guard lock(mutex_);
    numbers_.push_back(number);
  }
  void expect_all(int64_t count) {
    std::sort(numbers_.begin(), numbers_.end());
    EXPECT_EQ(numbers_, line(count, 1, 0));
  }

 private:
  std::mutex mutex_;
  Values numbers_;
};

// Each test starts with an empty kernel cache, so that its threads compile.
class Concurrency : public testing::Test {
 protected:
  ~Concurrency() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

 private:
  std::filesystem::path folder_ = make_temp_dir();
  ScopedOption cache_dir_{"cache_dir", folder_.string()};
};

TEST_F(Concurrency, OneFunctionIsCompiledOnce) {
  auto f = compile([](const Tensor& x) { return relu(x * 2 - 7); });
  at_once([&](int t) {
    for (int i = 0; i < 40; ++i) ASSERT_EQ(f(filled(100, t + i)).to_vector(), Values(100, std::max(0, 2 * (t + i) - 7)));
  });
  EXPECT_EQ(f.report().compiles, 1);
  EXPECT_EQ(f.report().calls, kThreads * 40);
}

TEST_F(Concurrency, FunctionsOfTheirOwn) {
  at_once([](int t) {
    auto f = compile([t](const Tensor& x) { return x * t + 1; });
    for (int64_t n : {5, 5, 300}) ASSERT_EQ(f(from_one(n)).to_vector(), line(n, t, 1));
  });
}

TEST_F(Concurrency, ChangingSizesBecomeSymbolic) {
  auto f = compile([](const Tensor& x, const Tensor& y) { return std::pair(x + y * 3, sum(x)); });
  at_once([&](int t) {
    for (int64_t i = 0; i < 20; ++i) {
      int64_t n = 2 + (t * 7 + i * 3) % 40;
      auto [elements, total] = f(from_one(n), from_one(n));
      ASSERT_EQ(elements.to_vector(), line(n, 4, 0));
      ASSERT_EQ(total.item(), static_cast<double>(n * (n + 1)) / 2);
    }
  });
  EXPECT_LE(f.report().compiles, 3);
  EXPECT_EQ(f.report().eager_calls, 0);
}

TEST_F(Concurrency, TheRecompileLimitHolds) {
  auto f = compile([](const Tensor& x) { return x - 3; }, {.dynamic = false, .options = {{"recompile_limit", "4"}}});
  at_once([&](int t) {
    for (int64_t i = 0; i < 3; ++i) ASSERT_EQ(f(from_one(2 + t + i)).to_vector(), line(2 + t + i, 1, -3));
  });
  EXPECT_EQ(f.report().compiles, 4);
  EXPECT_EQ(f.report().entries, 4u);
}

TEST_F(Concurrency, GraphBreaks) {
  auto f = compile([](const Tensor& x) {
    Tensor y = x * 2;
    return y.item() > 20 ? y + 1 : y - 1;
  });
  at_once([&](int t) {
    for (int i = 0; i < 5; ++i) ASSERT_EQ(f(filled(1, t)).item(), t > 10 ? 2 * t + 1 : 2 * t - 1);
  });
}

TEST_F(Concurrency, EagerOperationsWhileTheirProgramsAreDropped) {
  std::atomic<int> busy{kThreads - 1};
  at_once([&](int t) {
    if (t == 0) {
      for (; busy > 0; std::this_thread::sleep_for(std::chrono::milliseconds(3))) reset();
      return;
    }
    struct Done {
      std::atomic<int>& busy;
      ~Done() { --busy; }
    } done{busy};
    for (int64_t i = 0; i < 12; ++i) {
      int64_t n = 2 + (t + i) % 4;
      Tensor x = from_one(n);
      add_(x, 1);
      EXPECT_EQ((x * t).to_vector(), line(n, t, t));
      EXPECT_EQ(sum(x).item(), static_cast<double>(n * (n + 3)) / 2);
    }
  });
}

TEST_F(Concurrency, ResetWhileOthersCall) {
  auto f = compile([](const Tensor& x) { return exp(x) * 0 + x * 5; });
  at_once([&](int t) {
    for (int i = 0; i < 10; ++i) {
      if (t == 0) f.reset();
      if (t == 1) reset();
      ASSERT_EQ(f(from_one(8 + (t + i) % 2)).to_vector(), line(8 + (t + i) % 2, 5, 0));
      if (t == 2) to_string(f.report());
    }
  });
}

TEST_F(Concurrency, ReplayedLaunches) {
  auto f =
      compile([](const Tensor& x) { return x * 2 + sum(x) / sum(x * x + 1) * 0 + 1; }, {.mode = Mode::ReduceOverhead, .dynamic = true});
  at_once([&](int t) {
    for (int64_t i = 0; i < 30; ++i) {
      int64_t n = t % 2 ? 3000 + i % 3 : 10 + i % 3;
      ASSERT_EQ(f(from_one(n)).to_vector(), line(n, 2, 1));
    }
  });
  EXPECT_EQ(f.report().compiles, 1);
}

TEST_F(Concurrency, CallsThatWriteCapturedTensorsTakeTurns) {
  for (Mode mode : {Mode::Default, Mode::ReduceOverhead}) {
    Tensor count = filled(1, 0);
    auto f = compile(
        [count](const Tensor& x) {
          add_(count, x);
          return count * 1;
        },
        {.mode = mode});
    Tickets tickets;
    at_once([&](int) {
      for (int i = 0; i < 25; ++i) tickets.add(f(filled(1, 1)).item());
    });
    tickets.expect_all(kThreads * 25);
    EXPECT_EQ(count.item(), kThreads * 25);
  }
}

TEST_F(Concurrency, ModelsWithBuffersTakeTurns) {
  const std::string folder = std::string(TOROID_SOURCE_DIR) + "/tests/data/models/tied/";
  const Tensor input = load_tensors(folder + "in.safetensors").begin()->second;
  const Values want = load_tensors(folder + "out.safetensors").begin()->second.to_vector();
  Model model = Model::load(folder + "core.pt2");
  Tickets tickets;
  tickets.add(1);  // the file was saved after one call
  at_once([&](int) {
    for (int i = 0; i < 5; ++i) {
      auto results = model.run({input});
      tickets.add(results[1].item());
      auto got = results[0].to_vector();
      ASSERT_EQ(got.size(), want.size());
      for (size_t k = 0; k < got.size(); ++k) ASSERT_NEAR(got[k], want[k], 1e-5);
    }
  });
  tickets.expect_all(1 + kThreads * 5);
}

// Each thread has calls of its own alive, and goes back while others compile or run the same passes.
TEST_F(Concurrency, GradientsOfTheSameFunction) {
  for (Mode mode : {Mode::Default, Mode::ReduceOverhead}) {
    auto f = compile([](const Tensor& x, const Tensor& y) { return exp(x * 0) * x * y; }, {.mode = mode, .dynamic = true});
    at_once([&](int t) {
      for (int64_t i = 0; i < 6; ++i) {
        const int64_t n = t % 2 ? 3000 + i % 2 : 10 + i % 3;
        const Tensor x = from_one(n).requires_grad_(), y = t % 3 ? from_one(n) : from_one(n).requires_grad_();
        const Tensor first = sum(f(x, y)), second = sum(f(x, y) * 2);
        (i % 2 ? first : second).backward();
        (i % 2 ? second : first).backward({}, true);
        ASSERT_EQ(x.grad().to_vector(), line(n, 3, 0));
        if (t % 3 == 0) {
          ASSERT_EQ(y.grad().to_vector(), line(n, 3, 0));
        }
        if (t == 2) to_string(f.report());
      }
    });
    EXPECT_EQ(f.report().eager_calls, 0);
  }
}

TEST_F(Concurrency, EqualTextsAreCompiledOnceIntoTheCache) {
  const auto compiler = jit::shared_compiler();
  at_once([](int) {
    auto f = compile([](const Tensor& x) { return x * 1234 + 1; });
    ASSERT_EQ(f(from_one(50)).to_vector(), line(50, 1234, 1));
  });
  EXPECT_EQ(jit::shared_compiler(), compiler);
  EXPECT_EQ(compiler->counters().compiled, 1u);
  auto stats = compiler->cache()->stats();
  EXPECT_EQ(stats.entries - stats.programs, 1u);
  EXPECT_EQ(stats.errors + stats.damaged, 0u);
}

TEST_F(Concurrency, EverythingAtOnce) {
  auto plain = compile([](const Tensor& x) { return x * 6 + 1; });
  auto replayed = compile([](const Tensor& x) { return x * 7 + 1; }, {.mode = Mode::ReduceOverhead});
  auto scalar = compile([](const Tensor& x) { return x * 8 + 1; }, {.options = {{"isa", "scalar"}}});
  at_once([&](int t) {
    for (int64_t i = 0; i < 12; ++i) {
      int64_t n = 2 + (t * i) % 5;
      Tensor x = from_one(n);
      ASSERT_EQ(plain(x).to_vector(), line(n, 6, 1));
      ASSERT_EQ(replayed(x).to_vector(), line(n, 7, 1));
      ASSERT_EQ(scalar(x).to_vector(), line(n, 8, 1));
      ASSERT_EQ((x * 9 + 1).to_vector(), line(n, 9, 1));
      if (t == 3 && i % 4 == 0) reset();
      if (t == 4) mark_dynamic(x, 0);
      if (t == 5) explain([](const Tensor& y) { return y + 1; }, x);
    }
  });
}

// Who finds the limit reached finds the variant that another thread has just made, too.
TEST_F(Concurrency, TheLimitForbidsNoVariantThatThereIs) {
  for (int round = 0; round < 40; ++round) {
    auto f = compile([](const Tensor& x) { return x + 1; },
                     by_reference({.options = {{"recompile_limit", "1"}, {"fail_on_recompile_limit", "1"}}}));
    at_once([&](int) { EXPECT_EQ(f(filled(3, 1)).to_vector()[0], 2); });
    EXPECT_EQ(f.report().compiles, 1);
  }
}

}  // namespace
}  // namespace toroid
