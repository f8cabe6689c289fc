#include <algorithm>
#include <atomic>
#include <limits>
#include <span>

#include "base/check.h"
#include "toroid/sym_expr.h"

namespace toroid::sym {
namespace {

uint64_t mix(uint64_t h, uint64_t v) {
  h ^= v + 0x9e3779b97f4a7c15ULL + (h << 12) + (h >> 4);
  return h * 0xff51afd7ed558ccdULL;
}

int64_t clamp(__int128 v) { return v > kInf ? kInf : v < -kInf ? -kInf : static_cast<int64_t>(v); }

// Bounds arithmetic saturates at +-kInf, which stand for "unknown".
int64_t sat_add(int64_t a, int64_t b) {
  if (a == kInf || b == kInf) return kInf;
  if (a == -kInf || b == -kInf) return -kInf;
  return clamp(static_cast<__int128>(a) + b);
}
int64_t sat_mul(int64_t a, int64_t b) { return clamp(static_cast<__int128>(a) * b); }

// Numbers that leave 64 bits stay at the end: no size is as large, and comparisons with such numbers come out right.
constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();
int64_t plus(int64_t a, int64_t b) {
  int64_t out;
  return __builtin_add_overflow(a, b, &out) ? (a < 0 ? -kEnd : kEnd) : out;
}
int64_t times(int64_t a, int64_t b) {
  int64_t out;
  return __builtin_mul_overflow(a, b, &out) ? ((a < 0) != (b < 0) ? -kEnd : kEnd) : out;
}

Bounds mul(Bounds a, Bounds b) {
  int64_t p[] = {sat_mul(a.lo, b.lo), sat_mul(a.lo, b.hi), sat_mul(a.hi, b.lo), sat_mul(a.hi, b.hi)};
  return {*std::min_element(p, p + 4), *std::max_element(p, p + 4)};
}

int64_t floor_div_int(int64_t a, int64_t b) {
  if (b == -1) return times(a, -1);
  int64_t q = a / b;
  return (a % b != 0 && ((a < 0) != (b < 0))) ? q - 1 : q;
}

int compare(const Expr& a, const Expr& b);

int compare_factors(const Factors& a, const Factors& b) {
  if (a.size() != b.size()) return a.size() < b.size() ? 1 : -1;  // higher degree first, the constant last
  for (size_t i = 0; i < a.size(); ++i)
    if (int c = compare(a[i], b[i])) return c;
  return 0;
}

int compare_symbols(const Node& x, const Node& y) {
  if (x.symbol != y.symbol) return x.symbol < y.symbol ? -1 : 1;
  if (x.symbol == SymbolKind::Size) return x.name.compare(y.name);
  return x.id < y.id ? -1 : x.id > y.id;
}

// A total order that does not depend on addresses, so that printed forms are stable.
int compare(const Expr& a, const Expr& b) {
  if (a.node() == b.node() && (a.node() || a == b)) return 0;
  if (a.kind() != b.kind()) return a.kind() < b.kind() ? -1 : 1;
  if (a.is_const()) return a.constant() < b.constant() ? -1 : a.constant() > b.constant();
  const Node &x = *a.node(), &y = *b.node();
  switch (x.kind) {
    case Kind::Symbol:
      return compare_symbols(x, y);
    case Kind::Poly:
      if (x.terms.size() != y.terms.size()) return x.terms.size() < y.terms.size() ? -1 : 1;
      for (size_t i = 0; i < x.terms.size(); ++i) {
        if (int c = compare_factors(x.terms[i].factors, y.terms[i].factors)) return c;
        if (x.terms[i].coef != y.terms[i].coef) return x.terms[i].coef < y.terms[i].coef ? -1 : 1;
      }
      return 0;
    default:
      for (size_t i = 0; i < x.args.size(); ++i)
        if (int c = compare(x.args[i], y.args[i])) return c;
      return 0;
  }
}

// The terms of an expression as a polynomial, in order. The expression outlives this view of it.
class Terms {
 public:
  explicit Terms(const Expr& e) {
    if (e.kind() == Kind::Poly) {
      first_ = e.node()->terms.data(), size_ = e.node()->terms.size();
      return;
    }
    if (e.is_const())
      one_.coef = e.constant();
    else
      one_.factors.push_back(e);
    size_ = one_.coef != 0;
  }
  explicit Terms(Expr&&) = delete;
  Terms(const Terms&) = delete;
  size_t size() const { return size_; }
  const Term* begin() const { return first_; }
  const Term* end() const { return first_ + size_; }
  const Term& operator[](size_t i) const { return first_[i]; }

