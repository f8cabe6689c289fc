// Gradients of operations on complex numbers, and of Fourier transforms. The gradient of a real function by z = x + iy is
// dL/dx + i dL/dy, as PyTorch has it: of a function that is complex differentiable, the cotangent times the conjugate of its derivative.
#include <cmath>

#include "autograd/rules/forms.h"
#include "base/check.h"
#include "base/gradient_bugs.h"

namespace toroid::autograd {

using namespace ops::forms;

namespace {

void conjugate_rule(GradientCall& c) { c.set("self", conjugate(c.cotangent())); }
void same_rule(GradientCall& c) { c.set("self", c.cotangent()); }

void view_as_real_rule(GradientCall& c) { c.set("self", ops::call1("view_as_complex", {ops::call1("contiguous", {c.cotangent()})})); }
void view_as_complex_rule(GradientCall& c) { c.set("self", ops::call1("view_as_real", {c.cotangent()})); }
void complex_rule(GradientCall& c) {
  c.set("real", ops::call1("real", {c.cotangent()}));
  c.set("imag", ops::call1("imag", {c.cotangent()}));
}
void real_rule(GradientCall& c) {
  const Tensor g = c.cotangent();
  c.set("self", is_complex(c.tensor("self").dtype()) ? ops::call1("complex", {g, zeros_like(g)}) : g);
}

void c2c_rule(GradientCall& c) {
  c.set("self", ops::call1("_fft_c2c", {c.cotangent(), c.at("dim"), c.at("normalization"),
                                        c.flag("forward") == planted(GradientBug::FourierDirection)}));
}

// The half that is not stored has no cotangent.
void r2c_rule(GradientCall& c) {
  Tensor g = c.cotangent();
  if (c.flag("onesided")) {
    const int64_t last = ops::normal_dim(c.op(), c.integers("dim").back(), g.dim());
    Sizes sizes = sizes_of(g);
    sizes[static_cast<size_t>(last)] = size_at(c.tensor("self"), last);
    g = fit(g, sizes);
  }
  c.set("self", ops::call1("real", {ops::call1("_fft_c2c", {g, c.at("dim"), c.at("normalization"), false})}));
}

// Frequencies that stand for two count twice.
void c2r_rule(GradientCall& c) {
  const Tensor g = c.cotangent();
  const Tensor half = ops::call1("_fft_r2c", {g, c.at("dim"), c.at("normalization"), true});
  const int64_t last = ops::normal_dim(c.op(), c.integers("dim").back(), g.dim());
  const Expr stored = size_at(half, last), doubled = size_at(g, last) - stored;
  const Tensor place = iota_along(stored, last, half.dim());
  const Tensor inner = ops::call1("logical_and", {compare_int("gt", place, 0), ops::call1("le.Scalar", {place, doubled})});
  c.set("self", mul(half, cast_to(where(inner, planted(GradientBug::HalfSpectrum) ? 1.0 : 2.0, 1.0), half.dtype())));
}

constexpr RuleRow kComplexRules[] = {
    {"_conj", conjugate_rule},
    {"_conj_physical", conjugate_rule},
    {"conj_physical", conjugate_rule},
    {"resolve_conj", same_rule},
    {"resolve_neg", same_rule},
    {"view_as_real", view_as_real_rule},
    {"view_as_real_copy", view_as_real_rule},
    {"view_as_complex", view_as_complex_rule},
    {"view_as_complex_copy", view_as_complex_rule},
    {"complex", complex_rule},
    {"real", real_rule},
    {"_fft_c2c", c2c_rule},
    {"_fft_r2c", r2c_rule},
    {"_fft_c2r", c2r_rule},
};

// The derivative of a function that is complex differentiable, from its operand and its result.
struct Holomorphic {
  const char* name;
  Tensor (*slope)(const Tensor& x, const Tensor& y);
};
const double kLn2 = std::log(2.0), kLn10 = std::log(10.0);
Tensor reciprocal(const Tensor& t) { return unary("reciprocal", t); }
Tensor minus(const Tensor& t) { return unary("neg", t); }
Tensor one_plus(const Tensor& t) { return add(t, ones_like(t)); }
Tensor one_minus_square(const Tensor& t) { return sub(ones_like(t), mul(t, t)); }
using T = const Tensor&;
constexpr Holomorphic kHolomorphic[] = {
    {"exp", [](T, T y) { return y; }},
    {"exp2", [](T, T y) { return mul(y, kLn2); }},
    {"expm1", [](T, T y) { return one_plus(y); }},
    {"log", [](T x, T) { return reciprocal(x); }},
    {"log2", [](T x, T) { return reciprocal(mul(x, kLn2)); }},
    {"log10", [](T x, T) { return reciprocal(mul(x, kLn10)); }},
    {"log1p", [](T x, T) { return reciprocal(one_plus(x)); }},
    {"sqrt", [](T, T y) { return reciprocal(mul(y, 2.0)); }},
    {"rsqrt", [](T x, T y) { return mul(div(y, x), -0.5); }},
    {"reciprocal", [](T, T y) { return minus(mul(y, y)); }},
    {"square", [](T x, T) { return mul(x, 2.0); }},
    {"sin", [](T x, T) { return unary("cos", x); }},
    {"cos", [](T x, T) { return minus(unary("sin", x)); }},
    {"tan", [](T, T y) { return one_plus(mul(y, y)); }},
    {"asin", [](T x, T) { return unary("rsqrt", one_minus_square(x)); }},
    {"acos", [](T x, T) { return minus(unary("rsqrt", one_minus_square(x))); }},
    {"atan", [](T x, T) { return reciprocal(one_plus(mul(x, x))); }},
    {"sinh", [](T x, T) { return unary("cosh", x); }},
    {"cosh", [](T x, T) { return unary("sinh", x); }},
    {"tanh", [](T, T y) { return one_minus_square(y); }},
    {"asinh", [](T x, T) { return unary("rsqrt", one_plus(mul(x, x))); }},
    {"atanh", [](T x, T) { return reciprocal(one_minus_square(x)); }},
    {"sigmoid", [](T, T y) { return mul(y, sub(ones_like(y), y)); }},
};

}  // namespace

std::span<const RuleRow> complex_rules() { return kComplexRules; }

bool complex_pointwise_rule(GradientCall& c) {
  const std::string& name = c.op().name;
  const Tensor g = c.cotangent();
  const auto operand = [&](const char* param) { return c.wants(param); };
  const auto conj_of = [&](const char* param) -> Arg<Tensor> {
    auto* t = std::get_if<Tensor>(&c.at(param));
    return t && !planted(GradientBug::ConjugateMissing) ? Arg<Tensor>(conjugate(*t)) : c.at(param);
  };
  if (name == "clone" || name == "positive") {
    c.set("self", g);
  } else if (name == "neg") {
    c.set("self", unary("neg", g));
  } else if (name == "add.Tensor" || name == "sub.Tensor") {
    if (operand("self")) c.set("self", g);
    if (operand("other")) c.set("other", name == "add.Tensor" ? g : unary("neg", g));
  } else if (name == "mul.Tensor") {
    if (operand("self")) c.set("self", mul(g, conj_of("other")));
    if (operand("other")) c.set("other", mul(g, conj_of("self")));
  } else if (name == "div.Tensor") {
    const Tensor of_self = div(g, conj_of("other"));
    if (operand("self")) c.set("self", of_self);
    if (operand("other")) c.set("other", unary("neg", mul(of_self, conjugate(c.results[0]))));
  } else if (name == "where.self") {
    const Tensor condition = c.tensor("condition");
    if (operand("self")) c.set("self", where(condition, g, zeros_like(g)));
    if (operand("other")) c.set("other", where(condition, zeros_like(g), g));
  } else if (name == "pow.Tensor_Tensor") {
    const Tensor x = c.tensor("self"), exponent = c.tensor("exponent"), y = c.results[0];
    if (operand("self")) {
      const Tensor lower = sub(exponent, ones_like(exponent));
      c.set("self", mul(g, conjugate(mul(exponent, ops::call1(name, {x, lower})))));
    }
    if (operand("exponent")) c.set("exponent", mul(g, conjugate(mul(y, log(x)))));
  } else if (name == "sgn") {  // what changes the size alone has no part
    const Tensor sign = c.results[0], size = abs(c.tensor("self"));
    const Tensor along = ops::call1("real", {mul(g, conjugate(sign))});
    c.set("self", div(sub(g, mul(sign, along)), where(compare("eq", size, 0.0), INFINITY, size)));
  } else if (name == "abs") {
    c.set("self", mul(unary("sgn", c.tensor("self")), g));
  } else if (name == "angle") {  // the derivative of atan2(y, x) turns z by a quarter
    const Tensor z = c.tensor("self"), size = abs(z);
    const Tensor turned = ops::call1("complex", {unary("neg", ops::call1("imag", {z})), ops::call1("real", {z})});
    c.set("self", mul(turned, div(g, mul(size, size))));
  } else {
    for (const Holomorphic& h : kHolomorphic)
      if (name == h.name) return c.set("self", mul(g, conjugate(h.slope(c.tensor("self"), c.results[0])))), true;
    return false;
  }
  return true;
}

}  // namespace toroid::autograd
