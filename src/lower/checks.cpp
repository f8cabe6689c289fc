// Indices and divisors that come from memory: what is known of them, and the checks of the rest.
#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/mutants.h"
#include "graph/recipe.h"
#include "lower/lowering.h"

namespace toroid::lower {
namespace {

using loop::Body;
using loop::BodyBuilder;
using loop::Statement;
using loop::Step;
using sym::Bounds;

constexpr int64_t kWide = int64_t{1} << 40;  // what is wider than this counts as unknown, so that no sum overflows
constexpr Bounds kUnknown{-sym::kInf, sym::kInf};

Bounds of(int64_t lo, int64_t hi) { return lo < -kWide || hi > kWide ? kUnknown : Bounds{lo, hi}; }
bool is_known(const Bounds& b) { return b.lo >= -kWide && b.hi <= kWide; }

Bounds range_of(DType t) {
  if (is_bool(t)) return {0, 1};
  if (!is_int(t) || size_of(t) > 4) return kUnknown;
  const int64_t count = int64_t{1} << (8 * size_of(t));
  return name_of(t)[0] == 'u' ? Bounds{0, count - 1} : Bounds{-count / 2, count / 2 - 1};
}

// What is known of an integer step.
Bounds bounds_of(const Body& body, int k) {
  const Statement& s = body.steps[static_cast<size_t>(k)];
  const auto arg = [&](int i) { return bounds_of(body, s.args[i]); };
  if (s.step == Step::Index) return sym::bounds(s.index);
  if (s.step == Step::Check) return {0, std::max<int64_t>(sym::bounds(s.index).hi - 1, 0)};
  if (s.step != Step::Scalar) return range_of(s.dtype);
  if (s.op == ScalarOp::Const && is_int(s.dtype)) return of(s.value.i, s.value.i);
  if (s.op == ScalarOp::Cast) {
    const Bounds all = range_of(s.dtype), from = is_float(body.steps[static_cast<size_t>(s.args[0])].dtype) ? kUnknown : arg(0);
    return from.lo >= all.lo && from.hi <= all.hi ? from : all;
  }
  if (s.dtype != DType::I64) return range_of(s.dtype);
  switch (s.op) {
    case ScalarOp::Select: {
      const Bounds a = arg(1), b = arg(2);
      return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)};
    }
    case ScalarOp::Min: {
      const Bounds a = arg(0), b = arg(1);
      return {std::min(a.lo, b.lo), std::min(a.hi, b.hi)};
    }
    case ScalarOp::Max: {
      const Bounds a = arg(0), b = arg(1);
      return {std::max(a.lo, b.lo), std::max(a.hi, b.hi)};
    }
    case ScalarOp::Add: {
      const Bounds a = arg(0), b = arg(1);
      return is_known(a) && is_known(b) ? of(a.lo + b.lo, a.hi + b.hi) : kUnknown;
    }
    case ScalarOp::Sub: {
      const Bounds a = arg(0), b = arg(1);
      return is_known(a) && is_known(b) ? of(a.lo - b.hi, a.hi - b.lo) : kUnknown;
    }
    case ScalarOp::Remainder: {
      const Bounds by = arg(1);
      return by.lo > 0 ? Bounds{0, by.hi - 1} : kUnknown;
    }
    default:
      return kUnknown;
  }
}

bool is_inside(const Body& body, int k, const Expr& extent) {
  const Statement& s = body.steps[static_cast<size_t>(k)];
  if (s.step == Step::Index) return sym::known_ge(s.index, 0) && sym::known_lt(s.index, extent);
  if (s.step == Step::Check && s.mask < 0) return sym::known_ge(extent, s.index) && sym::known_ge(extent, 1);
  const Bounds b = bounds_of(body, k);
  return b.lo >= 0 && b.hi < sym::bounds(extent).lo;
}

}  // namespace

CheckedIndex checked_index(BodyBuilder& b, S raw, const Expr& extent, const IndexCheck& check) {
  S i = cast(raw, DType::I64);
  if (check.wraps && bounds_of(b.body(), i.id).lo < 0 && !mutant(Mutant::NegativeIndex)) {
    const S from_end = i + b.index(extent);
    i = select(i < 0.0, from_end, i);
  }
  std::optional<S> inside;
  if (check.site >= 0 && !is_inside(b.body(), i.id, extent)) {
    const S below = i < b.index(extent);
    inside = (i >= 0.0) & below;
    i = b.check(i, extent, check.faults, check.site);
  }
  const auto hi = sym::bounds(extent).hi;
  return {b.as_index(i, 0, hi >= sym::kInf ? sym::kInf : std::max<int64_t>(hi - 1, 0)), inside};
}

