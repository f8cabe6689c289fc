#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
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

// Reads a byte of each 64 KB, which the system maps at once, until `ends`. Whoever loads the program goes first where they share a
// processor, and waits for no lock of the process's memory, as it would for madvise(MADV_POPULATE_READ).
void touch(std::span<const std::byte> part, const std::atomic<bool>& ends) {
  constexpr size_t kStep = size_t{64} << 10;
  constexpr int kLeast = 19;
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), kLeast);
  for (size_t at = 0; at < part.size() && !ends; at += kStep) (void)*static_cast<const volatile std::byte*>(&part[at]);
}

}  // namespace

void MapAhead::begin(std::shared_ptr<const MappedFile> file, std::span<const std::byte> part) {
  if (thread_.joinable() || part.empty()) return;
  process_ = ::getpid();
  try {
    thread_ = std::thread([this, file = std::move(file), part] { touch(part, ends_); });
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
