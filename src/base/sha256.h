// SHA-256 (FIPS 180-4), for files that leave the machine; base/hash.h is for what stays on it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace toroid {

// Whether the processor computes it by instructions of its own (SHA-NI).
bool has_sha_instructions();

class Sha256 {
 public:
  // by_instructions: only where the processor has them.
  explicit Sha256(bool by_instructions = has_sha_instructions()) : by_instructions_(by_instructions) {}
  void add(std::string_view bytes);
  // 64 hexadecimal digits. Nothing may be added afterwards.
  std::string finish();

 private:
  void blocks(const unsigned char* p, size_t count);
  void block(const unsigned char* p);
  const bool by_instructions_;
  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<unsigned char, 64> rest_ = {};
  size_t filled_ = 0;
  uint64_t bytes_ = 0;
};

std::string sha256(std::string_view bytes);

}  // namespace toroid
