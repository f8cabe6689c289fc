// The caching allocator, with a source whose memory is counted.
#include "device/memory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <cstring>
#include <random>

#include "device/faults.h"
#include "toroid/error.h"
#include "toroid/tensor.h"

namespace toroid::device {
namespace {

// A device of 64 MiB with any number of streams.
struct CountedSource final : MemorySource {
  Device device() const override { return Device::cpu(); }
  std::string description() const override { return "counted"; }
  size_t total_bytes() const override { return size_t{64} << 20; }
  void* allocate(size_t bytes) override {
    if (taken + bytes > total_bytes()) return nullptr;
    taken += bytes;
    return std::aligned_alloc(512, bytes);
  }
  void free(void* p, size_t bytes) override {
    taken -= bytes;
    std::free(p);
  }
  bool can_free() const override { return !captures; }
  StreamKey current_stream() const override { return stream; }
  std::shared_ptr<void> mark(StreamKey) override { return std::make_shared<int>(0); }
  bool passed(void*) override { return idle; }

  size_t taken = 0;
  StreamKey stream = nullptr;
  bool captures = false, idle = true;
};

struct MemoryTest : testing::Test {
  CountedSource* source = new CountedSource;
  DeviceMemory memory{std::unique_ptr<MemorySource>(source)};
};

TEST_F(MemoryTest, FreedMemoryIsHandedOutAgain) {
  auto a = memory.allocate(1000);
  void* first = a.get();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 512, 0u);
  EXPECT_EQ(memory.stats().allocated, 1024u);
  a.reset();
  EXPECT_EQ(memory.allocate(900).get(), first);
  EXPECT_EQ(memory.stats().allocated, 0u);
  EXPECT_EQ(memory.stats().peak, 1024u);
  EXPECT_EQ(memory.stats().reserved, source->taken);
  memory.release_unused();
  EXPECT_EQ(source->taken, 0u);
  EXPECT_EQ(memory.stats().reserved, 0u);
}

// A steady call's results: asked for and given back in turns, while others come and go.
TEST_F(MemoryTest, WhatWasGivenBackLastComesAgainWhereItWas) {
  auto a = memory.allocate(1000), between = memory.allocate(512), b = memory.allocate(2000);
  void *first = a.get(), *second = b.get();
  for (int call = 0; call < 3; ++call) {
    a.reset(), b.reset();
    EXPECT_FALSE(memory.default_pool()->in_use(first));
    EXPECT_EQ(memory.default_pool()->block_bytes(second), 0u);
    EXPECT_EQ(memory.default_pool()->checkpoint().used.size(), 1u) << "the one between";
    EXPECT_EQ(memory.stats().allocated, 512u);
    a = memory.allocate(1000), b = memory.allocate(2000);
    EXPECT_EQ(a.get(), first);
    EXPECT_EQ(b.get(), second);
  }
}

// Blocks that wait for their like are joined before the device is asked for more.
TEST_F(MemoryTest, BlocksThatWereGivenBackMakeRoomForLargerOnes) {
  std::vector<std::shared_ptr<void>> quarters;
  for (int i = 0; i < 4; ++i) quarters.push_back(memory.allocate(size_t{512} << 10));
  const size_t reserved = memory.stats().reserved;
  void* first = quarters[0].get();
  quarters.clear();
  auto whole = memory.allocate(size_t{1} << 20);
  EXPECT_EQ(whole.get(), first);
  EXPECT_EQ(memory.stats().reserved, reserved);
  whole.reset();
  memory.release_unused();
  EXPECT_EQ(source->taken, 0u);
}

TEST_F(MemoryTest, BlocksNeverOverlapAndJoinAgain) {
  std::mt19937 random(3);
  std::vector<std::pair<std::shared_ptr<void>, size_t>> held;
  for (int i = 0; i < 3000; ++i) {
    if (held.size() > 40 || (!held.empty() && random() % 2)) {
      std::swap(held[random() % held.size()], held.back());
      held.pop_back();
    } else {
      const size_t bytes = 1 + random() % (random() % 8 ? 5000 : 2'000'000);
      auto p = memory.allocate(bytes);
      for (auto& [q, size] : held)
        ASSERT_TRUE(static_cast<std::byte*>(p.get()) + bytes <= q.get() || static_cast<std::byte*>(q.get()) + size <= p.get());
      held.emplace_back(std::move(p), bytes);
    }
  }
  held.clear();
  EXPECT_EQ(memory.stats().allocated, 0u);
  EXPECT_EQ(memory.stats().allocations, 0u);
  memory.release_unused();
  EXPECT_EQ(source->taken, 0u) << "all blocks of a segment have joined";
}

TEST_F(MemoryTest, OtherStreamsGetOtherMemory) {
  int one = 0;
  void* first = memory.allocate(512).get();
  source->stream = &one;
  EXPECT_NE(memory.allocate(512).get(), first);
  source->stream = nullptr;
  EXPECT_EQ(memory.allocate(512).get(), first);
}

TEST_F(MemoryTest, MemoryThatAnotherStreamUsesWaitsForIt) {
  int other = 0;
  auto a = memory.allocate(512);
  void* first = a.get();
  memory.record_stream(first, &other);
  source->idle = false;
  a.reset();
  auto b = memory.allocate(512);
  EXPECT_NE(b.get(), first);
  source->idle = true;
  EXPECT_EQ(memory.allocate(512).get(), first);
}

TEST_F(MemoryTest, PoolsShareNothingAndGoWithTheirLastUser) {
  auto pool = memory.make_pool();
  std::shared_ptr<void> inside, outside = memory.allocate(512);
  {
    PoolScope scope(pool);
    EXPECT_EQ(memory.current_pool(), pool);
    inside = memory.allocate(512);
  }
  EXPECT_TRUE(pool->holds(inside.get()));
  EXPECT_TRUE(pool->in_use(inside.get()));
  EXPECT_FALSE(pool->holds(outside.get()));
  EXPECT_EQ(memory.current_pool(), nullptr);
  const size_t both = source->taken, one = both / 2;
  pool->pin();
  pool.reset();
  memory.release_unused();
  EXPECT_EQ(source->taken, both) << "an allocation keeps the pool";
  source->captures = true;
  inside.reset();
  EXPECT_EQ(source->taken, both) << "nothing is freed while work is captured";
  EXPECT_EQ(memory.stats().reserved, both);
  source->captures = false;
  memory.release_unused();
  EXPECT_EQ(source->taken, one);
}

TEST_F(MemoryTest, PinnedPoolsKeepTheirSegments) {
  auto pool = memory.make_pool();
  void* p = pool->allocate(512).get();
  pool->pin();
  memory.release_unused();
  EXPECT_EQ(pool->allocate(512).get(), p);
  pool->unpin();
  memory.release_unused();
  EXPECT_EQ(source->taken, 0u);
}

// A trunk, then two branches: the second reuses the addresses of the first, and the trunk's live results stay.
TEST_F(MemoryTest, AnotherBranchReusesTheMemoryOfTheFirst) {
  auto pool = memory.make_pool();
  auto temporary = pool->allocate(3000), result = pool->allocate(700), dies = pool->allocate(2000);
  void *result_at = result.get(), *dies_at = dies.get();
  temporary.reset();
  const PoolState after_trunk = pool->checkpoint();
  auto branch = [&] {
    std::vector<std::shared_ptr<void>> out;
    for (size_t bytes : {2500, 100, 4000, 1'500'000}) out.push_back(pool->allocate(bytes));
    return out;
  };
  auto first = branch();
  dies.reset();  // in the meantime
  const size_t reserved = pool->stats().reserved;
  void* live[] = {result_at};
  auto again = pool->restore(after_trunk, live);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].get(), result_at);
  EXPECT_FALSE(pool->in_use(dies_at));
  EXPECT_EQ(pool->stats().allocated, 1024u);
  auto second = branch();
  EXPECT_EQ(pool->stats().reserved, reserved);
  EXPECT_EQ(second[3].get(), first[3].get());
  result.reset();  // the old handles own nothing
  first.clear();
  EXPECT_TRUE(pool->in_use(result_at));
  for (auto& p : second) EXPECT_TRUE(pool->in_use(p.get()));
  again.clear();
  EXPECT_FALSE(pool->in_use(result_at));
  second.clear();
  EXPECT_EQ(pool->stats().allocated, 0u);
  EXPECT_EQ(pool->stats().allocations, 0u);
  int elsewhere = 0;
  void* unknown[] = {&elsewhere};
  EXPECT_THROW(pool->restore(after_trunk, unknown), InternalError);
  EXPECT_THROW(memory.make_pool()->restore(after_trunk, {}), InternalError);
}

