// Passes: functions from graph to graph, run in the order of a table.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/pass_runner.h"
#include "graph/graph.h"

namespace toroid::graph {

// The graph after the pass; nullptr when it changes nothing.
using PassFunction = std::unique_ptr<Graph> (*)(const Graph&);

// What a graph is transformed for.
struct Purpose {
  bool frozen = false;             // parameters are constants
  bool templates = false;          // operations stay whole that the target has a template for
  bool int8 = false;               // it has them for products of int8, and they are faster than those of f32
  bool gradients = false;          // it has some for gradients of attention and of convolutions' weights
  bool padding_apart = false;      // zeros before convolutions stay operations (option fold_padding)
  bool all_probabilities = false;  // the largest one is found among all (option fold_probabilities)

  bool operator==(const Purpose&) const = default;
};
inline constexpr Purpose kLoops = {};  // everything in small operations
inline constexpr Purpose kInference = {.templates = true};
inline constexpr Purpose kFrozen = {.frozen = true, .templates = true};
inline constexpr Purpose kFrozenInt8 = {.frozen = true, .templates = true, .int8 = true};

struct PassRow {
  const char* name;
  PassFunction run;
  bool in_regions = true;  // also run on the sub-graphs of control flow
  Purpose needs = {};      // part of the pipelines whose purpose has all of these
  Purpose without = {};    // and none of these
  const char* doc = "";
};

// Runs the rows in order, as PassRunner does.
std::unique_ptr<Graph> run_passes(std::unique_ptr<Graph> g, std::span<const PassRow> rows, PassReport* report = nullptr,
                                  const CompileOptions& options = {}, const PassDump& dump = {});

// The table: every pass there is, in the order in which all pipelines run those that they have. A pass may have several rows.
std::span<const PassRow> all_passes();
// The passes that turn a traced or imported graph into what lowering takes: the table's rows for a purpose.
std::vector<PassRow> pipeline(const Purpose& purpose);
// The pipelines that a row is part of, for people: "always", "frozen, templates".
std::string conditions_of(const PassRow& row);
// UserError, with the nearest names, when there is none of that name.
const PassRow& find_pass(std::string_view name);

}  // namespace toroid::graph
