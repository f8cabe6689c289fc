// Windows for short-time spectra, and the frequencies of a spectrum's bins.
#include <numbers>

#include "base/check.h"
#include "ops/rows/creation.h"
#include "ops/rows/dense_compose.h"

namespace toroid::ops {

using namespace compose;

namespace {

double option(const CallReader& c, const char* name, double otherwise) { return c.op().schema.find(name) >= 0 ? c.real(name) : otherwise; }

// shape(positions 0 .. points-1 in double, points): a periodic window is one point longer, and its last is left out.
template <class Shape>
std::vector<Tensor> window(const CallReader& c, const Shape& shape) {
  const int64_t length = c.integer("window_length");
  const DType dtype = c.dtype("dtype").value_or(DType::F32);
  TOROID_USER_CHECK(length >= 0, "{}: the length must not be negative, it is {}", c.op().name, length);
  TOROID_USER_CHECK(is_float(dtype), "{}: expected a dtype of floats, got {}", c.op().name, name_of(dtype));
  if (length <= 1) return {full({Expr(length)}, 1, dtype)};
  const bool periodic = c.op().schema.find("periodic") < 0 || c.flag("periodic");
  const int64_t points = periodic ? length + 1 : length;
  return {cast(shape(arange(length, DType::F64), static_cast<double>(points)), dtype)};
}

// sum over k of (-1)^k parts[k] cos(2 pi k i / (points - 1)).
Tensor cosines(const Tensor& i, double points, std::initializer_list<double> parts) {
  Tensor total;
  double turns = 0, sign = 1;
  for (double part : parts) {
    Tensor term = mul(call1("cos", {mul(i, 2 * std::numbers::pi * turns / (points - 1))}), sign * part);
    total = turns == 0 ? term : add(total, term);
    turns += 1, sign = -sign;
  }
  return total;
}

std::vector<Tensor> hann(const CallReader& c) {
  return window(c, [](const Tensor& i, double points) { return cosines(i, points, {0.5, 0.5}); });
}

std::vector<Tensor> hamming(const CallReader& c) {
  const double alpha = option(c, "alpha", 0.54), beta = option(c, "beta", 0.46);
  return window(c, [=](const Tensor& i, double points) { return cosines(i, points, {alpha, beta}); });
}

std::vector<Tensor> blackman(const CallReader& c) {
  return window(c, [](const Tensor& i, double points) { return cosines(i, points, {0.42, 0.5, 0.08}); });
}

std::vector<Tensor> bartlett(const CallReader& c) {
  return window(c, [](const Tensor& i, double points) {
    Tensor from_middle = call1("abs", {add(mul(i, 2 / (points - 1)), -1.0)});
    return call1("rsub.Scalar", {from_middle, 1.0});
  });
}

std::vector<Tensor> kaiser(const CallReader& c) {
  const double beta = option(c, "beta", 12);
  return window(c, [=](const Tensor& i, double points) {
    Tensor x = add(mul(i, 2 / (points - 1)), -1.0);
    Tensor inside = call1("clamp", {call1("rsub.Scalar", {mul(x, x), 1.0}), 0.0});
    return div(call1("i0", {mul(call1("sqrt", {inside}), beta)}), call1("i0", {full({}, beta, DType::F64)}));
  });
}

// Bin k of n has frequency k / (n d), and those of the upper half k - n.
template <bool kReal>
std::vector<Tensor> frequencies(const CallReader& c) {
  const int64_t n = c.integer("n");
  const double d = c.real("d");
  const DType dtype = c.dtype("dtype").value_or(DType::F32);
  TOROID_USER_CHECK(n >= 1 && d != 0, "{}: expected a positive number of bins and a spacing other than 0, got {} and {}", c.op().name, n,
                    d);
  Tensor k = arange(kReal ? n / 2 + 1 : n, DType::F64);
  if (!kReal) k = where(lt(k, static_cast<double>((n + 1) / 2)), k, add(k, -static_cast<double>(n)));
  return {cast(mul(k, 1 / (static_cast<double>(n) * d)), dtype)};
}

}  // namespace

void add_window_rows(Table& t) {
  auto add_rows = [&](const std::string& name, Decompose decompose, std::initializer_list<const char*> overloads) {
    const std::string options = std::string(", *, ") + kCreationOptions + ") -> Tensor";
    t.composite(fmt::format("{}(int window_length{}", name, options), decompose);
    t.composite(fmt::format("{}.periodic(int window_length, bool periodic{}", name, options), decompose);
    std::string suffix, parameters;
    for (const char* o : overloads) {
      suffix += std::string("_") + o, parameters += std::string(", float ") + o;
      const std::string overload = name == "kaiser_window" ? o : "periodic" + suffix;
      t.composite(fmt::format("{}.{}(int window_length, bool periodic{}{}", name, overload, parameters, options), decompose);
    }
  };
  add_rows("hann_window", hann, {});
  add_rows("hamming_window", hamming, {"alpha", "beta"});
  add_rows("blackman_window", blackman, {});
  add_rows("bartlett_window", bartlett, {});
  add_rows("kaiser_window", kaiser, {"beta"});
  const std::string options = std::string("(int n, float d=1.0, *, ") + kCreationOptions + ") -> Tensor";
  t.composite(fmt::format("fft_fftfreq{}", options), frequencies<false>);
  t.composite(fmt::format("fft_rfftfreq{}", options), frequencies<true>);
}

}  // namespace toroid::ops
