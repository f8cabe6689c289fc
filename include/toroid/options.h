// Options: names with values. Those of the process, and those that compiles begin with, are also environment variables TOROID_<NAME>.
// A variable that looks like one of these and is none (TOROID_THREDS) is a UserError at the first use of an option; `toroid` refuses, and
// `toroid doctor` lists, all that begin with TOROID_ and mean nothing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace toroid {

// Sets an option of the process by name from a string ("1"/"true"/"on", "42", ...); those of compiles are what later compiles begin with.
// UserError for an unknown name (with the nearest ones), a bad value, an option that only one compile can have, and one that comes too late
// to take effect ("spin_us" when the kernel threads run).
void set_option(std::string_view name, std::string_view value);

// One row of the table as text, for help and documentation.
struct OptionInfo {
  std::string_view name;
  std::string_view type;  // "bool", "int" or "string"
  std::string default_value;
  std::string value;        // of the process
  std::string environment;  // variable that sets it at start; empty: none
  std::string_view doc;
  std::string_view scope;  // "process"; "compile": one compile may have a value of its own; "compile only": and the process has none
};
std::vector<OptionInfo> list_options();

}  // namespace toroid
