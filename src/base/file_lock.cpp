#include "base/file_lock.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

namespace toroid {

using Clock = std::chrono::steady_clock;

FileLock::FileLock(const std::filesystem::path& path, int64_t timeout_ms) : path_(path) {
  constexpr auto kPause = std::chrono::milliseconds(5);  // flock() has no timeout of its own
  file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (file_ < 0) {
    refusal_ = fmt::format("cannot open \"{}\": {}", path_.string(), std::strerror(errno));
    return;
  }
  const auto end = Clock::now() + std::chrono::milliseconds(timeout_ms);
  while (::flock(file_, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) {
      refusal_ = fmt::format("cannot lock \"{}\": {}", path_.string(), std::strerror(errno));
      return;
    }
    waited_ = true;
    if (Clock::now() >= end) {
      refusal_ = fmt::format("another process held \"{}\" for {} ms", path_.string(), timeout_ms);
      return;
    }
    std::this_thread::sleep_for(kPause);
  }
  held_ = true;
}

// Who waits has the file open that is removed here, and gets the lock of that: it may meet one who made the file anew. Both then find what
// this one has left, or do its work twice.
FileLock::~FileLock() {
  if (held_) ::unlink(path_.c_str());
  if (file_ >= 0) ::close(file_);
}

}  // namespace toroid
