// toroid cache: the compiled kernels on disk.
#include <fmt/core.h>

#include <ctime>
#include <filesystem>
#include <system_error>

#include "base/check.h"
#include "cli/commands.h"
#include "jit/artefact_cache.h"

namespace toroid::cli {

int cache(const CacheArgs& args) {
  std::string problem;
  auto cache = jit::shared_cache(&problem);
  if (!cache) fail<EnvironmentError>("there is no cache: {}", problem.empty() ? "the option cache is off (TOROID_CACHE)" : problem);
  std::error_code error;
  std::filesystem::directory_iterator folder(cache->root(), error);
  if (error && error != std::errc::no_such_file_or_directory)
    fail<EnvironmentError>("cannot read the folder of the cache, {}: {}; check its permissions, or set TOROID_CACHE_DIR",
                           cache->root().string(), error.message());
  if (args.action == "clear") {
    size_t removed = cache->clear();
    fmt::print("removed {} kernels from {}\n", removed, cache->root().string());
  } else if (args.action == "list") {
    for (auto& e : cache->list()) {
      std::tm when{};
      ::gmtime_r(&e.last_used.tv_sec, &when);
      char text[32];
      std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &when);
      fmt::print("{}  {:>9}  {}\n", e.key, e.bytes, text);
    }
  } else {
    auto stats = cache->stats();
    fmt::print("folder   {}\nkernels  {}\nbytes    {}\n", cache->root().string(), stats.entries, stats.bytes);
  }
  if (auto last = cache->last_problem(); !last.empty()) fail<EnvironmentError>("{}", last);
  return kOk;
}

}  // namespace toroid::cli
