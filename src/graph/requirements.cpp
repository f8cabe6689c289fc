#include "graph/requirements.h"

#include <algorithm>
#include <set>

#include "graph/control_flow.h"
#include "graph/recorder.h"
#include "ops/custom.h"

namespace toroid::graph {
namespace {

void add_names(const Expr& e, std::set<std::string>& names) {
  sym::for_each_symbol(e, [&](const Expr& s) { names.insert(s.node()->name); });
}

// The sizes that values of the graph have.
std::set<std::string> names_of(const Graph& g) {
  std::set<std::string> out;
  for (auto& v : g.values)
    for (auto& e : v->type.sizes) add_names(e, out);
  return out;
}

}  // namespace

std::vector<sym::Guard> all_guards(const Graph& g) {
  const std::set<std::string> names = names_of(g);
  std::vector<sym::Guard> out = g.guards;
  if (names.empty()) return out;
  Graph scratch;
  scratch.symbols = g.symbols;
  scratch.guards = g.guards;
  Recorder recorder(scratch);
  for (auto& n : g.nodes) {
    if (is_control_flow(*n->op) || ops::is_custom(*n->op)) continue;  // their regions and parts are programs of their own
    CallArgs args;
    for (auto& a : n->args) args.push_back(map_arg<Tensor>(a, [&](Value* v) { return v ? recorder.proxy(v) : Tensor(); }));
    recorder.stand_in_for(*n);
    recorder.call(*n->op, ops::complete(*n->op, std::move(args)), std::source_location::current());
    scratch.nodes.clear();
  }
  for (size_t i = g.guards.size(); i < scratch.guards.size(); ++i) {
    const sym::Guard& r = scratch.guards[i];
    std::set<std::string> its;
    add_names(r.a, its), add_names(r.b, its);
    const bool ours = std::includes(names.begin(), names.end(), its.begin(), its.end());  // no other sizes that only the run tells
    if (ours && r.is_requirement()) out.push_back(r);
  }
  return out;
}

}  // namespace toroid::graph
