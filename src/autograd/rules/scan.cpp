// Gradients of scans.
#include <cmath>

#include "autograd/rules/forms.h"
#include "base/gradient_bugs.h"

namespace toroid::autograd {

using namespace ops::forms;

namespace {

Tensor scanned(const char* op, const Tensor& t, int64_t dim) { return ops::call1(op, {t, num(dim)}); }
Tensor scanned_back(const char* op, const Tensor& t, int64_t dim) { return flip(scanned(op, flip(t, dim), dim), dim); }

void cumsum_rule(GradientCall& c) {
  if (c.tensor("self").dim() == 0) return c.set("self", c.cotangent());
  const int64_t dim = dim_of(c, "dim", c.tensor("self"));
  c.set("self", (planted(GradientBug::CumsumForward) ? scanned : scanned_back)("cumsum", c.cotangent(), dim));
}

// From g, the cotangent of y = cumprod(x). Before the first zero, by division; at it, by products without it; behind it, that zero times
// what those products change by: nothing, but for second derivatives.
Tensor cumprod_gradient(const Tensor& x, const Tensor& y, const Tensor& g, int64_t dim, bool first) {
  const Tensor zero = is_zero(x), count = scanned("cumsum", cast_to(zero, DType::I64), dim), none = zeros({}, x.dtype());
  const Tensor is_first = ops::call1("logical_and", {zero, compare_int("eq", count, 1)});
  const Tensor others = where(is_first, full({}, 1, x.dtype()), x), without = scanned("cumprod", others, dim);
  const Tensor before = div(scanned_back("cumsum", mul(g, y), dim), one_for_zero(x));
  const Tensor at_first = planted(GradientBug::CumprodFirstZero) ? zeros_like(x) : scanned_back("cumsum", mul(g, without), dim);
  const Tensor behind = first ? mul(sum(where(is_first, x, none), {dim}, true), cumprod_gradient(others, without, g, dim, false)) : none;
  return where(is_first, at_first, where(compare_int("ge", count, 1), behind, before));
}
void cumprod_rule(GradientCall& c) {
  const Tensor g = c.cotangent();
  if (g.dim() == 0) return c.set("self", g);
  const Tensor x = conjugate(cast_to(c.tensor("self"), c.results[0].dtype()));
  const int64_t dim = dim_of(c, "dim", x);
  c.set("self", cumprod_gradient(x, conjugate(c.results[0]), g, dim, true));
}

// In logarithms, positive and negative cotangents apart, as exp(-result) overflows.
void logcumsumexp_rule(GradientCall& c) {
  const Tensor g = c.cotangent(), x = c.tensor("self");
  if (x.dim() == 0) return c.set("self", g);
  const int64_t dim = dim_of(c, "dim", x);
  // Behind elements of -inf alone: the gradient that exp(-inf) has.
  const Tensor finite = where(compare("eq", c.results[0], -INFINITY), 0.0, c.results[0]);
  const auto part = [&](const Tensor& size, const char* relation) {
    const Tensor logs = where(compare(relation, g, 0.0), log(size), -INFINITY);
    return exp(add(scanned_back("logcumsumexp", sub(logs, finite), dim), x));
  };
  const Tensor positive = part(g, "gt"), negative = part(unary("neg", g), "lt");
  c.set("self", planted(GradientBug::LogcumsumexpSign) ? add(positive, negative) : sub(positive, negative));
}

constexpr RuleRow kScanRules[] = {{"cumsum", cumsum_rule}, {"cumprod", cumprod_rule}, {"logcumsumexp", logcumsumexp_rule}};

}  // namespace

std::span<const RuleRow> scan_rules() { return kScanRules; }

}  // namespace toroid::autograd
