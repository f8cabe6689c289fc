// What every device must do alike: memory, copies, streams, events.
#include "device/conformance.h"

namespace toroid {
namespace {

TOROID_ON_ALL_DEVICES(Conformance);

TEST_P(Conformance, WorkRunsInTheOrderOfItsStream) {
  Tensor x = numbers(1000, 1);
  run([&] {
    scale(x, 2, 1);
    scale(x, 10, 0);
    scale(x, 1, 5);
  });
  expect_all(x, 35);
}

TEST_P(Conformance, CopiesAreInOrderWithKernels) {
  Tensor a = numbers(3000, 7), b = numbers(3000, 0), c = numbers(3000, 0);
  run([&] {
    scale(a, 3, 0);
    copy_async(b, a);
    scale(a, 0, 0);
    copy_elements(b, c);
    scale(c, 1, 1);
  });
  expect_all(a, 0);
  expect_all(b, 21);
  expect_all(c, 22);
}

TEST_P(Conformance, PinnedMemoryIsCopiedInAndOut) {
  Tensor in = pin_memory(Tensor::full(std::vector<int64_t>{5000}, 4, DType::I32), device());
  Tensor out = pin_memory(Tensor::full(std::vector<int64_t>{5000}, 0, DType::I32), device()), x = empty(5000);
  EXPECT_TRUE(is_pinned(in, device()));
  EXPECT_EQ(pin_memory(in, device()).raw_data(), in.raw_data());
  EXPECT_EQ(is_pinned(Tensor::full(std::vector<int64_t>{5}, 4), device()), !on_gpu());
  run([&] {
    copy_async(x, in);
    scale(x, 5, 2);
    copy_async(out, x);
  });
  EXPECT_EQ(out.to_vector(), std::vector<double>(5000, 22));
}

TEST_P(Conformance, CopiesOfOtherShapesAreRefused) {
  EXPECT_THROW(copy_async(empty(5), empty(6)), UserError);
  EXPECT_THROW(copy_async(empty(5), Tensor::empty({5}, DType::F32, device())), UserError);
  EXPECT_THROW(pin_memory(Tensor()), UserError);
}

TEST_P(Conformance, StreamsWaitForEachOther) {
  Tensor x = numbers(100'000, 1);
  run([&] {
    Stream main = current_stream(device()), other(device());
    for (int i = 0; i < 4; ++i) {
      scale(x, 2, 0);
      other.wait_stream(main);
      {
        StreamGuard guard(other);
        EXPECT_EQ(current_stream(device()), other);
        scale(x, 1, 3);
      }
      main.wait_stream(other);
    }
    EXPECT_EQ(current_stream(device()), main);
  });
  expect_all(x, 61);  // x -> 2x + 3, four times
}

TEST_P(Conformance, EventsTellWhenAndHowLong) {
  warm_up();
  Event start(device(), true), end(device(), true), plain(device());
  EXPECT_TRUE(plain.query()) << "nothing to wait for";
  EXPECT_THROW(start.elapsed_time(end), UserError);
  start.record();
  Tensor x = numbers(1 << 20, 1);
  for (int i = 0; i < 10; ++i) scale(x, 1, 1);
  end.record();
  end.synchronize();
  EXPECT_TRUE(end.query());
  EXPECT_GT(start.elapsed_time(end), 0);
  EXPECT_LT(start.elapsed_time(end), 10'000);
  plain.record();
  EXPECT_THROW(start.elapsed_time(plain), UserError);
  expect_all(x, 11);
}

TEST_P(Conformance, StreamsAreOfOneDevice) {
  Stream a = default_stream(device());
  EXPECT_EQ(a, default_stream(device()));
  EXPECT_EQ(a.device(), device());
  EXPECT_EQ(current_stream(device()), a);
  Stream b(device());
  EXPECT_FALSE(b == a);
  b.synchronize();
  EXPECT_TRUE(b.query());
}

TEST_P(Conformance, AdoptedStreamsTakeTheirPlaceInTheOrder) {
  const Stream own = default_stream(device());
  {
    const Stream caller = Stream::adopt(device(), nullptr);
    EXPECT_EQ(caller.device(), device());
    own.wait_stream(caller);
    const Tensor x = numbers(1000, 3);
    caller.wait_stream(own);
    caller.synchronize();
    EXPECT_TRUE(own.query()) << "the caller's stream has waited for what was started";
    expect_all(x, 3);
  }
  EXPECT_TRUE(Stream::adopt(device(), nullptr).query()) << "it outlives a handle";
}

TEST_P(Conformance, TensorsLieInTheInnermostPool) {
  MemPool outer(device()), inner(device());
  Tensor a, b, c, d;
  {
    MemPoolScope first(outer);
    a = empty(100);
    {
      MemPoolScope second(inner);
      b = empty(100);
    }
    c = empty(100);
  }
  d = empty(100);
  for (auto& [t, in_outer, in_inner] : {std::tuple(a, true, false), {b, false, true}, {c, true, false}, {d, false, false}}) {
    EXPECT_EQ(outer.impl()->holds(t.raw_data()), in_outer);
    EXPECT_EQ(inner.impl()->holds(t.raw_data()), in_inner);
  }
  EXPECT_EQ(outer.stats().allocations, 2u);
  EXPECT_EQ(outer.stats().allocated, 2 * 512u);
}

TEST_P(Conformance, PoolsGoBackToTheDevice) {
  empty_cache(device());
  const size_t before = memory_stats(device()).reserved;
  {
    MemPool pool(device());
    MemPoolScope scope(pool);
    Tensor t = empty(1 << 20);
    EXPECT_GE(memory_stats(device()).reserved, before + (size_t{4} << 20));
  }
  EXPECT_EQ(memory_stats(device()).reserved, before);
}

TEST_P(Conformance, APoolComesBackToAStateWithTheSameAddresses) {
  MemPool pool(device());
  MemPoolScope scope(pool);
  Tensor kept = numbers(1000, 9);
  const device::PoolState state = pool.impl()->checkpoint();
  void* live[] = {kept.raw_data()};
  std::vector<void*> first;
  std::vector<std::shared_ptr<void>> handles;
  for (int round = 0; round < 3; ++round) {
    std::vector<Tensor> made{empty(5), empty(50'000), empty(700)};
    std::vector<void*> at;
    for (auto& t : made) at.push_back(t.raw_data());
    if (round == 0) first = at;
    EXPECT_EQ(at, first);
    handles = pool.impl()->restore(state, live);
    expect_all(kept, 9);
  }
}

TEST_P(Conformance, MemoryThatIsShortIsTakenFromTheCacheOrReported) {
  Tensor small = empty(10);
  plan_fault(Fault::OutOfMemory, 1);
  EXPECT_TRUE(empty(100'000'000).defined()) << "the second try succeeds";
  plan_fault(Fault::OutOfMemory, 100);
  try {
    empty(200'000'000);
    FAIL();
  } catch (const EnvironmentError& e) {
    const std::string text = e.what();
    for (auto part : {"out of memory on", "762.94 MiB wanted", "in use", "reserved", "Free tensors"})
      EXPECT_NE(text.find(part), std::string::npos) << text;
  }
}

TEST_P(Conformance, PeaksCanBeMeasured) {
  reset_peak_memory_stats(device());
  const MemoryStats before = memory_stats(device());
  EXPECT_EQ(before.peak, before.allocated);
  { Tensor t = empty(1 << 22); }
  const MemoryStats after = memory_stats(device());
  EXPECT_EQ(after.allocated, before.allocated);
  EXPECT_GE(after.peak, before.peak + (size_t{16} << 20));
  EXPECT_NE(memory_summary(device()).find("in use"), std::string::npos);
}

}  // namespace
}  // namespace toroid
