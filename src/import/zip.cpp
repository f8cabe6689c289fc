#include "import/zip.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/check.h"

namespace toroid::import {
namespace {

constexpr uint32_t kEndSignature = 0x06054b50;
constexpr uint32_t kEnd64Signature = 0x06064b50;
constexpr uint32_t kLocator64Signature = 0x07064b50;
constexpr uint32_t kCentralSignature = 0x02014b50;
constexpr uint32_t kLocalSignature = 0x04034b50;
constexpr size_t kEndSize = 22;
constexpr size_t kLocator64Size = 20;
constexpr size_t kEnd64Size = 56;
constexpr size_t kCentralSize = 46;
constexpr size_t kLocalSize = 30;

// Bounds-checked little-endian reads.
class Reader {
 public:
  Reader(std::span<const std::byte> bytes, const std::string& source) : bytes_(bytes), source_(source) {}

  uint64_t size() const { return bytes_.size(); }

  std::span<const std::byte> slice(uint64_t at, uint64_t size, std::string_view what) const {
    TOROID_USER_CHECK(at <= bytes_.size() && size <= bytes_.size() - at,
                      "{}: damaged zip archive: {} at offset {} ({} bytes) ends beyond the {} bytes of the archive; is the file complete?",
                      source_, what, at, size, bytes_.size());
    return bytes_.subspan(at, size);
  }

  uint64_t u16(uint64_t at) const { return number<uint16_t>(at); }
  uint64_t u32(uint64_t at) const { return number<uint32_t>(at); }
  uint64_t u64(uint64_t at) const { return number<uint64_t>(at); }

  void expect(uint64_t at, uint32_t signature, std::string_view what) const {
    TOROID_USER_CHECK(u32(at) == signature, "{}: damaged zip archive: expected {} at offset {}", source_, what, at);
  }

 private:
  template <class T>
  T number(uint64_t at) const {
    T out;
    std::memcpy(&out, slice(at, sizeof(T), "a number").data(), sizeof(T));
    return out;
  }

  std::span<const std::byte> bytes_;
  const std::string& source_;
};

struct Directory {
  uint64_t offset, size, count;
};

// The end record stands at the very end, before a comment of at most 64 KiB.
uint64_t find_end(const Reader& in, const std::string& source) {
  const uint64_t lowest = in.size() > kEndSize + 0xffff ? in.size() - kEndSize - 0xffff : 0;
  for (uint64_t at = in.size() < kEndSize ? 0 : in.size() - kEndSize + 1; at > lowest;) {
    --at;
    if (in.u32(at) == kEndSignature && at + kEndSize + in.u16(at + 20) == in.size()) return at;
  }
  fail<UserError>("{}: not a zip archive (no end record found); is the file complete?", source);
}

Directory read_end(const Reader& in, const std::string& source) {
  const uint64_t end = find_end(in, source);
  Directory dir{in.u32(end + 16), in.u32(end + 12), in.u16(end + 10)};
  const bool has_locator = end >= kLocator64Size && in.u32(end - kLocator64Size) == kLocator64Signature;
  if (has_locator) {
    const uint64_t end64 = in.u64(end - kLocator64Size + 8);
    in.slice(end64, kEnd64Size, "the zip64 end record");
    in.expect(end64, kEnd64Signature, "the zip64 end record");
    dir = {in.u64(end64 + 48), in.u64(end64 + 40), in.u64(end64 + 32)};
  }
  in.slice(dir.offset, dir.size, "the central directory");
  TOROID_USER_CHECK(dir.count <= dir.size / kCentralSize, "{}: damaged zip archive: {} entries do not fit a directory of {} bytes", source,
                    dir.count, dir.size);
  return dir;
}

// Fields that overflowed 32 bits stand in the extra field 0x0001, in this order.
void read_zip64_extra(const Reader& in, uint64_t at, uint64_t end, uint64_t& full, uint64_t& packed, uint64_t& local) {
  while (at + 4 <= end) {
    const uint64_t id = in.u16(at), stop = at + 4 + in.u16(at + 2);
    if (id == 1) {
      uint64_t next = at + 4;
      for (uint64_t* field : {&full, &packed, &local}) {
        if (*field != 0xffffffff || next + 8 > std::min(stop, end)) continue;
        *field = in.u64(next);
        next += 8;
      }
      return;
    }
    at = stop;
  }
}

}  // namespace

ZipArchive ZipArchive::open(std::span<const std::byte> bytes, std::string source) {
  ZipArchive zip;
  zip.source_ = std::move(source);
  const Reader in(bytes, zip.source_);
  const Directory dir = read_end(in, zip.source_);
  zip.directory_ = bytes.subspan(dir.offset);
  zip.entries_.reserve(dir.count);
  uint64_t at = dir.offset;
  const uint64_t dir_end = dir.offset + dir.size;
  for (uint64_t i = 0; i < dir.count; ++i) {
    in.expect(at, kCentralSignature, "a directory entry");
    in.slice(at, kCentralSize, "a directory entry");
    const uint64_t flags = in.u16(at + 8), method = in.u16(at + 10);
    uint64_t packed = in.u32(at + 20), full = in.u32(at + 24), local = in.u32(at + 42);
    const uint64_t name_size = in.u16(at + 28), extra_size = in.u16(at + 30), comment_size = in.u16(at + 32);
    const auto name_bytes = in.slice(at + kCentralSize, name_size, "an entry name");
    ZipEntry entry;
    entry.name = {reinterpret_cast<const char*>(name_bytes.data()), name_bytes.size()};
    const uint64_t extra = at + kCentralSize + name_size;
    read_zip64_extra(in, extra, extra + extra_size, full, packed, local);
    at = extra + extra_size + comment_size;
    TOROID_USER_CHECK(at <= dir_end, "{}: damaged zip archive: entry \"{}\" runs out of the central directory", zip.source_, entry.name);
    TOROID_USER_CHECK((flags & 1) == 0, "{}: entry \"{}\" is encrypted; store it in the clear", zip.source_, entry.name);
    TOROID_USER_CHECK(method == 0 && packed == full,
                      "{}: entry \"{}\" is compressed (zip method {}), expected a stored entry; was the archive zipped again? "
                      "Repack it without compression (zip -0)",
                      zip.source_, entry.name, method);
    in.slice(local, kLocalSize, "a local header");
    in.expect(local, kLocalSignature, "a local header");
    // The name and extra lengths of the local header may differ from those of the directory.
    entry.data = in.slice(local + kLocalSize + in.u16(local + 26) + in.u16(local + 28), full, entry.name);
    zip.entries_.push_back(entry);
  }
  std::sort(zip.entries_.begin(), zip.entries_.end(), [](const ZipEntry& a, const ZipEntry& b) { return a.name < b.name; });
  for (size_t i = 1; i < zip.entries_.size(); ++i)
    TOROID_USER_CHECK(zip.entries_[i - 1].name != zip.entries_[i].name, "{}: the zip archive has two entries named \"{}\"", zip.source_,
                      zip.entries_[i].name);
  return zip;
}

const ZipEntry* ZipArchive::find(std::string_view name) const {
  const auto at =
      std::lower_bound(entries_.begin(), entries_.end(), name, [](const ZipEntry& e, std::string_view n) { return e.name < n; });
  return at != entries_.end() && at->name == name ? &*at : nullptr;
}

const ZipEntry& ZipArchive::at(std::string_view name) const {
  const ZipEntry* entry = find(name);
  TOROID_USER_CHECK(entry, "{}: expected an entry \"{}\" in the archive, found none", source_, name);
  return *entry;
}

}  // namespace toroid::import
