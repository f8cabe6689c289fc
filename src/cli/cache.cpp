// toroid cache: compiled kernels and programs on disk.
#include <fmt/core.h>

#include <ctime>
#include <filesystem>
#include <system_error>

#include "base/check.h"
#include "base/files.h"
#include "cli/commands.h"
#include "compile/cache_bundle.h"
#include "compile/program_cache.h"
#include "jit/artefact_cache.h"

namespace toroid::cli {
namespace {

std::string subject_of(const jit::CacheEntry& e) {
  try {
    const auto path = std::filesystem::path(e.object).replace_extension(".key");
    return compiler::parse_kept_key(read_file(path), path.string()).key.subject;
  } catch (const Error&) {
    return "? (its key is missing or damaged)";
  }
}

}  // namespace

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
    fmt::print("removed {} kernels and programs from {}\n", removed, cache->root().string());
  } else if (args.action == "export" || args.action == "import") {
    TOROID_USER_CHECK(!args.file.empty(), "toroid cache {} needs a file: toroid cache {} FILE", args.action, args.action);
    const bool out = args.action == "export";
    const auto done = out ? compiler::export_cache(*cache, args.file) : compiler::import_cache(*cache, args.file);
    for (auto& why : done.refused) fmt::print("left out: {}\n", why);
    fmt::print("{} {} kernels and {} programs {} {}\n", out ? "wrote" : "took", done.kernels, done.programs, out ? "to" : "from",
               args.file);
    if (!done.refused.empty()) return kMismatch;
  } else if (args.action == "list") {
    for (auto& e : cache->list()) {
      std::tm when{};
      ::gmtime_r(&e.last_used.tv_sec, &when);
      char text[32];
      std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &when);
      fmt::print("{}  {:>9}  {}  {}\n", e.key, e.bytes, text, e.kind == jit::CacheKind::Kernel ? "kernel" : "program of " + subject_of(e));
    }
  } else {
    auto stats = cache->stats();
    fmt::print("folder    {}\nkernels   {}\nprograms  {}\nbytes     {}\nlimit     {}\n", cache->root().string(),
               stats.entries - stats.programs, stats.programs, stats.bytes, cache->limit_bytes());
  }
  if (auto last = cache->last_problem(); !last.empty()) fail<EnvironmentError>("{}", last);
  return kOk;
}

}  // namespace toroid::cli
