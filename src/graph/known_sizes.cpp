#include "graph/known_sizes.h"

#include <algorithm>

namespace toroid::graph {

sym::Rel opposite(sym::Rel r) {
  constexpr sym::Rel kOpposite[] = {sym::Rel::Ne, sym::Rel::Eq, sym::Rel::Ge, sym::Rel::Gt, sym::Rel::Le, sym::Rel::Lt};
  return kOpposite[static_cast<int>(r)];
}

bool states(const std::vector<sym::Guard>& guards, const sym::Relation& r) {
  return std::any_of(guards.begin(), guards.end(), [&](auto& g) { return g.rel == r.rel && g.a == r.a && g.b == r.b; });
}

LentSizes::LentSizes(const Graph& around, Graph& region) : own_(region.guards) {
  for (auto& s : around.symbols)
    if (!region.find_symbol(s.expr.node()->name) && symbols_.insert(s.expr.node()->name).second) region.symbols.push_back(s);
  region.guards.insert(region.guards.begin(), around.guards.begin(), around.guards.end());
}

void LentSizes::take_back(Graph& around, Graph& region) const {
  std::erase_if(region.symbols, [&](const Symbol& s) { return symbols_.count(s.expr.node()->name) > 0; });
  const auto is_outer = [&](const Expr& e) {
    bool outer = true;
    sym::for_each_symbol(e, [&](const Expr& s) {
      const Symbol* found = around.find_symbol(s.node()->name);
      outer = outer && found && !found->unbacked;
    });
    return outer;
  };
  for (auto& g : region.guards)
    if (!g.is_requirement() && is_outer(g.a) && is_outer(g.b) && !states(around.guards, g)) around.guards.push_back(g);
  std::erase_if(region.guards, [&](auto& g) { return states(around.guards, g) && !states(own_, g); });
}

}  // namespace toroid::graph
