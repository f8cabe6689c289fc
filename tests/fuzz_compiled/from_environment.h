// Numbers that fuzz tests take from the environment: how many, and from which seed.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace toroid::test {

// The variable as a number; `otherwise` where it is not set or empty.
inline uint64_t from_environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text && *text ? std::strtoull(text, nullptr, 10) : otherwise;
}

}  // namespace toroid::test
