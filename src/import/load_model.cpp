#include "import/load_model.h"

#include <algorithm>
#include <set>

#include "base/check.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/mapped_file.h"
#include "graph/bind.h"
#include "import/graph_file.h"
#include "import/onnx/importer.h"
#include "import/pt2_importer.h"
#include "import/zip.h"

namespace toroid::import {
namespace {

enum class Format { Pt2, Onnx, Graph };

Format format_of(const std::filesystem::path& path) {
  // The first file of a package or graph is named behind 30 bytes.
  constexpr std::string_view kZip("PK\3\4", 4), kPackage = "manifest.json", kGraph = kGraphHead;
  const std::string first = read_head(path, 30 + kGraph.size()), head = first.substr(0, 30 + kPackage.size());
  if (first.starts_with(kZip) && first.ends_with(kGraph)) return Format::Graph;
  TOROID_USER_CHECK(!head.starts_with(kZip) || !head.ends_with(kPackage),
                    "{}: this is a package, which has been compiled; run it with PackageFile::open (toroid/package.h), toroid_runtime.h or "
                    "toroid run. Model::load takes what packages are made of: .pt2 and ONNX",
                    path.string());
  if (head.starts_with(kZip)) return Format::Pt2;
  if (onnx::looks_like_onnx(head)) return Format::Onnx;
  fail<UserError>(
      "{}: this is no model that Toroid reads; supported: .pt2 archives of torch.export.save (PyTorch 2.5 and newer), ONNX, "
      "and what export_graph has written",
      path.string());
}

std::vector<std::string> output_names(const ExportedProgram& program) {
  std::vector<std::string> out;
  size_t leaf = 0;
  for (auto& spec : program.output_specs) {
    if (spec.kind != OutputKind::User && spec.kind != OutputKind::Loss) continue;
    const auto* tensor = spec.arg.get<TensorArg>();
    const bool is_named = leaf < program.output_names.size() && !program.output_names[leaf].empty();
    out.push_back(is_named ? program.output_names[leaf] : tensor ? tensor->name : "");
    ++leaf;
  }
  return out;
}

std::vector<std::string> output_names(const onnx::GraphProto& graph) {
  std::vector<std::string> out;
  for (auto& o : graph.outputs) out.push_back(o.name);
  return out;
}

// The names, unless they are not of each result: of an ONNX sequence each tensor is one.
std::vector<std::string> fitting(std::vector<std::string> names, const graph::Graph& g) {
  const auto returned = std::count_if(g.outputs.begin(), g.outputs.end(), [](auto& o) { return o.mutates < 0; });
  const std::set<std::string_view> different(names.begin(), names.end());
  const bool fit = names.size() == static_cast<size_t>(returned) && different.size() == names.size() && !different.count("");
  return fit ? std::move(names) : std::vector<std::string>();
}

}  // namespace

namespace {

std::unique_ptr<graph::Graph> read_model(const std::filesystem::path& path, std::span<const Tensor> inputs, FilesRead* others,
                                         std::vector<std::string>* outputs) {
  if (format_of(path) == Format::Pt2) {
    const auto archive = std::make_shared<Pt2Archive>(Pt2Archive::open(path));
    auto graph = import_pt2(archive);
    if (outputs) *outputs = fitting(output_names(archive->program()), *graph);
    return graph;
  }
  if (format_of(path) == Format::Graph) {
    GraphFile file = read_graph_file(path);
    if (outputs) *outputs = fitting(std::move(file.outputs), *file.graph);
    return std::move(file.graph);
  }
  const auto file = onnx::ModelFile::open(path);
  auto graph = onnx::import_model(file, std::vector<onnx::Item>(inputs.begin(), inputs.end()));
  if (others) *others = file->external_files();
  if (outputs) *outputs = fitting(output_names(file->model().graph), *graph);
  return graph;
}

}  // namespace

std::unique_ptr<graph::Graph> load_model(const std::filesystem::path& path, std::span<const Tensor> inputs, FilesRead* others,
                                         std::vector<std::string>* outputs) {
  auto graph = read_model(path, inputs, others, outputs);
  if (!inputs.empty()) graph::take_usual_sizes(*graph, inputs);
  return graph;
}

std::vector<std::string> input_names(const std::filesystem::path& path) {
  std::vector<std::string> out;
  if (format_of(path) == Format::Onnx) {
    const auto file = onnx::ModelFile::open(path);
    for (auto* in : onnx::user_inputs(file->model().graph)) out.push_back(in->name);
    return out;
  }
  const auto graph = load_model(path);
  for (auto& in : graph->inputs)
    if (in.kind == graph::InputKind::User) out.push_back(in.name);
  return out;
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
    if (e.name.ends_with(".json") || e.name == kGraphText) program.add(e.text());
  }
  const Hash128 stated = hash_bytes(zip.directory().data(), zip.directory().size());
  return {program.finish().hex(), fmt::format("{}, written at {}", stated.hex(), stamp.time_ns), stamp};
}

}  // namespace toroid::import
