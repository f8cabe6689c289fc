// Weights as files, and the configurations that stand beside them. Reading weights: load_tensors() in toroid/model.h.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>

#include "toroid/error.h"
#include "toroid/tensor.h"

namespace toroid {

// A value of a JSON file: null, a truth value, a number or a text.
using ConfigValue = std::variant<std::monostate, bool, int64_t, double, std::string>;

// A JSON object, flattened: {"rope_scaling": {"factor": 8.0}, "architectures": ["A"]} has the keys "rope_scaling.factor" and
// "architectures.0". UserError for a missing file, bad JSON, or a file that holds no object.
std::map<std::string, ConfigValue> load_config(const std::string& path);

// Writes a safetensors file in one step: readers see the former file or the new one, and the new one is on the disk when this returns.
// metadata: strings of the file's "__metadata__". Tensors may lie on any device. UserError for undefined ones and for dtypes that the
// format lacks (c128), EnvironmentError for a file that cannot be written.
void save_tensors(const std::string& path, const std::map<std::string, Tensor>& tensors,
                  const std::map<std::string, std::string>& metadata = {});

}  // namespace toroid