TEST_F(MemoryTest, ARestoredStateHasTheSameFreeMemoryEachTime) {
  auto pool = memory.make_pool();
  auto a = pool->allocate(100), b = pool->allocate(5000), c = pool->allocate(100);
  b.reset();
  const PoolState state = pool->checkpoint();
  void* live[] = {a.get(), c.get()};
  std::vector<std::shared_ptr<void>> keep;
  std::vector<void*> first;
  for (int round = 0; round < 3; ++round) {
    keep = pool->restore(state, live);
    std::vector<std::shared_ptr<void>> made;
    std::vector<void*> at;
    for (size_t bytes : {600, 4000, 300, 9000}) at.push_back(made.emplace_back(pool->allocate(bytes)).get());
    if (round == 0) first = at;
    EXPECT_EQ(at, first) << round;
  }
}

TEST_F(MemoryTest, FullDeviceGivesBackWhatIsUnusedAndThenSaysWhoHasIt) {
  memory.allocate(size_t{40} << 20);  // freed at once, but kept
  auto a = memory.allocate(size_t{50} << 20);
  EXPECT_EQ(source->taken, size_t{50} << 20);
  auto pool = memory.make_pool();
  auto b = pool->allocate(size_t{12} << 20);
  try {
    pool->allocate(size_t{4} << 20);
    FAIL();
  } catch (const EnvironmentError& e) {
    const std::string text = e.what();
    for (auto part : {"out of memory on counted: 4.00 MiB wanted in pool", "62.00 MiB in use", "default pool: 50.00 MiB in use",
                      "12.00 MiB reserved", "graph_pool_handle"})
      EXPECT_NE(text.find(part), std::string::npos) << text;
  }
}

