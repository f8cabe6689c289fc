// Launches on a GPU, recorded as a CUDA graph and replayed by one launch.
#pragma once

#include "device/cuda/lap.h"
#include "exec/record/moving.h"
#include "exec/record/recording.h"
#include "exec/run/gpu_launch.h"

namespace toroid::exec {

class GpuRecording : public Recording {
 public:
  explicit GpuRecording(device::cuda::Gpu& gpu) : gpu_(gpu) {}
  void record(const std::function<void()>& steps) override;
  void add(const Launch& l, const Symbols& symbols, const BoundStep& s, std::vector<void*> pointers, std::span<const int> slots) override;
  void spread(const Order& order) override;
  void set_pointers(size_t i, std::span<void* const> pointers) override;
  int64_t replay(std::span<void* const> at) override;
  size_t launches() const override { return entries_.size(); }
  int64_t width() const override { return trial_ ? 1 : ways_.at(0).width; }
  int64_t bytes() const override;
  static int64_t forecast(size_t launches);

 private:
  struct Entry {
    GpuLaunch launch;
    size_t number;
    std::vector<void*> pointers;
  };
  // The launches in some order.
  struct Way {
    std::unique_ptr<device::cuda::Graph> graph;
    std::vector<device::cuda::CUgraphNode> nodes;  // of the entries
    int64_t width = 1;
    int times = 0;  // that it was timed, and the least of them
    double least_ms = 1e30;
  };
  // Between two ways, which replays take in turns.
  struct Trial {
    explicit Trial(device::cuda::Gpu& gpu) : lap(gpu) {}
    device::cuda::Lap lap;
    size_t way = 0;  // of the latest replay
  };
  Way recorded_in(const Order& order);
  void rebind(Entry& e);
  void take_time();

  device::cuda::Gpu& gpu_;
  std::vector<std::unique_ptr<Entry>> entries_;
  Moving<Entry> moving_;
  std::vector<Way> ways_{1};      // the first: each launch behind the one before
  std::unique_ptr<Trial> trial_;  // while there are two
};

}  // namespace toroid::exec
