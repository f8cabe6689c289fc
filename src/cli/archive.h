// Unpacks .tar.zst archives of fixtures.
#pragma once

#include <filesystem>
#include <utility>

namespace toroid::cli {

// A folder that is removed with this object.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(TempFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TempFolder& operator=(TempFolder&&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Unpacks with the programs tar and zstd. EnvironmentError when they are missing, UserError when the archive is damaged.
TempFolder unpack(const std::filesystem::path& archive);

}  // namespace toroid::cli
