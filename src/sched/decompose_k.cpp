#include "sched/decompose_k.h"

#include <algorithm>

#include "base/check.h"
#include "sched/split_epilogue.h"

namespace toroid::sched {
namespace {

using loop::Statement;
using loop::Step;
using program::Gemm;

constexpr int64_t kLeastPart = 128;

int accumulate_step(const loop::Body& body) {
  for (size_t k = 0; k < body.steps.size(); ++k)
    if (body.steps[k].step == Step::Accumulate) return static_cast<int>(k);
  return -1;
}

std::vector<Expr> dense_strides(const loop::Domain& domain) {
  std::vector<Expr> strides(domain.vars.size(), 1);
  for (size_t d = strides.size(); d-- > 1;) strides[d - 1] = strides[d] * domain.vars[d].extent();
  return strides;
}

// The body with the sum over the parts in place of the only load of `partial`.
loop::Body adding_up(const loop::Body& body, int partial, const Expr& step_to_next) {
  loop::Body out;
  std::vector<int> to;
  for (Statement s : body.steps) {
    for (int* a : {&s.args[0], &s.args[1], &s.args[2], &s.mask})
      if (*a >= 0) *a = to[static_cast<size_t>(*a)];
    const bool is_part = s.step == Step::Load && s.buffer == partial;
    if (is_part) s.index = s.index + step_to_next;
    const DType dtype = s.dtype;
    out.steps.push_back(std::move(s));
    if (is_part) {
      Statement sum;
      sum.step = Step::Reduce;
      sum.dtype = dtype;
      sum.args[0] = static_cast<int>(out.steps.size()) - 1;
      out.steps.push_back(sum);
    }
    to.push_back(static_cast<int>(out.steps.size()) - 1);
  }
  return out;
}

}  // namespace

std::string decompose_k_refusal(const program::Node& product, int64_t splits) {
  const auto* g = std::get_if<Gemm>(&product.problem);
  if (!g) return "it is no product";
  if (!is_float(g->accumulate)) return "it is a product of whole numbers";
  if (g->b2 || product.producer) return "it is fused with what computes its operands";
  if (!g->k.is_const()) return "the length of its sums is symbolic";
  if (splits < 2 || g->k.constant() % splits != 0)
    return fmt::format("its sums of {} are not cut into {} equal parts", g->k.constant(), splits);
  const auto& steps = product.body.steps;
  if (std::any_of(steps.begin(), steps.end(), [](auto& s) { return loop::uses_values(s.index) || s.step == Step::Reduce; }))
    return "its results go where values say";
  return "";
}

void decompose_k(program::Program& p, size_t i, int64_t splits) {
  const std::string why = decompose_k_refusal(p.nodes[i], splits);
  TOROID_USER_CHECK(why.empty(), "decompose_k({}) of {}: {}", splits, program::label(p.nodes[i]), why);
  const Expr results = loop::space_size(p.nodes[i].domain);
  split_epilogue(p, i, accumulate_step(p.nodes[i].body), dense_strides(p.nodes[i].domain));
  program::Node &product = p.nodes[i], &rest = p.nodes[i + 1];
  const int partial = loop::buffers_written(product.body).front();
  p.buffers[static_cast<size_t>(partial)].numel = results * Expr(splits);

  auto& g = std::get<Gemm>(product.problem);
  const Expr part = g.k.constant() / splits;
  const size_t nb = g.batch.size();
  g.a.strides.insert(g.a.strides.begin(), g.a.strides[nb + 1] * part);
  g.b.strides.insert(g.b.strides.begin(), g.b.strides[nb] * part);
  g.batch.insert(g.batch.begin(), Expr(splits));
  g.k = part;
  const Expr split = sym::loop_symbol("split", Expr(splits)), added = sym::loop_symbol("part", Expr(splits));
  product.domain.vars.insert(product.domain.vars.begin(), {split, false});
  for (auto& s : product.body.steps)
    if (s.step == Step::Store) s.index = s.index + split * results;

  rest.domain.vars.push_back({added, true});
  rest.body = adding_up(rest.body, partial, added * results);
}

std::vector<int64_t> decompose_k_splits(const program::Node& product, int processors, int64_t threshold, size_t most) {
  const auto* g = std::get_if<Gemm>(&product.problem);
  if (!g || !g->m.is_const() || !g->n.is_const() || !g->k.is_const() || !decompose_k_refusal(product, 1).starts_with("its sums")) return {};
  constexpr int64_t kTile = 128;  // a tile's rows and columns
  const int64_t m = g->m.constant(), n = g->n.constant(), k = g->k.constant();
  const int64_t tiles = ((m + kTile - 1) / kTile) * ((n + kTile - 1) / kTile);
  if (tiles >= processors && threshold > 0 && (k / threshold < m || k / threshold < n)) return {};
  std::vector<int64_t> powers, others;
  for (int64_t s = 2; s <= k / kLeastPart && s <= 512; ++s)
    if (k % s == 0) ((s & (s - 1)) == 0 ? powers : others).push_back(s);
  powers.insert(powers.end(), others.begin(), others.end());
  powers.resize(std::min(powers.size(), most));
  return powers;
}

}  // namespace toroid::sched
