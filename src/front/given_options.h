// What a door of compiles was given: fields of a struct, and options by name.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace toroid::front {

// An option that also has a field of its own at a door, with what the field says and what it says by default.
struct OptionField {
  std::string name, value, default_value;
};
// Both in one list. UserError for an option that is given both ways with different values, and for what CompileOptions::set refuses.
std::map<std::string, std::string> given_options(const std::vector<OptionField>& fields, const std::map<std::string, std::string>& by_name);

}  // namespace toroid::front
