// Launches of compiled kernels on the CPU.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/mutants.h"

namespace toroid::device::cpu {

// Another number where kernels are called in another way, or may call other functions (runtime_symbols.h): object code that was stored
// names its own.
inline constexpr int kKernelAbi = 1;

using KernelFunction = void (*)(void* const* bufs, const int64_t* params, int64_t begin, int64_t end, int thread);

struct Launch {
  KernelFunction function = nullptr;
  void* const* bufs = nullptr;
  const int64_t* params = nullptr;
  int64_t tasks = 0;
  bool alone = false;  // on the calling thread
  void* scratch = nullptr;
  int64_t scratch_bytes = 0;  // a thread; 0: none
  int threads = 0;            // at most so many, which have scratch memory; 0: any
};

// Tells a kernel that its launch begins: the first 8 bytes of a thread's scratch memory are -1.
inline void mark_fresh(void* scratch, int64_t bytes_per_thread, int thread) {
  if (mutant(Mutant::StaleRows)) return;
  constexpr int64_t kFresh = -1;
  std::memcpy(static_cast<std::byte*>(scratch) + thread * bytes_per_thread, &kFresh, sizeof kFresh);
}

// Its tasks, split over the threads of the pool of the process; returns when all are done.
void run(const Launch& l);

}  // namespace toroid::device::cpu
