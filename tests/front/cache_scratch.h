// A cache of programs for one test.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/options.h"
#include "temp_folder.h"
#include "toroid/cache.h"

namespace toroid::test {

// A folder for the cache, and what happens within its life.
struct Scratch {
  TempFolder folder;
  ScopedOption dir{"cache_dir", folder.path.string()}, on{"cache_programs", "1"}, cache{"cache", "1"};
  ProgramCacheCounters before = program_cache_counters();

  int64_t hits() const { return program_cache_counters().hits - before.hits; }
  int64_t misses() const { return program_cache_counters().misses - before.misses; }
  int64_t kept() const { return program_cache_counters().kept - before.kept; }
  int64_t damaged() const { return program_cache_counters().damaged - before.damaged; }
  int64_t bypasses() const { return program_cache_counters().bypasses - before.bypasses; }
  int64_t waits() const { return program_cache_counters().waits - before.waits; }
  std::vector<std::filesystem::path> files(const std::string& extension) const {
    std::vector<std::filesystem::path> out;
    for (auto& f : std::filesystem::recursive_directory_iterator(folder.path))
      if (f.path().extension() == extension) out.push_back(f.path());
    return out;
  }
};

}  // namespace toroid::test
