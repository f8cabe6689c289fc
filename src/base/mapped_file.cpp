#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

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

}  // namespace toroid
