// Kernels on a GPU: timed here, and run by a worker.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "exec/plans.h"
#include "jit/nvrtc.h"
#include "tune/check/inputs.h"
#include "tune/isolate/worker.h"
#include "tune/measure/sampler.h"

namespace toroid::tune {
namespace {

// Adds 1, `work` times over.
std::string source(const std::string& body) {
  return "extern \"C\" __global__ void k(const float* in, float* out, long long n) {\n"
         "  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;\n"
         "  if (i < n) {\n" +
         body + "\n  }\n}\n";
}

class GpuTune : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  }
  static std::string architecture() { return device::cuda::gpu(0).info().architecture; }
};

std::shared_ptr<exec::Executable> executable(const std::string& body, int64_t n) {
  device::cuda::Gpu& gpu = device::cuda::gpu(0);
  exec::Plan p = exec::chain(1, false);
  p.device = Device::cuda();
  auto& l = std::get<exec::Launch>(p.steps[0]);
  exec::Store store;
  l.name = "k";
  l.kernel = store.kernels.add(jit::nvrtc_compile(source(body), gpu.info().architecture, "k"));
  l.gpu.threads = 256;
  p.symbols.clear();
  for (auto& b : p.buffers) b.numel = n;
  p.inputs[0].type.sizes = p.outputs[0].type.sizes = {n};
  l.params = {n};
  l.tasks = (n + 255) / 256;
  return std::make_shared<exec::Executable>(p, store);
}

TEST_F(GpuTune, SamplesByRecordedGraphs) {
  constexpr int64_t kCount = 1 << 20;
  const std::vector<Tensor> inputs{generate_input({DType::F32, {kCount}, {}}, 1, {}, Device::cuda())};
  const char* fast = "    out[i] = in[i] + 1;";
  const char* slow = "    float x = in[i]; for (int r = 0; r < 4000; ++r) x = x * 1.0001f + 1; out[i] = x;";
  const std::shared_ptr<exec::Executable> all[] = {executable(fast, kCount), executable(slow, kCount), executable(fast, kCount)};
  for (size_t flush : {size_t{0}, cache_bytes(Device::cuda())}) {
    SamplerOptions o;
    o.flush_bytes = flush;
    const Sample sample = time_executables([&](size_t i) -> exec::Executable& { return *all[i]; }, 3, Device::cuda(), inputs, o);
    double times[3] = {1e12, 1e12, 1e12};
    for (int r = 0; r < 10; ++r)
      for (size_t i = 0; i < 3; ++i) times[i] = std::min(times[i], sample(i));
    fmt::print("flush {}: fast {:.0f} ns, slow {:.0f} ns, fast again {:.0f} ns\n", flush, times[0], times[1], times[2]);
    EXPECT_GT(times[1], 4 * times[0]);
    EXPECT_NEAR(times[2] / times[0], 1, 0.3);
    MeasureOptions m;
    m.budget_ms = 400;
    m.grain_ns = flush > 0 ? 340 : 90;  // as the tuner reckons
    const Verdict v = measure(3, sample, m);
    fmt::print("{}", to_string(v, {"fast", "slow", "again"}));
    EXPECT_NE(v.winner, 1u);
    EXPECT_TRUE(v.winner == 0 || v.flip > m.flip) << "equal programs, and the verdict calls itself sure";
    EXPECT_LE(v.spent_ms, 440);
  }
}

TEST_F(GpuTune, AWorkerSurvivesWhatKernelsDo) {
  Worker worker;
  const auto run = [&](const std::string& body) {
    WorkerJob j;
    j.isa = architecture();
    j.buffers = {{DType::F32, 1000, WorkerBuffer::Use::Read, 5}, {DType::F32, 1000, WorkerBuffer::Use::Write}};
    j.runs = 3;
    WorkerKernel& k = j.kernels.emplace_back();
    k.source = source(body);
    k.launch.name = "k";
    k.launch.buffers = {0, 1};
    k.launch.params = {1000};
    k.launch.tasks = 4, k.launch.gpu.threads = 256;
    const WorkerResult r = worker.run(j);
    fmt::print("{}: {}\n", name_of(r.outcome), r.reason.substr(0, 160));
    return r;
  };
  const WorkerResult good = run("    out[i] = in[i] + 1;");
  EXPECT_EQ(good.outcome, Outcome::Timed) << good.reason;
  EXPECT_EQ(good.ns.size(), 3u);
  EXPECT_EQ(run("    out[i + (1ll << 40)] = 1;").outcome, Outcome::Failed);
  EXPECT_EQ(run("    asm volatile(\"trap;\");").outcome, Outcome::Failed);
  EXPECT_EQ(run("    if (i != 7) out[i] = 1;").reason, "k leaves NaN in buffer 1 at 7, or nothing at all");
  EXPECT_EQ(run("    out[i] = 1; if (i == 999) out[n + 3] = 1;").reason, "k writes out of buffer 1, next to it");
  EXPECT_EQ(run("    no CUDA").outcome, Outcome::FailedToCompile);
  EXPECT_EQ(run("    out[i] = in[i] + 1;").hashes, good.hashes);
  EXPECT_EQ(worker.starts(), 5);
  // This process's own GPU works as before.
  EXPECT_EQ(Tensor::full(std::vector<int64_t>{3}, 2, DType::F32, Device::cuda()).to_vector(), (std::vector<double>{2, 2, 2}));
}

}  // namespace
}  // namespace toroid::tune
