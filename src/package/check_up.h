// Whether a package would load here: what loading looks at, one check at a time, those behind a failed one too.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "toroid/device.h"

namespace toroid::package {

struct Check {
  enum class State { Passed, Failed, Note };
  State state;
  std::string name, text;   // of what failed also what to do
  bool of_machine = false;  // what failed is the machine's, not the file's
};

// device: where it must load; none: on one at least of those that an entry has programs for. weights: see Package::open().
std::vector<Check> check_up(const std::filesystem::path& path, const std::optional<Device>& device = {},
                            const std::filesystem::path& weights = {});

}  // namespace toroid::package
