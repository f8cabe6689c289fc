#include "jit/artefact_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/check.h"
#include "base/files.h"
#include "base/log.h"
#include "base/options.h"

namespace toroid::jit {

namespace fs = std::filesystem;

namespace {

constexpr char kMagic[8] = {'T', 'O', 'R', 'O', 'I', 'D', 'K', '1'};
constexpr size_t kHexDigits = 32;
// Temporary files older than this were left by a process that died.
constexpr std::time_t kAbandonedSeconds = 3600;

// Follows the object code in the file. At the end, so that objdump and friends can read the file as it is.
struct Trailer {
  char magic[8];
  uint64_t size;
  Hash128 key;
  Hash128 content;
};
static_assert(sizeof(Trailer) == 48);

bool is_hex(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool older(const std::timespec& a, const std::timespec& b) { return a.tv_sec != b.tv_sec ? a.tv_sec < b.tv_sec : a.tv_nsec < b.tv_nsec; }

// Calls visit(path, name) for each file in the folders ab/ of the cache; folders of other names are not ours.
template <class F>
void for_each_file(const fs::path& root, F visit) {
  std::error_code ignored;  // a folder that vanishes or refuses has no entries
  for (fs::directory_iterator it(root, ignored), end; it != end; it.increment(ignored)) {
    std::string folder = it->path().filename().string();
    if (folder.size() != 2 || !is_hex(folder)) continue;
    for (fs::directory_iterator file(it->path(), ignored); file != end; file.increment(ignored))
      visit(file->path(), file->path().filename().string());
  }
}

bool is_entry(const std::string& name, std::string_view suffix) {
  return name.size() == kHexDigits + suffix.size() && name.ends_with(suffix) && is_hex(std::string_view(name).substr(0, kHexDigits));
}

uint64_t file_bytes(const fs::path& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? uint64_t(info.st_size) : 0;
}

// The files of an entry: what was made, and of what (null: of nothing else). `used`: the one whose time is that of the last use.
struct Kind {
  CacheKind kind;
  const char *object, *beside, *used;
};
constexpr Kind kKinds[] = {
    {CacheKind::Kernel, ".o", ".c", ".o"}, {CacheKind::Program, ".tpk", ".key", ".key"}, {CacheKind::Sizes, ".sizes", nullptr, ".sizes"}};

fs::path with_suffix(fs::path path, const char* suffix) { return path.replace_extension(suffix); }

// Both files of an entry. True when this call removed the object: of several processes exactly one counts it.
bool remove_entry(const CacheEntry& e) {
  bool removed = ::unlink(e.object.c_str()) == 0;
  if (auto* beside = kKinds[static_cast<size_t>(e.kind)].beside) ::unlink(with_suffix(e.object, beside).c_str());
  return removed;
}

}  // namespace

ArtefactCache::ArtefactCache(fs::path root, uint64_t limit_bytes) : root_(std::move(root)), limit_bytes_(limit_bytes) {}

fs::path ArtefactCache::path_of(const std::string& hex, const char* suffix) const { return root_ / hex.substr(0, 2) / (hex + suffix); }

fs::path ArtefactCache::source_path(const Hash128& key) const { return path_of(key.hex(), ".c"); }

void ArtefactCache::note_problem(std::string text) {
  log(Artifact::Cache, text);
  std::lock_guard lock(mutex_);
  ++counters_.errors;
  last_problem_ = std::move(text);
}

std::optional<std::string> ArtefactCache::load(const Hash128& key) {
  std::string hex = key.hex();
  fs::path path = path_of(hex, ".o");
  auto miss = [&](bool damaged) -> std::optional<std::string> {
    std::lock_guard lock(mutex_);
    ++counters_.misses;
    counters_.damaged += damaged;
    return std::nullopt;
  };
  if (::access(path.c_str(), F_OK) != 0) {
    if (errno != ENOENT && errno != ENOTDIR)
      note_problem(fmt::format("cannot look into the kernel cache at \"{}\": {}", path.string(), std::strerror(errno)));
    return miss(false);
  }
  std::string bytes;
  try {
    bytes = read_file(path);
  } catch (const UserError&) {
    return miss(false);  // evicted by another process just now
  } catch (const Error& e) {
    note_problem(e.what());
    return miss(false);
  }
  Trailer trailer;
  bool good = bytes.size() >= sizeof trailer;
  if (good) {
    std::memcpy(&trailer, bytes.data() + bytes.size() - sizeof trailer, sizeof trailer);
    size_t size = bytes.size() - sizeof trailer;
    good = std::memcmp(trailer.magic, kMagic, sizeof kMagic) == 0 && trailer.size == size && trailer.key == key &&
           trailer.content == hash_bytes(bytes.data(), size);
    bytes.resize(size);
  }
  if (!good) {
    // Left in place: the store that follows replaces it in one step, and removing it here could hit a newer good file.
    log(Artifact::Cache, fmt::format("kernel {} is damaged on disk and will be compiled again", hex));
    return miss(true);
  }
  // The use mark orders evictions. It cannot be set in a folder shared read-only, and there nobody evicts.
  ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);
  std::lock_guard lock(mutex_);
  ++counters_.hits;
  return bytes;
}

bool ArtefactCache::store(const Hash128& key, std::string_view object, std::string_view source) {
  std::string hex = key.hex();
  Trailer trailer{};
  std::memcpy(trailer.magic, kMagic, sizeof kMagic);
  trailer.size = object.size();
  trailer.key = key;
  trailer.content = hash_bytes(object.data(), object.size());
  std::string bytes(object);
  bytes.append(reinterpret_cast<const char*>(&trailer), sizeof trailer);
  try {
    fs::path path = path_of(hex, ".o");
    make_directories(path.parent_path());
    write_file_atomic(path_of(hex, ".c"), source);
    write_file_atomic(path, bytes);
  } catch (const Error& e) {
    note_problem(fmt::format("the kernel {} was compiled but not kept: {}", hex, e.what()));
    return false;
  }
  shrink_if_needed(bytes.size() + source.size());
  return true;
}

std::optional<std::string> ArtefactCache::load_sizes(const Hash128& key) {
  const fs::path path = path_of(key.hex(), ".sizes");
  if (::access(path.c_str(), F_OK) != 0) return std::nullopt;
  try {
    std::string text = read_file(path);
    ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);
    return text;
  } catch (const UserError&) {
    return std::nullopt;  // evicted by another process just now
  } catch (const Error& e) {
    note_problem(e.what());
    return std::nullopt;
  }
}

