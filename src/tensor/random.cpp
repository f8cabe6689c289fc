#include "toroid/random.h"

#include "base/check.h"
#include "tensor/random_state.h"

namespace toroid {

Generator::State Generator::state() const {
  std::lock_guard lock(mutex_);
  return state_;
}

void Generator::set_state(State state) {
  TOROID_USER_CHECK(state.offset >= 0, "a generator's offset counts the numbers it gave; it must not be negative, it is {}", state.offset);
  std::lock_guard lock(mutex_);
  state_ = state;
}

Generator::State Generator::take(int64_t count) {
  TOROID_USER_CHECK(count >= 0, "a program draws {} random numbers; the count must not be negative", count);
  std::lock_guard lock(mutex_);
  State before = state_;
  state_.offset += count;
  return before;
}

Generator& default_generator() {
  constexpr int64_t kFirstSeed = 0x5eed;
  static Generator& g = *new Generator(kFirstSeed);  // never destroyed: threads may outlive main
  return g;
}

void manual_seed(int64_t seed) { default_generator().manual_seed(seed); }

Tensor take_random_state(int64_t count) {
  Generator::State at = default_generator().take(count);
  Tensor state = Tensor::empty({2}, DType::I64);
  state.data<int64_t>()[0] = at.seed;
  state.data<int64_t>()[1] = at.offset;
  return state;
}

}  // namespace toroid
