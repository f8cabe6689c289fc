#include "import/load_model.h"

#include "base/check.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/mapped_file.h"
#include "import/onnx/importer.h"
#include "import/pt2_importer.h"
#include "import/zip.h"

namespace toroid::import {
namespace {

enum class Format { Pt2, Onnx };

Format format_of(const std::filesystem::path& path) {
  const std::string head = read_head(path, 4);
  if (head == std::string_view("PK\3\4", 4)) return Format::Pt2;
  if (onnx::looks_like_onnx(head)) return Format::Onnx;
  fail<UserError>("{}: this is no model that Toroid reads; supported: .pt2 archives of torch.export.save (PyTorch 2.5 and newer), ONNX",
                  path.string());
}

}  // namespace

std::unique_ptr<graph::Graph> load_model(const std::filesystem::path& path, std::span<const Tensor> inputs, FilesRead* others) {
  if (format_of(path) == Format::Pt2) return import_pt2(std::make_shared<Pt2Archive>(Pt2Archive::open(path)));
  const auto file = onnx::ModelFile::open(path);
  auto graph = onnx::import_model(file, std::vector<onnx::Item>(inputs.begin(), inputs.end()));
  if (others) *others = file->external_files();
  return graph;
}

ModelIdentity identity_of(const std::filesystem::path& path) {
  const FileStamp stamp = stamp_of(path);
  if (format_of(path) == Format::Onnx) {
    const std::string where = std::filesystem::canonical(path).string();
    return {"", fmt::format("{} of {} bytes, written at {}, inode {} of {}", where, stamp.bytes, stamp.time_ns, stamp.inode, stamp.device),
            stamp};
  }
  const MappedFile file(path);  // of which the pages with weights are not touched
  const ZipArchive zip = ZipArchive::open(file.span(), path.string());
  Hasher program;
  for (auto& e : zip.entries()) {
    program.add(e.name).add(e.data.size());
    if (e.name.ends_with(".json")) program.add(e.text());
  }
  const Hash128 stated = hash_bytes(zip.directory().data(), zip.directory().size());
  return {program.finish().hex(), fmt::format("{}, written at {}", stated.hex(), stamp.time_ns), stamp};
}

}  // namespace toroid::import