IndexCheck Lowering::check_of(const graph::Value* indices, const IndexSite& site, const Expr& extent) {
  IndexCheck out{.wraps = site.wraps};
  if (!options_.checks()) return out;
  constexpr int64_t kLooked = 1 << 20;  // elements
  if (const Tensor data = constant_of(indices); data.defined() && !graph::recipe_of(data) && extent.is_const() && data.numel() <= kLooked) {
    const Tensor all = moved(data, Device::cpu()).contiguous();
    const auto bytes = static_cast<int64_t>(size_of(all.dtype()));
    for (int64_t i = 0; i < all.numel(); ++i) {
      const int64_t given = load_number(all.raw_data() + i * bytes, all.dtype()).as_int();
      const int64_t at = site.wraps && given < 0 ? given + extent.constant() : given;
      if (at < 0 || at >= extent.constant()) fail<UserError>("{}", index_error(site, given, extent.constant()));
    }
    return out;
  }
  out.faults = program_.faults();
  out.site = program_.site(site);
  return out;
}

IndexCheck Lowering::check_of(const IndexSite& site) {
  IndexCheck out;
  if (!options_.checks()) return out;
  out.faults = program_.faults();
  out.site = program_.site(site);
  return out;
}

void check_divisor(BodyBuilder& b, S divisor, const IndexCheck& check) {
  const Bounds known = bounds_of(b.body(), divisor.id);
  if (known.lo <= 0 && known.hi >= 0) b.check(cast(divisor == 0.0, DType::I64), 1, check.faults, check.site);
}

IndexCheck Lowering::divisor_check(const graph::Node& n, DType compute) {
  if (!n.op->divides || !is_int(compute) || !options_.checks() || facts().device.is_cuda()) return {};
  if (auto* e = std::get_if<Expr>(&n.args[1]); e && e->is_const() && *e != Expr(0)) return {};
  return check_of({std::string(ops::plain_name(*n.op)), n.where, IndexSite::kDivisor});
}

// The composites' own part: a tensor of indices, looked at.
void lower_check_index(Lowering& l, const graph::Node& n) {
  auto types = graph::type_args(n);
  const ops::TypeReader reader(*n.op, types);
  const graph::Value* source = std::get<graph::Value*>(n.args[0]);
  const Expr extent = reader.expr("size");
  const IndexCheck check = l.check_of(source, {reader.text("operation"), n.where, reader.integer("dim"), reader.flag("wraps")}, extent);
  Lazy self = l.value(source), out;
  out.dtype = DType::I64;
  out.sizes = self.sizes;
  out.work = self.work + 1;
  out.loads = self.loads;
  out.at = [self, extent, check](BodyBuilder& b, const Index& index) {
    return b.index(checked_index(b, self.at(b, index), extent, check).at);
  };
  l.define(n.results[0], std::move(out));
}

namespace {

// A ValueFault of x, as an I64: no value takes the first comparison's other side but what is wrong.
S fault_of(ValueRule rule, S x) {
  const auto number = [&](ValueFault f) { return lit_as(x, DType::I64, Number::of(static_cast<int64_t>(f))); };
  const auto choose = [&](S wrong, ValueFault fault, S otherwise) { return select(wrong, number(fault), otherwise); };
  S found = number(ValueFault::None);
  switch (rule) {
    case ValueRule::Probability:
      found = choose(x > 1.0, ValueFault::AboveOne, found);
      break;
    case ValueRule::Total:
      found = choose(x == 0.0, ValueFault::Zero, found);
      [[fallthrough]];
    case ValueRule::Weight:
      found = choose(x == lit(x, std::numeric_limits<double>::infinity()), ValueFault::Infinite, found);
      break;
    default:
      break;
  }
  const S below = number(ValueFault::Negative), wrong = choose(is_nan(x), ValueFault::NotANumber, below);
  return select(x >= 0.0, found, wrong);
}

}  // namespace

// self, beside which values are looked at.
void lower_check_values(Lowering& l, const graph::Node& n) {
  auto types = graph::type_args(n);
  const ops::TypeReader reader(*n.op, types);
  const ValueRule rule = value_rule(reader.text("rule"));
  const Expr bound = reader.expr("bound");
  Lazy self = l.value(std::get<graph::Value*>(n.args[0])), of = l.value(std::get<graph::Value*>(n.args[1])), out = self;
  const IndexCheck check = l.check_of({reader.text("subject"), n.where, IndexSite::of(rule)});
  if (check.site < 0) return l.define(n.results[0], std::move(out));
  out.work += of.work + 2;
  out.loads += of.loads;
  out.place.reset();
  out.over_template = out.over_open = false;
  out.at = [self, of, rule, bound, check](BodyBuilder& b, const Index& index) {
    Index at(index.end() - static_cast<int64_t>(of.sizes.size()), index.end());
    for (size_t d = 0; d < at.size(); ++d)
      if (of.sizes[d] == Expr(1)) at[d] = 0;
    const S x = of.at(b, at);
    S found = {};  // 0 where x is right
    Expr extent = 1;
    if (rule == ValueRule::AtMost) {
      extent = bound + 1;
      const S below = x < b.index(extent), inside = (x >= 0.0) & below;
      found = select(inside, lit(x, 0), x);
    } else if (rule == ValueRule::AtLeast) {
      extent = bound;
      const S right = x >= b.index(bound), zero = lit(x, 0);
      found = select(right, zero, lit(x, -1) - x);
    } else {
      found = fault_of(rule, x);
    }
    b.check(found, extent, check.faults, check.site);
    return self.at(b, index);
  };
  l.define(n.results[0], std::move(out));
}

}  // namespace toroid::lower
