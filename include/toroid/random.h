// Random numbers: what is random in a program, eager or compiled, draws from one stream of the process in the order of the calls.
#pragma once

#include <cstdint>
#include <mutex>

namespace toroid {

// A stream of random numbers. Number i of it depends on the seed and on i alone, so whoever draws only needs to know where to begin.
// Safe to use from several threads.
class Generator {
 public:
  struct State {
    int64_t seed = 0;
    int64_t offset = 0;  // numbers taken since the stream began
    bool operator==(const State&) const = default;
  };

  explicit Generator(int64_t seed) : state_{seed, 0} {}

  // Begins the stream of that seed: equal seeds and equal orders of calls give equal numbers.
  void manual_seed(int64_t seed) { set_state({seed, 0}); }
  State state() const;
  // Goes on where state() was asked. UserError for a negative offset.
  void set_state(State state);
  // Takes the next `count` numbers: the state before, at which they begin. UserError for a negative count.
  State take(int64_t count);

 private:
  mutable std::mutex mutex_;
  State state_;
};

// The stream of the process.
Generator& default_generator();
// Seeds the stream of the process.
void manual_seed(int64_t seed);

}  // namespace toroid
