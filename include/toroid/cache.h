// What the cache of whole programs did in this process. Option cache_programs switches it off.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace toroid {

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

}  // namespace toroid
