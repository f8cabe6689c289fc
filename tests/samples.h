// How many random samples a test draws.
#pragma once

namespace toroid::test {

// One in so many under a sanitizer, which takes up to a hundred times as long, and has seen the code by then.
#ifdef TOROID_SANITIZED
inline constexpr int kFewer = 8;
#else
inline constexpr int kFewer = 1;
#endif
template <class N>
constexpr N samples(N n) {
  return n < static_cast<N>(kFewer) ? n : n / static_cast<N>(kFewer);
}

}  // namespace toroid::test
