// Files: read-only mapping, whole-file reading, atomic writing, the cache folder.
// A missing file or a folder in its place is a UserError; whatever the system refuses is an EnvironmentError with the path and its reason.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace toroid {

// A regular file mapped read-only. The bytes stay valid while this object lives; nobody may shorten the file meanwhile.
class MappedFile {
 public:
  MappedFile() = default;
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> span() const { return {static_cast<const std::byte*>(data_), size_}; }
  std::string_view text() const { return {static_cast<const char*>(data_), size_}; }
  size_t size() const { return size_; }

 private:
  void* data_ = nullptr;
  size_t size_ = 0;
};

// The whole content of a regular file.
std::string read_file(const std::filesystem::path& path);

// Replaces the file in one step: readers see the old content or the new one, never a part. The folder must exist.
void write_file_atomic(const std::filesystem::path& path, std::string_view bytes);

// Creates the folder and its parents where they are missing.
void make_directories(const std::filesystem::path& path);

// Creates an empty folder of a fresh name under TMPDIR (else /tmp). The caller removes it.
std::filesystem::path make_temp_dir(std::string_view prefix = "toroid");

// Where compiled kernels and tuning results are kept: option cache_dir, else $XDG_CACHE_HOME/toroid, else ~/.cache/toroid. Not created
// here.
std::filesystem::path cache_dir();

}  // namespace toroid
