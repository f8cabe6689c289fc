// Passes: functions from graph to graph, run in the order of a table.
#pragma once

#include <optional>
#include <span>

#include "base/compile_options.h"
#include "graph/graph.h"

namespace toroid::graph {

// The graph after the pass; nullptr when it changes nothing.
using PassFunction = std::unique_ptr<Graph> (*)(const Graph&);

struct PassRow {
  const char* name;
  PassFunction run;
  bool in_regions = true;  // also run on the sub-graphs of control flow
  const char* doc = "";
};

// What run_passes did, one entry a row that ran.
struct PassTiming {
  std::string name;
  double milliseconds = 0;
  bool changed = false;
};
struct PassReport {
  std::vector<PassTiming> passes;
};

// Runs the rows in order, but for those that the option disable_passes names. Dumps the graph after each to the log artifact "graph";
// verifies it when the option verify_passes is on.
std::unique_ptr<Graph> run_passes(std::unique_ptr<Graph> g, std::span<const PassRow> rows, PassReport* report = nullptr,
                                  const CompileOptions& options = {});

// Every pass there is.
std::span<const PassRow> all_passes();
// The passes that turn a traced or imported graph into what lowering takes. `freeze` treats parameters as constants; `keep_templates`
// leaves operations whole that the target has a template for; `whole_products`: it has them for products of whole numbers of 8 bits.
std::vector<PassRow> default_passes(bool freeze, bool keep_templates, bool whole_products = false);
// UserError, with the nearest names, when there is none of that name.
const PassRow& find_pass(std::string_view name);

}  // namespace toroid::graph
