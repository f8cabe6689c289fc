// Bytes of files: values one after another, and a frame that shows damage.
#pragma once

#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/check.h"

namespace toroid::exec {

class ByteWriter {
 public:
  void byte(uint8_t v) { out += static_cast<char>(v); }
  // Seven bits a byte, the lowest first.
  void count(uint64_t v) {
    for (; v >= 0x80; v >>= 7) byte(static_cast<uint8_t>(v | 0x80));
    byte(static_cast<uint8_t>(v));
  }
  // The sign in the lowest bit.
  void integer(int64_t v) { count((static_cast<uint64_t>(v) << 1) ^ static_cast<uint64_t>(v >> 63)); }
  void real(double v) { out.append(reinterpret_cast<const char*>(&v), sizeof v); }
  void text(std::string_view s) {
    count(s.size());
    out += s;
  }
  std::string out;
};

class ByteReader {
 public:
  // what: begins each complaint ("plan file"). base: offset in the file of the first byte.
  ByteReader(std::string_view bytes, const char* what, size_t base) : bytes_(bytes), what_(what), base_(base) {}

  [[noreturn]] void error(const std::string& expected) const {
    fail<UserError>("{}, offset {}: expected {}", what_, base_ + at_, expected);
  }
  size_t rest() const { return bytes_.size() - at_; }
  uint8_t byte(const char* expected) {
    if (rest() == 0) error(expected);
    return static_cast<uint8_t>(bytes_[at_++]);
  }
  uint64_t count(const char* expected) {
    uint64_t v = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const uint8_t b = byte(expected);
      v |= static_cast<uint64_t>(b & 0x7f) << shift;
      if (b < 0x80) return v;
    }
    error(expected);
  }
  int64_t integer(const char* expected) {
    const uint64_t v = count(expected);
    return static_cast<int64_t>(v >> 1) ^ -static_cast<int64_t>(v & 1);
  }
  double real() {
    double v = 0;
    std::memcpy(&v, take(sizeof v, "a number of 8 bytes"), sizeof v);
    return v;
  }
  std::string_view text(const char* expected) {
    const uint64_t n = count(expected);
    if (n > rest()) error(fmt::format("{} of {} bytes, {} are left", expected, n, rest()));
    return {take(n, expected), n};
  }
  // Elements of a list, each of which takes a byte at least.
  size_t length() {
    const uint64_t n = count("the length of a list");
    if (n > rest()) error(fmt::format("a list that fits in the {} bytes that are left, not of {}", rest(), n));
    return n;
  }
  void end() const {
    if (rest() > 0) error("the end");
  }

 private:
  const char* take(size_t n, const char* expected) {
    if (n > rest()) error(expected);
    const char* p = bytes_.data() + at_;
    at_ += n;
    return p;
  }
  std::string_view bytes_;
  const char* what_;
  size_t base_, at_ = 0;
};

// magic: 8 characters.
std::string framed(std::string_view magic, uint32_t version, std::string_view contents);
// The contents, which begin at offset kFrameHead. UserError where the frame is not whole or its checksum does not fit.
std::string_view unframed(std::string_view bytes, std::string_view magic, uint32_t version, const char* what);
inline constexpr size_t kFrameHead = 8 + sizeof(uint32_t) + sizeof(uint64_t);

}  // namespace toroid::exec
