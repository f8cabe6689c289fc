// A cache in a folder of its own, removed at the end.
#pragma once

#include <filesystem>
#include <memory>

#include "base/files.h"
#include "jit/artefact_cache.h"

namespace toroid::testing {

struct TempCache {
  std::filesystem::path root = make_temp_dir("toroid-cache-test");
  TempCache() = default;
  ~TempCache() {
    std::error_code ignored;
    std::filesystem::remove_all(root, ignored);
  }
  TempCache(const TempCache&) = delete;
  TempCache& operator=(const TempCache&) = delete;
  // A fresh cache object on the folder, as another process would have.
  std::shared_ptr<jit::ArtefactCache> open(uint64_t limit_bytes = uint64_t(64) << 20) const {
    return std::make_shared<jit::ArtefactCache>(root, limit_bytes);
  }
};

}  // namespace toroid::testing
