// toroid inspect: what a model file holds.
#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "cli/commands.h"
#include "import/load_model.h"
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

void print_json(const graph::Graph& g, const Summary& summary) {
  std::string inputs, outputs, operations, symbols;
  for (auto& in : g.inputs)
    inputs += fmt::format("{}{{\"name\":{},\"kind\":\"{}\",\"type\":{}}}", inputs.empty() ? "" : ",", json_string(in.name),
                          kind_text(in.kind), json_string(type_text(in.value->type)));
  for (auto& o : g.outputs)
    outputs += fmt::format("{}{{\"type\":{},\"overwrites\":{}}}", outputs.empty() ? "" : ",",
                           o.value ? json_string(type_text(o.value->type)) : "null",
                           o.mutates < 0 ? "null" : json_string(g.inputs[static_cast<size_t>(o.mutates)].name));
  for (auto& [name, n] : summary.operations) operations += fmt::format("{}{}:{}", operations.empty() ? "" : ",", json_string(name), n);
  for (auto& s : g.symbols) symbols += fmt::format("{}{}", symbols.empty() ? "" : ",", json_string(sym::to_string(s.expr)));
  fmt::print("{{\"nodes\":{},\"inputs\":[{}],\"outputs\":[{}],\"operations\":{{{}}},\"symbols\":[{}]}}\n", summary.nodes, inputs, outputs,
             operations, symbols);
}

}  // namespace

int inspect(const InspectArgs& args) {
  if (package::Package::is_package(args.model)) return inspect_package(args.model, args.json);
  auto g = import::load_model(args.model);
  if (args.graph) {
    fmt::print("{}", graph::to_string(*g));
    return kOk;
  }
  Summary summary;
  summary.count(*g);
  if (args.json) {
    print_json(*g, summary);
    return kOk;
  }
  size_t weights = 0, bytes = 0;
  for (auto& in : g->inputs) {
    if (!in.data.defined()) continue;
    ++weights;
    bytes += static_cast<size_t>(in.data.numel()) * size_of(in.data.dtype());
  }
  fmt::print("{}: {} nodes, {} weights ({:.1f} MB)\n", args.model, summary.nodes, weights, static_cast<double>(bytes) / 1e6);
  for (auto& in : g->inputs)
    if (in.kind == graph::InputKind::User) fmt::print("  input  {}: {}\n", in.name, type_text(in.value->type));
  size_t index = 0;
  for (auto& o : g->outputs) {
    if (o.mutates >= 0)
      fmt::print("  writes {}\n", g->inputs[static_cast<size_t>(o.mutates)].name);
    else
      fmt::print("  output {}: {}\n", index++, o.value ? type_text(o.value->type) : "not a tensor");
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
