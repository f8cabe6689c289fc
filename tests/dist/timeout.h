// How long ranks wait for each other, in milliseconds, for the life of the object.
#pragma once

#include <string>

#include "toroid/options.h"

namespace toroid::test {

class TimeoutScope {
 public:
  explicit TimeoutScope(const std::string& ms) { set_option("dist_timeout_ms", ms); }
  ~TimeoutScope() { set_option("dist_timeout_ms", "600000"); }
  TimeoutScope(const TimeoutScope&) = delete;
  TimeoutScope& operator=(const TimeoutScope&) = delete;
};

}  // namespace toroid::test
