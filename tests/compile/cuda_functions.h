// Opaque operations with functions for GPUs, which copy and fill by the driver, so that no compiler of kernels is needed.
#pragma once

#include <algorithm>
#include <atomic>

#include "compile/harness.h"
#include "device/cuda/gpu.h"
#include "toroid/cuda_function.h"
#include "toroid/custom_gradient.h"
#include "toroid/ops.h"
#include "toroid/save_package.h"

namespace toroid::test::on_gpu {

struct OnStream {
  const device::cuda::Driver& driver;
  device::cuda::CUstream stream;
  explicit OnStream(const CudaStream& s)
      : driver(device::cuda::gpu(s.device.index).driver_functions()), stream(static_cast<device::cuda::CUstream>(s.handle)) {}

  static device::cuda::CUdeviceptr address(const void* p) { return reinterpret_cast<device::cuda::CUdeviceptr>(p); }
  void copy(float* to, const float* from, int64_t n) const {
    if (n > 0) driver.check(driver.copy_within(address(to), address(from), static_cast<size_t>(n) * sizeof(float), stream), "copying");
  }
  void fill(float* to, float value, int64_t n) const {
    unsigned word;
    std::memcpy(&word, &value, sizeof word);
    if (n > 0) driver.check(driver.fill_words(address(to), word, static_cast<size_t>(n), stream), "filling");
  }
  void wait() const { driver.check(driver.synchronize(stream), "waiting"); }
};

// How often functions for GPUs were called.
inline std::atomic<int> calls{0};
// What the next calls of `moody` do besides.
enum class Mood { Good, Throws, Waits, WaitsAndSaysNothing };
inline std::atomic<Mood> mood{Mood::Good};

inline MemoryType same_type(const MemoryType& x) { return x; }

inline void shift_on_host(const InputMemory& x, double first, const OutputMemory& y) {
  std::copy_n(x.as<float>().data(), std::max<int64_t>(x.numel() - 1, 0), y.as<float>().data() + std::min<int64_t>(x.numel(), 1));
  if (x.numel() > 0) y.as<float>()[0] = static_cast<float>(first);
}
inline void shift_on_gpu(const InputMemory& x, double first, const OutputMemory& y, const CudaStream& stream) {
  ++calls;
  const OnStream on(stream);
  on.fill(y.data<float>(), static_cast<float>(first), std::min<int64_t>(x.numel(), 1));
  on.copy(y.data<float>() + 1, x.data<float>(), x.numel() - 1);
}

// The elements one place further, with a number before them.
inline const auto& shift() {
  static const auto& op = *[] {
    auto* made = new auto(opaque_op(
        "cuda_function_test::shift(Tensor x, float first) -> Tensor", [](const MemoryType& x, double) { return x; }, shift_on_host));
    register_cuda_function(*made, shift_on_gpu);
    register_custom_op_gradient(*made, [](const CustomGradientCall& c) {
      const Tensor& g = c.cotangents[0];
      return std::vector<Tensor>{cat({slice(g, 0, 1), slice(g, 0, 0, 1) * 0.0})};
    });
    return made;
  }();
  return op;
}

// The same, of which no CUDA graph may have the work.
inline const auto& live_shift() {
  static const auto& op = *[] {
    auto* made = new auto(opaque_op(
        "cuda_function_test::live_shift(Tensor x, float first) -> Tensor", [](const MemoryType& x, double) { return x; }, shift_on_host));
    register_cuda_function(*made, shift_on_gpu, {.capturable = false});
    return made;
  }();
  return op;
}

// Row `at` of a cache becomes the row; gives what was there, and the row.
inline const auto& put() {
  static const auto& op = *[] {
    auto* made = new auto(opaque_op(
        "cuda_function_test::put(Tensor row, Tensor(a!) cache, int at) -> (Tensor, Tensor)",
        [](const MemoryType& row, const MemoryType&, const SymInt&) { return std::pair(row, row); },
        [](InputMemory row, OutputMemory cache, int64_t at, OutputMemory before, OutputMemory now) {
          float* there = cache.as<float>().data() + at * row.numel();
          std::copy_n(there, row.numel(), before.as<float>().data());
          std::copy_n(row.as<float>().data(), row.numel(), there);
          std::copy_n(row.as<float>().data(), row.numel(), now.as<float>().data());
        }));
    register_cuda_function(*made,
                           [](InputMemory row, OutputMemory cache, int64_t at, OutputMemory before, OutputMemory now, CudaStream stream) {
                             const OnStream on(stream);
                             float* there = cache.data<float>() + at * row.numel();
                             on.copy(before.data<float>(), there, row.numel());
                             on.copy(there, row.data<float>(), row.numel());
                             on.copy(now.data<float>(), row.data<float>(), row.numel());
                           });
    return made;
  }();
  return op;
}

// All elements of a list of tensors, one after the other.
inline const auto& join() {
  static const auto& op = *[] {
    auto* made = new auto(opaque_op(
        "cuda_function_test::join(Tensor[] list) -> Tensor",
        [](const std::vector<MemoryType>& list) {
          SymInt n = 0;
          for (auto& t : list) n = n + t.sizes[0];
          return MemoryType{DType::F32, {n}};
        },
        [](const std::vector<InputMemory>& list, OutputMemory y) {
          float* to = y.as<float>().data();
          for (auto& t : list) to = std::copy_n(t.as<float>().data(), t.numel(), to);
        }));
    register_cuda_function(*made, [](const std::vector<InputMemory>& list, OutputMemory y, CudaStream stream) {
      float* to = y.data<float>();
      for (auto& t : list) OnStream(stream).copy(to, t.data<float>(), t.numel()), to += t.numel();
    });
    return made;
  }();
  return op;
}

// The first row of a matrix, by its strides.
inline const auto& first_row() {
  static const auto& op = *[] {
    auto* made = new auto(opaque_op(
        "cuda_function_test::first_row(Tensor x) -> Tensor",
        [](const MemoryType& x) {
          return MemoryType{x.dtype, {x.sizes[1]}};
        },
        [](InputMemory x, OutputMemory y) {
          for (int64_t i = 0; i < x.size(1); ++i) y.as<float>()[static_cast<size_t>(i)] = x.data<float>()[i * x.strides()[1]];
        },
        {.strided = true}));
    register_cuda_function(*made, [](InputMemory x, OutputMemory y, CudaStream stream) {
      for (int64_t i = 0; i < x.size(1); ++i) OnStream(stream).copy(y.data<float>() + i, x.data<float>() + i * x.strides()[1], 1);
    });
    return made;
  }();
  return op;
}

// Counts its calls, on either side.
inline const auto& counted() {
  static const auto& op = *[] {
    auto* made = new auto(opaque_op("cuda_function_test::counted(Tensor x) -> ()", [](InputMemory) { ++calls; }, {.effect = true}));
    register_cuda_function(*made, [](InputMemory, CudaStream) { ++calls; });
    return made;
  }();
  return op;
}

// A copy, by a function that does what it should not.
inline const auto& moody() {
  static const auto& op = *[] {
    auto* made = new auto(opaque_op("cuda_function_test::moody(Tensor x) -> Tensor", same_type, [](InputMemory x, OutputMemory y) {
      std::copy_n(x.as<float>().data(), x.numel(), y.as<float>().data());
    }));
    register_cuda_function(*made, [](InputMemory x, OutputMemory y, CudaStream stream) {
      const OnStream on(stream);
      if (mood == Mood::Throws) throw std::runtime_error("the library is on fire");
      if (mood == Mood::Waits) on.wait();
      if (mood == Mood::WaitsAndSaysNothing) on.driver.synchronize(on.stream);
      on.driver.copy_within(on.address(y.data()), on.address(x.data()), static_cast<size_t>(x.numel()) * sizeof(float), on.stream);
    });
    return made;
  }();
  return op;
}

inline bool has_all(const std::string& text, std::initializer_list<const char*> parts) {
  return std::all_of(parts.begin(), parts.end(), [&](const char* part) { return text.find(part) != std::string::npos; });
}

inline PackageOptions for_target(const std::string& target, const Device& device = Device::cpu()) {
  PackageOptions o;
  o.targets = {target}, o.model.device = device;
  return o;
}

inline const PackageEntry& packed_entry() {
  static const PackageEntry& entry = *new PackageEntry{.function =
                                                           [](const std::vector<Tensor>& in) {
                                                             const Tensor cache = expand(in[0] * 10.0, {2, 4}) + 1.0;
                                                             return std::vector<Tensor>{put()(shift()(in[0], 0.5), cache, 1).first, cache};
                                                           },
                                                       .examples = {counting({4})}};
  return entry;
}

}  // namespace toroid::test::on_gpu