bool ArtefactCache::store_sizes(const Hash128& key, std::string_view text) {
  try {
    const fs::path path = path_of(key.hex(), ".sizes");
    make_directories(path.parent_path());
    write_file_atomic(path, text);
  } catch (const Error& e) {
    note_problem(fmt::format("which sizes vary is not kept: {}", e.what()));
    return false;
  }
  shrink_if_needed(text.size());
  return true;
}

std::vector<CacheEntry> ArtefactCache::list() const {
  std::vector<CacheEntry> entries;
  for_each_file(root_, [&](const fs::path& path, const std::string& name) {
    for (const Kind& k : kKinds) {
      struct stat info {
      }, used{};
      if (!is_entry(name, k.object) || ::stat(path.c_str(), &info) != 0) continue;
      if (::stat(with_suffix(path, k.used).c_str(), &used) != 0) used = info;
      const uint64_t bytes = uint64_t(info.st_size) + (k.beside ? file_bytes(with_suffix(path, k.beside)) : 0);
      entries.push_back({name.substr(0, kHexDigits), path, bytes, k.kind, used.st_mtim});
    }
  });
  std::sort(entries.begin(), entries.end(), [](const CacheEntry& a, const CacheEntry& b) { return older(a.last_used, b.last_used); });
  return entries;
}

