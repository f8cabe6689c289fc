// Text of JSON.
#pragma once

#include <string>
#include <string_view>

namespace toroid {

// `text` as a JSON string, quotes included.
std::string json_string(std::string_view text);

}  // namespace toroid
