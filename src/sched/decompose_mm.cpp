#include "sched/decompose_mm.h"

#include <algorithm>

#include "base/check.h"

namespace toroid::sched {
namespace {

using loop::BodyBuilder;
using loop::Statement;
using loop::Step;
using program::Gemm;
using program::Operand;

constexpr int64_t kFewTerms = 8;           // of a sum that is written out
constexpr int64_t kSmallMatrix = 1 << 14;  // elements

Expr address(const Operand& o, const std::vector<Expr>& at) {
  Expr index = o.offset;
  for (size_t d = 0; d < at.size(); ++d) index = index + at[d] * o.strides[d];
  return index;
}

// One term at point `at` (batch..., m, n) of the sums.
S term(BodyBuilder& b, const Gemm& g, const std::vector<Expr>& at, const Expr& k) {
  std::vector<Expr> left(at.begin(), at.end() - 1), right(at.begin(), at.end() - 2);
  left.push_back(k);
  right.insert(right.end(), {k, at.back()});
  const S x = b.load(g.a.buffer, g.a.dtype, address(g.a, left)), y = b.load(g.b.buffer, g.b.dtype, address(g.b, right));
  const S wide_x = cast(x, g.accumulate);
  return wide_x * cast(y, g.accumulate);
}

// The sum at a point. Adds the variable that it runs over to the domain, where there is one.
S sum(BodyBuilder& b, const Gemm& g, const std::vector<Expr>& at, loop::Domain& domain) {
  if (!g.k.is_const() || g.k.constant() > kFewTerms) {
    const Expr k = sym::loop_symbol("k", g.k);
    domain.vars.push_back({k, true});
    return b.reduce(loop::Reduction::Sum, term(b, g, at, k));
  }
  S total = term(b, g, at, 0);
  for (int64_t k = 1; k < g.k.constant(); ++k) total = total + term(b, g, at, k);
  return total;
}

}  // namespace

std::string decompose_mm_refusal(const program::Node& product) {
  const auto* g = std::get_if<Gemm>(&product.problem);
  if (!g) return "it is no product";
  if (!is_float(g->accumulate)) return "it is a product of integers";
  if (g->b2 || product.producer) return "it is fused with what computes its operands";
  if (g->k.is_const() && g->k.constant() < 1) return "its sums are empty";
  const auto& steps = product.body.steps;
  if (std::any_of(steps.begin(), steps.end(), [](auto& s) { return loop::uses_values(s.index) || s.step == Step::Reduce; }))
    return "its results go where values say";
  return "";
}

void decompose_mm(program::Node& product) {
  const std::string why = decompose_mm_refusal(product);
  TOROID_USER_CHECK(why.empty(), "decompose_mm() of {}: {}", program::label(product), why);
  const Gemm g = std::get<Gemm>(product.problem);
  // Variables of one point are none of a loop's.
  const auto single = [](const sym::Node& n) -> std::optional<Expr> {
    const bool variable = n.kind == sym::Kind::Symbol && n.symbol == sym::SymbolKind::LoopVar && n.has_extent;
    return variable && n.extent == Expr(1) ? std::optional<Expr>(0) : std::nullopt;
  };
  std::vector<Expr> at;
  for (auto& v : product.domain.vars) at.push_back(single(*v.symbol.node()).value_or(v.symbol));
  const loop::Body epilogue = loop::substitute(product.body, single);
  std::erase_if(product.domain.vars, [&](auto& v) { return single(*v.symbol.node()).has_value(); });

  product.problem = {};
  product.config = {};
  product.body = {};
  BodyBuilder builder(product.body);
  const S result = sum(builder, g, at, product.domain);
  std::vector<int> to;
  for (Statement s : epilogue.steps) {
    for (int* a : {&s.args[0], &s.args[1], &s.args[2], &s.mask})
      if (*a >= 0) *a = to[static_cast<size_t>(*a)];
    if (s.step == Step::Accumulate) {
      to.push_back(cast(result, s.dtype).id);
      continue;
    }
    to.push_back(static_cast<int>(product.body.steps.size()));
    product.body.steps.push_back(std::move(s));
  }
}

bool decompose_mm_pays(const program::Node& product) {
  if (!decompose_mm_refusal(product).empty()) return false;
  const auto& g = std::get<Gemm>(product.problem);
  if (!g.k.is_const()) return false;
  if (g.k.constant() <= kFewTerms) return true;
  for (auto [one, other] : {std::pair(&g.m, &g.n), std::pair(&g.n, &g.m)})
    if (*one == Expr(1) && other->is_const() && other->constant() * g.k.constant() <= kSmallMatrix) return true;
  return false;
}

}  // namespace toroid::sched
