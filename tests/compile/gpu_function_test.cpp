// C++ functions over memory of a GPU that users give opaque operations, run on one.
#include <gtest/gtest.h>

#include "compile/cuda_functions.h"
#include "compile/opaque_on_gpu.h"
#include "temp_folder.h"
#include "toroid/capture.h"
#include "toroid/compile.h"
#include "toroid/control_flow.h"
#include "toroid/device_graph.h"
#include "toroid/grad.h"
#include "toroid/package.h"
#include "toroid/tensor_copy.h"

namespace toroid {
namespace {

using namespace test::on_gpu;
using test::counting;
using test::environment_error;
using test::user_error;
using Values = std::vector<double>;

#define NEEDS_A_GPU() \
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU"

const CompileConfig kOnce{.fullgraph = true}, kOpen{.fullgraph = true, .dynamic = true},
    kReplayed{.mode = Mode::ReduceOverhead, .fullgraph = true};

// Each way to call it gives what the host does, for several sizes and inputs.
TEST(GpuCudaFunction, RunsOnAGpu) {
  NEEDS_A_GPU();
  const auto body = [](const Tensor& x, const Tensor& cache) {
    const auto [before, now] = put()(shift()(x + 1.0, 2.5), cache, 1);
    return relu(join()(std::vector<Tensor>{before * 2.0, now})) + sum(x);
  };
  test::expect_as_on_the_host(body, {300, 301, 5, 1});
}

// Arguments with gaps, parts of other memory, without elements, and tensors of the caller's as they are.
TEST(GpuCudaFunction, TakesArgumentsHoweverTheyLieOnAGpu) {
  NEEDS_A_GPU();
  const auto gaps = [](const Tensor& m) { return shift()(select(m, 1, 1), 9.0); };
  const auto part = [](const Tensor& m) { return shift()(select(m, 0, 1), 9.0); };
  const auto strided = [](const Tensor& m) { return first_row()(transpose(m, 0, 1)); };
  const auto empty = [](const Tensor& m) { return shift()(slice(select(m, 0, 1), 0, 2, 2), 9.0); };
  const auto written = [](const Tensor& m) {
    const Tensor all = m * 1.0, column = slice(transpose(all, 0, 1), 0, 1, 3);
    return put()(select(m, 1, 0), column, 1).first + sum(all);
  };
  const std::vector<std::function<Tensor(const Tensor&)>> bodies{gaps, part, strided, empty, written};
  for (size_t i = 0; i < bodies.size(); ++i)
    for (const CompileConfig& config : {kOnce, kReplayed}) {
      auto f = compile(bodies[i], config);
      for (int repeat = 0; repeat < 3; ++repeat) {
        const Tensor m = counting({4, 4}) + repeat, there = m.to(Device::cuda());
        EXPECT_EQ(bodies[i](there).to_vector(), bodies[i](m).to_vector()) << "body " << i;
        EXPECT_EQ(f(there).to_vector(), bodies[i](m).to_vector()) << "body " << i;
      }
    }
}

// Its work is a part of the graph: replays do not call it.
TEST(GpuCudaFunction, IsRecordedWithWhatSurroundsItOnAGpu) {
  NEEDS_A_GPU();
  auto f = compile([](const Tensor& x) { return shift()(x * 2.0, 0.5) + 1.0; },
                   {.mode = Mode::ReduceOverhead, .fullgraph = true, .options = {{"capture_require", "1"}}});
  int before = 0;
  for (int round = 0; round < 6; ++round) {
    const Tensor x = counting({400}) + round;
    EXPECT_EQ(f(x.to(Device::cuda())).to_vector(), (shift()(x * 2.0, 0.5) + 1.0).to_vector());
    if (round == 2) before = calls;
  }
  EXPECT_EQ(calls, before);
}

TEST(GpuCudaFunction, RunsBetweenRecordingsOnAGpuWhereItMust) {
  NEEDS_A_GPU();
  const auto body = [](const Tensor& x) {
    counted()(x);
    return live_shift()(x * 2.0, 0.5) + 1.0;
  };
  auto f = compile(body, kReplayed);
  for (int round = 0; round < 5; ++round) {
    const Tensor x = counting({400}) + round;
    const int before = calls;
    EXPECT_EQ(f(x.to(Device::cuda())).to_vector(), (shift()(x * 2.0, 0.5) + 1.0).to_vector());
    EXPECT_EQ(calls, before + 2) << round;
  }
  const std::string report = to_string(capture_report(Device::cuda()));
  EXPECT_TRUE(has_all(report, {"cuda_function_test::live_shift", "cuda_function_test::counted", "gpu_function_test.cpp:"})) << report;
}

TEST(GpuCudaFunction, IsReplayedByGraphsThatAreMadeByHand) {
  NEEDS_A_GPU();
  const auto body = [](const Tensor& x) { return shift()(x, 0.5); };
  auto f = compile([](const Tensor& x) { return shift()(x * 2.0, 0.5) + 1.0; }, kOnce);
  const Tensor x = counting({500}).to(Device::cuda());
  f(x), body(x);
  Tensor y, eager;
  CudaGraph g(Device::cuda());
  g.capture([&] { y = f(x), eager = body(x); });
  for (double start : {1.0, 7.0}) {
    const Tensor next = counting({500}) + start;
    copy_async(x, pin_memory(next));
    g.replay();
    synchronize(Device::cuda());
    EXPECT_EQ(y.to_vector(), (shift()(next * 2.0, 0.5) + 1.0).to_vector());
    EXPECT_EQ(eager.to_vector(), body(next).to_vector());
  }
  CudaGraph refused(Device::cuda());
  EXPECT_TRUE(has_all(environment_error([&] { refused.capture([&] { live_shift()(x, 0.5); }); }),
                      {"cuda_function_test::live_shift", "not capturable"}));
  EXPECT_EQ(f(x).to_vector(), y.to_vector()) << "after the refusal";
}

// What it throws, and what a recording cannot hold, is an error of the call that names it; the next call is as if nothing had been.
TEST(GpuCudaFunction, ErrorsNameItOnAGpu) {
  NEEDS_A_GPU();
  const Tensor x = counting({64}), there = x.to(Device::cuda());
  const auto body = [](const Tensor& x) { return moody()(x + 1.0) * 2.0; };
  const Values expected = body(x).to_vector();
  const auto expect_good = [&](const auto& f) {
    mood = Mood::Good;
    for (int round = 0; round < 3; ++round) EXPECT_EQ(f(there).to_vector(), expected);
  };
  const std::initializer_list<const char*> thrown = {"cuda_function_test::moody", "the library is on fire", "(called at ",
                                                     "gpu_function_test.cpp:"};
  for (const CompileConfig& config : {kOnce, kReplayed}) {
    auto f = compile(body, config);
    mood = Mood::Throws;
    EXPECT_TRUE(has_all(user_error([&] { f(there); }), thrown));
    expect_good(f);
  }
  mood = Mood::Throws;
  EXPECT_TRUE(has_all(user_error([&] { body(there); }), thrown));
  expect_good(body);
  for (const Mood m : {Mood::Throws, Mood::Waits, Mood::WaitsAndSaysNothing}) {
    auto f = compile(body, kReplayed);
    mood = Mood::Good;
    f(there);  // warms up
    mood = m;
    if (m == Mood::Throws) {
      EXPECT_TRUE(has_all(user_error([&] { f(there); }), thrown));
    } else {
      const std::string error = environment_error([&] { f(there); });
      EXPECT_TRUE(has_all(error, {"cuda_function_test::moody", "a CUDA graph cannot record", "(called at ",
                                  "gpu_function_test.cpp:", "capturable = false"}))
          << error;
    }
    expect_good(f);
    expect_good(body);
  }
}

TEST(GpuCudaFunction, TakesSizesThatDependOnDataOnAGpu) {
  NEEDS_A_GPU();
  const auto body = [](const Tensor& x, const Tensor& cache) {
    put()(x, cache, 1);
    return shift()(masked_select(select(cache, 0, 1), gt(x, 1.0)) * 2.0, 0.5) + 1.0;
  };
  auto f = compile(body, kOnce);
  for (const double start : {0.0, 2.0, -9.0}) {
    const Tensor x = counting({5}) + start, host = counting({2, 5}), there = host.to(Device::cuda());
    EXPECT_EQ(f(x.to(Device::cuda()), there).to_vector(), body(x, host).to_vector()) << start;
    EXPECT_EQ(there.to_vector(), host.to_vector()) << start;
  }
}

TEST(GpuCudaFunction, StandsInBlocksAndBehindThemOnAGpu) {
  NEEDS_A_GPU();
  const auto body = [](const Tensor& x) {
    const Tensor y = cond(
        sum(x) > 10.0, [](const Tensor& t) { return shift()(t * 2.0, 0.5); }, [](const Tensor& t) { return t * 3.0; }, x);
    return shift()(y, 1.5) + 1.0;
  };
  for (const CompileConfig& config : {kOnce, kReplayed}) {
    auto f = compile(body, config);
    for (int round = 0; round < 6; ++round) {
      const Tensor x = counting({4}) + (round % 2) * 10.0 + round;
      EXPECT_EQ(f(x.to(Device::cuda())).to_vector(), body(x).to_vector()) << round;
    }
  }
}

TEST(GpuCudaFunction, IsCalledByPackagesOnAGpu) {
  NEEDS_A_GPU();
  const test::TempFolder folder;
  save_package({packed_entry()}, folder / "m.tpk", for_target("native", Device::cuda()));
  auto session = PackageFile::open(folder / "m.tpk").session("", Device::cuda());
  for (int round = 0; round < 3; ++round) {
    const Tensor x = counting({4}) + round;
    const auto expected = packed_entry().function({x}), results = session.run({x.to(Device::cuda())});
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(results.at(i).to_vector(), expected[i].to_vector());
  }
}

TEST(GpuCudaFunction, HasTheGradientThatIsRegisteredOnAGpu) {
  NEEDS_A_GPU();
  const auto gradient_on = [](const Device& device) {
    const Tensor x = counting({6}).to(device).requires_grad_();
    sum(shift()(x * 2.0, 0.5) * shift()(x, 1.5)).backward();
    return x.grad().to_vector();
  };
  EXPECT_EQ(gradient_on(Device::cuda()), gradient_on(Device::cpu()));
}

}  // namespace
}  // namespace toroid
