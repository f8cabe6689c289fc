// A file's bytes, mapped: pages are read when they are first touched, shared between processes, and can be evicted.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <thread>

namespace toroid {

class MappedFile {
 public:
  // Read-only. The file must not be written to or shortened while it is mapped (a read beyond its new end ends the process): who replaces
  // it renames another file over it. UserError for what is no regular file, EnvironmentError for what the system refuses.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> span() const { return {static_cast<const std::byte*>(data_), size_}; }
  std::string_view text() const { return {static_cast<const char*>(data_), size_}; }

 private:
  void* data_ = nullptr;
  size_t size_ = 0;
};

// Touches a file's pages before others do, in a thread of its own that leaves the processors to them. The first touch of 64 KB costs about
// 5 us, so that 20 MB of weights take 1.5 ms of the call that reads them first.
class MapAhead {
 public:
  MapAhead() = default;
  ~MapAhead();  // ends the thread
  MapAhead(const MapAhead&) = delete;
  MapAhead& operator=(const MapAhead&) = delete;

  // part: bytes of the file. Once for an object, later calls do nothing. Where no thread can begin, whoever reads first touches them.
  void begin(std::shared_ptr<const MappedFile> file, std::span<const std::byte> part);

 private:
  std::atomic<bool> ends_ = false;
  std::thread thread_;
  pid_t process_ = 0;  // that has the thread
};

}  // namespace toroid
