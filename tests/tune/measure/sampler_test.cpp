// Times of executables on the CPU.
#include "tune/measure/sampler.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <set>
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

exec::Plan plan(exec::KernelFunction f, int64_t unit = 1) {
  exec::Plan p = exec::chain(1, false, unit);
  auto& launch = std::get<exec::Launch>(p.steps[0]);
  launch.kernel = exec::native(f);
  launch.serial = true;
  return p;
}

TEST(Sampler, TimesAreThoseOfOneRun) {
  exec::Runnable a(plan(slow_add_one<200>)), b(plan(slow_add_one<20>));
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

std::set<void*> read_at;  // where the input of each run was

void note_input(void* const* bufs, const int64_t*, int64_t, int64_t, int) { read_at.insert(bufs[0]); }

// Of small inputs there are copies elsewhere, as it is chance where a caller's are; large ones stay what the caches may hold of them.
TEST(Sampler, SmallInputsAreInSeveralPlaces) {
  constexpr int64_t kUnit = 1 << 14;
  exec::Runnable e(plan(note_input, kUnit));
  for (auto& [rows, places] : std::map<int64_t, size_t>{{1, 3}, {100, 1}}) {
    SamplerOptions o;
    o.most_places = 3;
    const Sample sample =
        time_executables([&](size_t) -> exec::Executable& { return e; }, 1, {}, {Tensor::full(std::vector<int64_t>{rows, kUnit}, 1)}, o);
    read_at.clear();
    for (int i = 0; i < 6; ++i) sample(0);
    EXPECT_EQ(read_at.size(), places) << rows;
  }
}

}  // namespace
}  // namespace toroid::tune
