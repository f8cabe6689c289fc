// Collectives that run beside the work of the rank that has begun them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "dist/group.h"

namespace toroid::distributed {

// One after the other, in the order in which they were begun, on a thread that is made for the first. Whoever begins some ends all of them
// before it uses their groups in another way, as a group's calls come from one thread at a time.
class Beside {
 public:
  // Of the calling thread.
  static Beside& own();
  Beside() = default;
  Beside(const Beside&) = delete;
  ~Beside();

  // Its memory stays as it is until the collective has ended. What it is called: a number, which grows.
  uint64_t begin(Group& group, Collective c);
  // Waits for it, and for all before. What the first of them that failed has thrown, as Group::run() throws it; those begun behind it do
  // not run then. A later collective begins anew.
  void end(uint64_t number);
  // Waits for all; what they threw is dropped.
  void end_all() noexcept;

 private:
  void work();

  std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  struct Call {
    Group* group;
    Collective what;
  };
  std::deque<Call> waiting_;
  uint64_t begun_ = 0, ended_ = 0;
  std::exception_ptr failure_;
  bool stops_ = false;
  std::thread thread_;
};

}  // namespace toroid::distributed
