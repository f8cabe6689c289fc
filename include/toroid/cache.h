// What this process has compiled, and what the caches spared it.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace toroid {

// Of the cache of whole programs. Option cache_programs switches it off.
struct ProgramCacheCounters {
  int64_t hits = 0;                        // programs that were not compiled
  int64_t misses = 0;                      // that were, and
  int64_t kept = 0;                        // were stored then
  int64_t bypasses = 0;                    // that may not be kept
  int64_t damaged = 0;                     // among the misses: there was one that could not be used
  int64_t waits = 0;                       // hits and misses that another process or thread with the same program held up
  double saved_ms = 0;                     // what the hits took to compile when they were made, less what loading them took
  std::map<std::string, int64_t> reasons;  // of bypasses, how many each
  std::string problem;                     // why the folder could not be read or written, the last time; empty: it always could
};
ProgramCacheCounters program_cache_counters();

// Kernels that this process has asked the compiler for. Counting switches no cache off. A service that is warm compiles nothing: of two
// readings `compiled()` is the same. Programs that the cache of programs has, and packages, bring their kernels, and are not counted.
struct KernelCounters {
  int64_t eager = 0;      // compiled for operations that were called outside of compiled functions and models
  int64_t programs = 0;   // compiled for functions and models, also for what packages are made of
  int64_t tuning = 0;     // compiled to be timed, in modes that tune
  int64_t found = 0;      // not compiled, for any of these: the cache of kernels had them, or another kernel is equal
  double compile_ms = 0;  // of all that were compiled; those that several threads compile at once count each
  int64_t compiled() const { return eager + programs + tuning; }
};
KernelCounters kernel_counters();

}  // namespace toroid
