// toroid opt: passes on a graph in its text form.
#include <fmt/core.h>

#include "base/files.h"
#include "base/text.h"
#include "cli/commands.h"
#include "graph/pass.h"

namespace toroid::cli {

int opt(const OptArgs& args) {
  auto g = graph::parse(read_file(args.graph));
  std::vector<graph::PassRow> rows;
  for (auto name : split_list(args.passes)) rows.push_back(graph::find_pass(name));
  g = graph::run_passes(std::move(g), rows);
  graph::verify(*g, "the end of the passes");
  fmt::print("{}", graph::to_string(*g));
  return kOk;
}

}  // namespace toroid::cli
