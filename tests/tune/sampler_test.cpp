// Times of executables on the CPU.
#include "tune/sampler.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "exec/plans.h"

namespace toroid::tune {
namespace {

template <int kMicroseconds>
void slow_add_one(void* const* bufs, const int64_t* params, int64_t begin, int64_t end, int thread) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(kMicroseconds);
  exec::add_one(bufs, params, begin, end, thread);
  while (std::chrono::steady_clock::now() < until) {
  }
}

exec::Plan plan(exec::KernelFunction f) {
  exec::Plan p = exec::chain(1, false);
  auto& launch = std::get<exec::Launch>(p.steps[0]);
  launch.function = f;
  launch.serial = true;
  return p;
}

TEST(Sampler, TimesAreThoseOfOneRun) {
  exec::Executable a(plan(slow_add_one<200>)), b(plan(slow_add_one<20>));
  const Executables both = [&](size_t i) -> exec::Executable& { return i == 0 ? a : b; };
  const std::vector<Tensor> inputs{Tensor::full(std::vector<int64_t>{64}, 1)};
  for (size_t flush : {size_t{0}, size_t{1} << 22}) {
    SamplerOptions o;
    o.flush_bytes = flush;
    const Sample sample = time_executables(both, 2, {}, inputs, o);
    double slow = 1e9, fast = 1e9;
    for (int i = 0; i < 20; ++i) slow = std::min(slow, sample(0)), fast = std::min(fast, sample(1));
    EXPECT_GE(slow, 200'000);
    EXPECT_GE(fast, 20'000);
    EXPECT_LT(fast, 150'000);
  }
  EXPECT_EQ(measure(2, time_executables(both, 2, {}, inputs)).winner, 1u);
}

}  // namespace
}  // namespace toroid::tune
