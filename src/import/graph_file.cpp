#include "import/graph_file.h"

#include <map>

#include "base/check.h"
#include "base/files.h"
#include "import/json.h"
#include "import/safetensors.h"
#include "import/zip.h"

namespace toroid::import {
namespace {

std::vector<int64_t> whole_numbers(const Json& j) {
  std::vector<int64_t> out;
  for (size_t i = 0; i < j.size(); ++i) out.push_back(j[i].as_int());
  return out;
}

std::unique_ptr<graph::Graph> parsed(const ZipArchive& zip) {
  try {
    return graph::parse(std::string(zip.at(kGraphText).text()));
  } catch (const UserError& e) {
    fail<UserError>("{}: {}: {}", zip.source(), kGraphText, e.what());
  }
}

// What the input must be is what the tensor is.
void check_type(const graph::Input& in, const Tensor& t, const Json& where) {
  const TensorType& type = in.value->type;
  bool fits = type.dtype == t.dtype() && type.sizes.size() == t.sizes().size();
  for (size_t d = 0; fits && d < t.sizes().size(); ++d) fits = type.sizes[d] == Expr(t.sizes()[d]);
  const TensorType its{t.dtype(), {t.sizes().begin(), t.sizes().end()}, {}};
  if (!fits) where.refuse(fmt::format("the tensor is {}, the input \"{}\" of the graph {}", to_string(its), in.name, to_string(type)));
}

}  // namespace

GraphFile read_graph_file(const std::filesystem::path& path) {
  const auto file = std::make_shared<const FileBytes>(path);
  const ZipArchive zip = ZipArchive::open(file->span(), path.string());
  const auto doc = JsonDocument::parse(zip.at(kGraphHead).text(), path.string());
  const int64_t format = doc.root().at("format").as_int();
  TOROID_USER_CHECK(format == kGraphFormat, "{}: the field \"format\" is {}, this library takes {}; export the function again",
                    path.string(), format, kGraphFormat);
  GraphFile out;
  out.graph = parsed(zip);
  std::map<std::string, TensorRecord> records;
  for (auto& r : parse_safetensors(zip.at(kGraphWeights).data, path.string())) records.emplace(r.name, r);
  std::map<std::string, Tensor> tensors;  // inputs that are one tensor stay one
  const Json data = doc.root().at("data"), outputs = doc.root().at("outputs");
  for (size_t i = 0; i < data.size(); ++i) {
    const Json d = data[i];
    const int64_t at = d.at("input").as_int();
    if (at < 0 || at >= static_cast<int64_t>(out.graph->inputs.size())) d.refuse("the graph has no input of this number");
    graph::Input& in = out.graph->inputs[static_cast<size_t>(at)];
    if (in.kind == graph::InputKind::User || in.kind == graph::InputKind::Random || in.data.defined())
      d.refuse(fmt::format("the input \"{}\" takes no stored tensor, or has one", in.name));
    const std::string name(d.at("tensor").as_str());
    const auto record = records.find(name);
    if (record == records.end()) d.refuse("the weights hold no such tensor");
    Tensor& t = tensors[name];
    if (!t.defined())
      t = laid_out(record->second.bytes(), dtype_from_name(d.at("dtype").as_str()), whole_numbers(d.at("sizes")),
                   whole_numbers(d.at("strides")), file, name, path.string());
    check_type(in, t, d);
    in.data = t;
  }
  for (auto& in : out.graph->inputs)
    TOROID_USER_CHECK(in.data.defined() || in.kind == graph::InputKind::User || in.kind == graph::InputKind::Random,
                      "{}: the input \"{}\" has no stored tensor", path.string(), in.name);
  for (size_t i = 0; i < outputs.size(); ++i) out.outputs.emplace_back(outputs[i].as_str());
  return out;
}

}  // namespace toroid::import
