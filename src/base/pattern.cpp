#include "base/pattern.h"

#include <locale>

namespace toroid {

// std::regex asks the locale to narrow characters, which libstdc++ remembers in a table that all threads share and none locks. Once it is
// full nobody writes to it.
std::regex to_pattern(std::string_view text) {
  static const bool is_full = [] {
    const char all = 'a';
    char narrowed = 0;
    std::use_facet<std::ctype<char>>(std::locale()).narrow(&all, &all + 1, '\0', &narrowed);
    return narrowed == all;
  }();
  static_cast<void>(is_full);
  return std::regex(text.begin(), text.end());
}

}  // namespace toroid
