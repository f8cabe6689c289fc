// toroid inspect: what a model file holds.
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "cli/bench_subject.h"
#include "import/safetensors.h"
#include "package/package.h"

namespace toroid::cli {
namespace {

const char* kind_text(graph::InputKind kind) {
  switch (kind) {
    case graph::InputKind::User:
      return "input";
    case graph::InputKind::Parameter:
      return "parameter";
    case graph::InputKind::Buffer:
      return "buffer";
    default:
      return "constant";
  }
}

struct Summary {
  std::map<std::string, size_t> operations;
  size_t nodes = 0;

  void count(const graph::Graph& g) {
    for (auto& n : g.nodes) {
      ++nodes;
      ++operations[n->op->name];
      for (auto& r : n->regions) count(*r);
    }
  }
};

std::string type_text(const TensorType& t) { return to_string(TensorType{t.dtype, t.sizes, {}}); }

// names: of what is returned, or none.
void print_json(const graph::Graph& g, const Summary& summary, const std::vector<std::string>& names) {
  size_t returned = 0;
  std::string inputs, outputs, operations, symbols;
  for (auto& in : g.inputs)
    inputs += fmt::format("{}{{\"name\":{},\"kind\":\"{}\",\"type\":{}}}", inputs.empty() ? "" : ",", json_string(in.name),
                          kind_text(in.kind), json_string(type_text(in.value->type)));
  for (auto& o : g.outputs) {
    const std::string name = o.mutates >= 0 || names.empty() ? "null" : json_string(names.at(returned++));
    outputs += fmt::format("{}{{\"name\":{},\"type\":{},\"overwrites\":{}}}", outputs.empty() ? "" : ",", name,
                           o.value ? json_string(type_text(o.value->type)) : "null",
                           o.mutates < 0 ? "null" : json_string(g.inputs[static_cast<size_t>(o.mutates)].name));
  }
  for (auto& [name, n] : summary.operations) operations += fmt::format("{}{}:{}", operations.empty() ? "" : ",", json_string(name), n);
  for (auto& s : g.symbols) symbols += fmt::format("{}{}", symbols.empty() ? "" : ",", json_string(sym::to_string(s.expr)));
  fmt::print("{{\"nodes\":{},\"inputs\":[{}],\"outputs\":[{}],\"operations\":{{{}}},\"symbols\":[{}]}}\n", summary.nodes, inputs, outputs,
             operations, symbols);
}

// A file that is named like one, but is not, is told what is wrong with it.
bool holds_tensors(const std::filesystem::path& path) {
  return path.extension() == ".safetensors" || path.string().ends_with(".safetensors.index.json") || std::filesystem::is_directory(path) ||
         (std::filesystem::is_regular_file(path) && (import::is_safetensors(path) || import::is_safetensors_index(path)));
}

int inspect_tensors(const std::string& path, bool json) {
  const auto reader = import::SafetensorsReader::open(path);
  size_t bytes = 0;
  std::string tensors, metadata;
  for (auto& t : reader.tensors()) {
    bytes += t.bytes().size();
    tensors += fmt::format("{}{{\"name\":{},\"dtype\":\"{}\",\"sizes\":[{}]}}", tensors.empty() ? "" : ",\n ", json_string(t.name),
                           name_of(t.dtype), fmt::join(t.sizes, ","));
  }
  for (auto& [key, value] : reader.metadata())
    metadata += fmt::format("{}{}:{}", metadata.empty() ? "" : ",", json_string(key), json_string(value));
  if (json) {
    fmt::print("{{\"tensors\":[{}],\"metadata\":{{{}}}}}\n", tensors, metadata);
    return kOk;
  }
  fmt::print("{}: {} tensors ({:.1f} MB)\n", path, reader.tensors().size(), static_cast<double>(bytes) / 1e6);
  for (auto& t : reader.tensors()) fmt::print("  {}: {}[{}]\n", t.name, name_of(t.dtype), fmt::join(t.sizes, ", "));
  for (auto& [key, value] : reader.metadata()) fmt::print("  metadata {}: {}\n", key, value);
  return kOk;
}

}  // namespace

int inspect(const InspectArgs& args) {
  const std::string& model = args.subject.model;
  const bool json = args.subject.json;
  const bool file = std::filesystem::is_regular_file(model);
  if (file && package::Package::is_package(model)) return inspect_package(model, json);
  if (!is_built_in(model) && holds_tensors(model)) return inspect_tensors(model, json);
  std::vector<std::string> names;
  auto g = make_graph(args.subject, &names);
  if (args.graph) {
    if (json)
      fmt::print("{{\"text\":{}}}\n", json_string(graph::to_string(*g)));
    else
      fmt::print("{}", graph::to_string(*g));
    return kOk;
  }
  Summary summary;
  summary.count(*g);
  if (json) {
    print_json(*g, summary, names);
    return kOk;
  }
  size_t weights = 0, bytes = 0;
  for (auto& in : g->inputs) {
    if (!in.data.defined()) continue;
    ++weights;
    bytes += static_cast<size_t>(in.data.numel()) * size_of(in.data.dtype());
  }
  fmt::print("{}: {} nodes, {} weights ({:.1f} MB)\n", model, summary.nodes, weights, static_cast<double>(bytes) / 1e6);
  for (auto& in : g->inputs)
    if (in.kind == graph::InputKind::User) fmt::print("  input  {}: {}\n", in.name, type_text(in.value->type));
  size_t index = 0;
  for (auto& o : g->outputs) {
    if (o.mutates >= 0) {
      fmt::print("  writes {}\n", g->inputs[static_cast<size_t>(o.mutates)].name);
    } else {
      const std::string name = names.empty() ? "" : fmt::format(" ({})", names.at(index));
      fmt::print("  output {}{}: {}\n", index++, name, o.value ? type_text(o.value->type) : "not a tensor");
    }
  }
  for (auto& s : g->symbols) {
    const sym::Node& n = *s.expr.node();
    if (n.hi >= sym::kInf - 1)
      fmt::print("  size   {} >= {}\n", sym::to_string(s.expr), n.lo);
    else
      fmt::print("  size   {} <= {} <= {}\n", n.lo, sym::to_string(s.expr), n.hi);
  }
  std::vector<std::pair<std::string, size_t>> most(summary.operations.begin(), summary.operations.end());
  std::stable_sort(most.begin(), most.end(), [](auto& a, auto& b) { return a.second > b.second; });
  fmt::print("  operations:");
  for (auto& [name, n] : most) fmt::print(" {}x{}", name, n);
  fmt::print("\n");
  return kOk;
}

}  // namespace toroid::cli
