// Gradients of reductions.
#include <cmath>

#include "autograd/rules/forms.h"
#include "base/gradient_bugs.h"

namespace toroid::autograd {

using namespace ops::forms;

namespace {

// The dimensions that a call reduces; empty: all.
std::vector<int64_t> reduced(const GradientCall& c, const Tensor& self) {
  return c.op().schema.find("dim") >= 0 ? dims_of(c, "dim", self) : std::vector<int64_t>{};
}
bool keeps(const GradientCall& c) { return c.op().schema.find("keepdim") >= 0 && c.flag("keepdim"); }

Tensor spread(const GradientCall& c, const Tensor& t) {
  const Tensor self = c.tensor("self");
  return with_reduced_dims(t, self, reduced(c, self), keeps(c));
}

void sum_rule(GradientCall& c) {
  const Tensor g = planted(GradientBug::SumCotangent) ? ones_like(c.cotangent()) : c.cotangent();
  c.set("self", expand(spread(c, g), sizes_of(c.tensor("self"))));
}

// The sum of squared differences from the mean does not change with the mean, so that a gradient needs no sum over its own terms. Standard
// deviations have the gradient 0 where they are 0.
void variance_rule(GradientCall& c) {
  const Tensor self = c.tensor("self");
  const Tensor x = is_complex(self.dtype()) ? self : cast_to(self, ops::compute_type(self.dtype()));
  const std::vector<int64_t> dims = reduced(c, self);
  const Expr n = count_of(x, dims);
  const auto part = [&](size_t result) {
    return cast_to(spread(c, c.cotangents[result]), ops::compute_type(c.cotangents[result].dtype()));
  };
  Tensor gradient;
  if (c.cotangents[0].defined()) {
    const double correction = correction_of(c) + (planted(GradientBug::VarianceCorrection) ? 1 : 0);
    const Tensor centred = sub(x, div(sum(x, dims, true), n));
    Tensor slope = mul(part(0), 2.0);
    if (c.op().name.starts_with("std")) {
      const Tensor deviation = cast_to(spread(c, c.results[0]), slope.dtype()), is_zero = compare("eq", deviation, 0.0);
      slope = where(is_zero, zeros({}, slope.dtype()), div(part(0), where(is_zero, 1.0, deviation)));
    }
    gradient = mul(div(slope, degrees_of_freedom(n, correction, slope.dtype())), centred);
  }
  if (c.cotangents.size() > 1 && c.cotangents[1].defined() && !planted(GradientBug::MeanForgotten)) {
    const Tensor of_mean = expand(div(part(1), n), sizes_of(x));
    gradient = gradient.defined() ? add(gradient, of_mean) : of_mean;
  }
  if (gradient.defined()) c.set("self", gradient);
}

// The products of the elements before each one along a dimension, without the element itself.
Tensor products_before(const Tensor& t, int64_t dim) {
  const Expr n = size_at(t, dim);
  const Tensor one_later = slice(pad_dim(t, dim, 1, 0, 1), dim, 0, n);
  return ops::call1("cumprod", {one_later, num(dim)});
}

// The product of what stands before an element, times that of what stands behind: right for zeros, and for the derivatives of this one.
void prod_rule(GradientCall& c) {
  const Tensor self = conjugate(cast_to(c.tensor("self"), c.results[0].dtype()));
  const auto dims = reduced(c, self);
  const Tensor x = dims.empty() ? flat(self) : self;
  const int64_t dim = dims.empty() ? 0 : dims[0];
  if (x.dim() == 0) return c.set("self", spread(c, c.cotangent()));
  Tensor others = products_before(x, dim);
  if (!planted(GradientBug::ProductOfBehind)) others = mul(others, flip(products_before(flip(x, dim), dim), dim));
  c.set("self", mul(spread(c, c.cotangent()), dims.empty() ? view(others, sizes_of(self)) : others));
}

// Equal extrema share the gradient evenly.
void extremum_rule(GradientCall& c) {
  const Tensor self = c.tensor("self");
  const Tensor chosen = cast_to(compare(planted(GradientBug::ExtremumMask) ? "ge" : "eq", self, spread(c, c.results[0])), self.dtype());
  if (planted(GradientBug::ExtremumWhole)) return c.set("self", mul(chosen, spread(c, c.cotangent())));
  c.set("self", mul(chosen, div(spread(c, c.cotangent()), sum(chosen, reduced(c, self), true))));
}

void median_rule(GradientCall& c) {
  const Tensor self = c.tensor("self"), median = spread(c, c.results[0]);
  const Tensor is_nan = ops::call1("isnan", {self});
  const Tensor same = where(ops::call1("isnan", {median}), is_nan, compare("eq", self, median));
  const Tensor chosen = cast_to(same, self.dtype());
  c.set("self", mul(chosen, div(spread(c, c.cotangent()), sum(chosen, {}, true))));
}

// Operations that pick elements along a dimension, and tell which.
void picked_rule(GradientCall& c) {
  const Tensor self = c.tensor("self"), g = c.cotangent(0);
  if (self.dim() == 0) return c.set("self", g);
  const int64_t dim = (dim_of(c, "dim", self) + planted(GradientBug::PickedDimension)) % self.dim();
  const bool put_back = c.results[1].dim() < self.dim();
  const auto whole = [&](const Tensor& t) { return put_back ? unsqueeze(t, dim) : t; };
  c.set("self", scatter_add(zeros_like(self), dim, whole(c.results[1]), whole(g)));
}

int64_t softmax_dim(const GradientCall& c) {
  const Tensor self = c.tensor("self");
  return self.dim() == 0 ? 0 : dim_of(c, "dim", self);
}
Tensor summed_along(const Tensor& t, int64_t dim) { return t.dim() == 0 ? t : sum(t, {dim}, true); }

// a * b, and 0 where a is, also where b is no number: a row of -inf that a mask takes out again.
Tensor masked_product(const Tensor& a, const Tensor& b) {
  const Tensor hidden = ops::call1("logical_and", {compare("eq", a, 0.0), ops::call1("isnan", {b})});
  return mul(a, where(hidden, 0.0, b));
}

void softmax_rule(GradientCall& c) {
  const Tensor y = c.results[0], scaled = masked_product(c.cotangent(), y);
  if (planted(GradientBug::SoftmaxSum)) return c.set("self", scaled);
  c.set("self", sub(scaled, masked_product(summed_along(scaled, softmax_dim(c)), y)));
}
void log_softmax_rule(GradientCall& c) {
  const Tensor g = c.cotangent();
  const Tensor shared = mul(exp(c.results[0]), summed_along(g, softmax_dim(c)));
  c.set("self", planted(GradientBug::LogSoftmaxSign) ? add(g, shared) : sub(g, shared));
}

void logsumexp_rule(GradientCall& c) {
  const Tensor self = c.tensor("self"), y = spread(c, c.results[0]);
  // Rows of -inf alone have the gradient that exp(-inf) has.
  const Tensor finite = where(compare("eq", y, -INFINITY), 0.0, y);
  const Tensor slope = exp(sub(self, finite));
  c.set("self", planted(GradientBug::LogsumexpCotangent) ? slope : mul(spread(c, c.cotangent()), slope));
}

// The gradient of the p-norm y of x over `dims` (all when empty), times g; y and g have x's dimensions. The subgradient 0 where the norm is
// 0. Powers as in PyTorch's norm_backward.
Tensor norm_gradient(const Tensor& x, const Tensor& y, const Tensor& g, double p, const std::vector<int64_t>& dims) {
  if (p == 0) return zeros_like(x);
  const Tensor sign = unary("sgn", x), size = abs(x), is_zero = compare("eq", y, 0.0);
  if (p == 1) return mul(sign, g);
  if (p == 2) return where(is_zero, zeros({}, x.dtype()), mul(x, div(g, y)));
  if (std::isinf(p)) {
    const Tensor chosen = cast_to(compare("eq", size, y), y.dtype());
    return mul(mul(sign, chosen), div(g, sum(chosen, dims, true)));
  }
  Tensor scaled = p < 2 ? mul(sign, pow(size, p - 1)) : mul(x, pow(size, p - 2));
  if (p < 1) scaled = where(compare("eq", size, 0.0), zeros({}, x.dtype()), scaled);
  const Tensor power = pow(one_for_zero(y), planted(GradientBug::NormPower) ? -p : 1 - p);  // what is infinite would stay in its derivative
  return where(is_zero, zeros({}, x.dtype()), mul(scaled, mul(g, power)));
}

void vector_norm_rule(GradientCall& c) {
  const Tensor self = c.tensor("self"), y = spread(c, c.results[0]);
  const Tensor x = is_complex(self.dtype()) ? self : cast_to(self, y.dtype());
  const char* order = c.op().schema.find("ord") >= 0 ? "ord" : "p";
  c.set("self", norm_gradient(x, y, spread(c, c.cotangent()), c.has(order) ? c.real(order) : 2, reduced(c, x)));
}

// Rows that are equal have the distance 0, and its subgradient.
void cdist_rule(GradientCall& c) {
  const Tensor d = sub(unsqueeze(c.tensor("x1"), -2), unsqueeze(c.tensor("x2"), -3));
  const int64_t last = d.dim() - 1;
  const Tensor of_d = norm_gradient(d, unsqueeze(c.results[0], last), unsqueeze(c.cotangent(), last), c.real("p"), {last});
  if (c.wants("x1")) c.set("x1", sum(of_d, {last - 1}, false));
  if (c.wants("x2")) c.set("x2", unary("neg", sum(of_d, {last - 2}, false)));
}

void dist_rule(GradientCall& c) {
  const Tensor d = sub(c.tensor("self"), c.tensor("other"));
  const Tensor of_d = norm_gradient(d, c.results[0], c.cotangent(), c.real("p"), {});
  c.set("self", of_d);
  c.set("other", unary("neg", of_d));
}

constexpr RuleRow kReductionRules[] = {
    {"sum.dim_IntList", sum_rule},
    {"prod", prod_rule},
    {"prod.dim_int", prod_rule},
    {"var", variance_rule},
    {"var.dim", variance_rule},
    {"var.correction", variance_rule},
    {"var_mean", variance_rule},
    {"var_mean.dim", variance_rule},
    {"var_mean.correction", variance_rule},
    {"std", variance_rule},
    {"std.dim", variance_rule},
    {"std.correction", variance_rule},
    {"std_mean", variance_rule},
    {"std_mean.dim", variance_rule},
    {"std_mean.correction", variance_rule},
    {"amax", extremum_rule},
    {"amin", extremum_rule},
    {"median", median_rule},
    {"nanmedian", median_rule},
    {"max.dim", picked_rule},
    {"min.dim", picked_rule},
    {"median.dim", picked_rule},
    {"nanmedian.dim", picked_rule},
    {"mode", picked_rule},
    {"kthvalue", picked_rule},
    {"sort", picked_rule},
    {"sort.stable", picked_rule},
    {"topk", picked_rule},
    {"cummax", picked_rule},
    {"cummin", picked_rule},
    {"_softmax", softmax_rule},
    {"softmax.int", softmax_rule},
    {"special_softmax", softmax_rule},
    {"_log_softmax", log_softmax_rule},
    {"log_softmax.int", log_softmax_rule},
    {"special_log_softmax", log_softmax_rule},
    {"logsumexp", logsumexp_rule},
    {"linalg_vector_norm", vector_norm_rule},
    {"norm.Scalar", vector_norm_rule},
    {"norm.ScalarOpt_dtype", vector_norm_rule},
    {"norm.ScalarOpt_dim", vector_norm_rule},
    {"norm.ScalarOpt_dim_dtype", vector_norm_rule},
    {"dist", dist_rule},
    {"cdist", cdist_rule},
    {"_cdist_forward", cdist_rule},
};

}  // namespace

std::span<const RuleRow> reduction_rules() { return kReductionRules; }

}  // namespace toroid::autograd
