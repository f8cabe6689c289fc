// What the kernels of a call take on a GPU, as the driver's records tell (CUPTI): the host's time does not count.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "device/cuda/cupti.h"
#include "exec/call_trace.h"
#include "toroid/device.h"

namespace toroid {

// The kernels and copies of one call, in the order of their beginnings.
inline std::vector<device::cuda::Activity> kernels_of(const std::function<void()>& call) {
  device::cuda::ActivityTrace trace;
  call();
  synchronize(Device::cuda());
  std::vector<device::cuda::Activity> kernels = trace.take();
  std::sort(kernels.begin(), kernels.end(), [](auto& a, auto& b) { return a.start_ns < b.start_ns; });
  return kernels;
}

// Nanoseconds of all kernels; one that begins early and waits for another is not charged for its wait.
inline int64_t busy_ns(const std::vector<device::cuda::Activity>& kernels) {
  int64_t sum = 0;
  for (const int64_t ns : exec::added_ns(kernels)) sum += ns;
  return sum;
}

// Nanoseconds of a call's kernels, the median of `rounds` calls behind `warm` others; `prepare` runs before each.
inline double kernel_ns(
    const std::function<void()>& call, int warm, int rounds, const std::function<void()>& prepare = [] {}) {
  std::vector<int64_t> ns;
  for (int i = 0; i < warm + rounds; ++i) {
    prepare();
    synchronize(Device::cuda());
    const int64_t busy = busy_ns(kernels_of(call));
    if (i >= warm) ns.push_back(busy);
  }
  std::sort(ns.begin(), ns.end());
  return static_cast<double>(ns[ns.size() / 2]);
}

}  // namespace toroid
