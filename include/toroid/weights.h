// Files that stand beside weights: configurations.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>

#include "toroid/error.h"

namespace toroid {

// A value of a JSON file: null, a truth value, a number or a text.
using ConfigValue = std::variant<std::monostate, bool, int64_t, double, std::string>;

// A JSON object, flattened: {"rope_scaling": {"factor": 8.0}, "architectures": ["A"]} has the keys "rope_scaling.factor" and
// "architectures.0". UserError for a missing file, bad JSON, or a file that holds no object.
std::map<std::string, ConfigValue> load_config(const std::string& path);

}  // namespace toroid
