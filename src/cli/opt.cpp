// toroid opt: passes on a graph in its text form; and the tables of all passes.
#include <fmt/core.h>

#include "backend/backend.h"
#include "base/check.h"
#include "base/files.h"
#include "base/text.h"
#include "cli/commands.h"
#include "graph/pass.h"

namespace toroid::cli {
namespace {

void print_row(const char* name, const std::string& when, const char* doc) { fmt::print("  {:<27} {:<23} {}\n", name, when, doc); }

int list_passes() {
  fmt::print("graphs\n");
  for (auto& row : graph::all_passes()) print_row(row.name, graph::conditions_of(row), row.doc);
  for (auto& table : backend::pass_tables()) {
    if (table.passes.empty()) continue;
    fmt::print("programs for {}, {}\n", table.backend, table.to == choice::Stage::Lowered ? "before tuning" : "schedule");
    for (auto& pass : table.passes) print_row(pass.name, target::conditions_of(pass), pass.doc);
  }
  return kOk;
}

}  // namespace

int opt(const OptArgs& args) {
  if (args.list) return list_passes();
  TOROID_USER_CHECK(!args.graph.empty() && !args.passes.empty(), "a graph and --passes are required, or --list");
  auto g = graph::parse(read_file(args.graph));
  std::vector<graph::PassRow> rows;
  for (auto name : split_list(args.passes)) rows.push_back(graph::find_pass(name));
  g = graph::run_passes(std::move(g), rows);
  graph::verify(*g, "the end of the passes");
  fmt::print("{}", graph::to_string(*g));
  return kOk;
}

}  // namespace toroid::cli
