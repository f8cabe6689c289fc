#include "import/sym_values.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "graph/known_sizes.h"

namespace toroid::import {
namespace {

constexpr int64_t kMaxPower = 8;

// The names under which a head appears over the versions of PyTorch.
bool is_any(const SymAst& ast, std::initializer_list<std::string_view> heads) {
  return ast.kind == SymAstKind::Call && std::find(heads.begin(), heads.end(), ast.name) != heads.end();
}

std::optional<sym::Rel> relation_of(const SymAst& ast) {
  if (is_any(ast, {"Equality", "Eq"})) return sym::Rel::Eq;
  if (is_any(ast, {"Unequality", "Ne"})) return sym::Rel::Ne;
  if (ast.is_call("LessThan")) return sym::Rel::Le;
  if (ast.is_call("GreaterThan")) return sym::Rel::Ge;
  if (ast.is_call("StrictLessThan")) return sym::Rel::Lt;
  if (ast.is_call("StrictGreaterThan")) return sym::Rel::Gt;
  return std::nullopt;
}

std::optional<double> fold_call(const SymAst& ast, const std::vector<double>& x) {
  auto is = [&](std::initializer_list<std::string_view> heads) { return is_any(ast, heads); };
  auto all = [&](auto&& join) {
    double v = x.at(0);
    for (size_t i = 1; i < x.size(); ++i) v = join(v, x[i]);
    return v;
  };
  if (x.empty()) return std::nullopt;
  if (ast.name == "Add") return all([](double a, double b) { return a + b; });
  if (ast.name == "Mul") return all([](double a, double b) { return a * b; });
  if (ast.name == "Min") return all([](double a, double b) { return std::min(a, b); });
  if (ast.name == "Max") return all([](double a, double b) { return std::max(a, b); });
  if (is({"ToFloat", "Identity"})) return x[0];
  if (is({"TruncToInt", "TruncToFloat"})) return std::trunc(x[0]);
  if (is({"FloorToInt", "floor"})) return std::floor(x[0]);
  if (is({"CeilToInt", "ceiling"})) return std::ceil(x[0]);
  if (ast.name == "RoundToInt") return std::nearbyint(x[0]);
  if (is({"OpaqueUnaryFn_sqrt", "sqrt"})) return std::sqrt(x[0]);
  if (x.size() != 2) return std::nullopt;
  if (is({"Pow", "FloatPow", "PowByNatural"})) return std::pow(x[0], x[1]);
  if (is({"IntTrueDiv", "FloatTrueDiv", "CleanDiv"})) return x[0] / x[1];
  if (ast.name == "FloorDiv") return std::floor(x[0] / x[1]);
  if (ast.name == "CeilDiv") return std::ceil(x[0] / x[1]);
  if (is({"Mod", "PythonMod"})) return x[0] - std::floor(x[0] / x[1]) * x[1];
  return std::nullopt;
}

}  // namespace

std::optional<double> fold(const SymAst& ast) {
  switch (ast.kind) {
    case SymAstKind::Integer:
    case SymAstKind::Bool:
      return static_cast<double>(ast.value);
    case SymAstKind::Rational:
      return static_cast<double>(ast.value) / static_cast<double>(ast.denominator);
    case SymAstKind::Float:
      return ast.real;
    case SymAstKind::Infinity:
      return ast.value > 0 ? HUGE_VAL : -HUGE_VAL;
    case SymAstKind::Symbol:
      return std::nullopt;
    case SymAstKind::Call:
      break;
  }
  std::vector<double> x;
  for (auto& a : ast.args) {
    auto v = fold(a);
    if (!v) return std::nullopt;
    x.push_back(*v);
  }
  return fold_call(ast, x);
}

SymValues::SymValues(const ExportedProgram& program, graph::Graph& graph) {
  for (auto& in : program.graph.inputs) {
    auto* t = in.get<TensorArg>();
    const auto meta = t ? program.graph.tensor_values.find(t->name) : program.graph.tensor_values.end();
    if (meta == program.graph.tensor_values.end()) continue;
    for (auto& s : meta->second.sizes)
      if (s.is_expr && s.expr->kind == SymAstKind::Symbol) given_.insert(s.expr->name);
  }
  collect(program.graph);
  for (auto& [name, range] : program.range_constraints) seen_.emplace(name, false);
  std::vector<std::string> names;
  for (auto& [name, is_size] : seen_) names.push_back(name);
  std::sort(names.begin(), names.end());
  for (auto& name : names) {
    auto range = program.range_constraints.find(name);
    bool has_range = range != program.range_constraints.end();
    int64_t lo = has_range && range->second.min ? *range->second.min : -sym::kInf;
    int64_t hi = has_range && range->second.max ? *range->second.max : sym::kInf - 1;
    if (seen_[name] || !is_unbacked(name)) lo = std::max<int64_t>(lo, 0);
    hi = std::min(hi, sym::kInf - 1);
    TOROID_USER_CHECK(lo <= hi, "the range of the symbol {} is empty: {} to {}", name, lo, hi);
    Expr e = sym::symbol(name, lo, hi);
    symbols_.emplace(name, e);
    graph.symbols.push_back({e, is_unbacked(name)});
  }
}

void SymValues::note(const SymInt& value, bool is_size) {
  if (!value.is_expr) return;
  std::function<void(const SymAst&)> walk = [&](const SymAst& a) {
    if (a.kind == SymAstKind::Symbol) seen_.emplace(a.name, false);
    for (auto& x : a.args) walk(x);
  };
  walk(*value.expr);
  if (value.expr->kind != SymAstKind::Symbol) return;
  if (is_size) seen_[value.expr->name] = true;
  if (value.has_hint && !is_unbacked(value.expr->name)) hints_[value.expr->name] = value.value;
}

void SymValues::collect(const ExportedGraph& graph) {
  for (auto& [name, meta] : graph.tensor_values)
    for (auto& s : meta.sizes) note(s, true);
  for (auto& [name, value] : graph.sym_int_values) note(value, false);
  for (auto& node : graph.nodes)
    for (auto& in : node.inputs)
      if (auto* sub = in.arg.get<GraphArg>()) collect(*sub->graph);
}

SymValues::Ratio SymValues::power(const SymAst& ast) const {
  TOROID_USER_CHECK(ast.args.size() == 2, "a power with {} operands: {}", ast.args.size(), to_string(ast));
  auto exponent = fold(ast.args[1]);
  bool whole = exponent && *exponent == std::trunc(*exponent) && std::abs(*exponent) <= static_cast<double>(kMaxPower);
  TOROID_USER_CHECK(whole, "the size {} is a power that is not a small whole number", to_string(ast));
  Ratio base = ratio(ast.args[0]), out{1, 1};
  for (int i = 0; i < std::abs(static_cast<int>(*exponent)); ++i) {
    out.numerator *= base.numerator;
    out.denominator *= base.denominator;
  }
  if (*exponent < 0) std::swap(out.numerator, out.denominator);
  return out;
}

// 2.5 = 5 / 2. Only products with fractions of powers of two are exact in PyTorch's floats: 0.29 * 100 is 28 rounded down.
SymValues::Ratio SymValues::dyadic(double real) {
  constexpr int64_t kFinest = int64_t{1} << 20;
  int64_t denominator = 1;
  while (real * static_cast<double>(denominator) != std::trunc(real * static_cast<double>(denominator)) && denominator < kFinest)
    denominator *= 2;
  double numerator = real * static_cast<double>(denominator);
  TOROID_USER_CHECK(numerator == std::trunc(numerator) && std::abs(numerator) < 1e15,
                    "a size is computed with the number {}, which is no fraction of a power of two; export the program with fixed sizes "
                    "there, or state the size that is wanted as a whole number",
                    real);
  return {static_cast<int64_t>(numerator), denominator};
}

SymValues::Ratio SymValues::ratio(const SymAst& ast) const {
  switch (ast.kind) {
    case SymAstKind::Integer:
    case SymAstKind::Bool:
      return {ast.value};
    case SymAstKind::Rational:
      return {ast.value, ast.denominator};
    case SymAstKind::Float:
      return dyadic(ast.real);
    case SymAstKind::Infinity:
      return {ast.value * (sym::kInf - 1)};
    case SymAstKind::Symbol: {
      auto it = symbols_.find(ast.name);
      TOROID_USER_CHECK(it != symbols_.end(), "the symbol {} is not declared in the program", ast.name);
      return {it->second};
    }
    case SymAstKind::Call:
      break;
  }
  auto is = [&](std::initializer_list<std::string_view> heads) { return is_any(ast, heads); };
  auto needs = [&](size_t n) {
    TOROID_USER_CHECK(ast.args.size() == n, "{} takes {} operands in a size: {}", ast.name, n, to_string(ast));
  };
  if (is({"Add", "Mul", "Min", "Max"})) {
    TOROID_USER_CHECK(!ast.args.empty(), "{} without operands in a size", ast.name);
    if (is({"Min", "Max"})) {
      Expr out = expr(ast.args[0]);
      for (size_t i = 1; i < ast.args.size(); ++i)
        out = ast.name == "Min" ? sym::min(out, expr(ast.args[i])) : sym::max(out, expr(ast.args[i]));
      return {out};
    }
    Ratio out = ratio(ast.args[0]);
    for (size_t i = 1; i < ast.args.size(); ++i) {
      Ratio r = ratio(ast.args[i]);
      if (ast.name == "Mul") {
        out = {out.numerator * r.numerator, out.denominator * r.denominator};
      } else if (out.denominator == r.denominator) {
        out.numerator += r.numerator;
      } else {
        out = {out.numerator * r.denominator + r.numerator * out.denominator, out.denominator * r.denominator};
      }
    }
    return out;
  }
  if (is({"Pow", "PowByNatural"})) return power(ast);
  if (is({"ToFloat", "Identity"})) return needs(1), ratio(ast.args[0]);
  if (is({"IntTrueDiv", "FloatTrueDiv"})) {
    needs(2);
    Ratio a = ratio(ast.args[0]), b = ratio(ast.args[1]);
    Ratio out{a.numerator * b.denominator, a.denominator * b.numerator};
    if (sym::known_lt(out.denominator, 0)) out = {-out.numerator, -out.denominator};  // a count down: arange(n, -n, -1)
    return out;
  }
  if (is({"floor", "FloorToInt"})) {
    needs(1);
    Ratio r = ratio(ast.args[0]);
    return {sym::floor_div(r.numerator, r.denominator)};
  }
  if (is({"ceiling", "CeilToInt"})) {
    needs(1);
    Ratio r = ratio(ast.args[0]);
    return {sym::ceil_div(r.numerator, r.denominator)};
  }
  if (is({"TruncToInt", "TruncToFloat"})) {
    needs(1);
    Ratio r = ratio(ast.args[0]);
    bool rounds_down = sym::known_ge(r.numerator, 0) && sym::known_ge(r.denominator, 1);
    TOROID_USER_CHECK(rounds_down, "the size {} rounds a number towards zero that may be negative", to_string(ast));
    return {sym::floor_div(r.numerator, r.denominator)};
  }
  if (is({"ModularIndexing"})) {
    needs(3);
    return {sym::mod(sym::floor_div(expr(ast.args[0]), expr(ast.args[1])), expr(ast.args[2]))};
  }
  if (is({"FloorDiv", "CleanDiv", "CeilDiv", "Mod", "PythonMod", "LShift", "RShift"})) {
    needs(2);
    Expr a = expr(ast.args[0]), b = expr(ast.args[1]);
    if (is({"FloorDiv", "CleanDiv"})) return {sym::floor_div(a, b)};
    if (is({"CeilDiv"})) return {sym::ceil_div(a, b)};
    if (is({"Mod", "PythonMod"})) return {sym::mod(a, b)};
    auto bits = b.maybe_constant();
    TOROID_USER_CHECK(bits && *bits >= 0 && *bits < 62, "the size {} shifts by a number that is not known", to_string(ast));
    Expr factor(int64_t{1} << *bits);
    return {is({"LShift"}) ? a * factor : sym::floor_div(a, factor)};
  }
  fail<UserError>("the size {} uses \"{}\", which Toroid cannot compute with whole numbers", to_string(ast), ast.name);
}

Expr SymValues::expr(const SymAst& ast) const {
  Ratio r = ratio(ast);
  if (r.denominator == Expr(1)) return r.numerator;
  if (auto v = fold(ast)) {
    TOROID_USER_CHECK(*v == std::trunc(*v) && std::abs(*v) < 9e15, "the size {} is no whole number that fits", to_string(ast));
    return static_cast<int64_t>(*v);
  }
  TOROID_USER_CHECK(sym::known_multiple(r.numerator, r.denominator), "the size {} may be a fraction", to_string(ast));
  return sym::floor_div(r.numerator, r.denominator);
}

TensorType SymValues::type(const TensorMeta& meta) const {
  TensorType out{meta.dtype, {}, {}};
  for (auto& s : meta.sizes) out.sizes.push_back(expr(s));
  return out;
}

std::optional<std::vector<sym::Relation>> SymValues::relations(const SymAst& condition) const {
  if (condition.kind == SymAstKind::Bool && condition.value) return std::vector<sym::Relation>{};
  if (condition.is_call("And")) {
    std::vector<sym::Relation> out;
    for (auto& a : condition.args) {
      auto part = relations(a);
      if (!part) return std::nullopt;
      out.insert(out.end(), part->begin(), part->end());
    }
    return out;
  }
  bool negated = condition.is_call("Not") && condition.args.size() == 1;
  const SymAst& inner = negated ? condition.args[0] : condition;
  auto rel = relation_of(inner);
  if (!rel || inner.args.size() != 2) return std::nullopt;
  return std::vector<sym::Relation>{{negated ? graph::opposite(*rel) : *rel, expr(inner.args[0]), expr(inner.args[1])}};
}

}  // namespace toroid::import
