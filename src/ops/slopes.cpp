#include "ops/slopes.h"

#include <cmath>
#include <string>
#include <unordered_map>

#include "base/gradient_bugs.h"
#include "ops/rows/pointwise.h"
#include "ops/scalar_program.h"

namespace toroid::ops {
namespace {

using By = std::string_view;

// 1 where the condition holds, else 0.
S where(S condition, S like) { return select(condition, lit(like, 1), lit(like, 0)); }

// 0 where the condition holds, else 1: what is no number meets no condition, and PyTorch hands its cotangent on.
S unless(S condition, S like) { return select(condition, lit(like, 0), lit(like, 1)); }

S relu(F, By, S y) { return unless(y <= 0.0, y); }
S relu6(F f, By, S) { return unless((f[0] <= 0.0) | (f[0] >= 6.0), f[0]); }
S hardtanh(F f, By, S) { return unless((f[0] <= f.constant("min_val")) | (f[0] >= f.constant("max_val")), f[0]); }
// At 0 the slope of negative numbers, which is a constant there, as PyTorch's second derivatives have it.
S exponential_unit(S x, double positive, double negative, double rate) {
  return select(x < 0.0, exp(x * rate) * negative, select(x == 0.0, lit(x, negative), lit(x, positive)));
}
S elu(F f, By, S) {
  const double scale = f.real("scale"), rate = f.real("input_scale");
  return exponential_unit(f[0], scale, f.real("alpha") * scale * rate, rate);
}
S selu(F f, By, S) { return exponential_unit(f[0], kSeluScale, kSeluAlpha * kSeluScale, 1); }
S celu(F f, By, S) { return exponential_unit(f[0], 1, 1, 1 / f.real("alpha")); }
S soft_shrink(F f, By, S) { return unless((f[0] >= -f.constant("lambd")) & (f[0] <= f.constant("lambd")), f[0]); }
S hardsigmoid(F f, By, S) { return select((f[0] > -3.0) & (f[0] < 3.0), lit(f[0], 1.0 / 6), lit(f[0], 0)); }
S hardswish(F f, By, S) {
  S x = f[0];
  return select(x <= -3.0, lit(x, 0), select(x < 3.0, x / 3.0 + 0.5, lit(x, 1)));
}

// Elements at a limit that is a number do not change with self. Where limits are tensors, those that are equal share the slope.
S clamp(F f, By, S) {
  S x = f[0], inside = lit_as(x, DType::Bool, Number::of(true));
  if (f.has("min")) inside = inside & (x > f.constant("min"));
  if (f.has("max") && !planted(GradientBug::ClampMask)) inside = inside & (x < f.constant("max"));
  return where(inside, x);
}
// 1 where `whole`, a half where a == b, else 0.
S shared(S whole, S a, S b) { return select(whole, lit(a, 1), select(a == b, lit(a, 0.5), lit(a, 0))); }
S clamp_tensors(F f, By by, S) {
  const bool has_min = f.has("min"), has_max = f.has("max");
  S x = f[0], lo = f[1], hi = has_min && has_max ? f[2] : f[1], none = lit(x, 0);
  if (!has_max) return by == "min" ? shared(x < lo, x, lo) : shared(x > lo, x, lo);
  if (!has_min) return by == "max" ? shared(x > hi, x, hi) : shared(x < hi, x, hi);
  // The upper limit where the limits cross; x where all three are equal.
  if (by == "min") return select(lo < hi, shared(x < lo, x, lo), where((lo == hi) & (x < lo), x));
  if (by == "max") return select(lo < hi, shared(x > hi, x, hi), where((lo > hi) | (x > hi), x));
  S between = where((x > lo) & (x < hi), x);
  return select(lo < hi, select((x == lo) | (x == hi), lit(x, 0.5), between), select((x == lo) & (x == hi), lit(x, 1), none));
}
template <bool upper>
S clamp_one(F f, By by, S) {
  S x = lhs(f), limit = rhs(f), inside = upper ? x < limit : x > limit, outside = upper ? x > limit : x < limit;
  if (f.op().schema.params[1].type != ParamType::Tensor) return where(inside, x);
  return shared(by == "self" ? inside : outside, x, limit);
}

// Of equal operands, both; what is no number is not chosen.
template <bool largest>
S extremum_of_numbers(F f, By by, S) {
  S first = ((largest ? f[0] > f[1] : f[0] < f[1]) | is_nan(f[1])), slope = shared(first, f[0], f[1]);
  return by == "self" ? slope : 1.0 - slope;
}

// That of the greatest operand, without the corners of its formula's maximum and abs.
template <bool base2>
S logaddexp(F f, By by, S) {
  constexpr double kLn2 = 0.69314718055994530942;
  S a = f[0], b = f[1], gap = by == "self" ? a - b : b - a;
  S slope = sigmoid(base2 ? gap * kLn2 : gap);
  return select(is_inf(a) & (a == b), lit(a, by == "self"), slope);
}
S log_sigmoid(F f, By, S) { return sigmoid(-f[0]); }

S sinc(F f, By, S y) {
  constexpr double kPi = 3.14159265358979323846;
  return slope_of_sin_over(f[0] * kPi, y) * kPi;
}

S logit(F f, By, S) {
  S x = f[0], slope = 1.0 / (x * (1.0 - x));
  if (!f.has("eps")) return select((x < 0.0) | (x > 1.0), lit(x, std::nan("")), slope);
  const double eps = f.real("eps");
  return select((x >= lit(x, eps)) & (x <= lit(x, 1 - eps)), slope, lit(x, 0));
}

// By the factor, the logarithm also where the factor is 0, if there is one.
S xlogy(F f, By by, S) {
  S x = lhs(f), y = rhs(f);
  return by == "self" ? select((x == 0.0) & (y <= 0.0), lit(x, 0), log(y)) : x / y;
}
S xlog1py(F f, By by, S) {
  S x = lhs(f), y = rhs(f);
  return by == "self" ? select((x == 0.0) & (y <= -1.0), lit(x, 0), log1p(y)) : x / (y + 1.0);
}
// Straight through: rounding has slope 1, clamping that of clamp. Scales and zero points are no parameters that are learned.
S fake_quantize(F f, By by, S) {
  if (by != "self") return {};
  return planted(GradientBug::QuantizedEverywhere) ? lit(f[0], 1) : where(fake_quantize_inside(f), f[0]);
}
S next(F f, By by, S) { return by == "self" ? lit(f[0], 1) : S{}; }
S entr(F f, By, S) { return -(log(f[0]) + 1.0); }

}  // namespace

Slope find_slope(const Op& op) {
  static const auto& slopes = *new std::unordered_map<std::string_view, Slope>{
      {"relu", relu},
      {"relu6", relu6},
      {"hardtanh", hardtanh},
      {"elu", elu},
      {"selu", selu},
      {"celu", celu},
      {"softshrink", soft_shrink},
      {"log_sigmoid", log_sigmoid},
      {"logaddexp", logaddexp<false>},
      {"logaddexp2", logaddexp<true>},
      {"sinc", sinc},
      {"special_sinc", sinc},
      {"hardsigmoid", hardsigmoid},
      {"hardswish", hardswish},
      {"clamp", clamp},
      {"clip", clamp},
      {"clamp.Tensor", clamp_tensors},
      {"clip.Tensor", clamp_tensors},
      {"clamp_min", clamp_one<false>},
      {"clamp_min.Tensor", clamp_one<false>},
      {"clamp_max", clamp_one<true>},
      {"clamp_max.Tensor", clamp_one<true>},
      {"fmax", extremum_of_numbers<true>},
      {"fmin", extremum_of_numbers<false>},
      {"logit", logit},
      {"special_logit", logit},
      {"xlogy.Tensor", xlogy},
      {"xlogy.Scalar_Self", xlogy},
      {"xlogy.Scalar_Other", xlogy},
      {"special_xlogy", xlogy},
      {"special_xlogy.self_scalar", xlogy},
      {"special_xlogy.other_scalar", xlogy},
      {"special_xlog1py", xlog1py},
      {"special_xlog1py.self_scalar", xlog1py},
      {"special_xlog1py.other_scalar", xlog1py},
      {"special_entr", entr},
      {"nextafter", next},
      {"fake_quantize_per_tensor_affine", fake_quantize},
      {"_fake_quantize", fake_quantize},
  };
  const auto it = slopes.find(op.name);
  return it == slopes.end() ? nullptr : it->second;
}

}  // namespace toroid::ops
