#include "compile/debug_folder.h"

#include <algorithm>
#include <atomic>
#include <filesystem>

#include "base/check.h"
#include "base/files.h"

namespace toroid::compiler {

DebugFolder::DebugFolder(const std::string& name, const CompileOptions& options) {
  if (!options.get(options::kCompileDebug)) return;
  static std::atomic<int> next{0};
  std::string root = options.get(options::kDebugDir);
  if (root.empty()) root = "toroid_debug";
  make_directories(root);
  std::string begin = name.empty() ? "graph" : name;
  std::replace(begin.begin(), begin.end(), '/', '_');
  std::error_code error;
  do path_ = root + "/" + begin + "_" + std::to_string(next++);
  while (!std::filesystem::create_directory(path_, error) && !error);
  if (error) fail<EnvironmentError>("cannot make the folder {} (option compile_debug): {}", path_, error.message());
  dumped_ = std::make_shared<int>(0);
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

PassDump DebugFolder::dump(const std::string& of) const {
  if (path_.empty()) return {};
  return [folder = *this, of](const std::string& pass, const std::function<std::string()>& text) {
    folder.write(fmt::format("passes/{:02}_{}_{}.txt", ++*folder.dumped_, of, pass), text);
  };
}

}  // namespace toroid::compiler
