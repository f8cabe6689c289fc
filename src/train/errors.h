// Throws the errors of this room.
#pragma once

#include <fmt/core.h>

#include "toroid/error.h"

namespace toroid::train {

// UserError with a formatted message unless the condition holds.
template <class... A>
void require(bool condition, fmt::format_string<A...> f, A&&... a) {
  if (!condition) throw UserError(fmt::format(f, std::forward<A>(a)...));
}

}  // namespace toroid::train
