#include <bit>

#include "toroid/train/data.h"
#include "train/errors.h"

namespace toroid::train {
namespace {

constexpr int kRounds = 8;

// SplitMix64: every bit of the result depends on every bit of x.
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace

SampleOrder::SampleOrder(int64_t samples, uint64_t seed, bool shuffle)
    : samples_(static_cast<uint64_t>(samples)), seed_(seed), shuffle_(shuffle) {
  require(samples > 0, "the data has no samples");
  half_bits_ = (std::bit_width(samples_ - 1) + 1) / 2;
}

// A Feistel network permutes the numbers of an even count of bits; what falls outside of the samples is permuted on, which leaves a
// permutation of the samples (cycle walking, less than 4 rounds of it on average).
int64_t SampleOrder::at(int64_t place) const {
  require(place >= 0, "sample order: {} is no place; the first is 0", place);
  const uint64_t epoch = static_cast<uint64_t>(place) / samples_, first = static_cast<uint64_t>(place) % samples_;
  if (!shuffle_ || half_bits_ == 0) return static_cast<int64_t>(first);
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1, key = mix(mix(seed_) ^ epoch);
  uint64_t x = first;
  do {
    uint64_t left = x >> half_bits_, right = x & mask;
    for (uint64_t round = 0; round < kRounds; ++round) {
      const uint64_t next = left ^ (mix(key ^ mix(right * kRounds + round)) & mask);
      left = right, right = next;
    }
    x = (left << half_bits_) | right;
  } while (x >= samples_);
  return static_cast<int64_t>(x);
}

}  // namespace toroid::train
