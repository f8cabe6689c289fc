#include "program/config.h"

#include <charconv>

#include "base/check.h"

namespace toroid::program {

int64_t Config::at(std::string_view field) const {
  for (auto& [name, value] : fields)
    if (name == field) return value;
  fail<InternalError>("{} has no field \"{}\"", to_string(*this), field);
}

std::string to_string(const Config& c) {
  std::string out = c.form + "(";
  for (auto& [name, value] : c.fields) out += fmt::format("{}{}={}", out.ends_with('(') ? "" : ",", name, value);
  return out + ")";
}

Config parse_config(std::string_view text) {
  const auto bad = [&](std::string_view why) {
    fail<UserError>("\"{}\" is no configuration of a template: {}; expected form(field=number,field=number)", text, why);
  };
  const size_t open = text.rfind('(');  // names of alternatives may have some, too
  if (open == std::string_view::npos || open == 0 || !text.ends_with(')')) bad("a form with parentheses is missing");
  Config c{.form = std::string(text.substr(0, open)), .fields = {}};
  std::string_view rest = text.substr(open + 1, text.size() - open - 2);
  while (!rest.empty()) {
    const std::string_view field = rest.substr(0, rest.find(','));
    const size_t equals = field.find('=');
    if (equals == std::string_view::npos || equals == 0) bad("a field without a value");
    int64_t value = 0;
    const char* const end = field.data() + field.size();
    const auto [stopped, error] = std::from_chars(field.data() + equals + 1, end, value);
    if (error != std::errc() || stopped != end) bad("a value that is no number");
    c.fields.emplace_back(field.substr(0, equals), value);
    rest.remove_prefix(field.size() == rest.size() ? rest.size() : field.size() + 1);
  }
  return c;
}

}  // namespace toroid::program
