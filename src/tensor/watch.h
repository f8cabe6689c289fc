// What a trace has read besides its arguments: variables (Tensor objects, Watched values) that may be assigned or destroyed later.
#pragma once

#include <cstdint>
#include <unordered_set>

#include "toroid/tensor_watch.h"

namespace toroid {

class WatchedReads {
 public:
  WatchedReads() = default;
  ~WatchedReads();
  WatchedReads(WatchedReads&& other) noexcept : states_(std::move(other.states_)) { other.states_.clear(); }
  WatchedReads& operator=(WatchedReads&& other) noexcept {
    states_.swap(other.states_);
    return *this;
  }

  // This thread's reads are noted in `reads`, for the lifetime of the scope. null: they are not noted.
  class Scope {
   public:
    explicit Scope(WatchedReads* reads);
    ~Scope();
    Scope(const Scope&) = delete;

   private:
    WatchedReads *before_, *own_;
  };

  // Forgets the variables that are destroyed: those of the traced function itself.
  void settle();
  // Whether every variable is as it was read. No variable is looked at, so that it may be gone.
  bool stand() const;
  size_t size() const { return states_.size(); }
  // How often a variable that some trace has read was assigned or destroyed, in the process. While the number is the same, what stood
  // stands.
  static uint64_t changes();

 private:
  friend class detail::Watch;
  void add(const detail::Watch& w);
  std::unordered_set<detail::WatchState*> states_;
};

}  // namespace toroid
