#include "codegen/cpu/passes.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/mutants.h"

namespace toroid::codegen {

using loop::Reduction;
using loop::Step;

namespace {

// Terms that one float accumulator takes before it is added to the total, which is F64: errors are those of a block, less where there are
// many.
constexpr int64_t kBlock = 128;

bool is_position(Reduction r) { return r == Reduction::ArgMax || r == Reduction::ArgMin; }

std::string horizontal_of(Reduction r, DType t) {
  if (is_bool(t)) return fold_of(r, t) == ScalarOp::Or ? "hany" : "hall";
  switch (r) {
    case Reduction::Sum:
      return "hsum";
    case Reduction::Prod:
      return "hprod";
    case Reduction::Max:
      return "hmax";
    default:
      return "hmin";
  }
}

std::string better_of(Reduction r) { return r == Reduction::ArgMax ? "argmax_better" : "argmin_better"; }

}  // namespace

PassWriter::PassWriter(const KernelPlan& plan, StepEmitter& emitter, std::string& inner_text)
    : plan_(plan), e_(emitter), scans_(plan, emitter), inner_text_(inner_text) {
  level_.assign(plan.body.steps.size(), 0);
  for (size_t i = 0; i < plan.reduction.size(); ++i) {
    std::vector<bool> on = depends_on_variable(plan.domain, plan.body, plan.domain.vars[static_cast<size_t>(plan.reduction[i])].symbol);
    for (size_t k = 0; k < on.size(); ++k)
      if (on[k] && plan.varies[k]) level_[k] = static_cast<int>(i) + 1;
  }
  if (plan.inner_reduces())
    for (size_t k = 0; k < level_.size(); ++k)
      if (plan.on_inner[k]) level_[k] = static_cast<int>(plan.reduction.size()) + 1;
}

void PassWriter::declare(const Accumulator& a, const Form& f) {
  Reduction r = plan_.step(a.step).reduction;
  bool vector = lanes_of_result(a.step, f.vector);
  const DType t = f.dtype_of(a);
  e_.line(fmt::format("{} a{}{} = {};", type(t, vector), a.step, f.suffix, e_.literal(loop::identity_of(r, t), t, vector)));
  if (is_position(r))
    e_.line(fmt::format("{} a{}{}_at = {};", type(DType::I64, vector), a.step, f.suffix,
                        e_.literal(Number::of(std::numeric_limits<int64_t>::max()), DType::I64, vector)));
}

void PassWriter::fold(const Accumulator& a, const Form& f) {
  const loop::Statement& s = plan_.step(a.step);
  bool vector = lanes_of_result(a.step, f.vector);
  std::string acc = fmt::format("a{}{}", a.step, f.suffix), value = vector ? e_.vector(s.args[0]) : e_.scalar(s.args[0]);
  const DType t = f.dtype_of(a);
  value = e_.convert(plan_.step(s.args[0]).dtype, t, value, vector);
  if (!is_position(s.reduction)) {
    e_.line(fmt::format("{} = {};", acc, e_.call(fold_of(s.reduction, t), t, t, {acc, value}, vector)));
    return;
  }
  std::string better = fmt::format("better{}{}", a.step, f.suffix),
              at = vector ? e_.vector_index(position(true)) : e_.index(position(true));
  e_.line(fmt::format("{} {} = {}({}, {});", type(DType::Bool, vector), better, e_.function(better_of(s.reduction), a.dtype, vector), value,
                      acc));
  e_.line(fmt::format("{0} = {1}({2}, {3}, {0});", acc, e_.function("sel", a.dtype, vector), better, value));
  e_.line(fmt::format("{0}_at = {1}({2}, {3}, {0}_at);", acc, e_.function("sel", DType::I64, vector), better, at));
}

void PassWriter::combine(const Accumulator& a, DType t, const std::string& to, const std::string& from, bool vector) {
  e_.line(fmt::format("{} = {};", to, e_.call(fold_of(plan_.step(a.step).reduction, t), t, t, {to, from}, vector)));
}

std::optional<PassWriter::Blocks> PassWriter::blocks_of(const std::vector<int>& loops, int64_t width) const {
  int64_t inside = 1;  // terms of one iteration of loop i
  for (size_t i = loops.size(); i-- > 0;) {
    const auto extent = plan_.domain.vars[static_cast<size_t>(loops[i])].extent().maybe_constant();
    const int64_t step = i + 1 == loops.size() ? width : 1, iterations = std::max<int64_t>(kBlock / inside, 1) * step;
    if (!extent || *extent > 2 * iterations || (inside > 1 && inside * *extent > 2 * kBlock)) return Blocks{i, iterations};
    inside *= std::max<int64_t>(*extent / step, 1);
  }
  return std::nullopt;
}

// From accumulators to the value of the step.
void PassWriter::finish(const Accumulator& a, bool vector) {
  const loop::Statement& s = plan_.step(a.step);
  bool across = plan_.inner_reduces() && plan_.lanes > 1;  // lanes and tail are parts of one result
  bool lanes = !across && lanes_of_result(a.step, vector);
  const DType t = a.total();
  std::string acc = fmt::format("a{}", a.step), value = acc;
  if (is_position(s.reduction)) {
    std::string none = e_.literal(Number::of(std::numeric_limits<int64_t>::max()), DType::I64, lanes),
                zero = e_.literal(Number::of(int64_t{0}), DType::I64, lanes);
    if (across) {
      std::string better = e_.function(better_of(s.reduction), a.dtype, false),
                  h = e_.function(s.reduction == Reduction::ArgMax ? "hargmax" : "hargmin", a.dtype, true);
      e_.line(fmt::format("{} {}_best;", memory_type(a.dtype), acc));
      e_.line(fmt::format("i64 {0}_first = {1}({0}, {0}_at, &{0}_best);", acc, h));
      e_.line(fmt::format("if ({1}({0}_tail, {0}_best) || (!{1}({0}_best, {0}_tail) && {0}_tail_at < {0}_first)) {0}_first = {0}_tail_at;",
                          acc, better));
      value = acc + "_first";
    } else {
      value = acc + "_at";
    }
    // Nothing was better than the start: all are equal to it, or there is nothing.
    std::string is_none = e_.call(ScalarOp::Eq, DType::I64, DType::Bool, {value, none}, lanes);
    value = e_.call(ScalarOp::Select, DType::Bool, DType::I64, {is_none, zero, value}, lanes);
  } else {
    if (across) {
      value = fmt::format("{}({})", e_.function(horizontal_of(s.reduction, t), t, true), acc);
      if (!mutant(Mutant::LostTail)) value = e_.call(fold_of(s.reduction, t), t, t, {value, acc + "_tail"}, false);
    }
    value = e_.convert(t, s.dtype, value, lanes);
  }
  std::string name = fmt::format("v{}", a.step);
  e_.line(fmt::format("{} {} = {};", type(s.dtype, lanes), name, value));
  e_.define(a.step, name, lanes);
}

Expr PassWriter::position(bool nominal) const {
  Expr at = 0;
  auto append = [&](const loop::Var& v) { at = at * v.extent() + v.symbol; };
  if (nominal && !mutant(Mutant::WrongPosition)) {
    for (auto& v : plan_.domain.vars)
      if (v.reduction) append(v);
    return at;
  }
  for (int v : plan_.reduction) append(plan_.domain.vars[static_cast<size_t>(v)]);
  if (plan_.inner_reduces()) append(plan_.domain.vars[static_cast<size_t>(plan_.inner)]);
  return at;
}

std::string PassWriter::scratch_at(int step, bool vector) {
  bool wide = vector && !plan_.inner_reduces();
  return fmt::format("c{} + {}{}", step, e_.index(position(false)), wide ? fmt::format(" * {}", plan_.lanes) : "");
}

void PassWriter::emit_level(const PassPlan& pass, int level, bool vector) {
  std::vector<int> steps = pass.steps;
  steps.insert(steps.end(), pass.reads.begin(), pass.reads.end());
  std::sort(steps.begin(), steps.end());
  for (int k : steps) {
    if (level_[static_cast<size_t>(k)] != level || e_.known(k)) continue;
    DType t = plan_.step(k).dtype;
    bool lanes = vector && plan_.on_inner[static_cast<size_t>(k)];
    if (std::find(pass.reads.begin(), pass.reads.end(), k) != pass.reads.end()) {
      e_.line(fmt::format("{} v{} = {}({});", type(t, lanes), k, e_.function("load", t, lanes), scratch_at(k, lanes)));
      e_.define(k, fmt::format("v{}", k), lanes);
      continue;
    }
    if (plan_.step(k).step == Step::Scan)
      scans_.emit(k, !plan_.inner_reduces() && lanes, plan_.inner_reduces() && lanes, position(true));
    else
      e_.emit(k, vector);
    if (std::find(pass.keeps.begin(), pass.keeps.end(), k) != pass.keeps.end())
      e_.line(fmt::format("{}({}, v{});", e_.function("store", t, lanes), scratch_at(k, lanes), k));
  }
}

// One point (or vector of points) of the innermost loop.
void PassWriter::body(const PassPlan& pass, const Form& f) {
  StepEmitter::Values saved = e_.values();
  int depth = static_cast<int>(plan_.reduction.size()) + (plan_.inner_reduces() ? 1 : 0);
  emit_level(pass, depth, f.vector);
  for (auto& a : accumulators_) fold(a, f);
  for (int k : pass.stores) e_.emit(k, f.vector);
  e_.restore(std::move(saved));
}

void PassWriter::innermost(const PassPlan& pass, bool vector, const std::string& lo, const std::string& hi) {
  int v = plan_.inner_reduces() ? plan_.inner : plan_.reduction.back();
  const loop::Var& var = plan_.domain.vars[static_cast<size_t>(v)];
  std::string name = var.symbol.node()->name;
  if (!plan_.inner_reduces() || plan_.lanes == 1) {
    e_.open(fmt::format("for (i64 {0} = {1}; {0} < {2}; ++{0})", name, lo, hi));
    body(pass, {vector, ""});
    e_.close();
    return;
  }
  e_.line(fmt::format("i64 {} = {};", name, lo));
  if (pass.unroll > 1) {
    int width = plan_.lanes * pass.unroll;
    e_.open(fmt::format("for (; {0} + {1} <= {2}; {0} += {1})", name, width, hi));
    for (int u = 0; u < pass.unroll; ++u) {
      e_.open("");
      if (u) inner_text_ = fmt::format("({} + {})", name, u * plan_.lanes);
      body(pass, {true, u ? fmt::format("_{}", u) : ""});
      inner_text_ = name;
      e_.close();
    }
    e_.close();
  }
  e_.open(fmt::format("for (; {0} + {1} <= {2}; {0} += {1})", name, plan_.lanes, hi));
  body(pass, {true, ""});
  e_.close();
  if (sym::known_multiple(var.extent(), plan_.lanes)) return;
  e_.line("#pragma clang loop vectorize(disable) unroll(disable)");
  e_.open(fmt::format("for (; {0} < {1}; ++{0})", name, hi));
  body(pass, kTail);
  e_.close();
}

void PassWriter::write(size_t q, bool vector) {
  const PassPlan& pass = plan_.passes[q];
  bool across = plan_.inner_reduces() && plan_.lanes > 1;
  std::vector<int> loops = plan_.reduction;
  if (plan_.inner_reduces()) loops.push_back(plan_.inner);
  std::optional<Blocks> blocks = blocks_of(loops, across ? plan_.lanes * pass.unroll : 1);
  bool any_blocked = false;
  accumulators_.clear();
  for (int k : pass.reduces) {
    const loop::Statement& s = plan_.step(k);
    DType t = plan_.step(s.args[0]).dtype;
    t = is_bool(t) && is_position(s.reduction) ? DType::I32 : accumulator_type(t);
    bool blocked = blocks && s.reduction == Reduction::Sum && is_float(t);
    any_blocked = any_blocked || blocked;
    accumulators_.push_back({k, t, blocked});
  }
  if (!any_blocked) blocks.reset();
  bool main_vector = across || vector;
  int copies = across ? pass.unroll : 1;
  auto suffix = [](int u) { return u ? fmt::format("_{}", u) : std::string(); };
  auto in_lanes = [&](const Accumulator& a) { return lanes_of_result(a.step, main_vector); };
  auto join_copies = [&](const Accumulator& a) {
    for (int u = 1; u < copies && !mutant(Mutant::LostAccumulator); ++u)
      combine(a, a.dtype, fmt::format("a{}", a.step), fmt::format("a{}_{}", a.step, u), in_lanes(a));
  };
  for (auto& a : accumulators_) {
    if (a.blocked)
      e_.line(fmt::format("{} a{}_total = {};", type(a.total(), in_lanes(a)), a.step,
                          e_.literal(Number::of(int64_t{0}), a.total(), in_lanes(a))));
    for (int u = 0; u < copies && !a.blocked; ++u) declare(a, {main_vector, suffix(u)});
    if (across) declare(a, kTail);
  }

  StepEmitter::Values saved = e_.values();
  e_.open("");
  for (int k : pass.steps)
    if (plan_.step(k).step == Step::Scan) scans_.declare(k, !plan_.inner_reduces() && lanes_of_result(k, vector));
  emit_level(pass, 0, vector);
  std::vector<int> readers = pass.steps;
  readers.insert(readers.end(), pass.reduces.begin(), pass.reduces.end());
  readers.insert(readers.end(), pass.stores.begin(), pass.stores.end());
  for (size_t i = 0; i < loops.size(); ++i) {
    const loop::Var& var = plan_.domain.vars[static_cast<size_t>(loops[i])];
    const std::string extent = e_.index(var.extent());
    const bool last = i + 1 == loops.size(), cut = blocks && blocks->loop == i;
    if (last && main_vector) e_.splat_operands(readers);
    if (cut) {
      e_.open(fmt::format("for (i64 block = 0; block < {}; block += {})", extent, blocks->iterations));
      e_.line(fmt::format("const i64 block_end = block + {0} < {1} ? block + {0} : {1};", blocks->iterations, extent));
      for (auto& a : accumulators_)
        for (int u = 0; u < copies && a.blocked; ++u) declare(a, {main_vector, suffix(u)});
    }
    const std::string lo = cut ? "block" : "0", hi = cut ? "block_end" : extent;
    if (last) {
      innermost(pass, vector, lo, hi);
    } else {
      e_.open(fmt::format("for (i64 {0} = {1}; {0} < {2}; ++{0})", var.symbol.node()->name, lo, hi));
      emit_level(pass, static_cast<int>(i) + 1, vector);
    }
  }
  for (size_t i = loops.size(); i-- > 0;) {
    if (i + 1 < loops.size()) e_.close();
    if (!blocks || blocks->loop != i) continue;
    for (auto& a : accumulators_) {
      if (!a.blocked) continue;
      join_copies(a);
      combine(a, a.total(), fmt::format("a{}_total", a.step), e_.convert(a.dtype, a.total(), fmt::format("a{}", a.step), in_lanes(a)),
              in_lanes(a));
    }
    e_.close();
  }
  e_.close();
  e_.restore(std::move(saved));

  for (auto& a : accumulators_) {
    if (a.blocked)
      e_.line(fmt::format("{} a{} = a{}_total;", type(a.total(), in_lanes(a)), a.step, a.step));
    else
      join_copies(a);
    finish(a, vector);
  }
}

}  // namespace toroid::codegen
