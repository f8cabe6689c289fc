#include "compile/cache_bundle.h"

#include <unistd.h>

#include <algorithm>

#include "base/check.h"
#include "base/mapped_file.h"
#include "compile/program_cache.h"
#include "import/zip.h"
#include "package/package.h"
#include "package/zip_writer.h"

namespace toroid::compiler {
namespace {

namespace fs = std::filesystem;

// Whether it is a file of the cache: "ab/ab0123....o".
bool is_name(std::string_view name) {
  constexpr size_t kFolder = 3, kDigits = 32;
  if (name.size() < kFolder + kDigits) return false;
  const std::string_view hex = name.substr(kFolder, kDigits), suffix = name.substr(kFolder + kDigits);
  const bool digits = std::all_of(hex.begin(), hex.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
  return digits && name[2] == '/' && hex.starts_with(name.substr(0, 2)) &&
         (suffix == ".o" || suffix == ".c" || suffix == ".tpk" || suffix == ".key" || suffix == ".sizes");
}

fs::path beside(fs::path path, const char* suffix) { return path.replace_extension(suffix); }

}  // namespace

BundleCounts export_cache(const jit::ArtefactCache& cache, const fs::path& bundle) {
  BundleCounts out;
  std::vector<std::unique_ptr<MappedFile>> files;
  std::vector<package::ZipPart> parts;
  const auto add = [&](const fs::path& path, std::unique_ptr<MappedFile> file) {
    const auto bytes = file->span();
    parts.push_back({fs::relative(path, cache.root()).generic_string(), {{reinterpret_cast<const char*>(bytes.data()), bytes.size()}}});
    files.push_back(std::move(file));
  };
  for (auto& e : cache.list()) {
    if (e.kind == jit::CacheKind::Sizes) {
      try {
        add(e.object, std::make_unique<MappedFile>(e.object));
        ++out.sizes;
      } catch (const Error& error) {
        out.refused.push_back(error.what());
      }
      continue;
    }
    const bool program = e.kind == jit::CacheKind::Program;
    const fs::path other = beside(e.object, program ? ".key" : ".c");
    std::error_code error;
    if (!fs::exists(e.object, error) || !fs::exists(other, error)) continue;  // being written, or removed just now
    // Or it is removed from here on: both files, or none.
    try {
      auto object = std::make_unique<MappedFile>(e.object), its = std::make_unique<MappedFile>(other);
      add(e.object, std::move(object)), add(other, std::move(its));
      ++(program ? out.programs : out.kernels);
    } catch (const Error& error) {
      out.refused.push_back(error.what());
    }
  }
  package::write_zip(bundle, parts);
  return out;
}

BundleCounts import_cache(jit::ArtefactCache& cache, const fs::path& bundle) {
  BundleCounts out;
  const MappedFile file(bundle);
  const auto zip = import::ZipArchive::open(file.span(), bundle.string());
  for (auto& e : zip.entries()) TOROID_USER_CHECK(is_name(e.name), "{}: \"{}\" is no file of a cache", bundle.string(), e.name);
  for (auto& e : zip.entries()) {
    const fs::path path = cache.root() / e.name;
    const std::string ending = path.extension().string();
    if (ending == ".key" || ending == ".c") continue;  // comes with the other
    if (ending == ".sizes") {
      make_directories(path.parent_path());
      write_file_atomic(path, e.text());
      ++out.sizes;
      continue;
    }
    const auto* other = zip.find(beside(fs::path(e.name), ending == ".tpk" ? ".key" : ".c").generic_string());
    make_directories(path.parent_path());
    if (ending == ".o") {
      if (other) write_file_atomic(beside(path, ".c"), other->text());
      write_file_atomic(path, e.text());
      ++out.kernels;
      continue;
    }
    // Beside its place until it is found whole, by a name that the cache knows as that of a file which nobody finished.
    const fs::path arriving = path.parent_path() / fmt::format(".toroid-tmp-{}-{}", ::getpid(), path.filename().string());
    try {
      TOROID_USER_CHECK(other, "{} comes without its key", e.name);
      KeptKey kept = parse_kept_key(std::string(other->text()), std::string(e.name));
      const std::string hash = kept.key.hash().hex();
      TOROID_USER_CHECK(path.stem() == hash, "{} has the key of {}", e.name, hash);
      write_file_atomic(arriving, e.text());
      const auto package = package::Package::open(arriving);
      package->verify();
      package->entry(hash);
      kept.stamp = stamp_of(arriving);
      std::error_code error;
      fs::rename(arriving, path, error);
      if (error) fail<EnvironmentError>("cannot write \"{}\": {}", path.string(), error.message());
      write_file_atomic(beside(path, ".key"), to_text(kept));
      ++out.programs;
    } catch (const UserError& error) {
      std::error_code ignored;
      fs::remove(arriving, ignored);
      out.refused.push_back(error.what());
    }
  }
  cache.note_stored(file.span().size());
  return out;
}

}  // namespace toroid::compiler
