#include "graph/pass.h"

#include <algorithm>

#include "base/check.h"
#include "base/text.h"
#include "graph/known_sizes.h"

namespace toroid::graph {
namespace {

// Regions are shared between clones of a graph, so a changed region is replaced, never edited.
bool run_on(std::unique_ptr<Graph>& g, const PassRow& row) {
  bool changed = false;
  if (auto after = row.run(*g)) {
    g = std::move(after);
    changed = true;
  }
  if (!row.in_regions) return changed;
  for (auto& n : g->nodes)
    for (auto& region : n->regions) {
      std::unique_ptr<Graph> copy = clone(*region);
      const LentSizes lent(*g, *copy);
      if (!run_on(copy, row)) continue;
      for (auto& o : copy->outputs)
        TOROID_USER_CHECK(o.mutates < 0, "{} ({}): the region \"{}\" writes to its input \"{}\"; it must return the new contents instead",
                          n->op->name, n->where, copy->name, copy->inputs[static_cast<size_t>(o.mutates)].name);
      lent.take_back(*g, *copy);
      region = std::move(copy);
      changed = true;
    }
  return changed;
}

}  // namespace

std::unique_ptr<Graph> run_passes(std::unique_ptr<Graph> g, std::span<const PassRow> rows, PassReport* report,
                                  const CompileOptions& options, const PassDump& dump) {
  const auto check = [&](const std::string& pass) { verify(*g, pass.empty() ? "before all passes" : "after " + pass); };
  PassRunner runner({Artifact::Graph, [&] { return to_string(*g); }, check}, options, report, dump);
  for (auto& row : rows) runner.run(row.name, [&] { return run_on(g, row); });
  return g;
}

const PassRow& find_pass(std::string_view name) {
  std::vector<std::string_view> names;
  for (auto& row : all_passes()) {
    if (row.name == name) return row;
    if (std::find(names.begin(), names.end(), row.name) == names.end()) names.push_back(row.name);
  }
  fail<UserError>("there is no graph pass \"{}\"{}", name, did_you_mean(name, names));
}

}  // namespace toroid::graph
