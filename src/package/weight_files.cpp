#include "package/weight_files.h"

#include <map>
#include <mutex>

#include "base/check.h"
#include "base/files.h"
#include "base/sha256.h"
#include "package/weights.h"

namespace toroid::package {
namespace {

// What is mapped in this process, by path.
class Mappings {
 public:
  std::shared_ptr<MappedFile> open(const std::filesystem::path& path) {
    std::lock_guard lock(mutex_);
    std::erase_if(files_, [](auto& f) { return f.second.file.expired(); });
    Mapping& known = files_[std::filesystem::absolute(path).string()];
    const FileStamp stamp = stamp_of(path);  // another file may have been renamed over it
    if (auto file = known.file.lock(); file && known.stamp == stamp) return file;
    auto file = std::make_shared<MappedFile>(path);
    known = {file, stamp};
    return file;
  }

 private:
  struct Mapping {
    std::weak_ptr<MappedFile> file;
    FileStamp stamp;
  };
  std::mutex mutex_;
  std::map<std::string, Mapping> files_;
};

}  // namespace

std::filesystem::path weight_path(const std::filesystem::path& folder, const WeightFile& file) {
  return folder / (file.sha256 + ".safetensors");
}

std::shared_ptr<MappedFile> open_weight_file(const std::filesystem::path& folder, const WeightFile& file, const std::string& source,
                                             bool all) {
  static Mappings* const mappings = new Mappings;  // outlives what is mapped
  const auto path = weight_path(folder, file);
  std::error_code none;
  TOROID_USER_CHECK(std::filesystem::is_regular_file(path, none),
                    "{}: its weights {} are missing in \"{}\"; copy them there from where the package was made, or say where they are "
                    "(PackageFile::open, toroid_package_open_with, --weights-folder)",
                    source, path.filename().string(), folder.string());
  const auto mapped = mappings->open(path);
  const std::string_view bytes = mapped->text();
  if (bytes.size() == file.bytes && sha256(header_in(bytes, path.string())) == file.head && !all) return mapped;
  const std::string its = sha256(bytes);
  TOROID_USER_CHECK(its == file.sha256 && bytes.size() == file.bytes,
                    "{}: its weights \"{}\" have {} bytes with the SHA-256 {}, the manifest says {} bytes with {}; copy the file again, or "
                    "make it again: toroid compile MODEL -o FILE --weights beside",
                    source, path.string(), bytes.size(), its, file.bytes, file.sha256);
  return mapped;
}

}  // namespace toroid::package
