// Activation functions of neural networks.
#include "base/check.h"
#include "ops/rows/pointwise.h"

namespace toroid::ops {
namespace {

constexpr double kSqrt2OverPi = 0.79788456080286535588;
constexpr double kInvSqrt2 = 0.70710678118654752440;
constexpr double kInvSqrt2Pi = 0.39894228040143267794;

// Limits come first here and below: of equal operands the second one is taken, so that -0 stays what it is.
S clip(S x, double lo, double hi) { return minimum(hi, maximum(lo, x)); }

// The parameter "approximate".
std::string gelu_kind(F f) {
  std::string approximate = f.text("approximate");
  TOROID_USER_CHECK(approximate == "none" || approximate == "tanh", "{}: approximate is \"{}\"; expected \"none\" or \"tanh\"", f.op().name,
                    approximate);
  return approximate;
}

S gelu_formula(F f) {
  S x = f[0];
  if (gelu_kind(f) == "none") return x * 0.5 * (erf(x * kInvSqrt2) + 1.0);
  S inner = (x + x * x * x * 0.044715) * kSqrt2OverPi;
  return x * 0.5 * (tanh(inner) + 1.0);
}

// The gradient of gelu by self.
S gelu_backward_formula(F f) {
  S g = f[0], x = f[1];
  if (gelu_kind(f) == "none") return g * (0.5 * (erf(x * kInvSqrt2) + 1.0) + x * exp(x * x * -0.5) * kInvSqrt2Pi);
  S t = tanh((x + x * x * x * 0.044715) * kSqrt2OverPi);
  S slope = (x * x * (3 * 0.044715) + 1.0) * kSqrt2OverPi;
  return g * (0.5 * (t + 1.0) + 0.5 * x * (1.0 - t * t) * slope);
}

// log(1 + exp(x)) without overflow.
S soft_plus(S x) { return maximum(x, 0.0) + log1p(exp(-abs(x))); }

S elu_formula(F f) {
  need_floats(f);
  S x = f[0], scale = f.constant("scale");
  S negative = expm1(x * f.constant("input_scale")) * (f.constant("alpha") * scale);
  return select(x <= 0.0, negative, x * scale);
}

S selu_formula(F f) {
  need_floats(f);
  return select(f[0] <= 0.0, expm1(f[0]) * (kSeluAlpha * kSeluScale), f[0] * kSeluScale);
}

S soft_shrink(F f) {
  need_floats(f);
  S x = f[0], l = f.constant("lambd");
  return select(x > l, x - l, select(x < -l, x + l, x * 0.0));
}

std::vector<Tensor> glu(const CallReader& c) {
  Tensor x = c.tensor("self");
  int64_t dim = normal_dim(c.op(), c.integer("dim"), x.dim());
  TOROID_USER_CHECK(x.dim() > 0, "glu: a tensor without dimensions cannot be split");
  Expr n = x.size(dim).expr();
  require({sym::Rel::Eq, sym::mod(n, 2), 0}, "glu: dimension {} must be even, it is {}", dim, sym::to_string(n));
  Expr half = sym::floor_div(n, 2);
  Tensor a = call1("slice.Tensor", {x, Expr(dim), Expr(0), half, Expr(1)});
  Tensor b = call1("slice.Tensor", {x, Expr(dim), half, half * Expr(2), Expr(1)});
  return {call1("mul.Tensor", {a, call1("sigmoid", {b})})};
}

std::vector<Tensor> prelu(const CallReader& c) {
  Tensor x = c.tensor("self"), weight = c.tensor("weight");
  TOROID_USER_CHECK(weight.dim() <= 1, "prelu: weight must have at most one dimension, it has {}", weight.dim());
  if (weight.dim() == 1 && x.dim() != 1) {
    std::vector<Expr> sizes(static_cast<size_t>(std::max<int64_t>(x.dim(), 1)), Expr(1));
    sizes[x.dim() > 1 ? 1 : 0] = weight.size(0).expr();
    if (x.dim() == 0) sizes.clear();
    weight = call1("view", {weight, sizes});
  }
  return {call1("_prelu_kernel", {x, weight})};
}

void add_rectifier_rows(Table& t) {
  unary_rows(t, {"relu"}, Promote::Default, [](F f) { return maximum(0.0, f[0]); });
  unary_rows(t, {"relu6"}, Promote::Default, [](F f) { return clip(f[0], 0, 6); });
  t.pointwise("leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor", Promote::KeepFirst,
              [](F f) { return select(f[0] > 0.0, f[0], f[0] * f.constant("negative_slope")); });
  binary_rows(
      t, {"_prelu_kernel"}, {""}, Promote::Default, [](F f) { return select(f[0] > 0.0, f[0], f[0] * f[1]); }, nullptr, "self", "weight");
  t.composite("prelu(Tensor self, Tensor weight) -> Tensor", prelu);
  t.pointwise("elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor", Promote::KeepFirst, elu_formula);
  unary_rows(t, {"selu"}, Promote::KeepFirst, selu_formula);
  t.pointwise("celu(Tensor self, Scalar alpha=1.0) -> Tensor", Promote::KeepFirst, [](F f) {
    need_floats(f);
    TOROID_USER_CHECK(f.real("alpha") != 0, "celu: alpha must not be 0");
    S a = f.constant("alpha");
    return select(f[0] <= 0.0, expm1(f[0] / a) * a, f[0]);
  });
  t.pointwise("threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor", Promote::KeepFirst,
              [](F f) { return select(f[0] <= f.constant("threshold"), f.constant("value"), f[0]); });
  t.pointwise("hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor", Promote::KeepFirst,
              [](F f) { return minimum(limit(f, "max_val", false), maximum(limit(f, "min_val", true), f[0])); });
}

void add_smooth_rows(Table& t) {
  t.pointwise("gelu(Tensor self, *, str approximate='none') -> Tensor", Promote::Float, gelu_formula);
  t.pointwise("gelu_backward(Tensor grad_output, Tensor self, *, str approximate='none') -> Tensor", Promote::Float, gelu_backward_formula);
  unary_rows(
      t, {"silu"}, Promote::Float, [](F f) { return f[0] * sigmoid(f[0]); }, [](Z z) { return z[0] / (1.0 + std::exp(-z[0])); });
  unary_rows(t, {"mish"}, Promote::Float, [](F f) { return f[0] * tanh(soft_plus(f[0])); });
  unary_rows(t, {"hardswish"}, Promote::Float, [](F f) { return f[0] * clip(f[0] + 3.0, 0, 6) / 6.0; });
  unary_rows(t, {"hardsigmoid"}, Promote::Float, [](F f) { return clip(f[0] + 3.0, 0, 6) / 6.0; });
  t.pointwise("softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor", Promote::KeepFirst, [](F f) {
    need_floats(f);
    S scaled = f[0] * f.constant("beta");
    return select(scaled > f.constant("threshold"), f[0], log1p(exp(scaled)) / f.constant("beta"));
  });
  t.pointwise("softshrink(Tensor self, Scalar lambd=0.5) -> Tensor", Promote::KeepFirst, soft_shrink);
  t.pointwise("hardshrink(Tensor self, Scalar lambd=0.5) -> Tensor", Promote::KeepFirst, [](F f) {
    need_floats(f);
    S l = f.constant("lambd");
    return select((f[0] >= -l) & (f[0] <= l), lit(f[0], 0), f[0]);
  });
  unary_rows(t, {"log_sigmoid"}, Promote::Float, [](F f) { return -soft_plus(-f[0]); });
  t.composite("log_sigmoid_forward(Tensor self) -> (Tensor output, Tensor buffer)", [](const CallReader& c) -> std::vector<Tensor> {
    Tensor buffer = call1("exp", {call1("neg", {call1("abs", {c.at("self")})})});
    return {call1("log_sigmoid", {c.at("self")}), buffer};
  });
  t.composite("glu(Tensor self, int dim=-1) -> Tensor", glu);
}

}  // namespace

void add_activation_rows(Table& t) {
  add_rectifier_rows(t);
  add_smooth_rows(t);
}

}  // namespace toroid::ops
