#include "sched/domain_map.h"

#include <algorithm>

#include "base/mutants.h"

namespace toroid::sched {

using loop::Domain;
using loop::Var;

namespace {

// A stretch of consecutive variables on both sides with equal numbers of points.
struct Segment {
  std::vector<Var> first, second;
};

std::optional<std::vector<Segment>> segments(const std::vector<Var>& a, const std::vector<Var>& b) {
  std::vector<Segment> out;
  size_t i = a.size(), j = b.size();
  while (i > 0 || j > 0) {
    Segment s;
    Expr pa = 1, pb = 1;
    auto take = [](const std::vector<Var>& from, size_t& at, std::vector<Var>& to, Expr& product) {
      if (at == 0) return false;
      --at;
      to.insert(to.begin(), from[at]);
      product = product * from[at].extent();
      return true;
    };
    if (i > 0) take(a, i, s.first, pa);
    if (j > 0) take(b, j, s.second, pb);
    while (!(pa == pb)) {
      bool grow_first = sym::known_multiple(pb, pa), grow_second = sym::known_multiple(pa, pb);
      if (pa.is_const() && pb.is_const()) grow_first = pa.constant() < pb.constant(), grow_second = !grow_first;
      if (grow_first ? !take(a, i, s.first, pa) : !grow_second || !take(b, j, s.second, pb)) return std::nullopt;
    }
    out.insert(out.begin(), std::move(s));
  }
  return out;
}

// Expresses variables `to` by the variables `from` that run over the same points in the same order.
void express(const std::vector<Var>& to, const std::vector<Var>& from, VarMap& map) {
  Expr flat = 0, step = 1;
  for (size_t k = from.size(); k-- > 0;) {
    flat = flat + from[k].symbol * step;
    step = step * from[k].extent();
  }
  step = 1;
  for (size_t k = to.size(); k-- > 0;) {
    Expr e = sym::floor_div(flat, step);
    map[to[k].symbol] = k == 0 || mutant(Mutant::LostModulo) ? e : sym::mod(e, to[k].extent());
    step = step * to[k].extent();
  }
}

void keep(const std::vector<Var>& vars, VarMap& map) {
  for (auto& v : vars) map[v.symbol] = v.symbol;
}

// -1: mixed, 0: all space, 1: all reduction.
int kind_of(const std::vector<Var>& vars) {
  int kind = vars.empty() ? 0 : vars[0].reduction;
  for (auto& v : vars)
    if (v.reduction != static_cast<bool>(kind)) return -1;
  return kind;
}

std::optional<Match> join(const std::vector<Segment>& parts, bool first_reduces, bool second_reduces, bool first_fixed) {
  Match m;
  for (auto& s : parts) {
    int ka = kind_of(s.first), kb = kind_of(s.second);
    if (ka < 0 || kb < 0) return std::nullopt;
    if (!mutant(Mutant::MixedKinds) && first_reduces && second_reduces && ka != kb) return std::nullopt;
    if (first_reduces && !second_reduces && kb == 1) return std::nullopt;
    bool reduction = ka || kb;
    bool take_first = first_fixed || s.first.size() >= s.second.size();
    const auto& finer = take_first ? s.first : s.second;
    if (!first_fixed && s.first.size() > 1 && s.second.size() > 1) {
      bool equal = s.first.size() == s.second.size();
      for (size_t k = 0; equal && k < s.first.size(); ++k) equal = s.first[k].extent() == s.second[k].extent();
      if (!equal) return std::nullopt;
    }
    keep(finer, take_first ? m.first : m.second);
    express(take_first ? s.second : s.first, finer, take_first ? m.second : m.first);
    for (Var v : finer) {
      v.reduction = reduction;
      m.joint.vars.push_back(v);
    }
  }
  return m;
}

std::vector<Var> without_ones(const std::vector<Var>& vars, VarMap& map) {
  std::vector<Var> out;
  for (auto& v : vars) {
    if (v.extent() == Expr(1))
      map[v.symbol] = 0;
    else
      out.push_back(v);
  }
  return out;
}

}  // namespace

std::optional<Match> match_domains(const Domain& first, const Domain& second, bool first_fixed) {
  VarMap ones_first, ones_second;
  std::vector<Var> a = without_ones(first.vars, ones_first), b = without_ones(second.vars, ones_second);
  bool first_reduces = loop::has_reduction(first), second_reduces = loop::has_reduction(second);
  auto finish = [&](std::optional<Match> m) {
    if (!m) return m;
    m->first.insert(ones_first);
    m->second.insert(ones_second);
    if (first_fixed) {
      m->joint = first;
      keep(first.vars, m->first);
    }
    return m;
  };
  if (auto parts = segments(a, b))
    if (auto m = join(*parts, first_reduces, second_reduces, first_fixed)) return finish(std::move(m));
  if (first_reduces == second_reduces) return std::nullopt;
  // One reduces, the other runs over its space points.
  std::vector<Var> space, reduction;
  for (auto& v : first_reduces ? a : b) (v.reduction ? reduction : space).push_back(v);
  auto parts = first_reduces ? segments(space, b) : segments(a, space);
  if (!parts) return std::nullopt;
  auto m = join(*parts, false, false, first_fixed);
  if (!m) return std::nullopt;
  // The space variables may have been refined; the reduction variables keep their nominal place relative to the originals.
  const auto& reducing = first_reduces ? a : b;
  const auto& map = first_reduces ? m->first : m->second;
  loop::Domain joint;
  size_t next = 0;
  for (auto& v : reducing) {
    if (v.reduction) {
      joint.vars.push_back(v);
      continue;
    }
    const Expr& e = map.at(v.symbol);
    while (next < m->joint.vars.size() && sym::depends_on(e, m->joint.vars[next].symbol)) joint.vars.push_back(m->joint.vars[next++]);
  }
  while (next < m->joint.vars.size()) joint.vars.push_back(m->joint.vars[next++]);
  m->joint = std::move(joint);
  keep(reduction, first_reduces ? m->first : m->second);
  return finish(std::move(m));
}

bool divides(const Expr& e) {
  if (e.is_const()) return false;
  const sym::Node& n = *e.node();
  if (n.kind == sym::Kind::FloorDiv || n.kind == sym::Kind::Mod) return true;
  return std::any_of(n.args.begin(), n.args.end(), divides) ||
         std::any_of(n.terms.begin(), n.terms.end(), [](auto& t) { return std::any_of(t.factors.begin(), t.factors.end(), divides); });
}

std::optional<VarMap> point_at(const loop::Domain& d, const Expr& place, const Expr& at) {
  std::vector<std::pair<int64_t, const loop::Var*>> order;  // by the distance of neighbours
  VarMap out;
  Expr zero = place;
  for (auto& v : d.vars) {
    const auto apart = sym::linear_coefficient(place, v.symbol);
    if (!apart || !apart->is_const() || !v.extent().is_const()) return std::nullopt;
    zero = zero - v.symbol * *apart;
    if (v.extent() == Expr(1))
      out[v.symbol] = 0;
    else
      order.emplace_back(apart->constant(), &v);
  }
  if (!(zero == Expr(0))) return std::nullopt;
  std::sort(order.begin(), order.end(), [](auto& a, auto& b) { return a.first < b.first; });
  int64_t next = 1;
  Expr rest = at;  // in units of `next`
  for (size_t i = 0; i < order.size(); ++i) {
    auto& [apart, v] = order[i];
    if (apart != next) return std::nullopt;
    next *= v->extent().constant();
    out[v->symbol] = i + 1 == order.size() ? rest : sym::mod(rest, v->extent());
    rest = sym::floor_div(rest, v->extent());
  }
  return out;
}

std::optional<loop::Var> variable_along(const loop::Domain& d, const VarMap& map, const Expr& column) {
  std::optional<loop::Var> out;
  for (auto& v : d.vars) {
    if (v.extent() == Expr(1)) continue;
    const Expr& at = map.at(v.symbol);
    if (v.reduction ? sym::depends_on(at, column) : !(at == column)) return std::nullopt;
    if (!v.reduction) out = v;
  }
  return out;
}

loop::Body rename(const loop::Body& body, const VarMap& map) { return loop::substitute(body, loop::replacing(map)); }

std::optional<program::Node> flattened(const program::Node& n) {
  const auto rows = loop::space_size(n.domain).maybe_constant(), columns = loop::reduction_size(n.domain).maybe_constant();
  if (!rows || !columns || *rows <= 1 || *columns <= 1) return std::nullopt;
  if (n.domain.vars.size() == 2 && !n.domain.vars[0].reduction) return n;
  program::Node out = n;
  const loop::Var row{sym::loop_symbol("row", *rows), false}, column{sym::loop_symbol("column", *columns), true};
  out.domain.vars = {row, column};
  VarMap map;
  Expr apart[2] = {1, 1};  // of a row's and of a column's number
  for (size_t v = n.domain.vars.size(); v-- > 0;) {
    const loop::Var& var = n.domain.vars[v];
    const Expr &whole = (var.reduction ? column : row).symbol, of = var.reduction ? *columns : *rows;
    Expr& step = apart[var.reduction];
    const Expr at = sym::floor_div(whole, step);
    step = step * var.extent();
    map[var.symbol] = step == of ? at : sym::mod(at, var.extent());
  }
  out.body = rename(n.body, map);
  return out;
}

}  // namespace toroid::sched
