#include "compile/debug_folder.h"

#include <atomic>
#include <filesystem>

#include "base/files.h"

namespace toroid::compiler {

DebugFolder::DebugFolder(const std::string& name, const CompileOptions& options) {
  if (!options.get(options::kCompileDebug)) return;
  static std::atomic<int> next{0};
  std::string root = options.get(options::kDebugDir);
  if (root.empty()) root = "toroid_debug";
  path_ = root + "/" + (name.empty() ? "graph" : name) + "_" + std::to_string(next++);
}

void DebugFolder::write(const std::string& file, const std::function<std::string()>& text) const {
  if (path_.empty()) return;
  std::filesystem::path path = std::filesystem::path(path_) / file;
  make_directories(path.parent_path());
  write_file_atomic(path, text());
}

void DebugFolder::show(Artifact artifact, const std::string& file, const std::function<std::string()>& text) const {
  write(file, text);
  if (log_enabled(artifact)) log(artifact, file + "\n" + text());
}

}  // namespace toroid::compiler
