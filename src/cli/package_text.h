// Texts of packages for terminals.
#pragma once

#include <algorithm>
#include <string>

#include "sym/text_reader.h"

namespace toroid::cli {

// A name, type or message of the file as a terminal may have it.
inline std::string shown(const std::string& text) {
  const bool plain =
      std::none_of(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) < 32 && c != '\n') || c == 127; });
  return plain ? text : sym::quoted(text);
}

}  // namespace toroid::cli
