// What a rank tells the others of its group about the collective that it has come to, as bytes.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dist/collective.h"

namespace toroid::distributed::messages {

// What to do about messages that are not what they must be.
inline constexpr std::string_view kSameVersion = "start all ranks with the same version of Toroid";

// Bytes that are enough for any call in a group of `ranks`.
int64_t most_call_bytes(int ranks);

// Bytes of a rank's input that travel with its call, as what is small need not move by itself; none of collectives whose ranks bring
// something else for each other one.
int64_t carried_bytes(const Collective& c, int rank);

// Without its memory, but for what it carries. Long source lines are cut.
std::string call_bytes(const Collective& c, std::span<const std::byte> carried);
struct Call {
  Collective what;  // without memory
  std::vector<std::byte> carried;
};
// EnvironmentError for bytes that are no call: the processes run different versions of Toroid.
Call call_from(std::span<const std::byte> bytes);

}  // namespace toroid::distributed::messages
