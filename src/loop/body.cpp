#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/mutants.h"
#include "loop/dead_code.h"
#include "loop/node.h"

namespace toroid::loop {

namespace {

bool same(const Statement& a, const Statement& b) {
  const bool alike = a.value == b.value || (a.step == Step::Check && b.step == Step::Check);  // whichever site is named
  return alike && a.step == b.step && a.op == b.op && a.dtype == b.dtype && std::equal(a.args, a.args + 3, b.args) &&
         a.buffer == b.buffer && a.mask == b.mask && a.reduction == b.reduction && a.mode == b.mode && a.index == b.index;
}

Expr renumber(const Expr& e, const std::vector<int>& to) {
  return sym::substitute(e, [&](const sym::Node& n) -> std::optional<Expr> {
    int k = step_of_symbol(n);
    if (k < 0) return std::nullopt;
    return value_symbol(to[static_cast<size_t>(k)], n.lo, n.hi);
  });
}

}  // namespace

int BodyBuilder::add(Statement s) {
  if (s.step != Step::Store)
    for (size_t i = body_.steps.size(); i-- > 0;) {
      if (body_.steps[i].step == Step::Store && s.step == Step::Load && body_.steps[i].buffer == s.buffer)
        break;  // memory changed in between
      if (same(body_.steps[i], s)) return static_cast<int>(i);
    }
  body_.steps.push_back(std::move(s));
  return static_cast<int>(body_.steps.size()) - 1;
}

int BodyBuilder::emit(const ScalarNode& node) {
  Statement s;
  s.op = node.op;
  s.dtype = node.dtype;
  std::copy(node.args, node.args + 3, s.args);
  s.value = node.value;
  if (node.op == ScalarOp::Const) return add(s);
  int n = arity_of(node.op);
  bool constant = n > 0 && node.op != ScalarOp::RandUniform && node.op != ScalarOp::RandNormal;
  Number args[3];
  for (int i = 0; i < n && constant; ++i) {
    const Statement& a = body_.steps[static_cast<size_t>(node.args[i])];
    constant = a.step == Step::Scalar && a.op == ScalarOp::Const;
    args[i] = a.value;
  }
  if (constant) {
    DType operand = body_.steps[static_cast<size_t>(node.args[0])].dtype;
    s.value = evaluate(node.op, node.dtype, operand, args);
    s.op = ScalarOp::Const;
    std::fill(s.args, s.args + 3, -1);
  }
  return add(s);
}

S BodyBuilder::constant(DType dtype, Number v) {
  Statement s;
  s.dtype = dtype;
  s.value = convert(v, dtype);
  return {this, add(s), dtype};
}

S BodyBuilder::load(int buffer, DType dtype, const Expr& index) {
  Statement s;
  s.step = Step::Load;
  s.dtype = dtype;
  s.buffer = buffer;
  s.index = index;
  if (!masks_.empty()) s.mask = masks_.back().id;
  return {this, add(s), dtype};
}

S BodyBuilder::index(const Expr& e) {
  if (auto c = e.maybe_constant()) return constant(DType::I64, Number::of(*c));
  if (e.kind() == sym::Kind::Symbol)
    if (int k = step_of_symbol(*e.node()); k >= 0) return {this, k, DType::I64};
  Statement s;
  s.step = Step::Index;
  s.dtype = DType::I64;
  s.index = e;
  return {this, add(s), DType::I64};
}

S BodyBuilder::is_below(const Expr& e, const Expr& limit) {
  const S most = index(limit);
  return index(e) < most;
}

S BodyBuilder::check(S value, const Expr& extent, int faults, int site) {
  Statement s;
  s.step = Step::Check;
  s.dtype = DType::I64;
  s.args[0] = value.id;
  s.index = extent;
  s.buffer = faults;
  s.value = Number::of(int64_t{site});
  if (!masks_.empty()) s.mask = masks_.back().id;
  return {this, add(s), DType::I64};
}

S BodyBuilder::fold(Step step, Reduction kind, S value) {
  Statement s;
  s.step = step;
  bool position = kind == Reduction::ArgMax || kind == Reduction::ArgMin;
  s.dtype = position ? DType::I64 : value.dtype;
  s.args[0] = value.id;
  s.reduction = kind;
  return {this, add(s), s.dtype};
}

S BodyBuilder::accumulator(DType dtype) {
  Statement s;
  s.step = Step::Accumulate;
  s.dtype = dtype;
  return {this, add(s), dtype};
}

void BodyBuilder::store(int buffer, DType dtype, const Expr& index, S value, StoreMode mode, int mask) {
  Statement s;
  s.step = Step::Store;
  s.dtype = dtype;
  s.args[0] = cast(value, dtype).id;
  s.buffer = buffer;
  s.index = index;
  s.mode = mode;
  s.mask = mask;
  add(s);
}

Expr BodyBuilder::as_index(S value, int64_t lo, int64_t hi) {
  S i = cast(value, DType::I64);
  const Statement& s = body_.steps[static_cast<size_t>(i.id)];
  if (s.step == Step::Scalar && s.op == ScalarOp::Const) return s.value.i;
  if (s.step == Step::Index) return s.index;
  return value_symbol(i.id, lo, hi);
}

static int64_t modulus_in(const Expr& e) {
  if (e.is_const()) return 0;
  const sym::Node& n = *e.node();
  if (n.kind == sym::Kind::Mod) return n.args[1].maybe_constant().value_or(0);
  int64_t found = 0;
  for (auto& t : n.terms)
    for (auto& f : t.factors) found = std::max(found, modulus_in(f));
  return found;
}

int64_t sums_of_column(const Statement& s) { return stores_sum(s) ? modulus_in(s.index) : 0; }

bool uses_values(const Expr& index) {
  bool found = false;
  sym::for_each_symbol(index, [&](const Expr& s) { found = found || step_of_symbol(*s.node()) >= 0; });
  return found;
}

std::vector<bool> varies_over_reduction(const Domain& d, const Body& b) {
  std::vector<bool> varies(b.steps.size(), false);
  for (size_t i = 0; i < b.steps.size(); ++i) {
    const Statement& s = b.steps[i];
    if (s.step == Step::Reduce) continue;
    bool v = s.step == Step::Scan;
    for_each_use(s, [&](size_t k) { v = v || varies[k]; });
    sym::for_each_symbol(s.index, [&](const Expr& e) {
      for (auto& var : d.vars) v = v || (var.reduction && var.symbol == e);
    });
    varies[i] = v;
  }
  return varies;
}

std::vector<int> pass_of(const Domain&, const Body& b) {
  std::vector<int> pass(b.steps.size(), 1);
  for (size_t i = 0; i < b.steps.size(); ++i) {
    int p = 1;
    for_each_use(b.steps[i], [&](size_t k) { p = std::max(p, pass[k] + (b.steps[k].step == Step::Reduce)); });
    pass[i] = p;
  }
  return pass;
}

bool has_reduction(const Domain& d) {
  return std::any_of(d.vars.begin(), d.vars.end(), [](const Var& v) { return v.reduction; });
}

Number identity_of(Reduction kind, DType dtype) {
  switch (kind) {
    case Reduction::Sum:
      return convert(Number::of(int64_t{0}), dtype);
    case Reduction::Prod:
      return convert(Number::of(int64_t{1}), dtype);
    case Reduction::Any:
      return Number::of(false);
    case Reduction::All:
      return Number::of(true);
    default:
      break;
  }
  bool of_max = kind == Reduction::Max || kind == Reduction::ArgMax || kind == Reduction::LogSumExp;
  if (is_float(dtype)) return Number::of(of_max ? (mutant(Mutant::WrongIdentity) ? 0.0 : -HUGE_VAL) : HUGE_VAL);
  if (is_bool(dtype)) return Number::of(!of_max);
  auto bits = static_cast<int>(8 * size_of(dtype));
  if (name_of(dtype)[0] == 'u') return Number::of(of_max ? int64_t{0} : static_cast<int64_t>(~uint64_t{0} >> (64 - bits)));
  int64_t low = std::numeric_limits<int64_t>::min() >> (64 - bits);
  return Number::of(of_max ? low : -(low + 1));
}

Expr space_size(const Domain& d) {
  Expr n = 1;
  for (auto& v : d.vars)
    if (!v.reduction) n = n * v.extent();
  return n;
}

Expr reduction_size(const Domain& d) {
  Expr n = 1;
  for (auto& v : d.vars)
    if (v.reduction) n = n * v.extent();
  return n;
}

namespace {
std::vector<int> buffers_of(const Body& b, Step step) {
  std::vector<int> out;
  for (auto& s : b.steps) {
    bool touches = s.step == step || (step == Step::Load && folds_into_memory(s));
    if (touches && std::find(out.begin(), out.end(), s.buffer) == out.end()) out.push_back(s.buffer);
  }
  return out;
}
}  // namespace

std::vector<int> buffers_read(const Body& b) { return buffers_of(b, Step::Load); }
std::vector<int> buffers_written(const Body& b) { return buffers_of(b, Step::Store); }

void eliminate_dead(Body& b, const std::function<bool(size_t)>& made_elsewhere) {
  std::vector<bool> live(b.steps.size(), false);
  for (size_t i = b.steps.size(); i-- > 0;) {
    if (b.steps[i].step == Step::Store) live[i] = true;
    if (b.steps[i].step == Step::Check && !made_elsewhere(i)) live[i] = true;  // it tells what it finds
    if (live[i]) for_each_use(b.steps[i], [&](size_t k) { live[k] = true; });
  }
  std::vector<int> to(b.steps.size(), -1);
  std::vector<Statement> kept;
  for (size_t i = 0; i < b.steps.size(); ++i) {
    if (!live[i]) continue;
    to[i] = static_cast<int>(kept.size());
    Statement s = std::move(b.steps[i]);
    for (int& a : s.args)
      if (a >= 0) a = to[static_cast<size_t>(a)];
    if (s.mask >= 0) s.mask = to[static_cast<size_t>(s.mask)];
    s.index = renumber(s.index, to);
    kept.push_back(std::move(s));
  }
  b.steps = std::move(kept);
}

void eliminate_dead(Body& b) {
  eliminate_dead(b, [](size_t) { return false; });
}

Body substitute(const Body& b, const sym::Substitution& replace) {
  Body out = b;
  for (auto& s : out.steps)
    s.index = sym::substitute(s.index, [&](const sym::Node& n) { return step_of_symbol(n) >= 0 ? std::nullopt : replace(n); });
  return out;
}

}  // namespace toroid::loop
