// What a collective is, as one number: ranks whose calls nobody compares on the host put it beside what they send, and see by it that they
// are not in the same call.
#pragma once

#include <cstdint>
#include <string>

#include "dist/collective.h"

namespace toroid::distributed {

// Of all that is known before it runs: kind, reduction, dtype, root and place in the source. The same in all processes.
uint32_t site_signature(const Collective& c);

// With the elements that a rank brings, which may be known only when it runs: kernels compute the same by these integers of 64 bits.
// Never 0, which is what memory holds that nobody has written.
constexpr uint32_t signature_of(uint32_t site, int64_t elements) {
  uint64_t x = static_cast<uint64_t>(elements) ^ (site * 0x9e3779b97f4a7c15ull);
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ull;
  const auto out = static_cast<uint32_t>(x ^ (x >> 32));
  return out == 0 ? 1 : out;
}
inline uint32_t signature_of(const Collective& c) { return signature_of(site_signature(c), c.count); }

// Keeps what the signature of a call of this process means, for the message below. Its signature.
uint32_t remember_signature(const Collective& c);

// Why two ranks are not in the same call: "rank 1 called all_gather_into_tensor of f32[8] at a.cpp:9, rank 0 all_reduce(sum) of f32[4] at
// a.cpp:7"; a call that this process does not know is "something else (signature 0x1234abcd)". Empty where both are equal.
std::string signature_mismatch(int rank, uint32_t called, int own_rank, uint32_t own);

}  // namespace toroid::distributed
