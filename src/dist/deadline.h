// The moment until which something may take.
#pragma once

#include <chrono>

namespace toroid::distributed {

// So many seconds from now; the last moment of the clock, which means that there is no limit, for 0 seconds and for 1e9 or more (30 years),
// as the clock counts nanoseconds in 64 bits.
inline std::chrono::steady_clock::time_point deadline(double seconds) {
  using Clock = std::chrono::steady_clock;
  constexpr double kMost = 1e9;
  if (seconds <= 0 || seconds >= kMost) return Clock::time_point::max();
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace toroid::distributed
