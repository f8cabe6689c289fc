#include "codegen/expand.h"

#include "base/check.h"

namespace toroid::codegen {

std::string expand(std::string_view pattern, const Substitutions& values) {
  std::string out;
  size_t at = 0;
  while (at < pattern.size()) {
    const size_t open = pattern.find('@', at);
    if (open == std::string_view::npos) break;
    const size_t close = pattern.find('@', open + 1);
    TOROID_CHECK(close != std::string_view::npos, "template text has an unclosed hole");
    out.append(pattern.substr(at, open - at));
    const std::string_view name = pattern.substr(open + 1, close - open - 1);
    const std::string* value = nullptr;
    for (const auto& [key, text] : values) {
      if (key == name) value = &text;
    }
    TOROID_CHECK(value, "template text has an unknown hole '{}'", name);
    // Later lines of a multi-line value start at the hole's column when only blanks stand before it.
    const size_t line = out.rfind('\n') + 1;
    const bool indented = out.find_first_not_of(' ', line) == std::string::npos;
    const std::string indent(indented ? out.size() - line : 0, ' ');
    for (char c : *value) {
      out.push_back(c);
      if (c == '\n') out += indent;
    }
    at = close + 1;
  }
  out.append(pattern.substr(at));
  return out;
}

}  // namespace toroid::codegen
