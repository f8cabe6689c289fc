// What a program is compiled for, and by which options: one value from the door of a compile down.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/compile_options.h"
#include "toroid/model.h"

namespace toroid::compiler {

struct Setup {
  Device device = Device::cpu();
  CompileOptions options = {};
};

// An option that also has a field of its own at a door, with what the field says and what it says by default.
struct OptionField {
  std::string name, value, default_value;
};
// What a door was given, in one list: the fields, and the options by name. UserError for an option that is given both ways with different
// values, and for what CompileOptions::set refuses.
std::map<std::string, std::string> given_options(const std::vector<OptionField>& fields, const std::map<std::string, std::string>& by_name);

// The door of models: what the process's options say now, and in their place what these say. UserError for options that a model cannot
// have too.
Setup setup_of(const ModelOptions& options);

}  // namespace toroid::compiler
