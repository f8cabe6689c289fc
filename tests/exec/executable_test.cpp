#include "exec/run/executable.h"

#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "base/options.h"
#include "exec/plans.h"
#include "exec/run/arena.h"
#include "exec/run/bound.h"

namespace toroid::exec {
namespace {

TEST(Arena, NoTwoLiveRangesOverlap) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<LiveRange> ranges(1 + random() % 40);
    int64_t sum = 0;
    for (auto& r : ranges) {
      r.first = static_cast<int>(random() % 20);
      r.last = r.first + static_cast<int>(random() % 6);
      r.bytes = static_cast<int64_t>(random() % 5000);
      sum += r.bytes ? (r.bytes + 255) / 256 * 256 + 256 : 0;
    }
    Arena a = place(ranges);
    EXPECT_LE(a.bytes, sum);
    for (int64_t offset : a.offsets) EXPECT_TRUE(offset == -1 || offset % 256 == 0) << "libraries take no other memory to work in";
    for (size_t i = 0; i < ranges.size(); ++i)
      for (size_t j = 0; j < i; ++j) {
        bool live_together = ranges[i].first <= ranges[j].last && ranges[j].first <= ranges[i].last;
        if (!live_together || !ranges[i].bytes || !ranges[j].bytes) continue;
        EXPECT_TRUE(a.offsets[i] + ranges[i].bytes <= a.offsets[j] || a.offsets[j] + ranges[j].bytes <= a.offsets[i]);
      }
  }
}

// A kernel may take several of its zeros at once, whatever other kernels have before them.
TEST(Bind, ZerosOfALaunchBeginAtMultiplesOf16Bytes) {
  Plan p = chain(3, false);
  const int64_t counts[] = {1, 5, 8};
  for (size_t i = 0; i < p.steps.size(); ++i) std::get<Launch>(p.steps[i]).gpu.counters = counts[i];
  const auto b = bind(p, {}, {{"s0", 4}});
  EXPECT_EQ((std::vector{b->steps[0].counters, b->steps[1].counters, b->steps[2].counters}), (std::vector<int64_t>{0, 16, 48}));
  EXPECT_EQ(b->zeros, 80);
}

TEST(Executable, ReplayedLaunchesGiveWhatSingleOnesGive) {
  for (bool record : {false, true}) {
    Runnable e(chain(9, record));
    for (int64_t n : {1, 16, 100, 1000, 100, 16}) {
      Tensor x = Tensor::full(std::vector<int64_t>{n}, 2.5);
      EXPECT_EQ(e.run(std::vector<Tensor>{x})[0].to_vector(), std::vector<double>(static_cast<size_t>(n), 11.5))
          << n << (record ? " recorded" : "");
    }
  }
}

