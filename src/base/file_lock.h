// Locks that are files: one process, and one thread of it, at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace toroid {

// Held from construction to destruction. The system lets go of the lock of a process that ends, however it ends.
class FileLock {
 public:
  // Waits at most so long for those who hold it. Its folder must exist.
  FileLock(const std::filesystem::path& path, int64_t timeout_ms);
  // Removes the file where it is held.
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  bool held() const { return held_; }
  // Whether another one held it at first.
  bool waited() const { return waited_; }
  // Why it is not held.
  const std::string& refusal() const { return refusal_; }

 private:
  const std::filesystem::path path_;
  int file_ = -1;
  bool held_ = false, waited_ = false;
  std::string refusal_;
};

}  // namespace toroid
