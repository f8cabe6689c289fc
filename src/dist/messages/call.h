// What a rank tells the others of its group about the collective that it has come to, as bytes.
#pragma once

#include <span>
#include <string>

#include "dist/collective.h"

namespace toroid::distributed::messages {

// Bytes that are enough for any call in a group of `ranks`.
int64_t most_call_bytes(int ranks);

// Without its memory. Long source lines are cut.
std::string call_bytes(const Collective& c);
// EnvironmentError for bytes that are no call: the processes run different versions of Toroid.
Collective call_from(std::span<const std::byte> bytes);

}  // namespace toroid::distributed::messages
