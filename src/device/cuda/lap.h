// How long a GPU takes for work, told when it is done; nobody has to wait for it.
#pragma once

#include <functional>
#include <optional>

#include "device/cuda/gpu.h"

namespace toroid::device::cuda {

// One thread at a time.
class Lap {
 public:
  explicit Lap(Gpu& gpu);
  ~Lap();
  Lap(const Lap&) = delete;
  Lap& operator=(const Lap&) = delete;

  // Starts work on the calling thread's stream. Where the work is recorded instead of started, it is not timed.
  void time(const std::function<void()>& work);
  // Milliseconds of the latest timed work, told once. Nothing while it is under way.
  std::optional<double> take_ms();
  // The same, waited for.
  double wait_ms();
  // Whether the latest timed work has not been told of.
  bool is_open() const { return open_; }

 private:
  double read();
  Gpu& gpu_;
  CUevent begun_ = nullptr, done_ = nullptr;
  bool open_ = false;
};

}  // namespace toroid::device::cuda
