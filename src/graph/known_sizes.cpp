#include "graph/known_sizes.h"

#include <fmt/format.h>

#include <algorithm>

namespace toroid::graph {

sym::Rel opposite(sym::Rel r) {
  constexpr sym::Rel kOpposite[] = {sym::Rel::Ne, sym::Rel::Eq, sym::Rel::Ge, sym::Rel::Gt, sym::Rel::Le, sym::Rel::Lt};
  return kOpposite[static_cast<int>(r)];
}

bool states(const std::vector<sym::Guard>& guards, const sym::Relation& r) {
  return std::any_of(guards.begin(), guards.end(), [&](auto& g) { return g.rel == r.rel && g.a == r.a && g.b == r.b; });
}

namespace {

// The relation with its sides exchanged.
sym::Relation mirrored(const sym::Relation& r) {
  constexpr sym::Rel kMirrored[] = {sym::Rel::Eq, sym::Rel::Ne, sym::Rel::Gt, sym::Rel::Ge, sym::Rel::Lt, sym::Rel::Le};
  return {kMirrored[static_cast<int>(r.rel)], r.b, r.a};
}

// Truth of r by the multiples among the guards: what is asked of a size s with s % 4 = 0 is asked of 4 q. Sizes that are split into groups
// and joined again are the same then, for whatever q.
std::optional<bool> follows_for_multiples(const std::vector<sym::Guard>& guards, const sym::Relation& r) {
  sym::Relation of_quotients = r;
  for (auto& g : guards) {
    if (g.rel != sym::Rel::Eq || g.a.kind() != sym::Kind::Mod || !(g.b == Expr(0))) continue;
    const Expr &size = g.a.node()->args[0], &unit = g.a.node()->args[1];
    if (size.kind() != sym::Kind::Symbol || sym::bounds(size).lo < 0 || sym::bounds(unit).lo < 0 || sym::depends_on(unit, size)) continue;
    const Expr quotient =
        sym::symbol(fmt::format("{} / {}", sym::to_string(size), sym::to_string(unit)), sym::bounds(size).lo > 0, sym::kInf);
    const auto rewritten = [&](const Expr& e) {
      return sym::substitute(e, [&](const sym::Node& s) -> std::optional<Expr> {
        return sym::same_symbol(s, *size.node()) ? std::optional(unit * quotient) : std::nullopt;
      });
    };
    of_quotients = {r.rel, rewritten(of_quotients.a), rewritten(of_quotients.b)};
  }
  return sym::known(of_quotients);
}

// Truth of r where one of the guards states it.
std::optional<bool> follows(const std::vector<sym::Guard>& guards, const sym::Relation& r) {
  if (states(guards, r) || states(guards, mirrored(r))) return true;
  const sym::Relation negated = opposite(r);
  if (states(guards, negated) || states(guards, mirrored(negated))) return false;
  return follows_for_multiples(guards, r);
}

}  // namespace

std::optional<bool> known_by_guards(const std::vector<sym::Guard>& guards, const sym::Relation& r) {
  if (const auto k = sym::known(r)) return k;
  return follows(guards, r);
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
