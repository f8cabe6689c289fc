#include "front/export_graph.h"

#include <fmt/ranges.h>

#include "base/check.h"
#include "base/json_text.h"
#include "base/std_errors.h"
#include "exec/store.h"
#include "front/function_graph.h"
#include "front/package_names.h"
#include "graph/passes/passes.h"
#include "import/graph_file.h"
#include "package/weights.h"
#include "package/zip_writer.h"
#include "tensor/layout.h"
#include "toroid/export_graph.h"

namespace toroid {
namespace {

// Whether two tensors that are not one share elements' memory.
bool overlap(const Tensor& a, const Tensor& b) {
  const auto end = [](const Tensor& t) { return t.raw_data() + static_cast<size_t>(toroid::extent_of(t)) * size_of(t.dtype()); };
  return a.numel() > 0 && b.numel() > 0 && a.device() == b.device() && a.raw_data() < end(b) && b.raw_data() < end(a);
}

bool is_one(const Tensor& a, const Tensor& b) {
  return a.raw_data() == b.raw_data() && a.dtype() == b.dtype() && a.sizes() == b.sizes() && a.strides() == b.strides();
}

void check_writes(const graph::Graph& g) {
  for (auto& o : g.outputs) {
    if (o.mutates < 0) continue;
    const graph::Input& written = g.inputs[static_cast<size_t>(o.mutates)];
    for (auto& in : g.inputs)
      TOROID_USER_CHECK(!written.data.defined() || !in.data.defined() || is_one(written.data, in.data) || !overlap(written.data, in.data),
                        "the program writes to \"{}\", which shares memory with \"{}\"; a file would keep them apart: give them memory of "
                        "their own (clone)",
                        written.name, in.name);
  }
}

}  // namespace

void front::export_graph(const graph::Graph& g, const std::vector<std::string>& outputs, const std::filesystem::path& path) {
  const auto functional = graph::functionalize(g);  // in which writes are known
  check_writes(functional ? *functional : g);
  package::WeightsWriter weights;
  std::string data, names;
  std::vector<std::pair<Tensor, std::string>> known;  // a tensor is there once, however many inputs it is
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    const Tensor& t = g.inputs[i].data;
    if (!t.defined()) continue;
    auto at = std::find_if(known.begin(), known.end(), [&](auto& k) { return is_one(k.first, t); });
    if (at == known.end()) {
      const std::string constant = std::to_string(i);
      weights.add(constant, g.inputs[i].name, t);
      at = known.insert(at, {t, constant});
    }
    const package::Constant& c = weights.constants().at(at->second);
    data += fmt::format("{}\n    {{\"input\": {}, \"tensor\": {}, \"dtype\": \"{}\", \"sizes\": [{}], \"strides\": [{}]}}",
                        data.empty() ? "" : ",", i, json_string(c.tensor), name_of(c.layout.dtype), fmt::join(c.layout.sizes, ", "),
                        fmt::join(c.layout.strides, ", "));
  }
  for (auto& name : outputs) names += (names.empty() ? "" : ", ") + json_string(name);
  const std::string head =
      fmt::format("{{\n  \"format\": {},\n  \"outputs\": [{}],\n  \"data\": [{}]\n}}\n", import::kGraphFormat, names, data);
  const std::string text = graph::to_string(g), weights_head = weights.head();
  package::ZipPart held{import::kGraphWeights, {weights_head}};
  for (auto& b : weights.contents()) held.bytes.push_back(b);
  const package::ZipPart parts[] = {{import::kGraphHead, {head}}, {import::kGraphText, {text}}, held};
  package::write_zip(path, parts);
}

void detail::export_graph(std::span<const Tensor> examples, const std::function<std::vector<Tensor>(std::span<const Tensor>)>& fn,
                          const std::string& path, const ExportOptions& options) {
  front::check_names(options.input_names, "input"), front::check_names(options.output_names, "output");
  std::vector<std::string> outputs;
  const auto graph = front::graph_of_function("main", examples, fn, options.input_names, options.output_names, outputs);
  with_our_errors(fmt::format("cannot write the graph \"{}\"", path), [&] { front::export_graph(*graph, outputs, path); });
}

}  // namespace toroid
