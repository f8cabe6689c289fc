// Weights in files beside packages.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "base/mapped_file.h"
#include "package/manifest.h"

namespace toroid::package {

std::filesystem::path weight_path(const std::filesystem::path& folder, const WeightFile& file);

// A file of the package `source`, mapped once in the process. UserError, with its name, both hashes and what to do, where it is missing or
// has another length or header; all: where elements differ, too.
std::shared_ptr<MappedFile> open_weight_file(const std::filesystem::path& folder, const WeightFile& file, const std::string& source,
                                             bool all);

}  // namespace toroid::package
