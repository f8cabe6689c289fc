// Faults that tests ask a device to have, so that every error is provoked without a broken machine.
#pragma once

#include <atomic>
#include <cstdint>

namespace toroid::device {

enum class Fault : uint8_t {
  OutOfMemory,             // the device has no memory left
  CaptureInvalidated,      // something from outside breaks a capture
  IllegalAddress,          // a replay meets an address that is gone
  InstantiateOutOfMemory,  // no memory for an executable graph
  Stall,                   // a replay does not end
};
inline constexpr int kFaultCount = 5;

namespace detail {
inline std::atomic<int> planned_faults[kFaultCount];
}

// The next `count` times.
inline void plan_fault(Fault f, int count) { detail::planned_faults[static_cast<int>(f)] = count; }

// Whether it happens now; one less is planned then.
inline bool take_fault(Fault f) {
  std::atomic<int>& planned = detail::planned_faults[static_cast<int>(f)];
  int n = planned.load(std::memory_order_relaxed);
  while (n > 0)
    if (planned.compare_exchange_weak(n, n - 1)) return true;
  return false;
}

}  // namespace toroid::device
