#include "package/zip_writer.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <deque>

#include "base/files.h"

namespace toroid::package {
namespace {

constexpr uint64_t kLong = 0xffffffff;      // sizes and offsets from here on are in a zip64 field
constexpr uint16_t kPadding = 0xa11a;       // an extra field that holds zeros alone
constexpr uint16_t kStored = 0, kDay = 33;  // method; 1 January 1980

// Row k: what a byte makes of the checksum k bytes further on, so that eight bytes are looked up at once ("slicing by 8").
using CrcTable = std::array<std::array<uint32_t, 256>, 8>;
constexpr CrcTable crc_table() {
  CrcTable out{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t c = i;
    for (int k = 0; k < 8; ++k) c = c & 1 ? 0xedb88320 ^ c >> 1 : c >> 1;
    out[0][i] = c;
  }
  for (size_t row = 1; row < out.size(); ++row)
    for (size_t i = 0; i < 256; ++i) out[row][i] = out[0][out[row - 1][i] & 0xff] ^ out[row - 1][i] >> 8;
  return out;
}

uint32_t crc32(std::span<const std::string_view> parts) {
  static constexpr auto kTable = crc_table();
  uint32_t c = 0xffffffff;
  for (auto& part : parts) {
    const char *p = part.data(), *const end = p + part.size();
    for (; end - p >= 8; p += 8) {
      uint64_t eight = 0;
      std::memcpy(&eight, p, sizeof eight);
      eight ^= c, c = 0;
      for (size_t row = 8; row-- > 0; eight >>= 8) c ^= kTable[row][eight & 0xff];
    }
    for (; p < end; ++p) c = kTable[0][(c ^ static_cast<unsigned char>(*p)) & 0xff] ^ c >> 8;
  }
  return ~c;
}

struct Bytes {
  std::string out;
  Bytes& u16(uint64_t v) { return number(v, 2); }
  Bytes& u32(uint64_t v) { return number(v, 4); }
  Bytes& u64(uint64_t v) { return number(v, 8); }
  Bytes& number(uint64_t v, int n) {
    for (; n-- > 0; v >>= 8) out += static_cast<char>(v & 0xff);
    return *this;
  }
};

// The fields that both headers of an entry have, from the version that is needed to the length of the name.
void common(Bytes& b, const ZipPart& part, uint32_t crc, uint64_t size) {
  const uint64_t shown = std::min(size, kLong);
  b.u16(size >= kLong ? 45 : 20).u16(0x800).u16(kStored).u16(0).u16(kDay).u32(crc).u32(shown).u32(shown).u16(part.name.size());
}

}  // namespace

void write_zip(const std::filesystem::path& path, std::span<const ZipPart> parts) {
  std::deque<std::string> heads;
  std::vector<std::string_view> file;
  Bytes directory;
  uint64_t at = 0;
  const auto append = [&](std::string_view bytes) { file.push_back(bytes), at += bytes.size(); };
  for (auto& part : parts) {
    uint64_t size = 0;
    for (auto& b : part.bytes) size += b.size();
    const uint32_t crc = crc32(part.bytes);
    const uint64_t begin = at;

    Bytes extra;
    if (size >= kLong) extra.u16(1).u16(16).u64(size).u64(size);
    const uint64_t unpadded = at + 30 + part.name.size() + extra.out.size() + 4;
    const uint64_t zeros = (kAlignment - unpadded % kAlignment) % kAlignment;
    extra.u16(kPadding).u16(zeros), extra.out.append(zeros, '\0');
    Bytes head;
    head.u32(0x04034b50), common(head, part, crc, size), head.u16(extra.out.size());
    append(heads.emplace_back(head.out + part.name + extra.out));
    for (auto& b : part.bytes) append(b);

    Bytes wide;
    if (size >= kLong) wide.u64(size).u64(size);
    if (begin >= kLong) wide.u64(begin);
    Bytes field;
    if (!wide.out.empty()) field.u16(1).u16(wide.out.size()), field.out += wide.out;
    directory.u32(0x02014b50).u16(45), common(directory, part, crc, size);
    directory.u16(field.out.size()).u16(0).u16(0).u16(0).u32(0).u32(std::min(begin, kLong));
    directory.out += part.name + field.out;
  }
  const uint64_t begin = at, length = directory.out.size(), count = parts.size();
  append(directory.out);
  Bytes end;
  if (begin >= kLong || count >= 0xffff) {
    const uint64_t here = at;
    end.u32(0x06064b50).u64(44).u16(45).u16(45).u32(0).u32(0).u64(count).u64(count).u64(length).u64(begin);
    end.u32(0x07064b50).u32(0).u64(here).u32(1);
  }
  const uint64_t shown = std::min<uint64_t>(count, 0xffff);
  end.u32(0x06054b50).u16(0).u16(0).u16(shown).u16(shown).u32(length).u32(std::min(begin, kLong)).u16(0);
  append(end.out);
  write_file_atomic(path, file, false);
}

}  // namespace toroid::package
