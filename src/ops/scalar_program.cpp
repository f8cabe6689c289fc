#include "ops/scalar_program.h"

#include <array>
#include <cmath>

#include "base/check.h"
#include "base/gradient_bugs.h"

namespace toroid::ops {
namespace {

constexpr double kPi = 3.14159265358979323846, kLn2 = 0.69314718055994530942, kLn10 = 2.30258509299404568402;
const double kTwoOverSqrtPi = 2 / std::sqrt(kPi), kSqrtTwoPi = std::sqrt(2 * kPi);

// Sums of derivatives, where one without builder is 0.
S plus(S a, S b) { return !a.builder ? b : !b.builder ? a : a + b; }
S minus(S a, S b) { return !b.builder ? a : !a.builder ? -b : a - b; }

bool is_constant_step(const ScalarNode& n, double value) { return n.op == ScalarOp::Const && n.value.as_double() == value; }

}  // namespace

// The step that n is equal to; -1: it is one of its own.
int ScalarProgram::simplified(const ScalarNode& n) const {
  const auto is = [&](int k, double v) { return is_constant_step(nodes_[static_cast<size_t>(n.args[k])], v); };
  if (n.op == ScalarOp::Mul) {
    if (is(0, 1)) return n.args[1];
    if (is(1, 1)) return n.args[0];
  }
  if (n.op == ScalarOp::Add && is(1, 0)) return n.args[0];
  if (n.op == ScalarOp::Div && is(1, 1)) return n.args[0];
  if (n.op == ScalarOp::Neg && nodes_[static_cast<size_t>(n.args[0])].op == ScalarOp::Neg)
    return nodes_[static_cast<size_t>(n.args[0])].args[0];
  return -1;
}

int ScalarProgram::emit(const ScalarNode& n) {
  if (const int same = simplified(n); same >= 0) return same;
  // Constants that differ in sign of zero or are NaN must not be taken for each other.
  const bool shared = n.op != ScalarOp::Const || (n.value.f != 0 && !std::isnan(n.value.f)) || n.value.kind != Number::Kind::Float;
  const Key key{n.op, n.dtype, n.args[0], n.args[1], n.args[2], n.value.kind, n.value.i, std::isnan(n.value.f) ? 0 : n.value.f};
  const int id = static_cast<int>(nodes_.size());
  if (shared) {
    const auto [it, added] = known_.emplace(key, id);
    if (!added) return it->second;
  }
  nodes_.push_back(n);
  return id;
}

S ScalarProgram::input(int64_t i, DType dtype) {
  return {this, emit({.op = ScalarOp::Input, .dtype = dtype, .value = Number::of(i)}), dtype};
}

bool ScalarProgram::is_constant(S s, double value) const { return s.builder && is_constant_step(node(s), value); }

S ScalarProgram::times(S a, S b) {
  if (!a.builder || !b.builder || is_constant(b, 0)) return {};
  if (is_constant(b, 1)) return a;
  if (is_constant(b, -1)) return -a;
  const ScalarNode n = node(b);
  const auto is_plain = [&](int id) { return nodes_[static_cast<size_t>(id)].op == ScalarOp::Const; };
  if (n.op == ScalarOp::Select && (is_plain(n.args[1]) || is_plain(n.args[2]))) {
    const auto part = [&](int id) { return is_constant(at(id), 0) ? lit(a, 0) : times(a, at(id)); };
    const S yes = part(n.args[1]), no = part(n.args[2]);
    return select(at(n.args[0]), yes, no);
  }
  return a * b;
}

S ScalarProgram::derivative(S of, S by) {
  TOROID_CHECK(is_float(by.dtype), "a derivative by an operand of dtype {}", name_of(by.dtype));
  std::vector<S> d(static_cast<size_t>(of.id) + 1);
  for (int id = 0; id <= of.id; ++id) d[static_cast<size_t>(id)] = id == by.id ? lit(by, 1) : derivative_of_step(id, d);
  return d[static_cast<size_t>(of.id)];
}

S ScalarProgram::derivative_of_step(int id, const std::vector<S>& d) {
  const ScalarNode n = nodes_[static_cast<size_t>(id)];
  const auto derived = [&](int k) { return n.args[k] >= 0 ? d[static_cast<size_t>(n.args[k])] : S{}; };
  const S result = at(id);
  if (n.op == ScalarOp::Select) {
    const S yes = derived(1), no = derived(2);
    if (!yes.builder && !no.builder) return {};
    return select(at(n.args[0]), yes.builder ? yes : lit(result, 0), no.builder ? no : lit(result, 0));
  }
  const S da = derived(0), db = arity_of(n.op) > 1 ? derived(1) : S{};
  if ((!da.builder && !db.builder) || !is_float(n.dtype)) return {};
  if (n.op == ScalarOp::Cast) return cast(da, n.dtype);
  if (arity_of(n.op) == 2) return derivative_of_binary(n, result, at(n.args[0]), at(n.args[1]), da, db);
  return times(da, factor_of_unary(n, result, at(n.args[0])));
}

S ScalarProgram::derivative_of_binary(const ScalarNode& n, S result, S a, S b, S da, S db) {
  const auto none = [&](const char* operand) {
    fail<UserError>("{} has no derivative by its {} operand; detach() that operand, or write the function in other operations",
                    function_name(n.op), operand);
  };
  // A part of da unless b wins, of db unless a does, halves where they are equal: one that is no number leaves both theirs.
  const auto unequal = [&](ScalarOp wins) {
    const S one = lit(a, 1), zero = lit(a, 0), half = lit(a, planted(GradientBug::MaximumTies) ? 1 : 0.5);
    const auto part = [&](S own, S other) {
      return select(own == other, half, select(toroid::emit(wins, DType::Bool, {other, own}), zero, one));
    };
    const S of_a = da.builder ? part(a, b) : S{}, of_b = db.builder ? part(b, a) : S{};
    return plus(times(da, of_a), times(db, of_b));
  };
  switch (n.op) {
    case ScalarOp::Add:
      return plus(da, db);
    case ScalarOp::Sub:
      return minus(da, db);
    case ScalarOp::Mul:
      return plus(times(da, planted(GradientBug::WrongOperand) ? a : b), times(db, a));
    case ScalarOp::Div:
      return minus(da.builder ? da / b : S{},
                   db.builder ? times(db, planted(GradientBug::DivisionSign) ? -(result / b) : result / b) : S{});
    case ScalarOp::Remainder:
      return minus(da, db.builder ? times(db, floor_div(a, b)) : S{});
    case ScalarOp::Fmod:
      return minus(da, db.builder ? times(db, trunc(a / b)) : S{});
    case ScalarOp::FloorDiv:
      return {};
    case ScalarOp::NextAfter:
      return da;
    case ScalarOp::Max:
    case ScalarOp::Fmax:
      return unequal(ScalarOp::Gt);
    case ScalarOp::Min:
    case ScalarOp::Fmin:
      return unequal(ScalarOp::Lt);
    case ScalarOp::Pow: {
      S sum;
      // Where b is 0 so is the slope, which by b it leaves at 1 / a: not hidden, but where that may be infinite.
      const S hidden = (b == 0.0) & !(abs(a) >= 0x1p-126);
      if (da.builder) sum = times(da, select(hidden, 0.0, planted(GradientBug::PowerFactor) ? pow(a, b - 1.0) : b * pow(a, b - 1.0)));
      if (db.builder) sum = plus(sum, times(db, select((a == 0.0) & (b >= 0.0), 0.0, result * log(a))));
      return sum;
    }
    case ScalarOp::Hypot:
      return plus(times(da, a / result), times(db, b / result));
    case ScalarOp::Atan2: {
      const S square = a * a + b * b;
      const S per_square = select(square == 0.0, 0.0, 1.0 / square);  // at the origin, where there is no angle: 0
      return minus(times(da, b * per_square), times(db, a * per_square));
    }
    case ScalarOp::CopySign:
      return times(da, select(a == 0.0, 0.0, result / a));
    case ScalarOp::Polygamma:
      if (da.builder) none("first");
      return times(db, apply(ScalarOp::Polygamma, a + 1.0, b));
    case ScalarOp::Zeta:
      if (da.builder) none("first");
      return times(db, -(a * apply(ScalarOp::Zeta, a + 1.0, b)));
    case ScalarOp::Igamma:
    case ScalarOp::Igammac: {
      if (da.builder) none("first");
      const S density = exp((a - 1.0) * log(b) - b - apply(ScalarOp::Lgamma, a));
      return times(db, n.op == ScalarOp::Igamma ? density : -density);
    }
    default:
      none(da.builder ? "first" : "second");
  }
  return {};
}

// What the derivative of the operand x is multiplied by. An S without builder: 0.
S ScalarProgram::factor_of_unary(const ScalarNode& n, S result, S x) {
  const auto bessel = [&](ScalarOp order0, S slope_at_0) { return select(x == 0.0, slope_at_0, apply(order0, x) - result / x); };
  switch (n.op) {
    case ScalarOp::Neg:
      return lit(x, -1);
    case ScalarOp::Abs:
      return apply(ScalarOp::Sign, x);
    case ScalarOp::Floor:
    case ScalarOp::Ceil:
    case ScalarOp::Trunc:
    case ScalarOp::Round:
    case ScalarOp::Sign:
    case ScalarOp::FrexpExponent:
      return {};
    case ScalarOp::FrexpMantissa:
      return apply(ScalarOp::Exp2, -apply(ScalarOp::FrexpExponent, x));
    case ScalarOp::Sqrt:
      return 0.5 / result;
    case ScalarOp::Rsqrt:
      return result * result * result * -0.5;
    case ScalarOp::Exp:
      return result;
    case ScalarOp::Exp2:
      return result * kLn2;
    case ScalarOp::Expm1:
      return result + 1.0;
    case ScalarOp::Log:
      return 1.0 / x;
    case ScalarOp::Log2:
      return 1.0 / (x * kLn2);
    case ScalarOp::Log10:
      return 1.0 / (x * kLn10);
    case ScalarOp::Log1p:
      return 1.0 / (x + 1.0);
    case ScalarOp::Sin:
      return cos(x);
    case ScalarOp::Cos:
      return planted(GradientBug::CosineSign) ? sin(x) : -sin(x);
    case ScalarOp::Tan:
      return result * result + 1.0;
    case ScalarOp::Asin:
      return rsqrt(1.0 - x * x);
    case ScalarOp::Acos:
      return -rsqrt(1.0 - x * x);
    case ScalarOp::Atan:
      return 1.0 / (x * x + 1.0);
    case ScalarOp::Sinh:
      return apply(ScalarOp::Cosh, x);
    case ScalarOp::Cosh:
      return apply(ScalarOp::Sinh, x);
    case ScalarOp::Tanh:
      return planted(GradientBug::TanhSquare) ? 1.0 - result : 1.0 - result * result;
    case ScalarOp::Asinh:
      return rsqrt(x * x + 1.0);
    case ScalarOp::Acosh:
      return rsqrt(x * x - 1.0);
    case ScalarOp::Atanh:
      return 1.0 / (1.0 - x * x);
    case ScalarOp::Sigmoid:
      return result * (1.0 - result);
    case ScalarOp::Erf:
      return exp(-(x * x)) * kTwoOverSqrtPi;
    case ScalarOp::Erfc:
      return exp(-(x * x)) * -kTwoOverSqrtPi;
    case ScalarOp::Erfinv:
      return exp(result * result) / kTwoOverSqrtPi;
    case ScalarOp::Erfcx:
      return x * result * 2.0 - kTwoOverSqrtPi;
    case ScalarOp::Lgamma:
      return apply(ScalarOp::Digamma, x);
    case ScalarOp::Digamma:
      return apply(ScalarOp::Polygamma, lit(x, 1), x);
    case ScalarOp::Ndtri:
      return exp(result * result * 0.5) * kSqrtTwoPi;
    case ScalarOp::LogNdtr:
      // Of large operands erfcx is infinite, of small ones the difference in the exponent cancels.
      return select(x > 1.0, exp(x * x * -0.5 - result) / kSqrtTwoPi, std::sqrt(2 / kPi) / apply(ScalarOp::Erfcx, x * -std::sqrt(0.5)));
    case ScalarOp::I0:
    case ScalarOp::ModifiedBesselI0:
      return apply(ScalarOp::I1, x);
    case ScalarOp::I0e:
      return apply(ScalarOp::I1e, x) - apply(ScalarOp::Sign, x) * result;
    case ScalarOp::I1:
    case ScalarOp::ModifiedBesselI1:
      return bessel(ScalarOp::I0, lit(x, 0.5));
    case ScalarOp::I1e:
      return select(x == 0.0, lit(x, 0.5), apply(ScalarOp::I0e, x) - result * (apply(ScalarOp::Sign, x) + 1.0 / x));
    case ScalarOp::BesselJ0:
      return -apply(ScalarOp::BesselJ1, x);
    case ScalarOp::BesselJ1:
      return bessel(ScalarOp::BesselJ0, lit(x, 0.5));
    case ScalarOp::BesselY0:
      return -apply(ScalarOp::BesselY1, x);
    case ScalarOp::BesselY1:
      return apply(ScalarOp::BesselY0, x) - result / x;
    case ScalarOp::ModifiedBesselK0:
      return -apply(ScalarOp::ModifiedBesselK1, x);
    case ScalarOp::ModifiedBesselK1:
      return -apply(ScalarOp::ModifiedBesselK0, x) - result / x;
    case ScalarOp::ScaledModifiedBesselK0:
      return result - apply(ScalarOp::ScaledModifiedBesselK1, x);
    case ScalarOp::ScaledModifiedBesselK1:
      return result - apply(ScalarOp::ScaledModifiedBesselK0, x) - result / x;
    case ScalarOp::SphericalBesselJ0:
      return slope_of_sin_over(x, result);
    default:
      fail<UserError>("{} has no derivative; detach() its operand, or write the function in other operations", function_name(n.op));
  }
}

// Close to 0, where the difference cancels and its quotient hides what the function does, the series.
S slope_of_sin_over(S x, S result) {
  std::array<double, 8> terms{};
  double factorial = 1;  // of 2 n + 1
  for (size_t n = 1; n < terms.size(); ++n) {
    const auto k = static_cast<double>(2 * n);
    factorial *= k * (k + 1);
    terms[n] = (n % 2 ? -k : k) / factorial;
  }
  const S square = x * x;
  S sum = lit(x, terms.back());
  for (size_t n = terms.size() - 1; n-- > 1;) sum = sum * square + terms[n];
  return select(abs(x) < 0.5, sum * x, (cos(x) - result) / x);
}

// The steps that s is made of; those before `leaf` only where others need them.
std::vector<bool> ScalarProgram::reached(S s, int leaf) const {
  std::vector<bool> out(static_cast<size_t>(s.id) + 1);
  out[static_cast<size_t>(s.id)] = true;
  for (int id = s.id; id >= 0; --id)
    if (out[static_cast<size_t>(id)] && id != leaf)
      for (int a : nodes_[static_cast<size_t>(id)].args)
        if (a >= 0) out[static_cast<size_t>(a)] = true;
  return out;
}

bool ScalarProgram::may_be_singular(S s) const {
  const std::vector<bool> steps = reached(s, -1);
  for (size_t id = 0; id < steps.size(); ++id)
    if (const ScalarOp op = nodes_[id].op; steps[id] && (op == ScalarOp::Div || !function_name(op).empty())) return true;
  return false;
}

std::vector<bool> ScalarProgram::needs(S s, size_t inputs, int leaf) const {
  const std::vector<bool> steps = reached(s, leaf);
  std::vector<bool> out(inputs + 1);
  for (size_t id = 0; id < steps.size(); ++id) {
    if (!steps[id]) continue;
    if (static_cast<int>(id) == leaf)
      out[inputs] = true;
    else if (nodes_[id].op == ScalarOp::Input)
      out[static_cast<size_t>(nodes_[id].value.i)] = true;
  }
  return out;
}

S ScalarProgram::replay(S s, ScalarBuilder& into, std::span<const S> inputs, int leaf, S leaf_value) const {
  const std::vector<bool> needed = reached(s, leaf);
  std::vector<int> placed(needed.size(), -1);
  for (size_t id = 0; id < needed.size(); ++id) {
    if (!needed[id]) continue;
    ScalarNode n = nodes_[id];
    if (static_cast<int>(id) == leaf) {
      placed[id] = leaf_value.id;
    } else if (n.op == ScalarOp::Input) {
      placed[id] = inputs[static_cast<size_t>(n.value.i)].id;
    } else {
      for (int& a : n.args)
        if (a >= 0) a = placed[static_cast<size_t>(a)];
      placed[id] = into.emit(n);
    }
  }
  return {&into, placed.back(), s.dtype};
}

}  // namespace toroid::ops
