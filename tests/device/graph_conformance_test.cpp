// What every device must do alike: capture, replay, and the errors of both.
#include <thread>

#include "base/options.h"
#include "device/conformance.h"

namespace toroid {
namespace {

// Parts that have no two modes run in one of them.
struct GraphConformance : Conformance {};

INSTANTIATE_TEST_SUITE_P(Devices, GraphConformance,
                         testing::Values(Setup{DeviceType::Cpu, RunMode::Graph}, Setup{DeviceType::Cuda, RunMode::Graph}), name_of_setup);

TEST_P(GraphConformance, CapturedWorkRunsAtReplayOnly) {
  warm_up();
  Tensor x = numbers(1000, 1);
  CudaGraph g(device());
  EXPECT_FALSE(g.captured());
  g.capture([&] {
    EXPECT_TRUE(is_current_stream_capturing(device()));
    scale(x, 2, 1);
  });
  EXPECT_FALSE(is_current_stream_capturing(device()));
  EXPECT_TRUE(g.instantiated());
  EXPECT_EQ(g.node_count(), 1u);
  expect_all(x, 1);
  g.replay();
  expect_all(x, 3);
  g.replay();
  g.replay();
  expect_all(x, 15);
  g.reset();
  EXPECT_FALSE(g.captured());
  EXPECT_THROW(g.replay(), UserError);
  EXPECT_THROW(g.instantiate(), UserError);
  EXPECT_THROW(g.capture_end(), UserError);
}

TEST_P(GraphConformance, NewInputsAreCopiedIntoTheOldMemory) {
  warm_up();
  Tensor in = numbers(100, 0), out;
  CudaGraph g(device());
  g.capture([&] {
    out = empty(100);
    copy_async(out, in);
    scale(out, 3, 1);
  });
  EXPECT_TRUE(g.pool().impl()->holds(out.raw_data()));
  EXPECT_FALSE(g.pool().impl()->holds(in.raw_data()));
  for (int v : {5, 11}) {
    copy_elements(numbers(100, v), in);
    g.replay();
    expect_all(out, 3 * v + 1);
  }
}

TEST_P(GraphConformance, BeginsOnAnyStreamButTheDefaultOne) {
  warm_up();
  CudaGraph g(device());
  EXPECT_THROW(g.capture_begin(), UserError);
  Tensor x = numbers(10, 1);
  Stream own(device());
  {
    StreamGuard guard(own);
    g.capture_begin();
    EXPECT_THROW(g.capture_begin(), UserError);
    CudaGraph second(device());
    EXPECT_THROW(second.capture_begin(), UserError);
    scale(x, 4, 0);
    g.capture_end();
    EXPECT_THROW(g.capture_begin(), UserError);
  }
  g.replay();
  expect_all(x, 4);
  CudaGraph h(device());
  h.capture(
      [&] {
        EXPECT_EQ(current_stream(device()), own);
        scale(x, 2, 0);
      },
      {.stream = own});
  h.replay();
  expect_all(x, 8);
}

TEST_P(GraphConformance, AnExceptionInsideLeavesTheDeviceUsable) {
  warm_up();
  Tensor x = numbers(10, 1);
  CudaGraph g(device());
  EXPECT_THROW(g.capture([&] {
    scale(x, 2, 0);
    throw std::runtime_error("mine");
  }),
               std::runtime_error);
  EXPECT_FALSE(is_current_stream_capturing(device()));
  EXPECT_FALSE(g.captured());
  scale(x, 1, 1);
  expect_all(x, 2);
  g.capture([&] { scale(x, 5, 0); });
  g.replay();
  expect_all(x, 10);
}

TEST_P(GraphConformance, GraphsShareAPool) {
  warm_up();
  auto reserved = [&](bool shared) {
    empty_cache(device());
    const size_t before = memory_stats(device()).reserved;
    const MemPool pool = graph_pool_handle(device());
    std::vector<std::unique_ptr<CudaGraph>> graphs;
    for (int i = 0; i < 16; ++i) {
      graphs.push_back(std::make_unique<CudaGraph>(device()));
      graphs.back()->capture(
          [&] {
            Tensor temporary = empty(1 << 20);
            scale(temporary, 0, i);
          },
          {.pool = shared ? pool : MemPool()});
      EXPECT_EQ(graphs.back()->pool() == pool, shared);
    }
    for (auto& g : graphs) g->replay();
    return memory_stats(device()).reserved - before;
  };
  const size_t apart = reserved(false), together = reserved(true);
  EXPECT_EQ(apart, 16 * together);
}

TEST_P(GraphConformance, MemoryOfAGraphStaysUntilItAndItsTensorsAreGone) {
  warm_up();
  synchronize(device());
  empty_cache(device());
  const size_t before = memory_stats(device()).reserved;
  Tensor out;
  {
    CudaGraph g(device());
    g.capture([&] {
      Tensor temporary = empty(1 << 20);
      scale(temporary, 0, 3);
      out = empty(1 << 20);
      copy_async(out, temporary);
    });
    empty_cache(device());
    g.replay();
    expect_all(out, 3);
  }
  EXPECT_GT(memory_stats(device()).reserved, before) << "the result still lies in the pool";
  expect_all(out, 3);
  out = {};
  EXPECT_EQ(memory_stats(device()).reserved, before);
}

TEST_P(GraphConformance, CapturedTensorsFromOutsideAreKept) {
  warm_up();
  Tensor out = numbers(100, 0);
  CudaGraph g(device());
  {
    Tensor in = numbers(100, 6);
    g.capture([&] { copy_async(out, in); });
  }
  std::vector<Tensor> others;
  for (int i = 0; i < 20; ++i) others.push_back(numbers(100, 1));
  g.replay();
  expect_all(out, 6);
}

TEST_P(GraphConformance, KeptGraphsShowTheirNodes) {
  warm_up();
  Tensor x = numbers(10, 1), y = numbers(10, 2);
  CudaGraph g(device(), true);
  g.capture([&] {
    scale(x, 2, 0);
    copy_async(y, x);
  });
  EXPECT_FALSE(g.instantiated());
  const std::string dot = g.dot();
  for (auto part : {"digraph", "kernel: ", "scale", "copy: ", "n0 -> n1"}) EXPECT_NE(dot.find(part), std::string::npos) << dot;
  g.replay();
  EXPECT_TRUE(g.instantiated());
  expect_all(y, 2);
  g.release_executable();
  EXPECT_FALSE(g.instantiated());
  g.replay();
  expect_all(y, 4);
  CudaGraph other(device());
  other.capture([&] { scale(x, 1, 0); });
  EXPECT_THROW(other.dot(), UserError);
  EXPECT_THROW(other.release_executable(), UserError);
}

TEST_P(GraphConformance, ForkedStreamsAreBranchesOfTheGraph) {
  warm_up();
  Tensor x = numbers(1000, 1), y = numbers(1000, 1);
  CudaGraph g(device(), true);
  g.capture([&] {
    Stream main = current_stream(device()), side(device());
    scale(x, 2, 0);
    side.wait_stream(main);
    {
      StreamGuard guard(side);
      EXPECT_TRUE(is_current_stream_capturing(device()));
      scale(y, 3, 0);
    }
    scale(x, 5, 0);
    main.wait_stream(side);
    scale(x, 1, 1);
  });
  const std::string dot = g.dot();
  size_t after_first = 0;
  for (size_t at = dot.find("n0 -> "); at != std::string::npos; at = dot.find("n0 -> ", at + 1)) ++after_first;
  EXPECT_EQ(after_first, 2u) << dot;
  g.replay();
  expect_all(x, 11);
  expect_all(y, 3);
}

TEST_P(GraphConformance, AnUpdateTakesOtherArgumentsInPlace) {
  warm_up();
  Tensor x = numbers(1000, 1), y = numbers(1000, 1);
  CudaGraph g(device()), same(device(), true), longer(device(), true), none(device());
  g.capture([&] { scale(x, 2, 0); });
  same.capture([&] { scale(y, 7, 1); });
  longer.capture([&] {
    scale(x, 2, 0);
    scale(y, 2, 0);
  });
  const auto first = g.update(same);
  EXPECT_TRUE(first.in_place) << first.reason;
  EXPECT_FALSE(same.captured());
  g.replay();
  expect_all(x, 1);
  expect_all(y, 8);
  const auto second = g.update(longer);
  EXPECT_FALSE(second.in_place);
  EXPECT_FALSE(second.reason.empty());
  g.replay();
  expect_all(x, 2);
  expect_all(y, 16);
  EXPECT_THROW(g.update(none), UserError);
}

TEST_P(GraphConformance, HooksAreTold) {
  warm_up();
  Tensor x = numbers(10, 1);
  std::vector<GraphEvent> seen;
  {
    auto hook = add_graph_hook([&](GraphEvent e, const CudaGraph&) { seen.push_back(e); });
    CudaGraph g(device());
    g.capture([&] { scale(x, 1, 0); });
    g.replay();
  }
  CudaGraph unseen(device());
  unseen.capture([&] { scale(x, 1, 0); });
  EXPECT_EQ(seen, (std::vector{GraphEvent::CaptureBegin, GraphEvent::CaptureEnd, GraphEvent::Instantiate, GraphEvent::Replay,
                               GraphEvent::Destroy}));
}

// ---- errors ---------------------------------------------------------------------------------------------------------------------

TEST_P(GraphConformance, CallsThatNeedResultsBreakACapture) {
  warm_up();
  Tensor x = numbers(1, 4);
  Event before(device());
  before.record();
  const std::vector<std::pair<const char*, std::function<void()>>> calls = {
      {"item()", [&] { x.item(); }},
      {"to_vector()", [&] { x.to_vector(); }},
      {"waiting for a stream", [&] { current_stream(device()).synchronize(); }},
      {"whether a stream", [&] { current_stream(device()).query(); }},
      {"the whole device", [&] { synchronize(device()); }}};
  for (auto& [name, call] : calls) {
    CudaGraph g(device());
    expect_error(
        DeviceErrorCode::CaptureUnsupported, [&] { g.capture(call); }, name);
    EXPECT_FALSE(g.captured());
    // Caught inside, it is met again at the end.
    expect_error(
        DeviceErrorCode::CaptureInvalidated,
        [&] {
          g.capture([&] {
            try {
              call();
            } catch (const DeviceError&) {
            }
          });
        },
        name);
    g.capture([&] { scale(x, 1, 0); });  // the device stays usable
  }
  expect_all(x, 4);
}

TEST_P(GraphConformance, OtherThreadsBreakOnlyGlobalCaptures) {
  warm_up();
  Tensor x = numbers(1, 4);
  auto from_other_thread = [&](CaptureErrorMode mode) {
    return error_of([&] {
      CudaGraph g(device());
      g.capture(
          [&] {
            scale(x, 1, 0);
            std::optional<DeviceError> other;
            std::thread t([&] { other = error_of([&] { synchronize(device()); }); });
            t.join();
            EXPECT_EQ(other.has_value(), mode == CaptureErrorMode::Global);
          },
          {.error_mode = mode});
    });
  };
  auto global = from_other_thread(CaptureErrorMode::Global);
  ASSERT_TRUE(global);
  EXPECT_TRUE(global->is(DeviceErrorCode::CaptureInvalidated)) << global->what();
  EXPECT_FALSE(from_other_thread(CaptureErrorMode::ThreadLocal));
  EXPECT_FALSE(from_other_thread(CaptureErrorMode::Relaxed));
}

TEST_P(GraphConformance, EventsDoNotCrossTheEdgeOfACapture) {
  warm_up();
  Tensor x = numbers(1, 4);
  Event outside(device()), inside(device());
  outside.record();
  CudaGraph g(device());
  expect_error(DeviceErrorCode::CaptureIsolation, [&] { g.capture([&] { current_stream(device()).wait_event(outside); }); });
  g.capture([&] {
    scale(x, 1, 0);
    inside.record();
  });
  expect_error(DeviceErrorCode::CapturedEvent, [&] { inside.synchronize(); });
  expect_error(DeviceErrorCode::CapturedEvent, [&] { inside.query(); });
  inside.record();
  inside.synchronize();
}

TEST_P(GraphConformance, BranchesMustBeJoined) {
  warm_up();
  Tensor x = numbers(1, 4), y = numbers(1, 4);
  CudaGraph g(device());
  Stream side(device());
  expect_error(DeviceErrorCode::CaptureUnjoined, [&] {
    g.capture([&] {
      scale(x, 1, 0);
      side.wait_stream(current_stream(device()));
      StreamGuard guard(side);
      scale(y, 1, 1);
    });
  });
  StreamGuard guard(side);
  scale(y, 1, 2);
  expect_all(y, 6);
}

TEST_P(GraphConformance, TheThreadThatBeginsEnds) {
  warm_up();
  Stream side(device());
  StreamGuard guard(side);
  CudaGraph g(device());
  g.capture_begin();
  std::thread([&] { expect_error(DeviceErrorCode::CaptureWrongThread, [&] { g.capture_end(); }); }).join();
  g.capture_end();
}

TEST_P(GraphConformance, WhatBreaksACaptureFromOutsideIsReported) {
  warm_up();
  Tensor x = numbers(1, 4);
  CudaGraph g(device());
  plan_fault(Fault::CaptureInvalidated, 1);
  expect_error(DeviceErrorCode::CaptureInvalidated, [&] { g.capture([&] { scale(x, 1, 1); }); });
  g.capture([&] { scale(x, 1, 1); });
  g.replay();
  expect_all(x, 5);
}

TEST_P(GraphConformance, NoMemoryForAnExecutableGraph) {
  warm_up();
  Tensor x = numbers(1, 4);
  CudaGraph g(device());
  plan_fault(Fault::InstantiateOutOfMemory, 1);
  g.capture([&] { scale(x, 1, 1); });  // the second try, without what was cached, succeeds
  g.reset();
  plan_fault(Fault::InstantiateOutOfMemory, 2);
  expect_error(
      DeviceErrorCode::OutOfMemory, [&] { g.capture([&] { scale(x, 1, 1); }); }, "instantiating a graph");
  EXPECT_FALSE(g.captured());
}

TEST_P(GraphConformance, AnAddressThatIsGone) {
  warm_up();
  Tensor x = numbers(1, 4);
  CudaGraph g(device());
  g.capture([&] { scale(x, 1, 1); });
  plan_fault(Fault::IllegalAddress, 1);
  expect_error(
      DeviceErrorCode::IllegalAddress, [&] { g.replay(); }, "replaying a graph");
  g.replay();
  expect_all(x, 5);
}

TEST_P(GraphConformance, AReplayThatTakesTooLong) {
  warm_up();
  Tensor x = numbers(1, 4);
  CudaGraph g(device());
  g.capture([&] {
    if (on_gpu()) {
      int64_t ns = 300'000'000;
      void* arguments[] = {&ns};
      cuda::gpu(0).launch(gpu_kernel("wait_ns"), {1, 1}, arguments);
    }
    scale(x, 1, 1);
  });
  {
    ScopedOption limit("replay_timeout_ms", "20");
    if (!on_gpu()) plan_fault(Fault::Stall, 1);
    expect_error(
        DeviceErrorCode::LaunchTimeout,
        [&] {
          g.replay();
          current_stream(device()).synchronize();
        },
        "replay_timeout_ms");
  }
  synchronize(device());
  g.replay();
  expect_all(x, on_gpu() ? 6 : 5);  // the GPU ended what it had begun
}

TEST(DeviceErrors, UnknownCodesAreReportedToo) {
  try {
    device::fail_on_device(12345, "trying", "no words", "CUDA_ERROR_NEW");
  } catch (const DeviceError& e) {
    EXPECT_EQ(e.code(), 12345);
    EXPECT_NE(std::string(e.what()).find("trying failed: CUDA_ERROR_NEW (12345): no words"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace toroid
