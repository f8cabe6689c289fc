// A folder of a test's own.
#pragma once

#include <filesystem>
#include <string>

#include "base/files.h"

namespace toroid::test {

// Disappears with this object.
struct TempFolder {
  TempFolder() = default;
  ~TempFolder() { std::filesystem::remove_all(path); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  std::string operator/(const char* name) const { return (path / name).string(); }

  std::filesystem::path path = make_temp_dir("toroid-test");
};

}  // namespace toroid::test
