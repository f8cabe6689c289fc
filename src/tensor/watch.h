// What a trace has read besides its arguments: variables (Tensor objects, Watched values) that may be assigned or destroyed later.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "toroid/tensor_watch.h"

namespace toroid {

class WatchedReads {
 public:
  WatchedReads() = default;
  ~WatchedReads();
  WatchedReads(WatchedReads&& other) noexcept { *this = std::move(other); }
  WatchedReads& operator=(WatchedReads&& other) noexcept {
    states_.swap(other.states_);
    std::swap(number_, other.number_);
    std::swap(settle_at_, other.settle_at_);
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

  // Whether this thread's reads are noted anywhere.
  static bool are_noted();

  // Forgets the variables that are destroyed: those of the traced function itself. Happens now and then while it is traced, too, as most
  // of what it reads are temporaries of its own.
  void settle();
  // Whether every variable is as it was read. No variable is looked at, so that it may be gone.
  bool stand() const;
  size_t size() const { return states_.size(); }  // exact after settle()
  // How often a variable that some trace has read was assigned or destroyed, in the process. While the number is the same, what stood
  // stands.
  static uint64_t changes();

 private:
  void drop_ended();
  friend class detail::Watch;
  void add(const detail::Watch& w);

  std::vector<detail::WatchState*> states_;  // owned; one may be there twice until settle()
  uint64_t number_ = 0;                      // by which states know it; 0 before the first read
  size_t settle_at_ = 1024;
};

}  // namespace toroid
