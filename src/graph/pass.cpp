#include "graph/pass.h"

#include <algorithm>
#include <set>

#include "base/check.h"
#include "base/text.h"

namespace toroid::graph {
namespace {

// Guards that regions added about sizes of the graph around them must hold for that graph. What their operations require is looked at when
// a region runs.
void hoist_guards(Graph& g, Graph& region) {
  auto is_outer = [&](const Expr& e) {
    bool outer = true;
    sym::for_each_symbol(e, [&](const Expr& s) {
      const Symbol* found = g.find_symbol(s.node()->name);
      outer = outer && found && !found->unbacked;
    });
    return outer;
  };
  auto is_known = [&](const sym::Relation& r) {
    return std::any_of(g.guards.begin(), g.guards.end(), [&](auto& have) { return have.rel == r.rel && have.a == r.a && have.b == r.b; });
  };
  for (auto& r : region.guards)
    if (!r.is_requirement() && is_outer(r.a) && is_outer(r.b) && !is_known(r)) g.guards.push_back(r);
}

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
      // New symbols of the region must differ from those around it.
      std::set<std::string> borrowed;
      for (auto& s : g->symbols)
        if (!copy->find_symbol(s.expr.node()->name) && borrowed.insert(s.expr.node()->name).second) copy->symbols.push_back(s);
      if (!run_on(copy, row)) continue;
      for (auto& o : copy->outputs)
        TOROID_USER_CHECK(o.mutates < 0, "{} ({}): the region \"{}\" writes to its input \"{}\"; it must return the new contents instead",
                          n->op->name, n->where, copy->name, copy->inputs[static_cast<size_t>(o.mutates)].name);
      std::erase_if(copy->symbols, [&](const Symbol& s) { return borrowed.count(s.expr.node()->name) > 0; });
      hoist_guards(*g, *copy);
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
