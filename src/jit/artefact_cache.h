// What was compiled, on disk, named by the hash of what it was made from: kernels, <root>/ab/<hash>.o with the source text beside it, and
// whole programs, <root>/ab/<hash>.tpk with their key beside it (compile/program_cache.h), and which sizes of functions vary,
// <root>/ab/<hash>.sizes (front/remembered_sizes.h). One limit is for all of it.
#pragma once

#include <cstdint>
#include <ctime>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"

namespace toroid::jit {

// What one ArtefactCache object has seen, and what lies on disk.
struct CacheStats {
  uint64_t hits = 0;
  uint64_t misses = 0;   // including damaged ones
  uint64_t damaged = 0;  // files that failed their checksum
  uint64_t evictions = 0;
  uint64_t errors = 0;    // refused reads and writes; see last_problem()
  uint64_t entries = 0;   // kernels, programs and sizes
  uint64_t programs = 0;  // of them
  uint64_t sizes = 0;
  uint64_t bytes = 0;
};

enum class CacheKind : uint8_t { Kernel, Program, Sizes };

struct CacheEntry {
  std::string key;  // 32 hexadecimal digits
  std::filesystem::path object;
  uint64_t bytes = 0;  // with the file beside it
  CacheKind kind = CacheKind::Kernel;
  std::timespec last_used{};
};

// Safe for many threads and many processes on one folder: files appear by rename, and readers verify what they read.
// No function here fails because of the disk: a cache that cannot be read or written counts the error, keeps its reason
// (last_problem) and behaves like an empty one.
class ArtefactCache {
 public:
  // The folder is created by the first store. Above `limit_bytes` the least recently used entries go.
  ArtefactCache(std::filesystem::path root, uint64_t limit_bytes);

  // The object code stored under the key, marked as used now. Nothing when absent or damaged.
  std::optional<std::string> load(const Hash128& key);
  // Keeps the object code and its source. False when the disk refuses.
  bool store(const Hash128& key, std::string_view object, std::string_view source);

  // The text kept under the key, marked as used now. Nothing when absent; whoever reads it checks it.
  std::optional<std::string> load_sizes(const Hash128& key);
  bool store_sizes(const Hash128& key, std::string_view text);

  // Where the source text of a key lies (whether stored or not).
  std::filesystem::path source_path(const Hash128& key) const;
  const std::filesystem::path& root() const { return root_; }
  uint64_t limit_bytes() const { return limit_bytes_; }

  // Where a program lies, and its key; the folder of both. Whoever writes them says so afterwards, and marks what is used: the time of the
  // key orders evictions, that of the program stays what it is.
  std::filesystem::path program_path(const Hash128& key) const { return path_of(key.hex(), ".tpk"); }
  std::filesystem::path program_key_path(const Hash128& key) const { return path_of(key.hex(), ".key"); }
  void note_stored(uint64_t bytes) { shrink_if_needed(bytes); }
  // Counts a refused read or write, and keeps its reason.
  void note_problem(std::string text);

  CacheStats stats() const;
  // All entries, least recently used first.
  std::vector<CacheEntry> list() const;
  // Removes all entries, no other file; returns how many.
  size_t clear();
  // The reason of the latest error, empty when there was none.
  std::string last_problem() const;

 private:
  std::filesystem::path path_of(const std::string& hex, const char* suffix) const;
  void shrink_if_needed(uint64_t added);

  const std::filesystem::path root_;
  const uint64_t limit_bytes_;
  mutable std::mutex mutex_;  // of all below
  CacheStats counters_;
  std::string last_problem_;
  uint64_t known_bytes_ = 0;  // on disk at the last scan plus what was stored since
  uint64_t unscanned_bytes_ = 0;
  bool scanned_ = false;
};

// The cache that the options cache, cache_dir and cache_size_mb ask for now; null when the cache is switched off or no folder
// for it can be named (`problem`, if given, then receives the reason).
std::shared_ptr<ArtefactCache> shared_cache(std::string* problem = nullptr);

}  // namespace toroid::jit
