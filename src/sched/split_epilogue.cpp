#include "sched/split_epilogue.h"

#include "loop/dead_code.h"
#include "program/points.h"

namespace toroid::sched {
namespace {

// Two steps behind `step`: its value rounded, and what later steps read in its place.
void round_step(loop::Body& body, int step, DType dtype) {
  auto moved = [&](int used) { return used < step ? used : used + 2; };
  const DType before = body.steps[static_cast<size_t>(step)].dtype;
  for (size_t k = static_cast<size_t>(step) + 1; k < body.steps.size(); ++k) {
    loop::Statement& s = body.steps[k];
    for (int& a : s.args) a = moved(a);
    s.mask = moved(s.mask);
    s.index = sym::substitute(s.index, [&](const sym::Node& symbol) -> std::optional<Expr> {
      const int used = loop::step_of_symbol(symbol);
      return used < step ? std::nullopt : std::optional(loop::value_symbol(moved(used), symbol.lo, symbol.hi));
    });
  }
  for (int k : {1, 2}) {
    loop::Statement cast;
    cast.op = ScalarOp::Cast;
    cast.dtype = k == 1 ? dtype : before;
    cast.args[0] = step + k - 1;
    body.steps.insert(body.steps.begin() + step + k, cast);
  }
}

}  // namespace

void split_epilogue(program::Program& p, size_t i, int step, const std::vector<Expr>& strides, std::optional<DType> rounded) {
  program::Node whole = p.nodes[i];
  if (rounded && *rounded != whole.body.steps[static_cast<size_t>(step)].dtype) round_step(whole.body, step++, *rounded);
  p.nodes[i].body = whole.body;
  const DType dtype = whole.body.steps[static_cast<size_t>(step)].dtype;
  Expr index = 0;
  for (size_t d = 0; d < strides.size(); ++d)
    if (!(whole.domain.vars[d].extent() == Expr(1))) index = index + whole.domain.vars[d].symbol * strides[d];
  const int buffer = p.new_buffer("partial_" + program::label(whole), dtype, loop::space_size(whole.domain), loop::BufferKind::Temporary);

  program::Node& first = p.nodes[i];
  first.body.steps.resize(static_cast<size_t>(step) + 1);
  for (auto& s : first.body.steps)
    if (s.step == loop::Step::Store) s = {};
  loop::BodyBuilder builder(first.body);
  builder.store(buffer, dtype, index, {&builder, step, dtype});
  loop::eliminate_dead(first.body);

  program::Node rest;
  program::take_over(rest, whole);
  rest.body = whole.body;
  loop::Statement load;
  load.step = loop::Step::Load;
  load.dtype = dtype;
  load.buffer = buffer;
  load.index = index;
  rest.body.steps[static_cast<size_t>(step)] = load;
  loop::eliminate_dead(rest.body, [&](size_t k) { return k < static_cast<size_t>(step); });
  // Loops have no variables of one point.
  for (auto& v : whole.domain.vars)
    if (!(v.extent() == Expr(1))) rest.domain.vars.push_back(v);
  p.nodes.insert(p.nodes.begin() + static_cast<long>(i) + 1, std::move(rest));
}

void leave_sums(program::Program& p, size_t i, std::optional<DType> dtype) {
  const program::Node& node = p.nodes[i];
  const auto& steps = node.body.steps;
  const program::Gemm* product = program::product_of(node);
  const auto may_be = [&](DType t) { return is_float(t) && (!product || t == product->a.dtype || t == product->accumulate); };
  if (program::plain_result(node) >= 0 && may_be(steps.back().dtype) && (!dtype || steps.back().dtype == *dtype)) return;
  int sums = -1, rounded = -1, readers = 0;
  for (size_t k = 0; k < steps.size(); ++k) {
    if (steps[k].step == loop::Step::Accumulate) sums = static_cast<int>(k);
    loop::for_each_use(steps[k], [&](size_t of) {
      if (static_cast<int>(of) != sums) return;
      ++readers;
      if (steps[k].step == loop::Step::Scalar && steps[k].op == ScalarOp::Cast && may_be(steps[k].dtype)) rounded = static_cast<int>(k);
    });
  }
  std::vector<Expr> strides(node.domain.vars.size());
  Expr step = 1;
  for (size_t d = strides.size(); d-- > 0; step = step * node.domain.vars[d].extent()) strides[d] = step;
  split_epilogue(p, i, readers == 1 && rounded >= 0 && !dtype ? rounded : sums, strides, dtype);
}

}  // namespace toroid::sched
