#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <system_error>

#include "base/check.h"
#include "base/files.h"

namespace toroid {

MappedFile::MappedFile(const std::filesystem::path& path) {
  require_file(path);
  const auto refused = [&](const char* what) {
    fail<EnvironmentError>("{}: cannot {} the file: {}", path.string(), what, std::strerror(errno));
  };
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) refused("open");
  struct stat info = {};
  void* data = MAP_FAILED;
  if (::fstat(file, &info) == 0 && info.st_size > 0)
    data = ::mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_PRIVATE, file, 0);
  const int reason = errno;
  ::close(file);
  if (info.st_size == 0) return;
  errno = reason;
  if (data == MAP_FAILED) refused("map");
  data_ = data, size_ = static_cast<size_t>(info.st_size);
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(data_, size_);
}

namespace {

// Until `ends`, or the system refuses. Steps are short, as other requests for memory of the process wait for each.
void map(std::span<const std::byte> part, const std::atomic<bool>& ends) {
#ifdef MADV_POPULATE_READ
  constexpr uintptr_t kStep = uintptr_t{64} << 10, kPage = 4096;
  const uintptr_t begin = reinterpret_cast<uintptr_t>(part.data()) / kPage * kPage,
                  end = reinterpret_cast<uintptr_t>(part.data()) + part.size();
  for (uintptr_t at = begin; at < end && !ends; at += kStep)
    if (::madvise(reinterpret_cast<void*>(at), std::min(kStep, end - at), MADV_POPULATE_READ) != 0) return;
#endif
}

}  // namespace

void MapAhead::begin(std::shared_ptr<const MappedFile> file, std::span<const std::byte> part) {
  if (thread_.joinable() || part.empty()) return;
  process_ = ::getpid();
  try {
    thread_ = std::thread([this, file = std::move(file), part] { map(part, ends_); });
  } catch (const std::system_error&) {  // a limit on threads
  }
}

MapAhead::~MapAhead() {
  if (!thread_.joinable()) return;
  ends_ = true;
  if (process_ == ::getpid())
    thread_.join();
  else
    thread_.detach();  // the child of a fork has no such thread
}

}  // namespace toroid
