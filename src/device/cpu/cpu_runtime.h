// The CPU as a device: a stream's work is done when the call that starts it returns, or recorded while the stream captures.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "device/cpu/launch.h"
#include "device/runtime.h"

namespace toroid::device::cpu {

// What one capture has recorded so far, in an order that keeps all dependencies.
class Recorder {
 public:
  // All arguments are kept: bufs and params as copies, in which the launch's own pointers are not read again.
  void add_launch(std::string name, const Launch& l, std::span<void* const> bufs, std::span<const int64_t> params);
  // Any other work of the host: a copy, a library call.
  void add_call(std::string name, std::string kind, std::function<void()> work);

  bool records() const { return nodes_ != nullptr; }

  struct Node {
    std::string name, kind;
    std::vector<size_t> after;
    Launch launch;  // its function is null for calls
    std::vector<void*> bufs;
    std::vector<int64_t> params;
    std::function<void()> call;
  };

 private:
  friend class CpuStream;
  std::vector<Node>* nodes_ = nullptr;  // of the capture; null: it has ended
  std::vector<size_t> latest_;          // that the next node comes after
};

namespace detail {
extern constinit thread_local Recorder* recorder;
}

// Where the calling thread's work on the CPU is recorded; null: it is run.
inline Recorder* recorder() { return detail::recorder && detail::recorder->records() ? detail::recorder : nullptr; }

// Runs work of the host in the order of the calling thread's current stream, or records it. `work` keeps what it needs alive.
template <class F>
void run_or_record(const char* name, const char* kind, F&& work) {
  if (Recorder* r = recorder()) return r->add_call(name, kind, std::forward<F>(work));
  work();
}

Runtime& runtime();

}  // namespace toroid::device::cpu
