#include "sched/absorb.h"

#include <algorithm>

#include "base/mutants.h"
#include "sched/domain_map.h"
#include "sched/joins.h"

namespace toroid::sched {
namespace {

using loop::Step;
using program::Gemm;
using program::Node;
using program::Program;
using program::Uses;

bool contains(const std::vector<int>& list, int x) { return std::find(list.begin(), list.end(), x) != list.end(); }

// Does nothing but the left operand of this product read the buffer?
bool only_left_operand(const Uses& uses, const Program& p, size_t j, int buffer) {
  const Node& product = p.nodes[j];
  return uses.readers(buffer) == std::vector{j} && std::get<Gemm>(product.problem).b.buffer != buffer &&
         !contains(loop::buffers_read(product.body), buffer);
}

// The left operand's domain: batch..., m, k.
loop::Domain operand_domain(const Gemm& g, bool reduces_along_k) {
  loop::Domain d;
  std::vector<Expr> extents = g.batch;
  extents.push_back(g.m);
  extents.push_back(g.k);
  for (auto& e : extents) d.vars.push_back({sym::loop_symbol("i" + std::to_string(d.vars.size()), e), false});
  d.vars.back().reduction = reduces_along_k;
  return d;
}

// The node over the operand's domain, if it stores each of the operand's elements where the product reads it.
std::optional<loop::Nest> as_producer(const Node& node, const Gemm& g) {
  const bool reduces = loop::has_reduction(node.domain);
  loop::Nest out;
  out.domain = operand_domain(g, reduces);
  std::optional<Match> match = match_domains(out.domain, node.domain, true);
  if (!match) return std::nullopt;
  out.body = rename(node.body, match->second);
  Expr read = g.a.offset;
  for (size_t i = 0; i < out.domain.vars.size(); ++i)
    if (!(out.domain.vars[i].extent() == Expr(1))) read = read + out.domain.vars[i].symbol * g.a.strides[i];
  const Expr& k = out.domain.vars.back().symbol;
  int stores = 0;
  for (auto& s : out.body.steps) {
    if (s.step != Step::Store) continue;
    if (s.buffer != g.a.buffer || s.mode != loop::StoreMode::Set || s.mask >= 0 || !(s.index == read)) return std::nullopt;
    s.index = k;
    ++stores;
  }
  if (stores != 1) return std::nullopt;
  // Rows are f32, of what was rounded for memory: sums of products cancel.
  loop::BodyBuilder builder(out.body);
  auto store = std::find_if(out.body.steps.begin(), out.body.steps.end(), [](auto& s) { return s.step == Step::Store; });
  loop::Statement last = *store;
  *store = {};
  if (is_half(last.dtype)) {
    last.args[0] = builder.emit({.op = ScalarOp::Cast, .dtype = DType::F32, .args = {last.args[0], -1, -1}, .value = {}});
    last.dtype = DType::F32;
  }
  out.body.steps.push_back(last);
  loop::eliminate_dead(out.body);
  return out;
}

// Cycles of one thread for an element of a row, in vectors of 16: memory in the cache, one instruction a simple operation, some ten a
// function or division.
double cycles_per_element(const loop::Nest& row) {
  const std::vector<bool> varies = loop::varies_over_reduction(row.domain, row.body);
  const bool reduces = loop::has_reduction(row.domain);
  double cycles = 0;
  for (size_t i = 0; i < row.body.steps.size(); ++i) {
    const loop::Statement& s = row.body.steps[i];
    if (reduces && !varies[i] && s.step != Step::Reduce) continue;  // once a row
    if (s.step == Step::Load || s.step == Step::Store) cycles += 2;
    if (s.step == Step::Reduce) cycles += 1;
    if (s.step == Step::Scan) cycles += 16;
    if (s.step == Step::Scalar) cycles += s.op == ScalarOp::Const ? 0 : s.op == ScalarOp::Div || s.op >= ScalarOp::Exp ? 12 : 1;
  }
  return cycles / 16;
}

// May the threads compute rows again, rather than each its share once in a launch of its own?
bool pays(const loop::Nest& row, const Gemm& g, int threads) {
  constexpr double kLaunch = 5000;    // cycles until all threads have begun and joined
  constexpr double kShare = 0.02;     // of the product's own time
  constexpr double kFmas = 24;        // a cycle
  constexpr int64_t kTaskRows = 128;  // the most rows that a product's task reads
  const auto extent = [](const Expr& e) {
    return static_cast<double>(sym::evaluate(e, [](const sym::Node& s) { return std::clamp<int64_t>(64, s.lo, std::max(s.lo, s.hi)); }));
  };
  const double m = extent(g.m), n = extent(g.n), k = extent(g.k);
  const double again = std::min<double>(m, kTaskRows) * k * cycles_per_element(row) * (1 - 1.0 / threads);
  return again <= kLaunch + kShare * m * n * k / (kFmas * threads);
}

}  // namespace

std::string recompute_refusal(const Node& product, int threads) {
  if (pays(*product.producer, std::get<Gemm>(product.problem), threads)) return "";
  return "several threads would compute the same rows, and that costs more than a launch";
}

program::Program absorb_producers(program::Program p, const target::Target& target, FusionReport* report) {
  Joins joins(p, report);
  const Uses& uses = joins.uses();
  for (size_t j = 0; j < p.nodes.size(); ++j) {
    auto* g = std::get_if<Gemm>(&p.nodes[j].problem);
    if (!g || is_int(g->accumulate) || p.nodes[j].is_library() ||
        p.buffers[static_cast<size_t>(g->a.buffer)].kind != loop::BufferKind::Temporary)
      continue;
    const std::vector<size_t>& writers = uses.writers(g->a.buffer);
    if (writers.size() != 1 || writers[0] >= j) continue;
    const size_t i = writers[0];
    if (!p.nodes[i].is_loop() || !only_left_operand(uses, p, j, g->a.buffer)) continue;
    const auto& reads = uses.reads(i);
    const bool overwritten = std::any_of(reads.begin(), reads.end(), [&](int b) { return Uses::any_between(uses.writers(b), i, j + 1); });
    std::string reason;
    Node product = p.nodes[j];
    if (!program::may_join(p, p.nodes[i], p.nodes[j])) {
      reason = "they were chosen to stay apart";
    } else if (overwritten && !mutant(Mutant::ProducerAfterWrite)) {
      reason = "what the first reads is overwritten before the second runs";
    } else if (!(product.producer = as_producer(p.nodes[i], *g))) {
      reason = "the first does not compute the rows that the second reads";
    } else {
      auto& rows = std::get<Gemm>(product.problem);
      rows.a.dtype = DType::F32;
      rows.a.strides.back() = 1;
      reason = target.producer_refusal(product);
    }
    if (reason.empty()) {
      program::take_over(product, p.nodes[i], true);
      joins.join(i, j, std::move(product));
    } else {
      joins.miss(i, j, std::move(reason));
    }
  }
  joins.finish();
  return p;
}

}  // namespace toroid::sched