TEST(HostMemory, CountsTensorsInsideAndOutsideOfPools) {
  const Device cpu = Device::cpu();
  const size_t before = memory_stats(cpu).allocated;
  MemPool pool(cpu);
  Tensor outside = Tensor::empty({1000}, DType::F32), inside;
  {
    MemPoolScope scope(pool);
    inside = Tensor::empty({1000}, DType::F32);
  }
  EXPECT_EQ(pool.stats().allocated, 4096u);
  EXPECT_EQ(memory_stats(cpu).allocated, before + 4000 + 4096);
  EXPECT_TRUE(pool.impl()->holds(inside.raw_data()));
  EXPECT_FALSE(pool.impl()->holds(outside.raw_data()));
  EXPECT_NE(memory_summary(cpu).find("in use"), std::string::npos);
  inside = {};
  EXPECT_EQ(pool.stats().allocated, 0u);
  EXPECT_THROW(MemPoolScope{MemPool()}, UserError);
  EXPECT_THROW(Tensor::empty({int64_t{1} << 61}, DType::I8), EnvironmentError);
}

TEST(HostMemory, RetriesOnceWhereMemoryIsShort) {
  plan_fault(Fault::OutOfMemory, 1);
  EXPECT_TRUE(Tensor::empty({1000}, DType::F32).defined());
  plan_fault(Fault::OutOfMemory, 2);
  EXPECT_THROW(Tensor::empty({1000}, DType::F32), EnvironmentError);
  EXPECT_TRUE(Tensor::empty({1000}, DType::F32).defined());
}

// Memory of results that a program gives back and asks for again is not the system's in between, which would clear it each time. The
// sanitizers' allocators have ways of their own.
#ifndef TOROID_SANITIZED
TEST(HostMemory, OfLargeResultsStaysInTheProcess) {
  const auto faults_of = [](int64_t elements, int calls) {
    rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    for (int i = 0; i < calls; ++i) std::memset(Tensor::empty({elements}, DType::F32).raw_data(), 1, static_cast<size_t>(elements) * 4);
    getrusage(RUSAGE_SELF, &after);
    return after.ru_minflt - before.ru_minflt;
  };
  for (int64_t elements : {int64_t{3} << 20, int64_t{5} << 20, int64_t{3'000'001}}) {
    faults_of(elements, 4);  // malloc learns
    EXPECT_LT(faults_of(elements, 20), 20) << elements;
  }
}
#endif

}  // namespace
}  // namespace toroid::device
