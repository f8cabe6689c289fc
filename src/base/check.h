// Throwing checks. The message is formatted (fmt syntax) only on failure.
#pragma once

#include <fmt/core.h>

#include "toroid/error.h"

namespace toroid {

template <class E, class... A>
[[noreturn]] void fail(fmt::format_string<A...> f, A&&... a) {
  throw E(fmt::format(f, std::forward<A>(a)...));
}

[[noreturn]] void internal_failure(const char* condition, const char* file, int line, const std::string& message);

}  // namespace toroid

// A condition that the caller of Toroid is responsible for: UserError.
#define TOROID_USER_CHECK(cond, ...) \
  do { \
    if (!(cond)) ::toroid::fail<::toroid::UserError>(__VA_ARGS__); \
  } while (0)

// A condition that only a bug in Toroid can break: InternalError.
#define TOROID_CHECK(cond, ...) \
  do { \
    if (!(cond)) ::toroid::internal_failure(#cond, __FILE__, __LINE__, ::fmt::format("" __VA_ARGS__)); \
  } while (0)
