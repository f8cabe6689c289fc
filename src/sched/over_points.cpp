#include "sched/over_points.h"

#include <algorithm>

#include "sched/domain_map.h"

namespace toroid::sched {
namespace {

using loop::Body;
using loop::Statement;
using loop::Step;

// A variable that takes part in a flat index, which is the sum of (variable + first) * stride.
struct Digit {
  Expr variable;  // a loop symbol
  int64_t stride = 0, first = 0;
  const Expr& extent() const { return variable.node()->extent; }
};

// The digits of an index, the largest stride first; nothing where it is not linear in them, or where they overlap.
std::optional<std::vector<Digit>> digits_of(const Expr& index, const std::vector<Expr>& variables) {
  std::vector<Digit> digits;
  Expr rest = index;
  for (auto& v : variables) {
    if (v.node()->extent == Expr(1)) continue;
    const auto c = sym::linear_coefficient(index, v);
    if (!c || !c->is_const() || c->constant() <= 0) return std::nullopt;
    digits.push_back({v, c->constant()});
    rest = rest - *c * v;
  }
  if (!rest.is_const() || rest.constant() < 0 || digits.empty()) return std::nullopt;
  std::stable_sort(digits.begin(), digits.end(), [](auto& x, auto& y) { return x.stride > y.stride; });
  int64_t left = rest.constant();
  for (size_t k = 0; k < digits.size(); ++k) {
    digits[k].first = left / digits[k].stride;
    left %= digits[k].stride;
    if (k == 0) continue;
    const int64_t radix = digits[k - 1].stride / digits[k].stride;
    const bool fits = digits[k - 1].stride % digits[k].stride == 0 && digits[k].extent().is_const() &&
                      digits[k].first + digits[k].extent().constant() <= radix;
    if (!fits) return std::nullopt;
  }
  return left == 0 && digits.back().stride == 1 ? std::optional(digits) : std::nullopt;
}

// A division or remainder of `variable + first` by a constant.
struct Division {
  int64_t first = 0, by = 0;
};
void find_divisions(const Expr& e, const Expr& variable, std::vector<Division>& found) {
  if (e.is_const()) return;
  const sym::Node& n = *e.node();
  for (auto& t : n.terms)
    for (auto& f : t.factors) find_divisions(f, variable, found);
  if ((n.kind == sym::Kind::FloorDiv || n.kind == sym::Kind::Mod) && n.args[1].is_const() && sym::depends_on(n.args[0], variable)) {
    const Expr rest = n.args[0] - variable;
    if (rest.is_const()) found.push_back({rest.constant(), n.args[1].constant()});
  }
  for (auto& x : n.args) find_divisions(x, variable, found);
}

// The reader's body where each variable is what `values` says, done only where `conditions` (each at least 0) hold; its loads of `buffer`
// are those of the element at `place`.
Body body_over(const Body& from, const VarMap& values, const std::vector<Expr>& conditions, int buffer, const Expr& place) {
  const Body renamed = loop::substitute(from, loop::replacing(values));
  Body out;
  loop::BodyBuilder b(out);
  std::optional<S> inside;
  for (auto& c : conditions) {
    const S holds = b.index(c) >= 0.0;
    inside = inside ? *inside & holds : holds;
  }
  const int shift = static_cast<int>(out.steps.size());
  std::vector<int> to;
  for (Statement s : renamed.steps) {
    for (int& x : s.args)
      if (x >= 0) x = to[static_cast<size_t>(x)];
    if (s.mask >= 0) s.mask = to[static_cast<size_t>(s.mask)];
    if (shift > 0)
      s.index = sym::substitute(s.index, [&](const sym::Node& n) -> std::optional<Expr> {
        const int k = loop::step_of_symbol(n);
        return k < 0 ? std::nullopt : std::optional(loop::value_symbol(to[static_cast<size_t>(k)], n.lo, n.hi));
      });
    const bool handed = s.step == Step::Load && s.buffer == buffer;
    if (handed) s.index = place;
    if (inside && !handed && (s.step == Step::Load || s.step == Step::Store || s.step == Step::Check)) {
      S mask = *inside;
      if (s.mask >= 0) mask = mask & S{&b, s.mask, DType::Bool};
      s.mask = mask.id;
    }
    to.push_back(static_cast<int>(out.steps.size()));
    out.steps.push_back(std::move(s));
  }
  return out;
}

// The one element that both know: where the writer stores it, without gaps, and where the reader loads it.
struct HandedOver {
  const Statement *store = nullptr, *read = nullptr;
  std::vector<Digit> stored;
};

std::optional<HandedOver> handed_over(const program::Node& a, const program::Node& b) {
  HandedOver h;
  const std::vector<int> written = loop::buffers_written(a.body);
  for (auto& s : b.body.steps) {
    if (s.step != Step::Load || std::find(written.begin(), written.end(), s.buffer) == written.end()) continue;
    if (h.read && (h.read->buffer != s.buffer || !(h.read->index == s.index))) return std::nullopt;
    if (s.mask >= 0 || loop::uses_values(s.index)) return std::nullopt;
    h.read = &s;
  }
  for (auto& s : a.body.steps)
    if (h.read && s.step == Step::Store && s.buffer == h.read->buffer) {
      if (h.store || s.mask >= 0 || s.mode != loop::StoreMode::Set) return std::nullopt;
      h.store = &s;
    }
  if (!h.store) return std::nullopt;
  std::vector<Expr> points;
  for (auto& v : a.domain.vars) points.push_back(v.symbol);
  auto stored = digits_of(h.store->index, points);
  if (!stored) return std::nullopt;
  for (size_t k = 0; k < stored->size(); ++k) {
    const Digit& d = (*stored)[k];
    if (d.first != 0 || (k > 0 && d.extent().constant() * d.stride != (*stored)[k - 1].stride)) return std::nullopt;
  }
  h.stored = std::move(*stored);
  return h;
}

// The reader's variables, those that its index divides in two.
struct Divided {
  Expr variable, outer, inner;  // variable = outer * by + inner - first
  Division how;
};
struct Variables {
  std::vector<Expr> all;
  std::vector<Divided> divided;
  std::vector<Digit> seen;  // of the index
};

std::optional<Variables> variables_of(const program::Node& b, const Expr& index) {
  Variables out;
  VarMap parts;
  for (auto& v : b.domain.vars) {
    std::vector<Division> found;
    find_divisions(index, v.symbol, found);
    if (found.empty()) {
      out.all.push_back(v.symbol);
      continue;
    }
    const Division d = found[0];
    if (d.first < 0 || d.by <= 0) return std::nullopt;
    const std::string name = v.symbol.node()->name;
    const Expr outer = sym::loop_symbol(name + "_outer", sym::ceil_div(v.extent() + d.first, d.by));
    const Expr inner = sym::loop_symbol(name + "_inner", d.by);
    parts[v.symbol] = outer * Expr(d.by) + inner - Expr(d.first);
    out.all.insert(out.all.end(), {outer, inner});
    out.divided.push_back({v.symbol, outer, inner, d});
  }
  const Expr by_parts = sym::substitute(index, loop::replacing(parts));
  auto seen = digits_of(by_parts, out.all);
  if (!seen) return std::nullopt;
  out.seen = std::move(*seen);
  return out;
}

// What the reader's variables are at a point, where all conditions are at least 0.
struct AtPoint {
  VarMap values;
  std::vector<Expr> conditions;
};

std::optional<AtPoint> at_point(const HandedOver& h, const Variables& variables) {
  AtPoint out;
  const Expr total = h.stored[0].extent() * Expr(h.stored[0].stride);
  for (auto& v : variables.all)
    if (v.node()->extent == Expr(1)) out.values[v] = 0;
  for (size_t k = 0; k < variables.seen.size(); ++k) {
    const Digit& d = variables.seen[k];
    Expr value = sym::floor_div(h.store->index, d.stride), last = d.extent() + Expr(d.first);
    bool whole = last * Expr(d.stride) == total;
    if (k == 0 && !sym::known_ge(total, last * Expr(d.stride))) return std::nullopt;
    if (k > 0) {
      const int64_t radix = variables.seen[k - 1].stride / d.stride;
      value = sym::mod(value, radix);
      whole = last == Expr(radix);
    }
    value = value - Expr(d.first);
    out.values[d.variable] = value;
    if (d.first > 0) out.conditions.push_back(value);
    if (!whole) out.conditions.push_back(d.extent() - 1 - value);
  }
  for (auto& [v, outer, inner, d] : variables.divided) {
    const Expr value = out.values.at(outer) * Expr(d.by) + out.values.at(inner) - Expr(d.first);
    out.values[v] = value;
    if (d.first > 0) out.conditions.push_back(value);
    if (!sym::known_multiple(v.node()->extent + d.first, d.by)) out.conditions.push_back(v.node()->extent - 1 - value);
  }
  return out;
}

}  // namespace

std::optional<program::Node> over_points(const program::Node& a, const program::Node& b) {
  const auto handed = handed_over(a, b);
  if (!handed) return std::nullopt;
  const auto variables = variables_of(b, handed->read->index);
  if (!variables) return std::nullopt;
  const auto there = at_point(*handed, *variables);
  if (!there) return std::nullopt;
  // Neighbours stay neighbours; in other orders loops are faster, which move squares of elements, but not where phases alternate.
  const Expr& along = variables->seen.back().variable;
  for (auto& s : b.body.steps) {
    if (s.step != Step::Store || !variables->divided.empty()) continue;
    const auto c = sym::linear_coefficient(s.index, along);
    if (!c || !(*c == Expr(1))) return std::nullopt;
  }
  program::Node out = b;
  out.domain = a.domain;
  out.body = body_over(b.body, there->values, there->conditions, handed->read->buffer, handed->store->index);
  return out;
}

}  // namespace toroid::sched