TEST(Executable, ReplaysFromManyThreadsAtOnce) {
  Runnable e(chain(5, true));
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) {
        Tensor x = Tensor::full(std::vector<int64_t>{10 + 30 * t}, t);
        for (double v : e.run(std::vector<Tensor>{x})[0].to_vector()) wrong += v != t + 5;
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

constexpr int64_t kScratch = 256;  // bytes
// bufs: scratch memory of kScratch a thread. Each call tells its thread in `threads_seen` and what it finds in its scratch memory.
std::atomic<uint64_t> threads_seen{0};
std::atomic<int> calls{0}, stale{0};
void note_thread(void* const* bufs, const int64_t*, int64_t, int64_t, int thread) {
  threads_seen |= uint64_t{1} << thread;
  ++calls;
  auto* const mine = reinterpret_cast<int64_t*>(static_cast<std::byte*>(bufs[1]) + thread * kScratch);
  // -1 when the launch begins on this thread, then what its last call left here
  if (mine[0] != -1 && mine[0] != thread + 1000) ++stale;
  mine[0] = thread + 1000;
}

Plan many_tasks(int threads, bool record) {
  Plan p;
  p.options.set("max_threads", std::to_string(threads));
  p.record = record;
  p.buffers = {{"out", DType::F32, 4, BufferRole::Output, {}}};
  Launch l;
  l.name = "note_thread";
  l.kernel = native(note_thread);
  l.buffers = {0};
  l.tasks = 64;
  l.scratch_bytes_per_thread = kScratch;
  p.steps = {l, l, l};
  p.outputs.push_back({0, {DType::F32, {4}, {}}, -1});
  return p;
}

TEST(Executable, APlansThreadsAreTheMostThatRunItsKernels) {
  const ScopedOption several("threads", "2");
  for (bool record : {false, true}) {
    Runnable limited(many_tasks(1, record)), any(many_tasks(0, record));
    for (int run = 0; run < 20; ++run) {
      threads_seen = 0, calls = 0, stale = 0;
      limited.run({});
      EXPECT_EQ(threads_seen, 1u) << "the caller alone";
      EXPECT_EQ(calls, 3) << "each launch at once";
      threads_seen = 0;
      any.run({});
      EXPECT_LT(threads_seen, 4u);
      EXPECT_EQ(stale, 0);
    }
    EXPECT_EQ(bind(any.plan(), {}, {})->arena - bind(limited.plan(), {}, {})->arena, kScratch * (threads_of(any.plan().options) - 1))
        << "scratch memory of the threads that there are";
  }
}

// What is bound has scratch memory for the threads that there were.
TEST(Executable, MoreThreadsThanWhenAPlanWasBoundAreNotUsed) {
  Runnable e(many_tasks(0, false));
  {
    const ScopedOption one("threads", "1");
    e.run({});
  }
  threads_seen = 0;
  for (int run = 0; run < 20; ++run) e.run({});
  EXPECT_EQ(threads_seen, 1u);
}

std::vector<const void*> written;  // where halve wrote, in order

// bufs: in, out; four elements.
void halve(void* const* bufs, const int64_t*, int64_t, int64_t, int) {
  written.push_back(bufs[1]);
  for (int i = 0; i < 4; ++i) static_cast<float*>(bufs[1])[i] = static_cast<const float*>(bufs[0])[i] / 2;
}
// bufs: in, out: whether the first element is at least 1.
void is_large(void* const* bufs, const int64_t*, int64_t, int64_t, int) {
  *static_cast<bool*>(bufs[1]) = *static_cast<const float*>(bufs[0]) >= 1;
}

// One launch from an f32[4] to a result of the type.
std::shared_ptr<const Plan> one_launch(KernelFunction f, const TensorType& type) {
  Plan p;
  p.buffers = {{"in", DType::F32, 4, BufferRole::Input, {}}, {"out", type.dtype, type.numel(), BufferRole::Output, {}}};
  Launch l;
  l.name = "kernel";
  l.kernel = native(f);
  l.buffers = {0, 1};
  l.serial = true;
  p.steps.push_back(l);
  p.inputs.push_back({"x", {DType::F32, {4}, {}}, 0, 0, {}, false});
  p.outputs.push_back({1, type, -1});
  return std::make_shared<const Plan>(std::move(p));
}

TEST(Executable, CarriedTensorsLiveInTwoSets) {
  Plan p;
  p.buffers = {{"x", DType::F32, 4, BufferRole::Input, {}}, {"y", DType::F32, 4, BufferRole::Handed, {}}};
  p.inputs.push_back({"x", {DType::F32, {4}, {}}, 0, 0, {}, false});
  p.outputs.push_back({1, {DType::F32, {4}, {}}, -1});
  auto view = [](int buffer) { return HostCall::View{buffer, DType::F32, 0, {4}, {1}}; };
  Block body{"body", one_launch(halve, {DType::F32, {4}, {}}), {0}}, condition{"go on", one_launch(is_large, {DType::Bool, {}, {}}), {0}};
  p.steps.push_back(Loop{"while_loop", {view(0)}, {}, {}, {view(1)}, {body, condition}});
  Runnable e(std::move(p));
  for (double start : {0.5, 40.0}) {
    written.clear();
    Tensor x = Tensor::full(std::vector<int64_t>{4}, start);
    Tensor y = e.run(std::vector<Tensor>{x})[0];
    double want = start;
    while (want >= 1) want /= 2;
    EXPECT_EQ(y.to_vector(), std::vector<double>(4, want));
    EXPECT_EQ(x.to_vector(), std::vector<double>(4, start));
    EXPECT_NE(y.raw_data(), x.raw_data()) << "without a step the result is a copy";
    for (size_t i = 2; i < written.size(); ++i) EXPECT_EQ(written[i], written[i - 2]);
    EXPECT_TRUE(written.empty() || written.back() == y.raw_data()) << "the result is not copied";
  }
}

TEST(Executable, SaysWhatIsWrongWithAnInput) {
  Runnable e(chain(1, false));
  auto message = [&](const std::vector<Tensor>& inputs) -> std::string {
    try {
      e.run(inputs);
    } catch (const UserError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_NE(message({}).find("takes 1 tensors (x), 0 were given"), std::string::npos) << message({});
  std::string dtype = message({Tensor::full(std::vector<int64_t>{4}, 1, DType::I64)});
  EXPECT_NE(dtype.find("input 0 (\"x\") must have dtype f32, it has i64"), std::string::npos) << dtype;
  std::string rank = message({Tensor::full(std::vector<int64_t>{4, 4}, 1)});
  EXPECT_NE(rank.find("must have sizes f32[s0], it has [4, 4]"), std::string::npos) << rank;
  std::string range = message({Tensor::full(std::vector<int64_t>{2000}, 1)});
  EXPECT_NE(range.find("dimension 0 must lie in 1..1000, it is 2000"), std::string::npos) << range;
}

}  // namespace
}  // namespace toroid::exec
