// Walks over expressions: evaluation, substitution, symbols, linear coefficients, relations.
#include <algorithm>

#include "base/check.h"
#include "toroid/sym_expr.h"

namespace toroid::sym {

int64_t evaluate(const Expr& e, const Lookup& lookup) {
  if (e.is_const()) return e.constant();
  const Node& n = *e.node();
  auto arg = [&](int i) { return evaluate(n.args[static_cast<size_t>(i)], lookup); };
  switch (n.kind) {
    case Kind::Symbol:
      return lookup(n);
    case Kind::Poly: {
      Expr sum = 0;  // numbers, which stay within 64 bits
      for (auto& t : n.terms) {
        Expr p = t.coef;
        for (auto& f : t.factors) p = p * evaluate(f, lookup);
        sum = sum + p;
      }
      return sum.constant();
    }
    case Kind::Min:
      return std::min(arg(0), arg(1));
    case Kind::Max:
      return std::max(arg(0), arg(1));
    default: {
      int64_t a = arg(0), b = arg(1);
      TOROID_USER_CHECK(b != 0, "division by zero while evaluating the size expression {}", to_string(e));
      return (n.kind == Kind::FloorDiv ? floor_div(a, b) : mod(a, b)).constant();
    }
  }
}

Expr substitute(const Expr& e, const Substitution& replace) {
  if (e.is_const()) return e;
  const Node& n = *e.node();
  switch (n.kind) {
    case Kind::Symbol: {
      auto r = replace(n);
      return r ? *r : e;
    }
    case Kind::Poly: {
      Expr sum = 0;
      for (auto& t : n.terms) {
        Expr p(t.coef);
        for (auto& f : t.factors) p = p * substitute(f, replace);
        sum = sum + p;
      }
      return sum;
    }
    default: {
      Expr a = substitute(n.args[0], replace), b = substitute(n.args[1], replace);
      switch (n.kind) {
        case Kind::FloorDiv:
          return floor_div(a, b);
        case Kind::Mod:
          return mod(a, b);
        case Kind::Min:
          return min(a, b);
        default:
          return max(a, b);
      }
    }
  }
}

void for_each_symbol(const Expr& e, const std::function<void(const Expr&)>& visit) {
  if (e.is_const()) return;
  const Node& n = *e.node();
  if (n.kind == Kind::Symbol) return visit(e);
  for (auto& t : n.terms)
    for (auto& f : t.factors) for_each_symbol(f, visit);
  for (auto& a : n.args) for_each_symbol(a, visit);
}

bool depends_on(const Expr& e, const Expr& symbol) {
  bool found = false;
  for_each_symbol(e, [&](const Expr& s) { found = found || s == symbol; });
  return found;
}

std::optional<Expr> linear_coefficient(const Expr& e, const Expr& symbol) {
  if (!depends_on(e, symbol)) return Expr(0);
  if (e == symbol) return Expr(1);
  if (e.kind() != Kind::Poly) return std::nullopt;
  Expr coefficient = 0;
  for (auto& t : e.node()->terms) {
    Expr c(t.coef);
    int uses = 0;
    for (auto& f : t.factors) {
      if (f == symbol)
        ++uses;
      else if (depends_on(f, symbol))
        return std::nullopt;
      else
        c = c * f;
    }
    if (uses > 1) return std::nullopt;
    if (uses == 1) coefficient = coefficient + c;
  }
  return coefficient;
}

std::optional<bool> known(const Relation& r) {
  auto negate = [](std::optional<bool> v) { return v ? std::optional<bool>(!*v) : v; };
  switch (r.rel) {
    case Rel::Eq:
      if (r.a == r.b) return true;
      if (known_lt(r.a, r.b) || known_lt(r.b, r.a)) return false;
      return std::nullopt;
    case Rel::Ne:
      return negate(known({Rel::Eq, r.a, r.b}));
    case Rel::Ge:
      if (known_ge(r.a, r.b)) return true;
      if (known_lt(r.a, r.b)) return false;
      return std::nullopt;
    case Rel::Lt:
      return negate(known({Rel::Ge, r.a, r.b}));
    case Rel::Le:
      return known({Rel::Ge, r.b, r.a});
    default:
      return negate(known({Rel::Ge, r.b, r.a}));
  }
}

bool holds(const Relation& r, const Lookup& lookup) {
  int64_t a = evaluate(r.a, lookup), b = evaluate(r.b, lookup);
  switch (r.rel) {
    case Rel::Eq:
      return a == b;
    case Rel::Ne:
      return a != b;
    case Rel::Lt:
      return a < b;
    case Rel::Le:
      return a <= b;
    case Rel::Gt:
      return a > b;
    default:
      return a >= b;
  }
}

}  // namespace toroid::sym
