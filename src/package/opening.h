// What is looked at before a package is used: each check by itself.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "import/zip.h"
#include "package/manifest.h"
#include "toroid/device.h"

namespace toroid::package {

// UserError for a file that is no archive, with what makes one.
import::ZipArchive archive_in(const MappedFile& file, const std::string& source);
// UserError where there is none, or where it has not the hash that the archive says.
std::string_view manifest_text(const import::ZipArchive& zip);
// UserError for a part that is missing or has another size, and for a file that is not in the manifest.
void check_parts(const Manifest& m, const import::ZipArchive& zip);

// Operations that it calls and that this process does not know, as they are registered: somebody's own.
std::vector<std::string> unknown_operations(const Program& p);
// ... of which it calls the function for GPUs, where this process has registered none.
std::vector<std::string> unknown_functions(const Program& p);

// Whether a device of this machine runs a program.
enum class Fit { Fits, OtherKind, OtherCode, NewerDriver };
Fit fit_of(const Program& p, const Device& device);
// What the device has that code is made for: "avx2 +f16c", "sm_90a".
std::string machine_code(const Device& device);

}  // namespace toroid::package
