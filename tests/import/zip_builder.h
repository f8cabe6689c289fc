// Makes small zip archives for tests.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace toroid::import {

struct ZipBuilder {
  uint16_t method = 0;                   // written for every entry
  bool sizes_in_directory_only = false;  // as PyTorch writes them
  size_t local_padding = 0;              // extra bytes in local headers

  std::string build(const std::vector<std::pair<std::string, std::string>>& entries) const {
    std::string out, directory;
    for (const auto& [name, data] : entries) {
      const size_t offset = out.size(), size = data.size(), local = sizes_in_directory_only ? 0 : size;
      out += "PK\3\4" + number(20, 2) + number(0, 2) + number(method, 2) + number(0, 8) + number(local, 4) + number(local, 4) +
             number(name.size(), 2) + number(local_padding, 2) + name + std::string(local_padding, 'Z') + data;
      directory += "PK\1\2" + number(20, 2) + number(20, 2) + number(0, 2) + number(method, 2) + number(0, 8) + number(size, 4) +
                   number(size, 4) + number(name.size(), 2) + number(0, 12) + number(offset, 4) + name;
    }
    const size_t at = out.size();
    return out + directory + "PK\5\6" + number(0, 4) + number(entries.size(), 2) + number(entries.size(), 2) + number(directory.size(), 4) +
           number(at, 4) + number(0, 2);
  }

  static std::string number(uint64_t value, int bytes) {
    std::string out;
    for (int i = 0; i < bytes; ++i) out += i < 8 ? static_cast<char>(value >> (8 * i)) : '\0';
    return out;
  }
};

inline std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

// The message of the error that `f` throws, "" when it throws none.
template <class E, class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  }
  return "";
}

}  // namespace toroid::import
