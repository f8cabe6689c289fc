// The pointwise family: row builders, arithmetic and comparisons.
#include "ops/rows/pointwise.h"

#include <cmath>

#include "base/check.h"

namespace toroid::ops {

void unary_rows(Table& t, std::initializer_list<const char*> names, Promote promote, Formula formula, ComplexFormula complex) {
  for (const char* name : names) t.pointwise(std::string(name) + "(Tensor self) -> Tensor", promote, formula).complex_formula = complex;
}

std::vector<Op*> binary_rows(Table& t, std::initializer_list<const char*> names, std::initializer_list<const char*> overloads,
                             Promote promote, Formula formula, ComplexFormula complex, const char* first, const char* second) {
  std::vector<Op*> rows;
  for (const char* name : names)
    for (std::string_view overload : overloads) {
      bool number_first = overload == ".Scalar_Tensor";
      bool number_second = overload == ".Scalar" || overload == ".Tensor_Scalar";
      std::string schema = fmt::format("{}{}({} {}, {} {}) -> Tensor", name, overload, number_first ? "Scalar" : "Tensor", first,
                                       number_second ? "Scalar" : "Tensor", second);
      rows.push_back(&t.pointwise(schema, promote, formula));
      rows.back()->complex_formula = number_first || number_second ? nullptr : complex;
    }
  return rows;
}

S lhs(F f) {
  const Param& p = f.op().schema.params[0];
  return p.type == ParamType::Tensor ? f[0] : f.constant(p.name);
}

S rhs(F f) {
  const int operand = second_operand(f.op());
  return operand >= 0 ? f[static_cast<size_t>(operand)] : f.constant(f.op().schema.params[1].name);
}

S limit(F f, std::string_view name, bool from_below) {
  const Number v = f.number(name);
  if (!is_int(f.compute)) return f.constant(name);
  const bool has_sign = has_room(f.compute, Number::of(-1.0)), negative = v.as_double() < 0;
  if (has_room(f.compute, v) && (has_sign || !negative)) return f.constant(name);
  TOROID_USER_CHECK(negative == from_below, "{}: \"{}\" is {}, beyond all numbers of {}", f.op().name, name, to_string(v),
                    name_of(f.compute));
  const size_t bits = 8 * size_of(f.compute);
  const uint64_t ones = ~uint64_t{0} >> (64 - bits), greatest = has_sign ? ones >> 1 : ones;
  return lit_as(f[0], f.compute, Number::of(static_cast<int64_t>(from_below ? (has_sign ? ~greatest : 0) : greatest)));
}

namespace {

void need(F f, bool fits) {
  TOROID_USER_CHECK(fits, "{} is not defined on {}; convert the tensor to another dtype first", f.op().name, name_of(f.compute));
}

}  // namespace

void refuse_bool(F f) { need(f, !is_bool(f.compute)); }
void need_integers(F f) { need(f, is_int(f.compute)); }
void refuse_floats(F f) { need(f, !is_float(f.compute)); }
void need_floats(F f) { need(f, is_float(f.compute)); }

namespace {

// b * alpha; one multiplication less for the usual alpha.
S scaled(F f, S b) {
  Number alpha = f.number("alpha");
  return alpha.as_double() == 1 ? b : b * f.constant("alpha");
}

// Complex formulas see tensors only, so a factor must have gone before.
void unscaled_complex_meta(MetaCall& c) {
  pointwise_meta(c);
  if (is_complex(c.results[0].dtype))
    TOROID_USER_CHECK(c.real("alpha") == 1, "{}: alpha must be 1 for complex tensors; multiply the tensor instead", c.op().name);
}

void with_alpha(Table& t, const char* schema, Formula formula, ComplexFormula complex) {
  Op& op = t.pointwise(schema, Promote::Default, formula);
  op.complex_formula = complex;
  op.meta = unscaled_complex_meta;
}

// "x.Scalar" in terms of "x.Tensor": a number is a tensor operand of weaker type.
std::vector<Tensor> as_tensor_overload(const CallReader& c) {
  std::string name = c.op().name;
  return call(name.replace(name.find(".Scalar"), 7, ".Tensor"), {c.args().begin(), c.args().end()});
}

S add_formula(F f) { return f[0] + scaled(f, f[1]); }
S sub_formula(F f) { return f[0] - scaled(f, f[1]); }
S rsub_formula(F f) { return f[1] - scaled(f, f[0]); }

void add_sum_rows(Table& t) {
  with_alpha(t, "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", add_formula, [](Z z) { return z[0] + z[1]; });
  t.composite("add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", as_tensor_overload);
  for (const char* name : {"sub", "subtract"}) {
    with_alpha(t, fmt::format("{}.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", name).c_str(), sub_formula,
               [](Z z) { return z[0] - z[1]; });
    t.composite(fmt::format("{}.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", name), as_tensor_overload);
  }
  with_alpha(t, "rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", rsub_formula, [](Z z) { return z[1] - z[0]; });
  t.composite("rsub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", as_tensor_overload);
}

// Divisions that integers have, too.
void division_rows(Table& t, const char* name, std::initializer_list<const char*> overloads, Formula formula) {
  for (Op* op : binary_rows(t, {name}, overloads, Promote::Default, formula)) op->divides = true;
}

void add_product_rows(Table& t) {
  for (const char* name : {"mul", "multiply"}) {
    binary_rows(
        t, {name}, {".Tensor"}, Promote::Default, [](F f) { return f[0] * f[1]; }, [](Z z) { return z[0] * z[1]; });
    t.composite(fmt::format("{}.Scalar(Tensor self, Scalar other) -> Tensor", name), as_tensor_overload);
  }
  for (const char* name : {"div", "divide", "true_divide"}) {
    binary_rows(
        t, {name}, {".Tensor"}, Promote::Float, [](F f) { return f[0] / f[1]; }, [](Z z) { return z[0] / z[1]; });
    t.composite(fmt::format("{}.Scalar(Tensor self, Scalar other) -> Tensor", name), as_tensor_overload);
  }
  division_rows(t, "prims.trunc_divide", {""}, [](F f) {
    refuse_bool(f);
    return is_float(f.compute) ? trunc(f[0] / f[1]) : f[0] / f[1];
  });
  division_rows(t, "floor_divide", {"", ".Scalar"}, [](F f) {
    refuse_bool(f);
    return floor_div(lhs(f), rhs(f));
  });
  for (const char* name : {"div", "divide"})
    for (const char* kind : {"Tensor", "Scalar"})
      t.composite(fmt::format("{}.{}_mode(Tensor self, {} other, *, str? rounding_mode) -> Tensor", name, kind, kind),
                  [](const CallReader& c) -> std::vector<Tensor> {
                    std::string mode = c.text("rounding_mode");
                    TOROID_USER_CHECK(mode.empty() || mode == "floor" || mode == "trunc",
                                      "{}: rounding_mode is \"{}\"; expected none, \"floor\" or \"trunc\"", c.op().name, mode);
                    const char* op = mode.empty() ? "div.Tensor" : mode == "floor" ? "floor_divide" : "prims.trunc_divide";
                    return call(op, {c.at("self"), c.at("other")});
                  });
  division_rows(t, "remainder", {".Tensor", ".Scalar", ".Scalar_Tensor"}, [](F f) {
    refuse_bool(f);
    return remainder(lhs(f), rhs(f));
  });
  division_rows(t, "fmod", {".Tensor", ".Scalar"}, [](F f) {
    refuse_bool(f);
    return fmod(lhs(f), rhs(f));
  });
  t.pointwise("addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor", Promote::Default, [](F f) {
    S scaled = f.real("value") == 1 ? f[1] : f[1] * f.constant("value");  // first: a product that overflows is nothing beside a value of 0
    return f[0] + scaled * f[2];
  });
  t.pointwise("addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor", Promote::Float, [](F f) {
    S numerator = f.real("value") == 1 ? f[1] : f[1] * f.constant("value");
    return f[0] + numerator / f[2];
  });
}

// Powers that need no pow().
S pow_constant(S x, F f) {
  double e = f.real("exponent");
  if (e == 0) return lit(x, 1);
  if (e == 1) return x;
  if (e == 2) return x * x;
  if (e == 3) return x * x * x;
  if (is_float(f.compute)) {
    if (e == 0.5) return sqrt(x);
    if (e == -0.5) return 1.0 / sqrt(x);
    if (e == -1) return 1.0 / x;
    if (e == -2) return 1.0 / (x * x);
  }
  return pow(x, f.constant("exponent"));
}

void add_power_rows(Table& t) {
  binary_rows(
      t, {"pow"}, {".Tensor_Tensor"}, Promote::Default, [](F f) { return is_bool(f.compute) ? f[0] | !f[1] : pow(f[0], f[1]); },
      [](Z z) { return z[1] == C128(0) ? C128(1) : std::pow(z[0], z[1]); }, "self", "exponent");
  t.pointwise("pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor", Promote::Default, [](F f) {
    if (!is_float(f.compute))
      TOROID_USER_CHECK(f.real("exponent") >= 0, "{}: integers have no negative integer powers; convert the tensor to a float dtype",
                        f.op().name);
    return is_bool(f.compute) ? f[0] | !f.constant("exponent") : pow_constant(f[0], f);
  });
  t.pointwise("pow.Scalar(Scalar self, Tensor exponent) -> Tensor", Promote::Default, [](F f) {
    S base = f.constant("self");
    return is_bool(f.compute) ? base | !f[0] : pow(base, f[0]);
  });
  auto float_power = [](const CallReader& c) -> std::vector<Tensor> {
    bool complex = false;
    CallArgs args;
    for (auto& a : c.args())
      if (auto* x = std::get_if<Tensor>(&a)) complex = complex || is_complex(x->dtype());
    for (auto& a : c.args()) {
      auto* x = std::get_if<Tensor>(&a);
      args.push_back(x ? Arg<Tensor>(call1("_to_copy", {*x, complex ? DType::C128 : DType::F64})) : a);
    }
    return call("pow" + c.op().name.substr(std::string_view("float_power").size()), std::move(args));
  };
  t.composite("float_power.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor", float_power);
  t.composite("float_power.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor", float_power);
  t.composite("float_power.Scalar(Scalar self, Tensor exponent) -> Tensor", float_power);
  t.composite("ldexp.Tensor(Tensor self, Tensor other) -> Tensor", [](const CallReader& c) -> std::vector<Tensor> {
    return {call1("mul.Tensor", {c.at("self"), call1("pow.Scalar", {2.0, c.at("other")})})};
  });
}

template <ScalarOp kOp>
S integer_formula(F f) {
  need_integers(f);
  return apply(kOp, lhs(f), rhs(f));
}

template <ScalarOp kOp>
S bitwise_formula(F f) {
  refuse_floats(f);
  return apply(kOp, lhs(f), rhs(f));
}

S logaddexp_formula(S a, S b, bool base2) {
  S top = maximum(a, b), gap = -abs(a - b);
  constexpr double kInvLn2 = 1.4426950408889634074;
  S sum = base2 ? top + log1p(apply(ScalarOp::Exp2, gap)) * kInvLn2 : top + log1p(exp(gap));
  return select(is_inf(a) & (a == b), a, sum);
}

S xlogy_formula(F f) {
  S x = lhs(f), y = rhs(f);
  return select(is_nan(y), y, select(x == 0.0, lit(x, 0), x * log(y)));
}

// The neighbour of x on the way to `to` in a dtype of which the compute dtype has all numbers and what lies between. `digits`: of its
// fraction; `least`: the exponent that its smallest numbers share; `largest`: its greatest number.
S next_narrow(S x, S to, int digits, int least, double largest) {
  const S exponent = apply(ScalarOp::FrexpExponent, x), fraction = abs(apply(ScalarOp::FrexpMantissa, x)), rises = x < to;
  const S shrinks = rises ^ (x > 0.0);
  // Below a power of two numbers lie closer.
  const S below = select((fraction == 0.5) & shrinks, exponent - 1.0, exponent);
  const S step = apply(ScalarOp::Exp2, maximum(below, static_cast<double>(least)) - static_cast<double>(digits));
  const S next = apply(ScalarOp::CopySign, select(rises, x + step, x - step), x);
  const S of_zero = apply(ScalarOp::CopySign, lit(x, std::exp2(least - digits)), to),
          of_infinity = apply(ScalarOp::CopySign, lit(x, largest), x);
  const S moved = select(x == 0.0, of_zero, select(is_inf(x), of_infinity, next));
  return select(is_nan(x) | is_nan(to), x + to, select(x == to, to, moved));
}

S nextafter_formula(F f) {
  const DType dtype = float_type(promoted_dtype(f));
  if (dtype == DType::F16) return next_narrow(f[0], f[1], 11, -13, 65504);
  if (dtype == DType::BF16) return next_narrow(f[0], f[1], 8, -125, 0x1.FEp127);
  if (dtype != f.compute) return next_narrow(f[0], f[1], 24, -125, 0x1.FFFFFEp127);  // f32 by the interpreter, in f64
  return apply(ScalarOp::NextAfter, f[0], f[1]);
}

void add_binary_function_rows(Table& t) {
  binary_rows(t, {"maximum"}, {""}, Promote::Default, [](F f) { return maximum(f[0], f[1]); });
  binary_rows(t, {"minimum"}, {""}, Promote::Default, [](F f) { return minimum(f[0], f[1]); });
  binary_rows(t, {"fmax"}, {""}, Promote::Default, [](F f) { return is_bool(f.compute) ? f[0] | f[1] : fmax(f[0], f[1]); });
  binary_rows(t, {"fmin"}, {""}, Promote::Default, [](F f) { return is_bool(f.compute) ? f[0] & f[1] : fmin(f[0], f[1]); });
  binary_rows(t, {"atan2", "arctan2"}, {""}, Promote::Float, [](F f) { return apply(ScalarOp::Atan2, f[0], f[1]); });
  binary_rows(t, {"hypot"}, {""}, Promote::Float, [](F f) { return apply(ScalarOp::Hypot, f[0], f[1]); });
  binary_rows(t, {"copysign"}, {".Tensor", ".Scalar"}, Promote::Float, [](F f) { return apply(ScalarOp::CopySign, lhs(f), rhs(f)); });
  binary_rows(t, {"nextafter"}, {""}, Promote::Float, nextafter_formula);
  binary_rows(
      t, {"heaviside"}, {""}, Promote::Default, [](F f) { return select(f[0] == 0.0, f[1], cast(f[0] > 0.0, f.compute)); }, nullptr, "self",
      "values");
  binary_rows(t, {"xlogy"}, {".Tensor"}, Promote::Float, xlogy_formula);
  for (const char* name : {"xlogy", "special_xlogy"}) {
    if (std::string_view(name) != "xlogy")
      t.pointwise(fmt::format("{}(Tensor self, Tensor other) -> Tensor", name), Promote::Float, xlogy_formula);
    bool special = std::string_view(name) != "xlogy";
    t.pointwise(fmt::format("{}.{}(Scalar self, Tensor other) -> Tensor", name, special ? "self_scalar" : "Scalar_Self"), Promote::Float,
                xlogy_formula);
    t.pointwise(fmt::format("{}.{}(Tensor self, Scalar other) -> Tensor", name, special ? "other_scalar" : "Scalar_Other"), Promote::Float,
                xlogy_formula);
  }
  binary_rows(t, {"logaddexp"}, {""}, Promote::Float, [](F f) { return logaddexp_formula(f[0], f[1], false); });
  binary_rows(t, {"logaddexp2"}, {""}, Promote::Float, [](F f) { return logaddexp_formula(f[0], f[1], true); });
  binary_rows(t, {"gcd"}, {""}, Promote::Default, integer_formula<ScalarOp::Gcd>);
  binary_rows(t, {"lcm"}, {""}, Promote::Default, integer_formula<ScalarOp::Lcm>);
}

}  // namespace

void add_arithmetic_rows(Table& t) {
  add_sum_rows(t);
  add_product_rows(t);
  add_power_rows(t);
  add_binary_function_rows(t);
}

void add_comparison_rows(Table& t) {
  auto compare = [&](std::initializer_list<const char*> names, Formula formula, ComplexFormula complex) {
    binary_rows(t, names, {".Tensor", ".Scalar"}, Promote::Compare, formula, complex);
  };
  compare(
      {"eq"}, [](F f) { return lhs(f) == rhs(f); }, [](Z z) { return truth(z[0] == z[1]); });
  compare(
      {"ne", "not_equal"}, [](F f) { return lhs(f) != rhs(f); }, [](Z z) { return truth(z[0] != z[1]); });
  compare(
      {"lt", "less"}, [](F f) { return lhs(f) < rhs(f); }, nullptr);
  compare(
      {"le", "less_equal"}, [](F f) { return lhs(f) <= rhs(f); }, nullptr);
  compare(
      {"gt", "greater"}, [](F f) { return lhs(f) > rhs(f); }, nullptr);
  compare(
      {"ge", "greater_equal"}, [](F f) { return lhs(f) >= rhs(f); }, nullptr);

  binary_rows(
      t, {"logical_and"}, {""}, Promote::Logical, [](F f) { return f[0] & f[1]; },
      [](Z z) { return truth(z[0] != C128(0) && z[1] != C128(0)); });
  binary_rows(
      t, {"logical_or"}, {""}, Promote::Logical, [](F f) { return f[0] | f[1]; },
      [](Z z) { return truth(z[0] != C128(0) || z[1] != C128(0)); });
  binary_rows(
      t, {"logical_xor"}, {""}, Promote::Logical, [](F f) { return f[0] ^ f[1]; },
      [](Z z) { return truth((z[0] != C128(0)) != (z[1] != C128(0))); });
  unary_rows(
      t, {"logical_not"}, Promote::Logical, [](F f) { return !f[0]; }, [](Z z) { return truth(z[0] == C128(0)); });

  binary_rows(t, {"bitwise_and"}, {".Tensor", ".Scalar", ".Scalar_Tensor"}, Promote::Default, bitwise_formula<ScalarOp::And>);
  binary_rows(t, {"bitwise_or"}, {".Tensor", ".Scalar", ".Scalar_Tensor"}, Promote::Default, bitwise_formula<ScalarOp::Or>);
  binary_rows(t, {"bitwise_xor"}, {".Tensor", ".Scalar", ".Scalar_Tensor"}, Promote::Default, bitwise_formula<ScalarOp::Xor>);
  binary_rows(t, {"__and__"}, {".Tensor", ".Scalar"}, Promote::Default, bitwise_formula<ScalarOp::And>);
  binary_rows(t, {"__or__"}, {".Tensor", ".Scalar"}, Promote::Default, bitwise_formula<ScalarOp::Or>);
  binary_rows(t, {"__xor__"}, {".Tensor", ".Scalar"}, Promote::Default, bitwise_formula<ScalarOp::Xor>);
  unary_rows(t, {"bitwise_not"}, Promote::Default, [](F f) {
    refuse_floats(f);
    return !f[0];
  });
  Formula left = integer_formula<ScalarOp::Shl>;
  Formula right = integer_formula<ScalarOp::Shr>;
  binary_rows(t, {"bitwise_left_shift"}, {".Tensor", ".Tensor_Scalar", ".Scalar_Tensor"}, Promote::Default, left);
  binary_rows(t, {"bitwise_right_shift"}, {".Tensor", ".Tensor_Scalar", ".Scalar_Tensor"}, Promote::Default, right);
  binary_rows(t, {"__lshift__"}, {".Tensor", ".Scalar"}, Promote::Default, left);
  binary_rows(t, {"__rshift__"}, {".Tensor", ".Scalar"}, Promote::Default, right);

  t.pointwise("isclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> Tensor", Promote::Compare,
              [](F f) {
                DType wide = is_float(f.compute) ? f.compute : DType::F64;
                S a = cast(f[0], wide), b = cast(f[1], wide), gap = abs(a - b);
                S near = (!is_inf(gap)) & (gap <= abs(b) * f.real("rtol") + f.real("atol"));
                S close = (f[0] == f[1]) | near;
                return f.flag("equal_nan") ? close | (is_nan(a) & is_nan(b)) : close;
              });
}

// What gradients begin with: a cotangent, or ones. These are no constant, as the row names a tensor like them.
void add_gradient_rows(Table& t) {
  t.pointwise("prims.gradient_seed(Tensor like, Tensor? cotangent=None) -> Tensor", Promote::Default,
              [](F f) { return f.operands.size() > 1 ? f[1] : f.constant(1); });
}

void add_pointwise_rows(Table& t) {
  add_arithmetic_rows(t);
  add_comparison_rows(t);
  add_unary_rows(t);
  add_activation_rows(t);
  add_selection_rows(t);
  add_conversion_rows(t);
  add_assertion_rows(t);
  add_quantization_rows(t);
  add_decomposed_quantization_rows(t);
  add_gradient_rows(t);
}

}  // namespace toroid::ops
