// Reads zip archives whose entries are stored without compression, in place.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace toroid::import {

struct ZipEntry {
  std::string_view name;
  std::span<const std::byte> data;

  std::string_view text() const { return {reinterpret_cast<const char*>(data.data()), data.size()}; }
};

// The table of an archive; names and data are views into the bytes given to open(), which must outlive it. A member that
// is itself a zip is opened by handing its data to open().
class ZipArchive {
 public:
  // Reads the central directory (zip64 too) and checks every entry: it lies inside `bytes`, is stored and not encrypted, and
  // its name is unique. `source` names the archive in messages. Checksums are not verified. Throws UserError.
  static ZipArchive open(std::span<const std::byte> bytes, std::string source);

  // Sorted by name.
  std::span<const ZipEntry> entries() const { return entries_; }
  // nullptr when absent.
  const ZipEntry* find(std::string_view name) const;
  // UserError when absent.
  const ZipEntry& at(std::string_view name) const;
  const std::string& source() const { return source_; }
  // From the first byte of the central directory to the end of the archive: names, sizes and checksums, as the archive states them.
  std::span<const std::byte> directory() const { return directory_; }

 private:
  std::string source_;
  std::vector<ZipEntry> entries_;
  std::span<const std::byte> directory_;
};

}  // namespace toroid::import
