#include "train/checkpoint.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <vector>

#include "toroid/train/trainer.h"
#include "train/errors.h"

namespace toroid::train {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-", kPartial = ".partial-";

[[noreturn]] void cannot(const char* what, const fs::path& path, const std::string& reason) {
  throw EnvironmentError(
      fmt::format("cannot {} \"{}\": {}; check the disk space and the permissions of its folder", what, path.string(), reason));
}

// Makes the names in a folder last.
void sync_folder(const fs::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) cannot("open", folder, std::strerror(errno));
  const int error = ::fsync(fd) == 0 ? 0 : errno;
  ::close(fd);
  if (error != 0) cannot("write", folder, std::strerror(error));
}

void make_folders(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) cannot("create the folder", folder, error.message());
  require(fs::is_directory(folder), "\"{}\" is no folder; checkpoints need one", folder.string());
}

// The step of a checkpoint's folder; -1: it is none.
int64_t step_of(const fs::path& folder) {
  const std::string name = folder.filename().string();
  if (!name.starts_with(kPrefix)) return -1;
  int64_t step = -1;
  const char* end = name.data() + name.size();
  const auto [stopped, error] = std::from_chars(name.data() + kPrefix.size(), end, step);
  return error == std::errc() && stopped == end ? step : -1;
}

// Removes what processes that have ended left unfinished.
void remove_abandoned(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> found;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    pid_t writer = 0;
    const size_t at = name.rfind('-') + 1;
    const auto [stopped, bad] = std::from_chars(name.data() + at, name.data() + name.size(), writer);
    const bool is_partial = name.starts_with(kPartial) && bad == std::errc() && stopped == name.data() + name.size() && writer > 0;
    if (is_partial && ::kill(writer, 0) != 0 && errno == ESRCH) found.push_back(it->path());
  }
  for (auto& path : found) fs::remove_all(path, error);
}

uint64_t mixed(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9fb21c651e98df25;
  return hash ^ (hash >> 32);
}
uint64_t mixed(uint64_t hash, std::string_view bytes) {
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data(), 8);
    hash = mixed(hash, word);
  }
  uint64_t rest = 0;
  std::memcpy(&rest, bytes.data(), bytes.size());
  return mixed(mixed(hash, rest), bytes.size());
}

}  // namespace

CheckpointWriter::CheckpointWriter(const std::string& folder, int64_t step) {
  make_folders(folder);
  const std::string name = fmt::format("{}{:06}", kPrefix, step);
  final_ = fs::path(folder) / name;
  temporary_ = fs::path(folder) / fmt::format("{}{}-{}", kPartial, name, ::getpid());
  std::error_code error;
  fs::remove_all(temporary_, error);
  remove_abandoned(temporary_.parent_path());
  make_folders(temporary_);
}

CheckpointWriter::~CheckpointWriter() {
  std::error_code error;
  if (!temporary_.empty()) fs::remove_all(temporary_, error);
}

std::string CheckpointWriter::file(const std::string& name) const {
  const fs::path path = temporary_ / name;
  make_folders(path.parent_path());
  return path.string();
}

std::string CheckpointWriter::publish() {
  sync_folder(temporary_);
  for (auto& entry : fs::directory_iterator(temporary_))
    if (entry.is_directory()) sync_folder(entry.path());
  if (fs::exists(final_)) {
    constexpr unsigned kExchange = 2;  // RENAME_EXCHANGE: one of the two has the name at any time
    if (::syscall(SYS_renameat2, AT_FDCWD, temporary_.c_str(), AT_FDCWD, final_.c_str(), kExchange) != 0)
      cannot("replace", final_, std::strerror(errno));
  } else if (::rename(temporary_.c_str(), final_.c_str()) != 0) {
    cannot("write", final_, std::strerror(errno));
  } else {
    temporary_.clear();
  }
  sync_folder(final_.parent_path());
  return final_.string();
}

std::vector<std::string> list_checkpoints(const std::string& folder) {
  std::vector<std::pair<int64_t, std::string>> found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (const int64_t step = step_of(it->path()); step >= 0 && it->is_directory()) found.emplace_back(step, it->path().string());
  std::sort(found.begin(), found.end());
  std::vector<std::string> out;
  for (auto& [step, path] : found) out.push_back(path);
  return out;
}

void remove_old_checkpoints(const std::string& folder, int64_t keep) {
  const auto all = list_checkpoints(folder);
  std::error_code error;  // one that stays does no harm
  for (size_t i = 0; keep > 0 && i + static_cast<size_t>(keep) < all.size(); ++i) fs::remove_all(all[i], error);
}

std::string digest_of(const std::map<std::string, Tensor>& tensors) {
  uint64_t hash = 0x2545f4914f6cdd1d;
  for (auto& [name, t] : tensors) {
    const Tensor here = t.to(Device::cpu()).contiguous();
    hash = mixed(mixed(hash, name), name_of(t.dtype()));
    for (const int64_t s : t.sizes()) hash = mixed(hash, static_cast<uint64_t>(s));
    hash = mixed(
        hash, std::string_view(reinterpret_cast<const char*>(here.raw_data()), static_cast<size_t>(here.numel()) * size_of(here.dtype())));
  }
  return fmt::format("{:016x}", hash);
}

}  // namespace toroid::train
