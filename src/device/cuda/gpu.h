// One NVIDIA GPU: memory, copies and launches, in order on one stream.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "device/cuda/driver.h"

namespace toroid::device::cuda {

struct GpuInfo {
  std::string name;          // "NVIDIA H200"
  std::string architecture;  // what NVRTC compiles for: "sm_90a"
  int driver_version = 0;    // 13000 is CUDA 13.0
  int multiprocessors = 0;
  size_t memory_bytes = 0, l2_bytes = 0, shared_bytes = 0;  // shared: of a block
};

// A function of a loaded cubin, which it keeps loaded.
struct Kernel {
  CUfunction function = nullptr;
  std::shared_ptr<const void> module;
};

// Any number of threads. What they start runs in the order of the calls, after the calls have returned; synchronize() waits for it.
class Gpu {
 public:
  explicit Gpu(int index);
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  const GpuInfo& info() const { return info_; }

  // At least `bytes` of memory, at a multiple of 512. What is freed is kept for later calls, and may be handed out again at once: the order
  // of the stream keeps its users apart. EnvironmentError when there is not enough, telling how much is in use.
  std::shared_ptr<void> allocate(size_t bytes);
  struct MemoryStats {
    size_t used = 0, peak = 0, reserved = 0;  // bytes
  };
  MemoryStats memory() const;
  // Gives memory that nobody uses back to the driver.
  void release_unused();

  void copy_in(void* to, const void* from, size_t bytes);   // from may be changed when the call returns
  void copy_out(void* to, const void* from, size_t bytes);  // waits for it
  void copy_within(void* to, const void* from, size_t bytes);

  Kernel load(const std::string& cubin, const std::string& function) const;
  // Blocks of `threads` threads; arguments: addresses of the kernel's parameters.
  void launch(const Kernel& kernel, int64_t blocks, int threads, std::span<void* const> arguments);
  void synchronize();
  // Milliseconds that the GPU spends on what `work` starts.
  double time_ms(const std::function<void()>& work);

 private:
  void use() const;  // makes this GPU the calling thread's
  void give_back(CUdeviceptr block, size_t bytes);

  const Driver& driver_;
  int index_;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
  GpuInfo info_;
  mutable std::mutex mutex_;                 // of all below
  std::multimap<size_t, CUdeviceptr> free_;  // by size
  MemoryStats stats_;
};

// The GPU of an index, made at the first call. EnvironmentError where there is none.
Gpu& gpu(int index);

}  // namespace toroid::device::cuda
