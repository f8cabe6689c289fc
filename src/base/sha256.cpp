#include "base/sha256.h"

#include <cpuid.h>
#include <fmt/format.h>
#include <immintrin.h>

#include <bit>
#include <cstring>

namespace toroid {
namespace {

constexpr uint32_t kRound[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
    0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
    0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
    0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
    0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
    0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t big_endian(const unsigned char* p) { return uint32_t{p[0]} << 24 | uint32_t{p[1]} << 16 | uint32_t{p[2]} << 8 | uint32_t{p[3]}; }

// The state as the instructions have it: words a b e f and c d g h, the first of each the highest. Two rounds an instruction take their
// sums of words and constants from the lower half of a vector. (No _mm_alignr_epi8: sanitizers make its constant a product that is none.)
__attribute__((target("sha,sse4.1"))) void blocks_by_instructions(uint32_t* state, const unsigned char* p, size_t count) {
  const auto load = [](const void* from) { return _mm_loadu_si128(static_cast<const __m128i*>(from)); };
  const __m128i reversed = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  const __m128i badc = _mm_shuffle_epi32(load(state), 0xb1), hgfe = _mm_shuffle_epi32(load(state + 4), 0x1b);
  __m128i abef = _mm_shuffle_epi32(_mm_blend_epi16(hgfe, badc, 0x0f), 0x4e), cdgh = _mm_blend_epi16(hgfe, badc, 0xf0);
  for (; count > 0; --count, p += 64) {
    const __m128i abef_before = abef, cdgh_before = cdgh;
    __m128i w[4];
    for (int i = 0; i < 4; ++i) w[i] = _mm_shuffle_epi8(load(p + 16 * i), reversed);
    for (int i = 0; i < 16; ++i) {
      __m128i& now = w[i % 4];
      __m128i sums = _mm_add_epi32(now, load(kRound + 4 * i));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sums);
      sums = _mm_shuffle_epi32(sums, 0x0e);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, sums);
      if (i >= 12) continue;  // of the four words behind the last sixteen
      const __m128i last = w[(i + 3) % 4], seven_ago = _mm_shuffle_epi32(_mm_blend_epi16(w[(i + 2) % 4], last, 0x03), 0x39);
      now = _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32(now, w[(i + 1) % 4]), seven_ago), last);
    }
    abef = _mm_add_epi32(abef, abef_before), cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  const __m128i feba = _mm_shuffle_epi32(abef, 0x1b), dchg = _mm_shuffle_epi32(cdgh, 0xb1);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(state), _mm_blend_epi16(feba, dchg, 0xf0));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(state + 4), _mm_shuffle_epi32(_mm_blend_epi16(feba, dchg, 0x0f), 0x4e));
}

}  // namespace

bool has_sha_instructions() {
  static const bool has = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __builtin_cpu_supports("sse4.1") && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & (1u << 29)) != 0;
  }();
  return has;
}

void Sha256::blocks(const unsigned char* p, size_t count) {
  if (by_instructions_) return blocks_by_instructions(state_.data(), p, count);
  for (; count > 0; --count, p += 64) block(p);
}

void Sha256::block(const unsigned char* p) {
  uint32_t w[64];
  for (int i = 0; i < 16; ++i) w[i] = big_endian(p + 4 * i);
  for (int i = 16; i < 64; ++i) {
    const uint32_t a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) + w[i - 7] + (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (int i = 0; i < 64; ++i) {
    const uint32_t t = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) + kRound[i] + w[i];
    const uint32_t u = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t, d = c, c = b, b = a, a = t + u;
  }
  const uint32_t after[8] = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < 8; ++i) state_[i] += after[i];
}

void Sha256::add(std::string_view bytes) {
  auto* p = reinterpret_cast<const unsigned char*>(bytes.data());
  size_t left = bytes.size();
  bytes_ += left;
  if (filled_ > 0) {
    const size_t n = std::min(left, rest_.size() - filled_);
    std::memcpy(rest_.data() + filled_, p, n);
    filled_ += n, p += n, left -= n;
    if (filled_ < rest_.size()) return;
    blocks(rest_.data(), 1);
    filled_ = 0;
  }
  blocks(p, left / 64);
  p += left / 64 * 64, left %= 64;
  if (left > 0) std::memcpy(rest_.data(), p, left);
  filled_ = left;
}

std::string Sha256::finish() {
  const uint64_t bits = bytes_ * 8;
  std::string end(1, '\x80');
  end.resize(1 + (filled_ < 56 ? 55 : 119) - filled_, '\0');
  for (int shift = 56; shift >= 0; shift -= 8) end += static_cast<char>(bits >> shift);
  add(end);
  std::string out;
  for (const uint32_t s : state_) out += fmt::format("{:08x}", s);
  return out;
}

std::string sha256(std::string_view bytes) {
  Sha256 h;
  h.add(bytes);
  return h.finish();
}

}  // namespace toroid
