// Gradients of operations on complex numbers, and of Fourier transforms. The gradient of a real function by z = x + iy is
// dL/dx + i dL/dy, as PyTorch has it: of a function that is complex differentiable, the cotangent times the conjugate of its derivative.
#include "autograd/rules/forms.h"
#include "base/check.h"
#include "base/gradient_bugs.h"

namespace toroid::autograd {

using namespace ops::forms;

namespace {

Tensor conjugate(const Tensor& t) { return is_complex(t.dtype()) ? ops::call1("conj_physical", {t}) : t; }

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
  } else if (name == "exp") {
    c.set("self", mul(g, conjugate(c.results[0])));
  } else if (name == "abs") {
    c.set("self", mul(unary("sgn", c.tensor("self")), g));
  } else {
    return false;
  }
  return true;
}

}  // namespace toroid::autograd
