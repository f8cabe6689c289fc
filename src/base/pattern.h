// Regular expressions that threads may make side by side.
#pragma once

#include <regex>
#include <string_view>

namespace toroid {

// std::regex_error for a text that is none.
std::regex to_pattern(std::string_view text);

}  // namespace toroid
