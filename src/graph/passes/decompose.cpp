#include <algorithm>
#include <set>

#include "base/check.h"
#include "graph/custom.h"
#include "graph/inplace.h"
#include "graph/passes/expander.h"
#include "graph/passes/passes.h"
#include "graph/passes/rebuild.h"

namespace toroid::graph {
namespace {

std::unique_ptr<Graph> run(const Graph& g, bool keep_templates) {
  Rebuild out(g);
  Expander expander(out.recorder(), [&](const ops::Op& op, bool draws) { return keep_templates && op.has_template && !draws; });
  // Writes into an input's own memory are done as they are: what they expand to would copy all of it.
  std::set<const Node*> whole;
  if (keep_templates)
    for (auto& chain : inplace_chains(g)) whole.insert(chain.writes.begin(), chain.writes.end());
  auto expands = [&](const auto& n) { return expander.expands(*n->op, n->args) && !whole.count(n.get()); };
  if (std::none_of(g.nodes.begin(), g.nodes.end(), expands)) return nullptr;
  for (auto& n : g.nodes) {
    if (!expands(n))
      out.copy(*n);
    else
      out.replace(*n, [&] { return expander.call(*n->op, out.args(*n), std::source_location::current()); });
  }
  return out.finish();
}

}  // namespace

std::unique_ptr<Graph> decompose(const Graph& g) { return run(g, false); }
std::unique_ptr<Graph> decompose_keeping_templates(const Graph& g) { return run(g, true); }

}  // namespace toroid::graph
