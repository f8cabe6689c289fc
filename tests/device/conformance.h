// What the tests of all devices share: a kernel, and the two modes of running work.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <optional>

#include "device/cpu/cpu_runtime.h"
#include "device/cuda/cuda_runtime.h"
#include "device/errors.h"
#include "device/faults.h"
#include "jit/nvrtc.h"
#include "tensor/tensor_impl.h"
#include "toroid/device_error.h"
#include "toroid/device_graph.h"
#include "toroid/tensor.h"
#include "toroid/tensor_copy.h"

namespace toroid {

namespace cpu = device::cpu;
namespace cuda = device::cuda;
using device::Fault;
using device::plan_fault;

enum class RunMode { Stream, Graph };

struct Setup {
  DeviceType type;
  RunMode mode;
};

inline std::string name_of_setup(const testing::TestParamInfo<Setup>& info) {
  return std::string(info.param.type == DeviceType::Cuda ? "Cuda" : "Cpu") + (info.param.mode == RunMode::Graph ? "Graph" : "Stream");
}

// data[i] = data[i] * factor + term for n numbers of i32.
inline void scale_on_cpu(void* const* bufs, const int64_t* params, int64_t begin, int64_t end, int) {
  auto* data = static_cast<int32_t*>(bufs[0]);
  constexpr int64_t kTask = 256;
  for (int64_t i = begin * kTask; i < std::min(end * kTask, params[0]); ++i)
    data[i] = static_cast<int32_t>(data[i] * params[1] + params[2]);
}

inline const char* kScaleText = R"(
extern "C" __global__ void scale(int* data, long long n, long long factor, long long term) {
  long long i = blockIdx.x * 256ll + threadIdx.x;
  if (i < n) data[i] = data[i] * (int)factor + (int)term;
}
// About as many nanoseconds as `ns` says, but never for ever.
extern "C" __global__ void wait_ns(long long ns) {
  long long start, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
  for (int i = 0; i < 100000000; ++i) {
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    if (now - start > ns) return;
  }
}
)";

struct Conformance : testing::TestWithParam<Setup> {
  void SetUp() override {
    if (GetParam().type == DeviceType::Cuda && cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  }
  void TearDown() override {
    for (int f = 0; f < device::kFaultCount; ++f) plan_fault(static_cast<Fault>(f), 0);
  }

  Device device() const { return GetParam().type == DeviceType::Cuda ? Device::cuda() : Device::cpu(); }
  bool on_gpu() const { return device().is_cuda(); }

  // i32 numbers on the device, all equal.
  Tensor numbers(int64_t n, int value) const { return Tensor::full(std::vector<int64_t>{n}, value, DType::I32).to(device()); }
  Tensor empty(int64_t n) const { return Tensor::empty({n}, DType::I32, device()); }
  // That all numbers are equal to it.
  static void expect_all(const Tensor& t, int value) {
    synchronize(t.device());
    EXPECT_EQ(t.to_vector(), std::vector<double>(static_cast<size_t>(t.numel()), value));
  }

  static const cuda::Kernel& gpu_kernel(const char* name) {
    static std::map<std::string, cuda::Kernel> kernels;
    cuda::Gpu& gpu = cuda::gpu(0);
    auto& k = kernels[name];
    if (!k.function) k = gpu.load(jit::nvrtc_compile(kScaleText, gpu.info().architecture, name), name);
    return k;
  }
  // On the current stream.
  void scale(const Tensor& t, int64_t factor, int64_t term) const {
    const int64_t n = t.numel();
    void* data = t.raw_data();
    int64_t params[] = {n, factor, term};
    if (on_gpu()) {
      void* arguments[] = {&data, &params[0], &params[1], &params[2]};
      cuda::gpu(0).launch(gpu_kernel("scale"), {(n + 255) / 256, 256}, arguments);
      return;
    }
    const cpu::Launch l{scale_on_cpu, &data, params, (n + 255) / 256};
    if (cpu::Recorder* r = cpu::recorder()) return r->add_launch("scale", l, {&data, 1}, params);
    cpu::run(l);
  }
  void warm_up() const {
    if (on_gpu()) {
      gpu_kernel("scale");
      gpu_kernel("wait_ns");
    }
  }

  // Does the work on a side stream: at once, or captured and replayed. Waits for it.
  void run(const std::function<void()>& work) {
    warm_up();
    if (GetParam().mode == RunMode::Graph) {
      graphs_.push_back(std::make_unique<CudaGraph>(device()));
      graphs_.back()->capture(work);
      graphs_.back()->replay();
    } else {
      synchronize(device());
      Stream side(device());
      StreamGuard guard(side);
      work();
      side.synchronize();
    }
    synchronize(device());
  }

  std::vector<std::unique_ptr<CudaGraph>> graphs_;
};

// The DeviceError that f throws.
inline std::optional<DeviceError> error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const DeviceError& e) {
    return e;
  }
  return std::nullopt;
}

inline void expect_error(DeviceErrorCode code, const std::function<void()>& f, std::string_view part = "") {
  auto e = error_of(f);
  ASSERT_TRUE(e) << "no error; expected code " << static_cast<int>(code);
  EXPECT_EQ(e->code(), static_cast<int>(code)) << e->what();
  EXPECT_FALSE(e->name().empty());
  const std::string text = e->what();
  for (const std::string& piece : {e->name(), e->cause(), e->next_step(), std::string(part)})
    EXPECT_NE(text.find(piece), std::string::npos) << text << "\nlacks: " << piece;
}

#define TOROID_ON_ALL_DEVICES(suite) \
  INSTANTIATE_TEST_SUITE_P(Devices, suite, \
                           testing::Values(Setup{DeviceType::Cpu, RunMode::Stream}, Setup{DeviceType::Cpu, RunMode::Graph}, \
                                           Setup{DeviceType::Cuda, RunMode::Stream}, Setup{DeviceType::Cuda, RunMode::Graph}), \
                           name_of_setup)

}  // namespace toroid
