#include <algorithm>

#include "graph/effects.h"
#include "graph/passes/passes.h"
#include "graph/passes/rebuild.h"

namespace toroid::graph {
namespace {

// The form of a draw that is told where the stream is; nullptr for other operations.
const ops::Op* explicit_form(const ops::Op& op) {
  if (op.name == "prims.rand_uniform") return &ops::get("prims.rand_uniform.state");
  if (op.name == "prims.rand_normal") return &ops::get("prims.rand_normal.state");
  return nullptr;
}

bool draws(const Graph& g) {
  return std::any_of(g.nodes.begin(), g.nodes.end(), [](auto& n) { return effects_of(*n).has(Effect::Draws); });
}

// Whether all that draws is a primitive of this graph itself, whose count is known when a run begins.
bool is_countable(const Graph& g) {
  for (auto& n : g.nodes) {
    if (std::any_of(n->regions.begin(), n->regions.end(), [](auto& r) { return draws(*r); })) return false;
    if (!n->op->random) continue;
    if (!explicit_form(*n->op)) return false;
    bool known = true;
    sym::for_each_symbol(n->results[0]->type.numel(), [&](const Expr& s) {
      const Symbol* found = g.find_symbol(s.node()->name);
      known = known && found && !found->unbacked;
    });
    if (!known) return false;
  }
  return true;
}

}  // namespace

std::unique_ptr<Graph> explicit_random(const Graph& g) {
  if (!draws(g) || !is_countable(g)) return nullptr;
  Rebuild out(g);
  Tensor state = out.recorder().proxy(out.graph().add_input({DType::I64, {Expr(2)}, {}}, InputKind::Random, "random"));
  Expr taken = 0;
  for (auto& n : g.nodes) {
    if (!n->op->random) {
      out.copy(*n);
      continue;
    }
    const Expr offset = taken;
    out.replace(*n, [&] {
      CallArgs args = out.args(*n);
      args.insert(args.begin(), state);
      args.insert(args.begin() + 2, offset);
      return out.recorder().call(*explicit_form(*n->op), std::move(args), std::source_location::current());
    });
    taken = taken + n->results[0]->type.numel();
  }
  auto after = out.finish();
  for (auto& in : after->inputs)
    if (in.kind == InputKind::Random) in.draws = taken;
  return after;
}

}  // namespace toroid::graph
