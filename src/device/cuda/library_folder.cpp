#include "device/cuda/library_folder.h"

#include <filesystem>

#include "base/options.h"

namespace toroid::device::cuda {

std::string library_folder(std::span<const char* const> names, const std::string& package) {
  const std::filesystem::path root = get_option(options::kCudaDir);
  if (root.empty()) return "";
  for (const auto& folder : {root, root / "lib64", root / "lib", root / "extras/CUPTI/lib64", root / "../extras/CUPTI/lib64",
                             root / ".." / package / "lib", root / "../.." / package / "lib"})
    for (const char* name : names) {
      std::error_code ignored;
      if (std::filesystem::exists(folder / name, ignored)) return folder.string();
    }
  return "";
}

}  // namespace toroid::device::cuda
