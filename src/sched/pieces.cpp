#include "sched/pieces.h"

#include "program/points.h"
#include "program/uses.h"
#include "sched/split_epilogue.h"

namespace toroid::sched {
namespace {

using distributed::Kind;
using program::Gemm;
using program::Meeting;
using program::Node;
using program::Program;
using program::Uses;

// Whether the node may be the product: rows of constant numbers, of which each rank has as many.
const Gemm* product_in(const Node& n, int64_t ranks) {
  const auto* g = std::get_if<Gemm>(&n.problem);
  if (!g || !g->batch.empty() || g->b2 || n.producer) return nullptr;
  const bool constant = g->m.is_const() && g->n.is_const() && g->k.is_const();
  return constant && g->m.constant() % ranks == 0 ? g : nullptr;
}

// Those of a meeting that was not chosen to be done by itself.
const Meeting* meeting_in(const Node& n, Kind kind) {
  const auto* m = std::get_if<Meeting>(&n.problem);
  return m && m->kind == kind && !m->product && n.config.empty() ? m : nullptr;
}

bool is_dense(const program::Operand& rows, const Expr& columns) {
  return rows.offset == Expr(0) && rows.strides == std::vector<Expr>{columns, 1};
}

// A product of what a meeting gathers. nullopt: they are none.
std::optional<Node> gathered(const Node& first, const Node& second) {
  const Meeting* m = meeting_in(first, Kind::AllGather);
  const Gemm* g = m ? product_in(second, m->ranks) : nullptr;
  if (!g || g->a.buffer != program::plain_result(first) || g->a.dtype != m->input.dtype || !is_dense(g->a, g->k)) return std::nullopt;
  if (!(program::product(m->sizes) == g->m * g->k)) return std::nullopt;
  Node out = second;
  Meeting whole = *m;
  whole.sizes = points(*g);
  whole.product = *g;
  whole.product->m = sym::floor_div(g->m, m->ranks);
  whole.product->a = {m->input.buffer, g->a.dtype, m->input.offset, {g->k, 1}};
  whole.input = {-1, m->input.dtype, 0, {}};
  out.problem = std::move(whole);
  out.by = program::Implementation::Template;
  out.config = {};
  program::take_over(out, first, true);
  return out;
}

// What a meeting scatters of a product.
std::optional<Node> scattered(const Node& first, const Node& second) {
  const Meeting* m = meeting_in(second, Kind::ReduceScatter);
  const Gemm* g = m ? product_in(first, m->ranks) : nullptr;
  if (!g || m->op != distributed::ReduceOp::Sum || m->input.buffer != program::plain_result(first) || !(m->input.offset == Expr(0)))
    return std::nullopt;
  if (!(program::product(m->sizes) * Expr(m->ranks) == g->m * g->n) || g->a.dtype != m->input.dtype) return std::nullopt;
  Node out = second;
  auto& whole = std::get<Meeting>(out.problem);
  whole.product = *g;
  whole.input = {-1, m->input.dtype, 0, {}};
  program::take_over(out, first, true);
  return out;
}

std::string refusal(const Program& p, const Uses& uses, size_t i, size_t j, const target::Target& target, const Node& whole) {
  if (!program::may_join(p, p.nodes[i], p.nodes[j])) return "they were chosen to stay apart";
  if (uses.is_touched_between(i, j)) return "something between the two touches their memory";
  return target.bringing_refusal(whole);
}

// Joins the first pair from node `from` on; where it was, or the end.
size_t join_next(Program& p, size_t from, const target::Target& target, FusionReport* report) {
  std::optional<Uses> uses;
  for (size_t i = from; i < p.nodes.size(); ++i) {
    if (!std::holds_alternative<Gemm>(p.nodes[i].problem) && !meeting_in(p.nodes[i], Kind::AllGather)) continue;
    const int between = program::plain_result(p.nodes[i]);
    if (between < 0 || p.buffers[static_cast<size_t>(between)].kind != loop::BufferKind::Temporary) continue;
    if (!uses) uses.emplace(p);
    const size_t j = uses->only_reader(between, i);
    if (j == Uses::kNone) continue;
    std::optional<Node> whole = gathered(p.nodes[i], p.nodes[j]);
    if (!whole) whole = scattered(p.nodes[i], p.nodes[j]);
    if (!whole) continue;
    if (std::string reason = refusal(p, *uses, i, j, target, *whole); !reason.empty()) {
      if (report) report->misses.push_back({program::label(p.nodes[i]), program::label(p.nodes[j]), std::move(reason)});
      continue;
    }
    p.nodes[j] = std::move(*whole);
    const auto& m = std::get<Meeting>(p.nodes[j].problem);
    leave_sums(p, j, m.kind == Kind::ReduceScatter ? std::optional(m.input.dtype) : std::nullopt);
    p.nodes.erase(p.nodes.begin() + static_cast<long>(i));
    return i;
  }
  return p.nodes.size();
}

}  // namespace

Program overlap_products(Program p, const target::Target& target, FusionReport* report) {
  for (size_t i = 0; i < p.nodes.size();) i = join_next(p, i, target, report);
  if (report) report->nodes_after = p.nodes.size();
  return p;
}

}  // namespace toroid::sched
