// toroid cache: compiled kernels and programs on disk, and which sizes vary.
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
  const std::string root = cache->root().string();
  if (args.action == "clear") {
    size_t removed = cache->clear();
    if (args.json)
      fmt::print("{{\"folder\":{},\"removed\":{}}}\n", json_string(root), removed);
    else
      fmt::print("removed {} kernels, programs and sizes from {}\n", removed, root);
  } else if (args.action == "export" || args.action == "import") {
    TOROID_USER_CHECK(!args.file.empty(), "toroid cache {} needs a file: toroid cache {} FILE", args.action, args.action);
    const bool out = args.action == "export";
    const auto done = out ? compiler::export_cache(*cache, args.file) : compiler::import_cache(*cache, args.file);
    if (args.json) {
      std::string refused;
      for (auto& why : done.refused) refused += (refused.empty() ? "" : ",") + json_string(why);
      fmt::print("{{\"file\":{},\"kernels\":{},\"programs\":{},\"sizes\":{},\"left_out\":[{}]}}\n", json_string(args.file), done.kernels,
                 done.programs, done.sizes, refused);
    } else {
      for (auto& why : done.refused) fmt::print("left out: {}\n", why);
      fmt::print("{} {} kernels, {} programs and the sizes of {} functions {} {}\n", out ? "wrote" : "took", done.kernels, done.programs,
                 done.sizes, out ? "to" : "from", args.file);
    }
    if (!done.refused.empty()) return kMismatch;
  } else if (args.action == "list") {
    std::string rows;
    for (auto& e : cache->list()) {
      std::tm when{};
      ::gmtime_r(&e.last_used.tv_sec, &when);
      char text[32];
      std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &when);
      constexpr const char* kKinds[] = {"kernel", "program", "sizes"};  // by CacheKind
      const char* kind = kKinds[static_cast<size_t>(e.kind)];
      const bool program = e.kind == jit::CacheKind::Program;
      if (args.json)
        rows += fmt::format("{}{{\"key\":\"{}\",\"kind\":\"{}\",\"bytes\":{},\"last_used\":\"{}\",\"of\":{}}}", rows.empty() ? "" : ",\n ",
                            e.key, kind, e.bytes, text, program ? json_string(subject_of(e)) : "null");
      else
        fmt::print("{}  {:>9}  {}  {}\n", e.key, e.bytes, text, program ? "program of " + subject_of(e) : kind);
    }
    if (args.json) fmt::print("[{}]\n", rows);
  } else {
    auto stats = cache->stats();
    fmt::print(fmt::runtime(args.json ? "{{\"folder\":{},\"kernels\":{},\"programs\":{},\"sizes\":{},\"bytes\":{},\"limit\":{}}}\n"
                                      : "folder    {}\nkernels   {}\nprograms  {}\nsizes     {}\nbytes     {}\nlimit     {}\n"),
               args.json ? json_string(root) : root, stats.entries - stats.programs - stats.sizes, stats.programs, stats.sizes, stats.bytes,
               cache->limit_bytes());
  }
  if (auto last = cache->last_problem(); !last.empty()) fail<EnvironmentError>("{}", last);
  return kOk;
}

}  // namespace toroid::cli
