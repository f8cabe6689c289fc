// Variables that a compiled function reads besides its arguments: how it sees that they have changed.
#pragma once

#include <atomic>
#include <cmath>
#include <concepts>
#include <utility>

namespace toroid {

class WatchedReads;

namespace detail {

struct WatchState;

// A part of such a variable, not of its value: copies of the variable have a watch of their own. A trace that reads the variable leaves a
// note here, through which it is told when the variable is assigned or destroyed. Where nothing is traced, a read costs a load of a count
// and an assignment a load of a pointer. Threads may read a variable side by side; who assigns or destroys it must have it to himself, as
// with the variable's value.
class Watch {
 public:
  Watch() = default;
  Watch(const Watch&) noexcept {}
  Watch& operator=(const Watch&) noexcept { return *this; }
  ~Watch() {
    if (state_) [[unlikely]]
      destroyed();
  }
  // To be called by every read of the variable, and by every change of its value.
  void read() const {
    if (traces.load(std::memory_order_relaxed) > 0) [[unlikely]]
      note();
  }
  void change() noexcept {
    if (state_) [[unlikely]]
      changed();
  }
  // Whether some trace has left a note.
  bool noted() const noexcept { return state_ != nullptr; }

 private:
  friend class ::toroid::WatchedReads;
  static std::atomic<int> traces;  // of all threads, under way
  void note() const;
  void changed() noexcept;
  void destroyed() noexcept;
  // Not atomic, so that moves of variables without notes stay free: reads of a variable write it under a lock of all notes, and changes
  // need the variable for themselves.
  mutable WatchState* state_ = nullptr;
};

}  // namespace detail

// A captured number, bool or other comparable value that compiled functions follow: a change of it is another trace. (Captured tensors and
// what modules hold are followed as they are; other captured variables are frozen by the first call.)
//
//   toroid::Watched<bool> scaled = false;
//   auto f = compile([&](const Tensor& x) { return scaled ? x * 2 : x; });
template <class T>
class Watched {
 public:
  Watched() = default;
  Watched(T value) : value_(std::move(value)) {}  // NOLINT
  Watched& operator=(const Watched& other) { return *this = T(other); }
  Watched(const Watched& other) : value_(T(other)) {}
  Watched& operator=(T value) {
    if (is_same(value, value_)) return *this;
    watch_.change();
    value_ = std::move(value);
    return *this;
  }
  operator T() const {
    watch_.read();
    return value_;
  }

 private:
  // Of floats as programs see them: 1 / 0. and 1 / -0. differ, and what is no number is not another one each time.
  static bool is_same(const T& a, const T& b) {
    if constexpr (std::floating_point<T>)
      return std::signbit(a) == std::signbit(b) && (a == b || (std::isnan(a) && std::isnan(b)));
    else
      return a == b;
  }
  T value_{};
  detail::Watch watch_;
};

}  // namespace toroid
