// The cache as one file, for another machine.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "jit/artefact_cache.h"

namespace toroid::compiler {

struct BundleCounts {
  size_t kernels = 0, programs = 0, sizes = 0;
  std::vector<std::string> refused = {};  // what was left out, with reasons
};

// Writes all kernels, programs and sizes into a zip archive of their files. EnvironmentError where the disk refuses.
BundleCounts export_cache(const jit::ArtefactCache& cache, const std::filesystem::path& bundle);
// Adds those of such an archive; programs are hashed as a whole first, kernels when they are used. UserError for what is no such archive.
BundleCounts import_cache(jit::ArtefactCache& cache, const std::filesystem::path& bundle);

}  // namespace toroid::compiler
