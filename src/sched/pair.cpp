#include "sched/pair.h"

#include <algorithm>

#include "sched/domain_map.h"
#include "sched/joins.h"

namespace toroid::sched {
namespace {

using loop::Statement;
using loop::Step;
using program::Gemm;
using program::Node;
using program::Program;
using program::Uses;

// The position of a body's only Store, which must be unconditional; npos where there are more.
size_t only_store(const loop::Body& body) {
  size_t found = std::string::npos;
  for (size_t k = 0; k < body.steps.size(); ++k) {
    if (body.steps[k].step != Step::Store) continue;
    if (found != std::string::npos || body.steps[k].mode != loop::StoreMode::Set || body.steps[k].mask >= 0) return std::string::npos;
    found = k;
  }
  return found;
}

// Appends a body's steps but for its store; `change` alters each first. Returns the step of the value that it stored.
int append(loop::Body& to, const loop::Body& from, const std::function<void(Statement&)>& change) {
  const int first = static_cast<int>(to.steps.size());
  int stored = -1;
  for (Statement s : from.steps) {
    for (int& a : s.args)
      if (a >= 0) a += first;
    if (s.mask >= 0) s.mask += first;
    if (s.step == Step::Store) {
      stored = s.args[0];
      s = {};  // a constant that nothing uses
    } else {
      change(s);
    }
    to.steps.push_back(std::move(s));
  }
  return stored;
}

bool uses_values(const loop::Body& b) {
  return std::any_of(b.steps.begin(), b.steps.end(), [](auto& s) { return loop::uses_values(s.index); });
}

// The product of both halves with the reader as its epilogue; nullopt with a reason where the reader reads something else.
std::optional<Node> paired(const Node& product, const Node& reader, int between, std::string& reason) {
  const auto& g = std::get<Gemm>(product.problem);
  const size_t nb = g.batch.size();
  const int64_t half = g.n.constant() / 2;
  Node out = product;
  auto& pair = std::get<Gemm>(out.problem);
  pair.n = half;
  pair.b2 = g.b;
  pair.b2->offset = g.b.offset + g.b.strides[nb + 1] * Expr(half);
  const Expr all = product.domain.vars.back().symbol, column = sym::loop_symbol("half", Expr(half));
  out.domain.vars.back().symbol = column;
  const std::optional<Match> match = match_domains(out.domain, reader.domain, true);
  if (!match || uses_values(product.body) || uses_values(reader.body)) {
    reason = "the second does not run over half of the columns";
    return std::nullopt;
  }
  const auto at = [&](const Expr& e, const Expr& n) {
    return sym::substitute(e, [&](const sym::Node& s) -> std::optional<Expr> {
      if (sym::same_symbol(s, *all.node())) return n;
      return std::nullopt;
    });
  };
  const size_t store = only_store(product.body);
  const Expr place = product.body.steps[store].index, upper = column + Expr(half);
  const Expr places[2] = {at(place, column), at(place, upper)};
  out.body = {};
  int values[2];
  for (int part = 0; part < 2; ++part)
    values[part] = append(out.body, product.body, [&](Statement& s) {
      s.index = at(s.index, part == 0 ? column : upper);
      if (s.step == Step::Accumulate) s.value = Number::of(int64_t{part});
    });
  bool fits = true;
  loop::Body rest = rename(reader.body, match->second);
  const int first = static_cast<int>(out.body.steps.size());
  std::vector<int> replaced(rest.steps.size(), -1);  // a load of the product's result: the value that it gave
  bool seen[2] = {};
  for (size_t k = 0; k < rest.steps.size(); ++k) {
    Statement s = rest.steps[k];
    for (int* a : {&s.args[0], &s.args[1], &s.args[2], &s.mask})
      if (*a >= 0) *a = replaced[static_cast<size_t>(*a)] >= 0 ? replaced[static_cast<size_t>(*a)] : *a + first;
    if (s.step == Step::Load && s.buffer == between) {
      const int part = s.index == places[0] ? 0 : s.index == places[1] ? 1 : -1;
      fits = fits && part >= 0 && s.mask < 0;
      if (part >= 0) replaced[k] = values[part], seen[part] = true;
      s = {};
    }
    out.body.steps.push_back(std::move(s));
  }
  if (!fits || !seen[0] || !seen[1]) {
    reason = "the second does not read two columns of each row that are half of them apart";
    return std::nullopt;
  }
  loop::eliminate_dead(out.body);
  program::take_over(out, reader);
  return out;
}

}  // namespace

Program pair_products(Program p, const target::Target& target, FusionReport* report) {
  Joins joins(p, report);
  const Uses& uses = joins.uses();
  for (size_t i = 0; i < p.nodes.size(); ++i) {
    auto* g = std::get_if<Gemm>(&p.nodes[i].problem);
    if (!g || g->b2 || p.nodes[i].is_library() || !g->n.is_const() || g->n.constant() % 2 != 0 || p.nodes[i].domain.vars.empty() ||
        !(p.nodes[i].domain.vars.back().extent() == g->n))
      continue;
    const size_t store = only_store(p.nodes[i].body);
    if (store == std::string::npos) continue;
    const int between = p.nodes[i].body.steps[store].buffer;
    if (p.buffers[static_cast<size_t>(between)].kind != loop::BufferKind::Temporary) continue;
    const size_t j = uses.only_reader(between, i);
    if (j == Uses::kNone || !p.nodes[j].is_loop() || !p.nodes[j].beside.empty() || loop::has_reduction(p.nodes[j].domain)) continue;
    std::string reason;
    std::optional<Node> pair;
    if (!program::may_join(p, p.nodes[i], p.nodes[j]))
      reason = "they were chosen to stay apart";
    else if (uses.is_touched_between(i, j))
      reason = "something between the two touches their memory";
    else
      pair = paired(p.nodes[i], p.nodes[j], between, reason);
    if (pair) reason = target.pair_refusal(*pair);
    if (reason.empty())
      joins.join(i, j, std::move(*pair));  // where the loop was: what it reads is there by then
    else
      joins.miss(i, j, std::move(reason));
  }
  joins.finish();
  return p;
}

}  // namespace toroid::sched