 private:
  Term one_{1, {}};
  const Term* first_ = &one_;
  size_t size_ = 0;
};

Bounds term_bounds(const Term& t) {
  Bounds b{t.coef, t.coef};
  for (size_t i = 0; i < t.factors.size();) {
    size_t j = i;
    Bounds f = bounds(t.factors[i]), p = f;
    while (++j < t.factors.size() && t.factors[j] == t.factors[i]) {
      p = mul(p, f);
      if ((j - i) % 2 == 1 && p.lo < 0) p.lo = 0;  // an even power
    }
    b = mul(b, p);
    i = j;
  }
  return b;
}

Expr make_node(Node n) { return Expr(std::make_shared<const Node>(std::move(n))); }

Expr make_atom(Kind kind, Expr a, Expr b, Bounds range) {
  Node n{.kind = kind,
         .hash = mix(mix(static_cast<uint64_t>(kind) * 0x51ed27, a.hash()), b.hash()),
         .lo = range.lo,
         .hi = range.hi,
         .name = {},
         .extent = {},
         .terms = {},
         .args = {}};
  n.args = {std::move(a), std::move(b)};
  return make_node(std::move(n));
}

// b * floor(x / b) + x mod b = x: joins such pairs of terms. Returns whether it changed anything.
bool join_div_mod(std::vector<Term>& terms) {
  for (size_t i = 0; i < terms.size(); ++i) {
    for (size_t f = 0; f < terms[i].factors.size(); ++f) {
      Expr m = terms[i].factors[f];
      if (m.kind() != Kind::Mod) continue;
      Factors others = terms[i].factors;
      others.erase(f);
      Expr rest(terms[i].coef);
      for (auto& o : others) rest = rest * o;
      Expr x = m.node()->args[0], b = m.node()->args[1];
      Expr wanted = rest * b * floor_div(x, b);
      const Terms w(wanted);
      if (w.size() != 1) continue;
      for (size_t j = 0; j < terms.size(); ++j) {
        if (j == i || terms[j].coef != w[0].coef || compare_factors(terms[j].factors, w[0].factors) != 0) continue;
        const Expr sum = rest * x;
        const Terms joined(sum);
        terms.erase(terms.begin() + static_cast<long>(std::max(i, j)));
        terms.erase(terms.begin() + static_cast<long>(std::min(i, j)));
        terms.insert(terms.end(), joined.begin(), joined.end());
        return true;
      }
    }
  }
  return false;
}

// The place of the term of these factors; none: there is none but perhaps that at `except`.
std::optional<size_t> find_term(const std::vector<Term>& terms, const Factors& factors, size_t except) {
  for (size_t j = 0; j < terms.size(); ++j)
    if (j != except && compare_factors(terms[j].factors, factors) == 0) return j;
  return std::nullopt;
}

// x - min(x, y) = max(0, x - y) and max(x, y) - x = max(0, y - x): joins a choice, times `rest`, with the terms of its argument x. What is
// behind the first element of a dimension has one form then, whether its length was limited first or subtracted first.
bool join_choice(std::vector<Term>& terms, size_t choice, const Expr& rest, const Expr& x, const Expr& y, Kind kind) {
  std::vector<size_t> gone{choice};
  Expr constant = 0;
  const Expr taken = rest * x;
  for (auto& t : Terms(taken)) {
    if (t.factors.empty()) {
      constant = t.coef;
      continue;
    }
    const auto at = find_term(terms, t.factors, choice);
    if (!at || terms[*at].coef != times(t.coef, -1)) return false;
    gone.push_back(*at);
  }
  const Expr joined = (kind == Kind::Min ? -rest * max(0, x - y) : rest * max(0, y - x)) + constant;
  std::sort(gone.begin(), gone.end());
  for (size_t i = gone.size(); i-- > 0;) terms.erase(terms.begin() + static_cast<std::ptrdiff_t>(gone[i]));
  const Terms of_joined(joined);
  terms.insert(terms.end(), of_joined.begin(), of_joined.end());
  return true;
}

// Returns whether it changed anything.
bool join_choices(std::vector<Term>& terms) {
  for (size_t i = 0; i < terms.size(); ++i)
    for (size_t f = 0; f < terms[i].factors.size(); ++f) {
      const Expr m = terms[i].factors[f];
      if (m.kind() != Kind::Min && m.kind() != Kind::Max) continue;
      Factors others = terms[i].factors;
      others.erase(f);
      Expr rest(terms[i].coef);
      for (auto& o : others) rest = rest * o;
      const auto& of = m.node()->args;
      for (size_t k = 0; k < 2; ++k)
        if (!of[k].is_const() && join_choice(terms, i, rest, of[k], of[1 - k], m.kind())) return true;
    }
  return false;
}

// Whether some terms may be joined though their factors differ.
bool has_joints(std::span<const Term> terms) {
  if (terms.size() < 2) return false;
  return std::any_of(terms.begin(), terms.end(), [](const Term& t) {
    return std::any_of(t.factors.begin(), t.factors.end(),
                       [](const Expr& f) { return f.kind() == Kind::Mod || f.kind() == Kind::Min || f.kind() == Kind::Max; });
  });
}

// Of terms in order, of which no two can be joined.
Expr poly_of(std::vector<Term> terms) {
  if (terms.empty()) return 0;
  if (terms.size() == 1) {
    if (terms[0].factors.empty()) return terms[0].coef;
    if (terms[0].factors.size() == 1 && terms[0].coef == 1) return terms[0].factors[0];
  }
  Node n{.kind = Kind::Poly, .hash = 0x9017, .lo = 0, .hi = 0, .name = {}, .extent = {}, .terms = {}, .args = {}};
  for (auto& t : terms) {
    n.hash = mix(n.hash, static_cast<uint64_t>(t.coef));
    for (auto& f : t.factors) n.hash = mix(n.hash, f.hash());
    Bounds b = term_bounds(t);
    n.lo = sat_add(n.lo, b.lo);
    n.hi = sat_add(n.hi, b.hi);
  }
  n.terms = std::move(terms);
  return make_node(std::move(n));
}

Expr make_poly(std::vector<Term> terms) {
  for (bool again = true; again;) {
    std::sort(terms.begin(), terms.end(), [](const Term& a, const Term& b) { return compare_factors(a.factors, b.factors) < 0; });
    size_t merged = 0;  // so many at the front
    for (size_t i = 0; i < terms.size(); ++i) {
      if (merged > 0 && compare_factors(terms[merged - 1].factors, terms[i].factors) == 0) {
        terms[merged - 1].coef = plus(terms[merged - 1].coef, terms[i].coef);
      } else {
        if (merged != i) terms[merged] = std::move(terms[i]);
        ++merged;
      }
      if (terms[merged - 1].coef == 0) --merged;
    }
    terms.erase(terms.begin() + static_cast<std::ptrdiff_t>(merged), terms.end());
    again = has_joints(terms) && (join_div_mod(terms) || join_choices(terms));
  }
  return poly_of(std::move(terms));
}

// The same of terms that are in order, each with other factors.
Expr poly_of_ordered(std::vector<Term> terms) { return has_joints(terms) ? make_poly(std::move(terms)) : poly_of(std::move(terms)); }

// a + sign * b
Expr sum_of(const Expr& a, const Expr& b, int64_t sign) {
  const Terms x(a), y(b);
  std::vector<Term> out;
  out.reserve(x.size() + y.size());
  size_t i = 0, j = 0;
  while (i < x.size() || j < y.size()) {
    const int c = i == x.size() ? 1 : j == y.size() ? -1 : compare_factors(x[i].factors, y[j].factors);
    out.push_back(c <= 0 ? x[i] : y[j]);
    if (c > 0)
      out.back().coef = times(out.back().coef, sign);
    else if (c == 0)
      out.back().coef = plus(out.back().coef, times(y[j].coef, sign));
    if (out.back().coef == 0) out.pop_back();
    i += c <= 0, j += c >= 0;
  }
  return poly_of_ordered(std::move(out));
}

// e times a number.
Expr scaled(const Expr& e, int64_t by) {
  if (by == 0) return 0;
  const Terms terms(e);
  std::vector<Term> out(terms.begin(), terms.end());
  for (auto& t : out) t.coef = times(t.coef, by);
  return poly_of_ordered(std::move(out));
}

// t / b when exact for every value, b a single term.
std::optional<Term> divide_term(const Term& t, const Term& b) {
  if (b.coef == 0 || t.coef % b.coef != 0) return std::nullopt;
  Term q{t.coef / b.coef, t.factors};
  for (auto& f : b.factors) {
    const auto* it = std::find(q.factors.begin(), q.factors.end(), f);
    if (it == q.factors.end()) return std::nullopt;
    q.factors.erase(static_cast<size_t>(it - q.factors.begin()));
  }
  return q;
}

struct Split {
  Expr quotient, rest;  // a = quotient * b + rest
};

Split split_multiple(const Expr& a, const Expr& b) {
  const Terms bt(b);
  if (a == b) return {1, 0};
  if (bt.size() != 1) return {0, a};
  std::vector<Term> q, r;
  for (auto& t : Terms(a)) {
    if (auto d = divide_term(t, bt[0])) {
      q.push_back(std::move(*d));
    } else if (bt[0].factors.empty() && t.factors.empty() && floor_div_int(t.coef, bt[0].coef) != 0) {  // a constant: keep it within [0, b)
      int64_t c = floor_div_int(t.coef, bt[0].coef);
      q.push_back({c, {}});
      r.push_back({plus(t.coef, -times(c, bt[0].coef)), {}});
    } else {
      r.push_back(t);
    }
  }
  // What is left of terms in order after a division by a number is in order.
  if (bt[0].factors.empty()) return {poly_of_ordered(std::move(q)), poly_of_ordered(std::move(r))};
  return {make_poly(std::move(q)), make_poly(std::move(r))};
}

// Largest value of e as an expression free of loop variables, where e is monotone in each of them.
std::optional<Expr> upper_expr(const Expr& e) {
  Expr total = 0;
  for (auto& t : Terms(e)) {
    Expr term(t.coef);
    for (auto& f : t.factors) {
      Bounds fb = bounds(f);
      if (fb.lo < 0) return std::nullopt;
      bool loop = f.kind() == Kind::Symbol && f.node()->has_extent;
      if (t.coef < 0) {
        if (loop || f.kind() != Kind::Symbol) {
          if (fb.lo == 0)
            term = 0;  // lower bound of a negative term's factor
          else
            term = term * Expr(fb.lo);
        } else {
          term = term * f;
        }
      } else if (loop) {
        term = term * (f.node()->extent - 1);
      } else if (f.kind() == Kind::Mod) {
        term = term * (f.node()->args[1] - 1);
      } else {
        term = term * f;
      }
    }
    total = total + term;
  }
  return total;
}

bool is_of_sizes(const Expr& e) {
  bool all = true;
  for_each_symbol(e, [&](const Expr& s) { all = all && is_size(*s.node()); });
  return all;
}

// A lower bound of d, times a number above 0, without one of its divisions of sizes by a number c: floor(x / c) is at most x / c, and at
// least (x - c + 1) / c. Those that are subtracted go first, as others are 0 or more where x is.
std::optional<Expr> without_division(const Expr& d) {
  const Term* found = nullptr;
  const Terms terms(d);
  for (auto& t : terms) {
    if (t.factors.size() != 1 || t.factors[0].kind() != Kind::FloorDiv) continue;
    const Expr& by = t.factors[0].node()->args[1];
    if (by.is_const() && by.constant() > 0 && (!found || (found->coef > 0 && t.coef < 0))) found = &t;
  }
  if (!found || !is_of_sizes(d)) return std::nullopt;
  const Expr &x = found->factors[0].node()->args[0], &c = found->factors[0].node()->args[1];
  const Expr others = d - found->factors[0] * found->coef;
  return others * c + (found->coef < 0 ? x : x - c + 1) * found->coef;
}

}  // namespace

int64_t Expr::constant() const {
  TOROID_CHECK(!node_, "{} is not a constant", to_string(*this));
  return value_;
}
Kind Expr::kind() const { return node_ ? node_->kind : Kind::Const; }
uint64_t Expr::hash() const { return node_ ? node_->hash : mix(0x5ca1ab1e, static_cast<uint64_t>(value_)); }

bool operator==(const Expr& a, const Expr& b) {
  if (a.node_ == b.node_) return a.node_ || a.value_ == b.value_;
  if (!a.node_ || !b.node_ || a.node_->hash != b.node_->hash) return false;
  return compare(a, b) == 0;
}

Expr operator+(const Expr& a, const Expr& b) {
  if (a.is_const() && b.is_const()) return plus(a.constant(), b.constant());
  if (a.is_const() && a.constant() == 0) return b;
  if (b.is_const() && b.constant() == 0) return a;
  return sum_of(a, b, 1);
}

Expr operator*(const Expr& a, const Expr& b) {
  if (a.is_const() && b.is_const()) return times(a.constant(), b.constant());
  for (auto* c : {&a, &b})
    if (c->is_const() && c->constant() == 1) return c == &a ? b : a;
  if (a.is_const()) return scaled(b, a.constant());
  if (b.is_const()) return scaled(a, b.constant());
  std::vector<Term> out;
  const Terms of_a(a), of_b(b);
  for (auto& x : of_a)
    for (auto& y : of_b) {
      Term t{times(x.coef, y.coef), x.factors};
      for (auto& f : y.factors) t.factors.push_back(f);
      std::sort(t.factors.begin(), t.factors.end(), [](const Expr& p, const Expr& q) { return compare(p, q) < 0; });
      out.push_back(std::move(t));
    }
  return make_poly(std::move(out));
}

Expr operator-(const Expr& a) { return a * Expr(-1); }
Expr operator-(const Expr& a, const Expr& b) {
  if (a.is_const() && b.is_const()) return plus(a.constant(), times(b.constant(), -1));
  if (b.is_const() && b.constant() == 0) return a;
  return sum_of(a, b, -1);
}

Bounds bounds(const Expr& e) { return e.is_const() ? Bounds{e.constant(), e.constant()} : Bounds{e.node()->lo, e.node()->hi}; }

bool known_ge(const Expr& a, const Expr& b) {
  const Bounds of_a = bounds(a), of_b = bounds(b);
  const auto finite = [](int64_t v) { return v > -kInf && v < kInf; };
  if (finite(of_a.lo) && finite(of_b.hi)) {
    if (of_a.lo >= of_b.hi) return true;
    if (finite(of_a.hi) && finite(of_b.lo) && of_a.hi < of_b.lo) return false;
  }
  Expr d = a - b;
  if (bounds(d).lo >= 0) return true;
  if (auto up = upper_expr(-d); up && bounds(-*up).lo >= 0) return true;
  if (d.kind() != Kind::Poly) return false;
  for (auto& f : d.node()->terms.front().factors) {  // s * t - s >= 0 where s >= 0 and t >= 1
    if (bounds(f).lo < 0) continue;
    const Split s = split_multiple(d, f);
    if (s.rest == Expr(0)) return known_ge(s.quotient, 0);
  }
  if (const auto lower = without_division(d)) return known_ge(*lower, 0);
  return false;
}

bool known_multiple(const Expr& a, const Expr& b) {
  if (b == Expr(1)) return true;
  Expr rest = split_multiple(a, b).rest;
  return rest.is_const() && rest.constant() == 0;
}

Expr floor_div(const Expr& a, const Expr& b) {
  TOROID_USER_CHECK(!(b.is_const() && b.constant() == 0), "division by zero in a size expression: {} / 0", to_string(a));
  if (a.is_const() && b.is_const()) return floor_div_int(a.constant(), b.constant());
  if (b.is_const() && b.constant() == 1) return a;
  Split s = split_multiple(a, b);
  if (s.rest.is_const() && s.rest.constant() == 0) return s.quotient;
  if (bounds(b).lo > 0 && bounds(s.rest).lo >= 0 && known_lt(s.rest, b)) return s.quotient;
  Expr x = s.rest, d = b;
  if (d.is_const() && d.constant() > 0) {
    int64_t g = d.constant(),
            c0 = 0;  // a common factor of all but the constant term and b cancels: floor((g*x + c) / (g*y)) = floor((x + floor(c/g)) / y)
    for (auto& t : Terms(x)) {
      if (t.factors.empty())
        c0 = t.coef;
      else
        g = std::__gcd(g, std::abs(t.coef));
    }
    if (g > 1) {
      const Terms of_x(x);
      std::vector<Term> terms(of_x.begin(), of_x.end());
      for (auto& t : terms) t.coef = t.factors.empty() ? floor_div_int(c0, g) : t.coef / g;
      x = make_poly(std::move(terms));
      return s.quotient + floor_div(x, d.constant() / g);
    }
    if (x.kind() == Kind::FloorDiv && x.node()->args[1].is_const() && x.node()->args[1].constant() > 0)
      return s.quotient + floor_div(x.node()->args[0], x.node()->args[1] * d);
  }
  Bounds xb = bounds(x), db = bounds(d), r{-kInf, kInf};
  if (db.lo > 0) {
    r.lo = xb.lo == -kInf ? -kInf : xb.lo >= 0 ? (db.hi == kInf ? 0 : xb.lo / db.hi) : floor_div_int(xb.lo, db.lo);
    r.hi = xb.hi == kInf ? kInf : xb.hi >= 0 ? xb.hi / db.lo : -1;
  }
  return s.quotient + make_atom(Kind::FloorDiv, x, d, r);
}

Expr ceil_div(const Expr& a, const Expr& b) { return bounds(b).lo >= 0 ? floor_div(a + b - 1, b) : -floor_div(-a, b); }

Expr mod(const Expr& a, const Expr& b) {
  TOROID_USER_CHECK(!(b.is_const() && b.constant() == 0), "division by zero in a size expression: {} % 0", to_string(a));
  if (a.is_const() && b.is_const()) return plus(a.constant(), -times(b.constant(), floor_div_int(a.constant(), b.constant())));
  if (b.is_const() && b.constant() == 1) return 0;
  Expr x = split_multiple(a, b).rest;
  if (x.is_const() && b.is_const()) return mod(x, b);
  if (bounds(b).lo > 0 && bounds(x).lo >= 0 && known_lt(x, b)) return x;
  if (x.kind() == Kind::Mod && x.node()->args[1].is_const() && b.is_const() && x.node()->args[1].constant() % b.constant() == 0)
    return mod(x.node()->args[0], b);
  Bounds db = bounds(b);
  return make_atom(Kind::Mod, x, b, db.lo > 0 ? Bounds{0, sat_add(db.hi, -1)} : Bounds{-kInf, kInf});
}

Expr min(const Expr& a, const Expr& b) {
  if (known_ge(b, a)) return a;
  if (known_ge(a, b)) return b;
  Bounds x = bounds(a), y = bounds(b);
  bool swap = compare(a, b) > 0;
  return make_atom(Kind::Min, swap ? b : a, swap ? a : b, {std::min(x.lo, y.lo), std::min(x.hi, y.hi)});
}

Expr max(const Expr& a, const Expr& b) {
  if (known_ge(a, b)) return a;
  if (known_ge(b, a)) return b;
  Bounds x = bounds(a), y = bounds(b);
  bool swap = compare(a, b) > 0;
  return make_atom(Kind::Max, swap ? b : a, swap ? a : b, {std::max(x.lo, y.lo), std::max(x.hi, y.hi)});
}

bool same_symbol(const Node& a, const Node& b) {
  return a.kind == Kind::Symbol && b.kind == Kind::Symbol && (&a == &b || compare_symbols(a, b) == 0);
}

namespace {

Node symbol_node(SymbolKind kind, int64_t id, std::string name, Bounds range) {
  const uint64_t h = mix(0x51b01, static_cast<uint64_t>(kind));
  return {.kind = Kind::Symbol,
          .hash = mix(h, static_cast<uint64_t>(id)),
          .lo = range.lo,
          .hi = range.hi,
          .symbol = kind,
          .id = id,
          .name = std::move(name),
          .extent = {},
          .terms = {},
          .args = {}};
}

// Only the order of ids is ever seen: a thread that takes over from another one gets larger ids, as it would by itself.
int64_t next_variable() {
  static std::atomic<int64_t> next{0};
  return next.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

Expr symbol(std::string name, int64_t lo, int64_t hi) {
  Node n = symbol_node(SymbolKind::Size, 0, std::move(name), {lo, hi});
  for (char c : n.name) n.hash = mix(n.hash, static_cast<uint64_t>(c));
  return make_node(std::move(n));
}

Expr loop_symbol(std::string name, const Expr& extent) {
  const Bounds b = bounds(extent);
  const int64_t last = b.hi == kInf ? kInf : std::max<int64_t>(b.hi - 1, 0);
  Node n = symbol_node(SymbolKind::LoopVar, next_variable(), std::move(name), {0, last});
  n.has_extent = true;
  n.extent = extent;
  return make_node(std::move(n));
}

Expr loop_symbol(std::string name) { return make_node(symbol_node(SymbolKind::LoopVar, next_variable(), std::move(name), {0, kInf})); }

Expr value_symbol(int step, int64_t lo, int64_t hi) {
  return make_node(symbol_node(SymbolKind::Value, step, "v" + std::to_string(step), {lo, hi}));
}

}  // namespace toroid::sym