// Other processes fill the folder too, so the size is counted afresh after every sixteenth part of the limit.
void ArtefactCache::shrink_if_needed(uint64_t added) {
  {
    std::lock_guard lock(mutex_);
    known_bytes_ += added;
    unscanned_bytes_ += added;
    if (scanned_ && known_bytes_ <= limit_bytes_ && unscanned_bytes_ <= limit_bytes_ / 16) return;
    scanned_ = true;
    unscanned_bytes_ = 0;
  }
  std::vector<CacheEntry> entries = list();
  uint64_t total = 0, evicted = 0;
  for (const CacheEntry& e : entries) total += e.bytes;
  if (total > limit_bytes_) {
    // A tenth below the limit, so that the next stores need not evict again.
    uint64_t goal = limit_bytes_ - limit_bytes_ / 10;
    for (const CacheEntry& e : entries) {
      if (total <= goal) break;
      evicted += remove_entry(e);
      total -= e.bytes;
    }
    log(Artifact::Cache, fmt::format("evicted {} kernels and programs, {} bytes remain", evicted, total));
  }
  std::time_t now = std::time(nullptr);
  for_each_file(root_, [&](const fs::path& path, const std::string& name) {
    struct stat info {};
    if ((name.starts_with(".toroid-tmp-") || is_entry(name, ".lock")) && ::stat(path.c_str(), &info) == 0 &&
        info.st_mtime + kAbandonedSeconds < now)
      ::unlink(path.c_str());
  });
  std::lock_guard lock(mutex_);
  counters_.evictions += evicted;
  known_bytes_ = total;
}

CacheStats ArtefactCache::stats() const {
  uint64_t entries = 0, programs = 0, sizes = 0, bytes = 0;
  for (const CacheEntry& e : list()) {
    ++entries;
    programs += e.kind == CacheKind::Program;
    sizes += e.kind == CacheKind::Sizes;
    bytes += e.bytes;
  }
  std::lock_guard lock(mutex_);
  CacheStats result = counters_;
  result.entries = entries;
  result.programs = programs;
  result.sizes = sizes;
  result.bytes = bytes;
  return result;
}

size_t ArtefactCache::clear() {
  size_t removed = 0;
  for_each_file(root_, [&](const fs::path& path, const std::string& name) {
    if (is_entry(name, ".o") || is_entry(name, ".tpk") || is_entry(name, ".sizes")) {
      if (::unlink(path.c_str()) == 0)
        ++removed;
      else if (errno != ENOENT)
        note_problem(fmt::format("cannot remove \"{}\": {}", path.string(), std::strerror(errno)));
    } else if (is_entry(name, ".c") || is_entry(name, ".key") || name.starts_with(".toroid-tmp-")) {
      ::unlink(path.c_str());
    }
  });
  std::lock_guard lock(mutex_);
  known_bytes_ = 0;
  scanned_ = false;
  return removed;
}

std::string ArtefactCache::last_problem() const {
  std::lock_guard lock(mutex_);
  return last_problem_;
}

std::shared_ptr<ArtefactCache> shared_cache(std::string* problem) {
  static std::mutex mutex;
  static auto& cache = *new std::shared_ptr<ArtefactCache>;  // never destroyed: threads may outlive main
  static uint64_t limit = 0;
  if (!get_option(options::kCache)) {
    if (problem) *problem = "the option cache is off";
    return nullptr;
  }
  try {
    fs::path root = cache_dir() / "kernels";
    uint64_t wanted = uint64_t(std::max<int64_t>(get_option(options::kCacheSizeMb), 0)) << 20;
    std::lock_guard lock(mutex);
    if (!cache || cache->root() != root || limit != wanted) {
      cache = std::make_shared<ArtefactCache>(root, wanted);
      limit = wanted;
    }
    return cache;
  } catch (const EnvironmentError& e) {
    if (problem) *problem = e.what();
    return nullptr;
  }
}

}  // namespace toroid::jit
