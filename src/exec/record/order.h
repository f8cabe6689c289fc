// Which launches of a recording must follow which, and which may run beside each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace toroid::exec {

// Any number of launches may read the same memory beside each other, and so may any number add to it. Otherwise they keep their order.
enum class Access : uint8_t { Reads, Adds, Writes };

// Memory that a launch uses.
struct Touched {
  const std::byte* at = nullptr;
  int64_t bytes = 0;
  Access access = Access::Reads;
};

// For each launch, the earlier ones that it must follow because both touch the same memory; those alone that no other of them follows, the
// latest first.
using Order = std::vector<std::vector<size_t>>;
Order order_of(std::span<const std::vector<Touched>> launches);

// The most launches at one depth, which is the longest way to a launch: 1 where each follows the one before.
int64_t width_of(const Order& order);

}  // namespace toroid::exec
