#include "codegen/simplify.h"

#include <algorithm>
#include <functional>

#include "base/mutants.h"
#include "loop/var_map.h"

namespace toroid::codegen {
namespace {

using loop::Body;
using loop::Domain;
using loop::Statement;
using loop::Step;

bool has_index(const loop::Statement& s) { return s.step == Step::Load || s.step == Step::Store || s.step == Step::Index; }

Body replace(const Body& b, const Expr& symbol, const Expr& by) {
  return loop::substitute(b, [&](const sym::Node& n) -> std::optional<Expr> {
    return sym::same_symbol(n, *symbol.node()) ? std::optional<Expr>(by) : std::nullopt;
  });
}

void for_each_division(const Expr& e, const std::function<void(const sym::Node&)>& visit) {
  if (e.is_const()) return;
  const sym::Node& n = *e.node();
  if (n.kind == sym::Kind::FloorDiv || n.kind == sym::Kind::Mod) visit(n);
  for (auto& t : n.terms)
    for (auto& f : t.factors) for_each_division(f, visit);
  for (auto& a : n.args) for_each_division(a, visit);
}

int count_divisions(const Body& b) {
  int count = 0;
  for (auto& s : b.steps)
    if (has_index(s)) for_each_division(s.index, [&](const sym::Node&) { ++count; });
  return count;
}

void drop_unit_variables(Domain& d, Body& b) {
  for (size_t i = 0; i < d.vars.size();) {
    if (d.vars[i].extent() == Expr(1)) {
      b = replace(b, d.vars[i].symbol, 0);
      bool last_reduction = d.vars[i].reduction && std::count_if(d.vars.begin(), d.vars.end(), [](auto& v) { return v.reduction; }) == 1;
      bool reduces = std::any_of(b.steps.begin(), b.steps.end(), [](auto& s) { return s.step == Step::Reduce || s.step == Step::Scan; });
      if (last_reduction && reduces) {
        ++i;  // a reduction or scan needs something to run over
        continue;
      }
      d.vars.erase(d.vars.begin() + static_cast<long>(i));
    } else {
      ++i;
    }
  }
}

// Inner extents at which splitting the variable could resolve a division, smallest first.
std::vector<Expr> split_points(const Body& b, const loop::Var& v) {
  std::vector<Expr> points;
  for (auto& s : b.steps) {
    if (!has_index(s)) continue;
    for_each_division(s.index, [&](const sym::Node& n) {
      auto c = sym::linear_coefficient(n.args[0], v.symbol);
      if (!c || *c == Expr(0)) return;
      Expr at = n.args[1];
      if (auto k = c->maybe_constant(); k && *k > 1) {
        if (!sym::known_multiple(at, *k)) return;
        at = sym::floor_div(at, *k);
      } else if (!k || *k != 1) {
        return;
      }
      if (at == v.extent() || at == Expr(1) || !sym::known_multiple(v.extent(), at)) return;
      if (std::find(points.begin(), points.end(), at) == points.end()) points.push_back(at);
    });
  }
  std::stable_sort(points.begin(), points.end(), [](const Expr& x, const Expr& y) { return sym::bounds(x).hi < sym::bounds(y).hi; });
  return points;
}

// One split that lowers the number of divisions, if there is one.
bool split_one(Domain& d, Body& b) {
  int before = count_divisions(b);
  if (before == 0) return false;
  for (size_t i = 0; i < d.vars.size(); ++i) {
    for (const Expr& at : split_points(b, d.vars[i])) {
      Expr outer = sym::loop_symbol("outer", sym::floor_div(d.vars[i].extent(), at));
      Expr inner = sym::loop_symbol("inner", at);
      Body changed = replace(b, d.vars[i].symbol, outer * at + inner);
      if (count_divisions(changed) >= before) continue;
      b = std::move(changed);
      bool reduction = d.vars[i].reduction;
      d.vars[i] = {outer, reduction};
      d.vars.insert(d.vars.begin() + static_cast<long>(i) + 1, {inner, reduction});
      return true;
    }
  }
  return false;
}

bool can_merge(const Body& b, const loop::Var& outer, const loop::Var& inner) {
  for (auto& s : b.steps) {
    if (!has_index(s)) continue;
    auto co = sym::linear_coefficient(s.index, outer.symbol), ci = sym::linear_coefficient(s.index, inner.symbol);
    if (!co || !ci || (!(*co == *ci * inner.extent()) && !(mutant(Mutant::MergedLoops) && s.step == Step::Load))) return false;
  }
  return true;
}

void merge_all(Domain& d, Body& b) {
  for (size_t i = 0; i < d.vars.size();) {
    size_t j = i + 1;
    while (j < d.vars.size() && d.vars[j].reduction != d.vars[i].reduction) ++j;
    if (j == d.vars.size() || !can_merge(b, d.vars[i], d.vars[j])) {
      ++i;
      continue;
    }
    Expr merged = sym::loop_symbol("merged", d.vars[i].extent() * d.vars[j].extent());
    b = replace(replace(b, d.vars[i].symbol, 0), d.vars[j].symbol, merged);
    d.vars[j].symbol = merged;
    d.vars.erase(d.vars.begin() + static_cast<long>(i));
    i = 0;
  }
}

}  // namespace

void simplify(Domain& d, Body& b) {
  drop_unit_variables(d, b);
  for (int i = 0; i < 8 && split_one(d, b); ++i) continue;
  merge_all(d, b);
  // Names and order by position, so that equal nodes give equal text.
  loop::VarMap<Expr> named;
  for (bool reduction : {false, true}) {
    int count = 0;
    for (auto& v : d.vars) {
      if (v.reduction != reduction) continue;
      const Expr own = sym::loop_symbol((reduction ? "r" : "i") + std::to_string(count++), v.extent());
      named[v.symbol] = own;
      v.symbol = own;
    }
  }
  b = loop::substitute(b, loop::replacing(named));
}

namespace {

// An address where `last` is run * width + place.
Expr over_runs(const Expr& e, const Expr& last, const Expr& run, const Expr& place, int64_t width) {
  if (!sym::depends_on(e, last)) return e;
  const sym::Node& n = *e.node();
  auto inner = [&](const Expr& x) { return over_runs(x, last, run, place, width); };
  switch (n.kind) {
    case sym::Kind::Symbol:
      return run * Expr(width) + place;
    case sym::Kind::Poly: {
      Expr sum = 0;
      for (auto& t : n.terms) {
        Expr product = t.coef;
        for (auto& f : t.factors) product = product * inner(f);
        sum = sum + product;
      }
      return sum;
    }
    case sym::Kind::FloorDiv:
    case sym::Kind::Mod: {
      const Expr &x = n.args[0], &by = n.args[1], rest = x - last;
      const bool divides = n.kind == sym::Kind::FloorDiv;
      if (by.is_const() && by.constant() % width == 0 && !sym::depends_on(rest, last) && sym::known_multiple(rest, width)) {
        const Expr whole = sym::floor_div(rest, width) + run, part(by.constant() / width);
        return divides ? sym::floor_div(whole, part) : sym::mod(whole, part) * Expr(width) + place;
      }
      return divides ? sym::floor_div(inner(x), inner(by)) : sym::mod(inner(x), inner(by));
    }
    default:
      return n.kind == sym::Kind::Min ? sym::min(inner(n.args[0]), inner(n.args[1])) : sym::max(inner(n.args[0]), inner(n.args[1]));
  }
}

}  // namespace

bool split_in_runs(Domain& d, Body& b, int64_t width) {
  const Expr last = d.vars.back().symbol, extent = d.vars.back().extent();
  const bool linear =
      std::all_of(b.steps.begin(), b.steps.end(), [&](const Statement& s) { return sym::linear_coefficient(s.index, last).has_value(); });
  if (linear || !sym::known_multiple(extent, width)) return false;
  const Expr run = sym::loop_symbol("run", sym::floor_div(extent, width)), place = sym::loop_symbol("place", width);
  for (Statement& s : b.steps) s.index = over_runs(s.index, last, run, place, width);
  d.vars.back() = {run, false};
  d.vars.push_back({place, false});
  return true;
}

std::vector<bool> depends_on_variable(const Domain& d, const Body& b, const Expr& variable) {
  bool reduction = false;
  for (auto& v : d.vars) reduction = reduction || (v.symbol == variable && v.reduction);
  std::vector<bool> depends(b.steps.size(), false);
  for (size_t k = 0; k < b.steps.size(); ++k) {
    const Statement& s = b.steps[k];
    if (s.step == Step::Reduce && reduction) continue;
    bool yes = sym::depends_on(s.index, variable) || s.step == Step::Accumulate || (s.step == Step::Scan && reduction);
    for_each_use(s, [&](size_t u) { yes = yes || depends[u]; });
    depends[k] = yes;
  }
  return depends;
}

}  // namespace toroid::codegen
