// Which launches of a recording must follow which, and which may run beside each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace toroid::exec {

// Memory that a launch reads, or writes.
struct Touched {
  const std::byte* at = nullptr;
  int64_t bytes = 0;
  bool written = false;
};

// For each launch, the earlier ones that it must follow because one of the two writes memory that both touch; those alone that no other
// of them follows.
using Order = std::vector<std::vector<size_t>>;
Order order_of(std::span<const std::vector<Touched>> launches);

// The most launches at one depth, which is the longest way to a launch: 1 where each follows the one before.
int64_t width_of(const Order& order);

}  // namespace toroid::exec
