// What is logged while a scope lasts, also where it is left by an exception.
#pragma once
#include <utility>

#include "toroid/log.h"

namespace toroid::test {

class LogScope {
 public:
  explicit LogScope(LogSink sink) : before_(set_log_sink(std::move(sink))) {}
  ~LogScope() { set_log_sink(before_); }
  LogScope(const LogScope&) = delete;
  LogScope& operator=(const LogScope&) = delete;

 private:
  LogSink before_;
};

}  // namespace toroid::test
