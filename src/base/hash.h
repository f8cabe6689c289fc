// 128-bit content hashes (XXH3): equal bytes give equal hashes in every process and build.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

namespace toroid {

struct Hash128 {
  uint64_t lo = 0, hi = 0;
  // 32 hexadecimal digits, high half first: fit for a file name.
  std::string hex() const;
  friend bool operator==(const Hash128&, const Hash128&) = default;
  friend auto operator<=>(const Hash128&, const Hash128&) = default;
};

Hash128 hash_bytes(const void* data, size_t size);
inline Hash128 hash_text(std::string_view text) { return hash_bytes(text.data(), text.size()); }

// Collects values of a composite key. Texts and byte runs are added with their length, so that ("ab","c") differs from ("a","bc").
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;

  Hasher& add_bytes(const void* data, size_t size);
  Hasher& add(std::string_view text) { return add_bytes(text.data(), text.size()); }
  Hasher& add(const char* text) { return add(std::string_view(text)); }
  Hasher& add(const Hash128& h) { return add_word(h.lo).add_word(h.hi); }
  Hasher& add(double value);
  // Integers, bool and enums are added as 64-bit words, whatever their own width.
  template <class T>
  requires(std::is_integral_v<T> || std::is_enum_v<T>) Hasher& add(T value) { return add_word(static_cast<uint64_t>(value)); }

  // The hash of everything added so far; more may be added afterwards.
  Hash128 finish() const;

 private:
  Hasher& add_word(uint64_t word);

  struct State;
  std::unique_ptr<State> state_;
};

// Mixes b into a; the order matters. For in-memory tables, not for keys on disk.
inline uint64_t hash_combine(uint64_t a, uint64_t b) {
  uint64_t x = a ^ (b + 0x9e3779b97f4a7c15ull + (a << 6) + (a >> 2));
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ull;
  return x ^ (x >> 32);
}

}  // namespace toroid

template <>
struct std::hash<toroid::Hash128> {
  size_t operator()(const toroid::Hash128& h) const noexcept { return h.lo; }
};
