// How long something takes, by a clock that only goes forward.
#pragma once

#include <chrono>
#include <utility>

namespace toroid {

// Runs from its construction on.
class Stopwatch {
 public:
  // Milliseconds since then, or since the latest lap().
  double ms() const { return milliseconds(Clock::now() - begun_); }
  // The same, and begins anew.
  double lap() {
    const Clock::time_point now = Clock::now();
    return milliseconds(now - std::exchange(begun_, now));
  }

 private:
  using Clock = std::chrono::steady_clock;
  static double milliseconds(Clock::duration d) { return std::chrono::duration<double, std::milli>(d).count(); }
  Clock::time_point begun_ = Clock::now();
};

}  // namespace toroid
