// What every kind of choice must do, whatever it is made of.
#include "tune/region/caller.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "exec/plans.h"
#include "program/inline.h"
#include "tune/fake_pipeline.h"

namespace toroid::tune {
namespace {

struct Kind {
  const char* name;
  CallerKind kind;
  Choice choice;
};

class Callers : public testing::TestWithParam<Kind> {
 protected:
  std::shared_ptr<ChoiceCaller> make(std::shared_ptr<FakePipeline> pipeline) {
    return std::make_shared<ChoiceCaller>(GetParam().name, GetParam().kind, GetParam().choice,
                                          std::make_shared<program::Program>(reduced_and_scaled()), pipeline->get());
  }
};

TEST_P(Callers, TenCallsOfFourThreadsCompileOnce) {
  auto pipeline = std::make_shared<FakePipeline>();
  auto caller = make(pipeline);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 10; ++i) caller->precompile();
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(caller->compiles(), 1);
  EXPECT_EQ(pipeline->compiles, 1);
  EXPECT_EQ(caller->failure(), "");
  EXPECT_NE(caller->kernels(), "");
}

TEST_P(Callers, RunningAfterPrecompileCompilesNothing) {
  auto pipeline = std::make_shared<FakePipeline>();
  auto caller = make(pipeline);
  caller->precompile();
  EXPECT_EQ(pipeline->plans, 0) << "code alone: no memory of the device";
  EXPECT_TRUE(caller->executable());
  EXPECT_EQ(caller->executable(), caller->executable());
  EXPECT_EQ(pipeline->compiles, 1);
  EXPECT_EQ(pipeline->plans, 1);
}

TEST_P(Callers, APrecompileThatFailedIsTriedAgainWhenItIsTimed) {
  auto pipeline = std::make_shared<FakePipeline>();
  auto caller = make(pipeline);
  pipeline->failures = 1;
  caller->precompile();
  EXPECT_EQ(caller->failure(), "planted");
  caller->precompile();
  EXPECT_EQ(pipeline->compiles, 0);
  EXPECT_TRUE(caller->executable());
  EXPECT_EQ(caller->failure(), "");
  pipeline->failures = 1;
  caller->release();
  EXPECT_THROW(caller->executable(), InternalError);
}

TEST_P(Callers, AThousandCyclesLeaveNothingBehind) {
  auto pipeline = std::make_shared<FakePipeline>();
  auto caller = make(pipeline);
  for (int i = 0; i < 1000; ++i) {
    caller->precompile();
    caller->executable();
    caller->release();
  }
  EXPECT_EQ(pipeline->compiles, 1000);
  EXPECT_EQ(pipeline->alive, 0);
}

// Pages that this process has in memory.
int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t all = 0, resident = 0;
  statm >> all >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

TEST_P(Callers, AThousandCyclesTakeNoMemory) {
  auto pipeline = std::make_shared<FakePipeline>();
  auto caller = make(pipeline);
  const auto cycles = [&](int count) {
    for (int i = 0; i < count; ++i) {
      caller->precompile();
      caller->executable();
      caller->release();
    }
  };
  cycles(300);  // what allocators keep
  const int64_t before = resident_bytes();
  cycles(1000);
  EXPECT_LT(resident_bytes() - before, 4 << 20);
}

TEST_P(Callers, KeysAreOfContent) {
  auto pipeline = std::make_shared<FakePipeline>();
  const Hash128 key = make(pipeline)->key();
  EXPECT_EQ(key, make(std::make_shared<FakePipeline>())->key());
  auto elsewhere = std::make_shared<FakePipeline>("another device");
  EXPECT_NE(key, make(elsewhere)->key());
  program::Program other = reduced_and_scaled();
  other.buffers[0].dtype = DType::F64;
  EXPECT_NE(key,
            ChoiceCaller("other", GetParam().kind, GetParam().choice, std::make_shared<program::Program>(other), pipeline->get()).key());
  Choice apart = GetParam().choice;
  apart.apart.emplace_back(1, 2);
  EXPECT_NE(key,
            ChoiceCaller("apart", GetParam().kind, apart, std::make_shared<program::Program>(reduced_and_scaled()), pipeline->get()).key());
}

INSTANTIATE_TEST_SUITE_P(Kinds, Callers,
                         testing::Values(Kind{"default", CallerKind::Default, {}},
                                         Kind{"template", CallerKind::Template, {{{1, {"loop", {{"threads", 64}}}}}, {}}},
                                         Kind{"library", CallerKind::Library, {{{1, {"cublaslt", {{"algo", 0}}}}}, {}}},
                                         Kind{"subgraph", CallerKind::Subgraph, {{{0, {"alternative tree", {}}}}, {{0, 1}, {0, 2}}}},
                                         Kind{"fused", CallerKind::Fused, {{{0, {"alternative tree", {}}}}, {}}}),
                         [](auto& i) { return i.param.name; });

}  // namespace
}  // namespace toroid::tune
