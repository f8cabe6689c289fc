// Launches on a GPU, recorded as a CUDA graph and replayed by one launch.
#pragma once

#include "exec/record/moving.h"
#include "exec/record/recording.h"
#include "exec/run/gpu_launch.h"

namespace toroid::exec {

class GpuRecording : public Recording {
 public:
  explicit GpuRecording(device::cuda::Gpu& gpu) : gpu_(gpu) {}
  void record(const std::function<void()>& steps) override;
  void add(const Launch& l, const Symbols& symbols, const BoundStep& s, std::vector<void*> pointers, std::span<const int> slots) override;
  int64_t spread(const Order& order) override;
  void set_pointers(size_t i, std::span<void* const> pointers) override;
  int64_t replay(std::span<void* const> at) override;
  size_t launches() const override { return entries_.size(); }
  int64_t bytes() const override;
  static int64_t forecast(size_t launches);

 private:
  struct Entry {
    GpuLaunch launch;
    device::cuda::CUgraphNode node;
    std::vector<void*> pointers;
  };
  device::cuda::Gpu& gpu_;
  std::vector<std::unique_ptr<Entry>> entries_;
  Moving<Entry> moving_;
  std::unique_ptr<device::cuda::Graph> graph_;
};

}  // namespace toroid::exec
