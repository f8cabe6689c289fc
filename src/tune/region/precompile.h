// Compiles choices side by side.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "base/stopwatch.h"
#include "tune/region/caller.h"

namespace toroid::tune {

// Threads that compile choices, in their order. They end with this object, after the choices that they have begun.
class Precompiling {
 public:
  // threads: its own; whoever waits for all helps them. most_ms: after so long no other choice is begun. done: called after each choice, by
  // one thread at a time.
  Precompiling(std::vector<std::shared_ptr<ChoiceCaller>> callers, int threads, double most_ms, std::function<void()> done = {});
  ~Precompiling();
  Precompiling(const Precompiling&) = delete;
  Precompiling& operator=(const Precompiling&) = delete;

  // For all that are begun in time.
  void wait_for_all();
  // For those among them, at most so long.
  void wait_for(std::span<const std::shared_ptr<ChoiceCaller>> some, double most_ms);
  // From the beginning to the latest end of a choice.
  double spent_ms() const;

 private:
  bool compile_next();
  bool is_done(const ChoiceCaller& caller) const;

  const std::vector<std::shared_ptr<ChoiceCaller>> callers_;
  const double most_ms_;
  const std::function<void()> done_;
  const Stopwatch since_start_;
  mutable std::mutex mutex_;  // of all up to the threads
  std::condition_variable changed_;
  size_t next_ = 0, finished_ = 0;
  std::vector<bool> is_done_;  // parallel to callers_
  double spent_ms_ = 0;
  std::mutex telling_;
  std::vector<std::jthread> threads_;
};

// Compiles them on so many threads; returns when all are done.
void precompile(std::span<const std::shared_ptr<ChoiceCaller>> callers, int workers);

}  // namespace toroid::tune
