// Options of the process: names with values, each also an environment variable TOROID_<NAME>.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace toroid {

// Sets an option by name from text ("1"/"true"/"on", "42", ...). UserError for an unknown name (with the nearest ones) or a bad value.
void set_option(std::string_view name, std::string_view value);

// One row of the table as text, for help and documentation.
struct OptionInfo {
  std::string_view name;
  std::string_view type;  // "bool", "int" or "string"
  std::string default_value;
  std::string value;
  std::string environment;
  std::string_view doc;
};
std::vector<OptionInfo> list_options();

}  // namespace toroid
