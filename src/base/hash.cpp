#include "base/hash.h"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

#include <cstring>

namespace toroid {

struct Hasher::State {
  XXH3_state_t xxh;
};

std::string Hash128::hex() const { return fmt::format("{:016x}{:016x}", hi, lo); }

Hash128 hash_bytes(const void* data, size_t size) {
  const XXH128_hash_t h = XXH3_128bits(data, size);
  return {h.low64, h.high64};
}

Hasher::Hasher() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->xxh); }
Hasher::~Hasher() = default;
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;

Hasher& Hasher::add_word(uint64_t word) {
  XXH3_128bits_update(&state_->xxh, &word, sizeof word);
  return *this;
}

Hasher& Hasher::add_bytes(const void* data, size_t size) {
  add_word(size);
  if (size > 0) XXH3_128bits_update(&state_->xxh, data, size);
  return *this;
}

Hasher& Hasher::add(double value) {
  uint64_t word;
  std::memcpy(&word, &value, sizeof word);
  return add_word(word);
}

Hash128 Hasher::finish() const {
  const XXH128_hash_t h = XXH3_128bits_digest(&state_->xxh);
  return {h.low64, h.high64};
}

}  // namespace toroid
