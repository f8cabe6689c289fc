#include "cli/compare.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/scalar.h"
#include "tensor/tensor_impl.h"

namespace toroid::cli {
namespace {

using Complex = std::complex<double>;

std::string type_text(const Tensor& t) {
  std::string sizes;
  for (int64_t s : t.sizes()) sizes += fmt::format("{}{}", sizes.empty() ? "" : ", ", s);
  return fmt::format("{}[{}]", name_of(t.dtype()), sizes);
}

std::string position_text(int64_t flat, const std::vector<int64_t>& sizes) {
  std::string out;
  for (size_t d = sizes.size(); d-- > 0;) {
    out = fmt::format("{}{}{}", flat % sizes[d], out.empty() ? "" : ", ", out);
    flat /= sizes[d];
  }
  return "[" + out + "]";
}

std::string value_text(const std::byte* p, DType t) {
  if (is_complex(t)) {
    Complex v = load_complex(p, t);
    return fmt::format("{:.9g}{:+.9g}i", v.real(), v.imag());
  }
  if (is_float(t)) return fmt::format("{:.9g}", load_number(p, t).as_double());
  int64_t v = load_number(p, t).as_int();
  return is_bool(t) ? (v ? "true" : "false") : fmt::format("{}", v);
}

double relative_tolerance(DType t, const Tolerance& tolerance) {
  switch (t) {
    case DType::F64:
    case DType::C128:
      return tolerance.f32 * 1e-3;
    case DType::F16:
      return std::max(2e-3, tolerance.f32);
    case DType::BF16:
      return std::max(1.6e-2, tolerance.f32);
    default:
      return tolerance.f32;
  }
}

// max - min or the largest magnitude of the finite values, whichever is larger.
double range_of(const Tensor& t) {
  double lo = HUGE_VAL, hi = -HUGE_VAL, magnitude = 0;
  const std::byte* p = t.raw_data();
  size_t step = size_of(t.dtype());
  for (int64_t i = 0; i < t.numel(); ++i, p += step) {
    Complex v = load_complex(p, t.dtype());
    for (double x : {v.real(), v.imag()}) {
      if (!std::isfinite(x)) continue;
      lo = std::min(lo, x);
      hi = std::max(hi, x);
      magnitude = std::max(magnitude, std::abs(x));
    }
  }
  return hi >= lo ? std::max(hi - lo, magnitude) : 0;
}

bool agrees(double got, double expected, double allowed) {
  if (std::isnan(expected) || std::isnan(got)) return std::isnan(expected) && std::isnan(got);
  if (std::isinf(expected) || std::isinf(got)) return got == expected;
  return got == expected || std::abs(got - expected) <= allowed;
}

}  // namespace

std::optional<std::string> compare_types(const Tensor& got, const Tensor& expected) {
  if (!got.defined()) return fmt::format("no tensor, expected {}", type_text(expected));
  if (got.dtype() == expected.dtype() && got.sizes() == expected.sizes()) return std::nullopt;
  return fmt::format("got {}, expected {}", type_text(got), type_text(expected));
}

namespace {

// `allowed` gives the error that an element may have, from the magnitude of what is expected.
template <class F>
std::optional<std::string> compare(const Tensor& got_any, const Tensor& expected_any, F&& allowed) {
  if (auto type = compare_types(got_any, expected_any)) return type;
  Tensor got = got_any.contiguous(), expected = expected_any.contiguous();
  DType t = got.dtype();
  size_t step = size_of(t);
  const std::byte *g = got.raw_data(), *e = expected.raw_data();
  bool exact = is_int(t) || is_bool(t);
  int64_t wrong = 0, first = -1;
  double worst = 0, allowed_there = 0;
  for (int64_t i = 0; i < got.numel(); ++i) {
    const std::byte *a = g + static_cast<size_t>(i) * step, *b = e + static_cast<size_t>(i) * step;
    bool same = std::memcmp(a, b, step) == 0;
    if (!same && !exact) {
      Complex x = load_complex(a, t), y = load_complex(b, t);
      double bound = allowed(std::abs(y)), error = std::abs(x - y);
      same = agrees(x.real(), y.real(), bound) && agrees(x.imag(), y.imag(), bound);
      if (!same && std::isfinite(error) && error > worst) {
        worst = error;
        allowed_there = bound;
      }
    }
    if (same) continue;
    if (first < 0) first = i;
    ++wrong;
  }
  if (first < 0) return std::nullopt;
  size_t at = static_cast<size_t>(first) * step;
  std::string text =
      fmt::format("at {} got {}, expected {}", position_text(first, got.sizes()), value_text(g + at, t), value_text(e + at, t));
  if (!exact) text += fmt::format(", largest error {:.3g} where {:.3g} is allowed", worst, allowed_there);
  return text + fmt::format("; {} of {} elements differ", wrong, got.numel());
}

}  // namespace

void check_tolerance(double tolerance) {
  TOROID_USER_CHECK(tolerance >= 0, "--tolerance: expected 0 or more, a part of the output's range, not {}", tolerance);
}

std::optional<std::string> compare_tensors(const Tensor& got, const Tensor& expected, const Tolerance& tolerance) {
  constexpr double kFloor = 1e-9;  // an output of zeros has no range
  double allowed = -1;
  return compare(got, expected, [&](double) {
    if (allowed < 0) allowed = relative_tolerance(expected.dtype(), tolerance) * range_of(expected.contiguous()) + kFloor;
    return allowed;
  });
}

std::optional<std::string> compare_elements(const Tensor& got, const Tensor& expected, const ElementTolerance& tolerance) {
  return compare(got, expected, [&](double magnitude) { return tolerance.absolute + tolerance.relative * magnitude; });
}

}  // namespace toroid::cli
