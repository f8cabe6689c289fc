// How many random samples a test draws.
#pragma once

namespace toroid::test {

// One in eight under a sanitizer, which takes up to a hundred times as long, and has seen the code by then.
template <class N>
constexpr N samples(N n) {
#ifdef TOROID_SANITIZED
  return n / 8;
#else
  return n;
#endif
}

}  // namespace toroid::test
