// Operations that people look for and do not find, or that refuse some calls: why, or what to do instead.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace toroid::ops {

enum class Refusal : uint8_t {
  Whole,      // there is no row
  InPart,     // its row refuses some calls
  OtherName,  // a function of PyTorch's that is another operation when it is exported
};

struct Refused {
  std::string_view name;  // as a row's, without an overload or with one; with "*" behind it of all names that begin so
  Refusal how;
  std::string_view reason;
};

// docs/limits.md names those of the first two kinds, docs/ops.md lists all.
std::span<const Refused> refused();

// By a name with or without an overload; nullptr for others.
const Refused* find_refused(std::string_view name);

}  // namespace toroid::ops
