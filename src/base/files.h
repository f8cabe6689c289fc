// Files: reading, the bytes of large ones, atomic writing, the cache folder.
// A missing file or a folder in its place is a UserError; whatever the system refuses is an EnvironmentError with the path and its reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace toroid {

// The bytes of a regular file, read into memory of their own: the file may be overwritten, shortened or removed afterwards. (A mapping
// would change with it, and a read beyond its new end is a signal that ends the process.) The memory is aligned to pages and may be
// written, which the file does not see. Large files are read by several threads. EnvironmentError for a file that
// becomes shorter while it is read, and where there is not enough memory.
class FileBytes {
 public:
  FileBytes() = default;
  explicit FileBytes(const std::filesystem::path& path);
  ~FileBytes();
  FileBytes(FileBytes&& other) noexcept;
  FileBytes& operator=(FileBytes&& other) noexcept;

  std::span<const std::byte> span() const { return {static_cast<const std::byte*>(data_), size_}; }
  std::string_view text() const { return {static_cast<const char*>(data_), size_}; }
  size_t size() const { return size_; }

 private:
  void* data_ = nullptr;
  size_t size_ = 0;
};

// UserError or EnvironmentError where the path is no regular file that can be read.
void require_file(const std::filesystem::path& path);
// The first bytes of a regular file, at most `size`.
std::string read_head(const std::filesystem::path& path, size_t size);

// The whole content of a regular file.
std::string read_file(const std::filesystem::path& path);

// Replaces the file in one step: readers see the old content or the new one, never a part. The folder must exist.
void write_file_atomic(const std::filesystem::path& path, std::string_view bytes);
// The same for bytes that lie in several places. sync: the bytes are on the disk before the file is replaced.
void write_file_atomic(const std::filesystem::path& path, std::span<const std::string_view> parts, bool sync);

// What tells a regular file from what it was before: whoever writes to it changes its time, and who replaces it its inode, too.
struct FileStamp {
  uint64_t bytes = 0;
  int64_t time_ns = 0;  // of the last write, since 1970
  uint64_t device = 0, inode = 0;
  bool operator==(const FileStamp&) const = default;
};
// Follows links. UserError where there is no such regular file.
FileStamp stamp_of(const std::filesystem::path& path);
// Nanoseconds since 1970.
int64_t wall_clock_ns();
// Whether, for who reads the file from then on, it was written to so lately (or later) that another write within a tick of the clock could
// leave the same stamp.
bool is_fresh(const FileStamp& stamp, int64_t read_at_ns);

// Creates the folder and its parents where they are missing.
void make_directories(const std::filesystem::path& path);

// Creates an empty folder of a fresh name under TMPDIR (else /tmp). The caller removes it.
std::filesystem::path make_temp_dir(std::string_view prefix = "toroid");

// Where compiled kernels and tuning results are kept: option cache_dir, else $XDG_CACHE_HOME/toroid, else ~/.cache/toroid. Not created
// here.
std::filesystem::path cache_dir();

}  // namespace toroid
