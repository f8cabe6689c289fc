// Writes zip archives whose entries are stored, each on a boundary of 64 bytes, so that they can be used where they are mapped.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace toroid::package {

inline constexpr size_t kAlignment = 64;  // of what an entry holds, in the file

struct ZipPart {
  std::string name;
  std::vector<std::string_view> bytes;  // one after the other
};

// Replaces the file in one step. Equal parts give equal bytes: no time, owner or place is in them. Parts of 4 GiB and more are zip64.
void write_zip(const std::filesystem::path& path, std::span<const ZipPart> parts);

}  // namespace toroid::package
