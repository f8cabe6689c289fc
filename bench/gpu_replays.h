// Times of one launch among many, by replays of a recording.
#pragma once

#include <algorithm>
#include <vector>

#include "device/cuda/gpu.h"

namespace toroid {

struct Replays {
  int rounds;
  double recording_us;  // about how long a recording lasts; it holds each set of operands at least once
};

// Median microseconds of a launch. launch(i) launches once on the i-th of `sets` sets of operands, which take turns.
template <class Launch>
double replayed_us(device::cuda::Gpu& gpu, Launch&& launch, int64_t sets, const Replays& how) {
  constexpr int64_t kMost = 256;
  const double guess = gpu.time_ms([&] { launch(0); }) * 1e3;
  const int64_t count = std::clamp<int64_t>(static_cast<int64_t>(how.recording_us / guess), sets, kMost);
  const auto graph = gpu.record([&] {
    for (int64_t i = 0; i < count; ++i) launch(i % sets);
  });
  gpu.launch(*graph);
  std::vector<double> us;
  for (int i = 0; i < how.rounds; ++i) us.push_back(gpu.time_ms([&] { gpu.launch(*graph); }) * 1e3 / static_cast<double>(count));
  std::sort(us.begin(), us.end());
  return us[us.size() / 2];
}

}  // namespace toroid
