// A file's bytes, mapped: pages are read when they are first touched, shared between processes, and can be evicted.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

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

}  // namespace toroid
