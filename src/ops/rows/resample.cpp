// Rows of interpolation on fixed grids: gathers at computed indices, weighted and added.
#include "ops/rows/resample.h"

#include <cmath>

#include "base/check.h"

namespace toroid::ops {

using namespace compose;

namespace {

// a * x^3 - 5a * x^2 + 8a * x - 4a: the outer piece of the cubic convolution kernel, for 1 <= x <= 2.
Tensor cubic_outer(const Tensor& x, double a) { return sub(mul(add(mul(sub(mul(x, a), 5 * a), x), 8 * a), x), 4 * a); }

// The inner piece, for 0 <= x <= 1.
Tensor cubic_inner(const Tensor& x, double a) { return add(mul(mul(sub(mul(x, a + 2), a + 3), x), x), 1.0); }

Tensor one_minus(const Tensor& t) { return call1("rsub.Scalar", {t, 1.0}); }

}  // namespace

std::array<Tensor, 4> cubic_weights(const Tensor& t) {
  constexpr double kA = -0.75;
  Tensor back = one_minus(t);
  return {cubic_outer(add(t, 1.0), kA), cubic_inner(t, kA), cubic_inner(back, kA), cubic_outer(add(back, 1.0), kA)};
}

namespace {

constexpr const char* kScaleNames[] = {"scales_d", "scales_h", "scales_w"};

// One spatial dimension of a resize.
struct Axis {
  Expr in, out;
  std::optional<double> factor;  // as given by the caller

  int64_t fixed_in() const { return static_cast<int64_t>(SymInt(in)); }
  int64_t fixed_out() const { return static_cast<int64_t>(SymInt(out)); }
  // Input steps for one output step.
  double step(bool align_corners) const {
    auto i = static_cast<double>(fixed_in()), o = static_cast<double>(fixed_out());
    if (align_corners) return o > 1 ? (i - 1) / (o - 1) : 0;
    return factor && *factor > 0 ? 1 / *factor : i / o;
  }
  // The same, computed when it runs where sizes are symbolic.
  Operand step(bool align_corners, DType dtype) const {
    bool open = !in.is_const() || !out.is_const();
    if (!open) return step(align_corners);
    if (!align_corners && factor && *factor > 0) return 1 / *factor;
    auto number = [&](const Expr& e) { return call1("scalar_tensor", {e, dtype}); };
    if (align_corners && out == Expr(1)) return 0.0;
    const Tensor divisor = number(align_corners ? sym::max(out - 1, 1) : out);
    return div(number(align_corners ? in - 1 : in), divisor);
  }
  // The whole number of outputs for each input, where there is one.
  std::optional<int64_t> repeats() const {
    if (in.is_const() && out.is_const()) {
      int64_t i = in.constant(), o = out.constant();
      bool whole = i > 0 && o % i == 0 && o >= i && (!factor || *factor == static_cast<double>(o / i));
      return whole ? std::optional(o / i) : std::nullopt;
    }
    if (factor && *factor >= 1 && *factor < (1 << 20) && *factor == std::floor(*factor)) {
      auto k = static_cast<int64_t>(*factor);
      if (out == in * Expr(k)) return k;
    }
    return std::nullopt;
  }
};

struct Resize {
  Tensor x;
  std::vector<Axis> axes;
  size_t spatial() const { return axes.size(); }
};

// floor(in * factor). Symbolic sizes stay open where the factor is a fraction of a power of two (1.5 = 3 / 2), which floats multiply
// exactly.
Expr scaled_size(const Axis& a, double factor) {
  int64_t denominator = 1;
  while (factor * static_cast<double>(denominator) != std::floor(factor * static_cast<double>(denominator)) && denominator < (1 << 20))
    denominator *= 2;
  double numerator = factor * static_cast<double>(denominator);
  if (numerator != std::floor(numerator)) return static_cast<int64_t>(static_cast<double>(a.fixed_in()) * factor);
  return sym::floor_div(a.in * Expr(static_cast<int64_t>(numerator)), denominator);
}

Resize read_resize(const CallReader& c, size_t spatial) {
  bool vec = c.op().schema.find("scale_factors") >= 0;
  Resize r;
  r.x = c.tensor(vec ? "input" : "self");
  TOROID_USER_CHECK(r.x.dim() == static_cast<int64_t>(spatial) + 2, "{}: the input must have {} dimensions, it has {}", c.op().name,
                    spatial + 2, r.x.dim());
  Sizes out = c.exprs("output_size");
  std::vector<double> factors = vec ? c.reals("scale_factors") : std::vector<double>{};
  TOROID_USER_CHECK(!vec || out.empty() != factors.empty(), "{}: give exactly one of output_size and scale_factors", c.op().name);
  TOROID_USER_CHECK((out.empty() || out.size() == spatial) && (factors.empty() || factors.size() == spatial),
                    "{}: output_size or scale_factors must have {} numbers", c.op().name, spatial);
  for (size_t d = 0; d < spatial; ++d) {
    Axis a;
    a.in = extent(r.x, static_cast<int64_t>(d) + 2);
    if (vec && !factors.empty()) {
      a.factor = factors[d];
      TOROID_USER_CHECK(factors[d] > 0 && factors[d] < (1 << 20), "{}: scale factor {} is out of range", c.op().name, factors[d]);
      a.out = scaled_size(a, factors[d]);
    } else {
      a.out = out.at(d);
      std::string_view name = spatial == 1 ? "scales" : kScaleNames[3 - spatial + d];
      if (!vec && c.has(name)) a.factor = c.real(name);
    }
    for (const Expr& size : {a.in, a.out})
      require({sym::Rel::Ge, size, 1}, "{}: spatial sizes must be positive, got {} to {}", c.op().name, sym::to_string(a.in),
              sym::to_string(a.out));
    r.axes.push_back(std::move(a));
  }
  return r;
}

// ---- nearest ----

// Each element repeated a whole number of times: a broadcast.
std::optional<Tensor> repeat_elements(const Resize& r) {
  Sizes apart{extent(r.x, 0), extent(r.x, 1)}, wide = apart, out = apart;
  for (auto& a : r.axes) {
    auto k = a.repeats();
    if (!k) return std::nullopt;
    apart.insert(apart.end(), {a.in, Expr(1)});
    wide.insert(wide.end(), {a.in, Expr(*k)});
    out.push_back(a.out);
  }
  return reshape(expand(reshape(r.x, apart), wide), out);
}

template <size_t kSpatial, bool kExact>
std::vector<Tensor> nearest(const CallReader& c) {
  Resize r = read_resize(c, kSpatial);
  if (auto repeated = repeat_elements(r)) return {*repeated};
  std::vector<Tensor> indices(2);
  for (size_t d = 0; d < kSpatial; ++d) {
    Tensor at = arange(r.axes[d].out, DType::F32);
    if (kExact) at = add(at, 0.5);
    at = cast(mul(at, r.axes[d].step(false, DType::F32)), DType::I64);
    indices.push_back(along(clamp(at, std::monostate{}, r.axes[d].in - 1), static_cast<int64_t>(d), kSpatial));
  }
  return {index(r.x, std::move(indices))};
}

// ---- linear and cubic ----

// Neighbours of each output position of one dimension, with their weights.
struct Taps {
  std::vector<Tensor> indices, weights;
};

Tensor source_positions(const Axis& a, DType dtype, bool align_corners, bool cubic) {
  Tensor i = arange(a.out, dtype);
  if (align_corners) return mul(i, a.step(true, dtype));
  const auto step = a.step(false, dtype);
  Tensor at = sub(mul(add(i, 0.5), step), 0.5);
  return cubic ? at : call1("clamp", {at, 0.0});
}

Taps linear_taps(const Axis& a, DType dtype, bool align_corners) {
  Tensor at = source_positions(a, dtype, align_corners, false);
  Expr last = a.in - 1;
  Tensor first = clamp(cast(at, DType::I64), std::monostate{}, last);
  Tensor t = clamp(sub(at, cast(first, dtype)), 0.0, 1.0);
  return {{first, clamp(add(first, Expr(1)), std::monostate{}, last)}, {one_minus(t), t}};
}

Taps cubic_taps(const Axis& a, DType dtype, bool align_corners) {
  Tensor at = source_positions(a, dtype, align_corners, true), whole = floor(at);
  Tensor first = cast(whole, DType::I64);
  Taps taps;
  for (int64_t k = -1; k <= 2; ++k) taps.indices.push_back(clamp(add(first, Expr(k)), Expr(0), a.in - 1));
  for (auto& w : cubic_weights(clamp(sub(at, whole), 0.0, 1.0))) taps.weights.push_back(w);
  return taps;
}

// Bytes are rounded back.
Tensor to_dtype(const Tensor& y, DType dtype) {
  if (!is_int(dtype)) return cast(y, dtype);
  Tensor rounded = call1("round", {y});
  return cast(dtype == DType::U8 ? clamp(rounded, 0.0, 255.0) : rounded, dtype);
}

// Sum over all combinations of taps of the dimensions.
Tensor weighted_sum(const Tensor& x, const std::vector<Taps>& taps) {
  auto rank = static_cast<int64_t>(taps.size());
  size_t each = taps[0].indices.size(), combinations = 1;
  for (size_t d = 0; d < taps.size(); ++d) combinations *= each;
  Tensor total;
  for (size_t k = 0; k < combinations; ++k) {
    std::vector<Tensor> indices(2);
    Tensor weight;
    for (size_t d = 0, rest = k; d < taps.size(); ++d, rest /= each) {
      indices.push_back(along(taps[d].indices[rest % each], static_cast<int64_t>(d), rank));
      Tensor w = along(taps[d].weights[rest % each], static_cast<int64_t>(d), rank);
      weight = d == 0 ? w : mul(weight, w);
    }
    Tensor part = mul(index(x, std::move(indices)), weight);
    total = k == 0 ? part : add(total, part);
  }
  return total;
}

DType coordinate_type(DType t) { return t == DType::F64 ? DType::F64 : DType::F32; }

template <size_t kSpatial, bool kCubic>
std::vector<Tensor> smooth(const CallReader& c) {
  Resize r = read_resize(c, kSpatial);
  DType compute = coordinate_type(r.x.dtype());
  std::vector<Taps> taps;
  for (auto& a : r.axes) taps.push_back((kCubic ? cubic_taps : linear_taps)(a, compute, c.flag("align_corners")));
  return {to_dtype(weighted_sum(cast(r.x, compute), taps), r.x.dtype())};
}

// ---- antialiased ----

// The filter of one dimension: zero from `support` input steps off its centre; `inverse` scales distances to its formula.
struct Filter {
  Operand step, support, inverse;
  Expr taps;
};

// A filter that widens when shrinking; `reach` is its radius in input steps at scale 1.
Filter filter_of(const Axis& a, int64_t reach, bool align_corners, DType dtype) {
  Filter f{a.step(align_corners, dtype), {}, {}, 0};
  if (auto* step = std::get_if<double>(&f.step)) {
    double wide = std::max(*step, 1.0), support = static_cast<double>(reach) * wide;
    f.support = support, f.inverse = 1 / wide;
    f.taps = sym::min(a.in, Expr(2 * static_cast<int64_t>(std::ceil(support)) + 1));
    return f;
  }
  Tensor wide = call1("clamp", {f.step, 1.0});
  f.support = mul(wide, Expr(reach)), f.inverse = call1("reciprocal", {wide});
  Expr from = align_corners ? a.in - 1 : a.in, to = align_corners ? sym::max(a.out - 1, 1) : a.out;
  f.taps = sym::min(a.in, Expr(2) * sym::max(sym::ceil_div(Expr(reach) * from, to), reach) + 1);
  return f;
}

// What each output of a dimension takes of its neighbours: of input at[o][t] the part weight[o][t].
struct Window {
  Tensor at, weight;
  Expr taps;
};

Window antialiased_window(const Axis& a, bool cubic, bool align_corners, DType dtype) {
  Filter f = filter_of(a, cubic ? 2 : 1, align_corners, dtype);
  Tensor centre = mul(add(arange(a.out, dtype), 0.5), f.step);
  Tensor first = call1("clamp", {cast(add(sub(centre, f.support), 0.5), DType::I64), Expr(0)});
  Tensor end = clamp(cast(add(add(centre, f.support), 0.5), DType::I64), std::monostate{}, a.in);
  const Tensor taps = arange(f.taps);
  Tensor at = add(unsqueeze(first, 1), taps);
  const Tensor around = unsqueeze(centre, 1);
  Tensor distance = call1("abs", {mul(add(sub(cast(at, dtype), around), 0.5), f.inverse)});
  Tensor zero = full({}, 0, dtype), weight;
  if (cubic) {
    const Tensor outer = cubic_outer(distance, -0.5), beyond = where(lt(distance, 2.0), outer, zero), inner = cubic_inner(distance, -0.5);
    weight = where(lt(distance, 1.0), inner, beyond);
  } else {
    weight = call1("clamp", {one_minus(distance), 0.0});
  }
  weight = where(call1("lt.Tensor", {at, unsqueeze(end, 1)}), weight, zero);
  weight = div(weight, sum(weight, {Expr(1)}, true));
  return {clamp(at, std::monostate{}, a.in - 1), weight, f.taps};
}

// The products of one dimension's windows with their weights, and their dimension, over which they are to be summed.
Tensor weighted_windows(const Tensor& x, int64_t dim, const Window& w) {
  std::vector<Tensor> indices(static_cast<size_t>(dim));
  indices.push_back(w.at);
  Tensor gathered = index(x, std::move(indices));  // the taps follow their dimension
  Sizes lay(static_cast<size_t>(gathered.dim()), Expr(1));
  lay[static_cast<size_t>(dim)] = extent(w.weight, 0);
  lay[static_cast<size_t>(dim) + 1] = w.taps;
  return mul(gathered, reshape(w.weight, lay));
}

// Resizes one dimension.
Tensor antialiased(const Tensor& x, int64_t dim, const Axis& a, bool cubic, bool align_corners) {
  return sum(weighted_windows(x, dim, antialiased_window(a, cubic, align_corners, x.dtype())), {Expr(dim + 1)});
}

// Resizes one dimension of bytes, held as i32, as PyTorch's CPU kernels do: weights are multiples of that power of two which lets the
// largest just fit 16 bits, and each dimension's result is a byte again.
Tensor antialiased_bytes(const Tensor& x, int64_t dim, const Axis& a, bool cubic, bool align_corners) {
  Window w = antialiased_window(a, cubic, align_corners, DType::F64);
  constexpr int64_t kMostBits = 22;
  Tensor largest = call1("amax", {w.weight}), powers = call1("exp2", {add(arange(kMostBits, DType::F64), 1.0)});
  Tensor fits = lt(mul(powers, largest), 32767.5);
  Tensor bits = call1("sum.dim_IntList", {fits, Sizes{Expr(0)}, false, DType::I32});
  Tensor scaled = mul(w.weight, call1("exp2", {cast(bits, DType::F64)}));
  w.weight = cast(add(scaled, where(lt(scaled, 0.0), -0.5, 0.5)), DType::I32);
  Tensor total = call1("sum.dim_IntList", {weighted_windows(x, dim, w), Sizes{Expr(dim + 1)}, false, DType::I32});
  Tensor half = call1("bitwise_left_shift.Tensor", {full({}, 1, DType::I32), sub(bits, Expr(1))});
  return clamp(call1("bitwise_right_shift.Tensor", {add(total, half), bits}), Expr(0), Expr(255));
}

template <bool kCubic>
std::vector<Tensor> resize_antialiased(const CallReader& c) {
  Resize r = read_resize(c, 2);
  const bool bytes = r.x.dtype() == DType::U8;
  Tensor y = cast(r.x, bytes ? DType::I32 : coordinate_type(r.x.dtype()));
  for (size_t d = 2; d-- > 0;)
    y = (bytes ? antialiased_bytes : antialiased)(y, static_cast<int64_t>(d) + 2, r.axes[d], kCubic, c.flag("align_corners"));
  return {to_dtype(y, r.x.dtype())};
}

// ---- shuffles ----

std::vector<Tensor> pixel_shuffle(const CallReader& c) {
  Tensor x = c.tensor("self");
  int64_t f = c.integer("upscale_factor"), rank = x.dim();
  TOROID_USER_CHECK(rank >= 3 && f >= 1 && f < (1 << 15),
                    "pixel_shuffle: expected at least 3 dimensions and a positive factor, got {} and {}", rank, f);
  Sizes sizes = sizes_of(x);
  Expr h = sizes[static_cast<size_t>(rank) - 2], w = sizes.back(), channels = sym::floor_div(extent(x, -3), f * f);
  require({sym::Rel::Eq, sym::mod(extent(x, -3), f * f), 0}, "pixel_shuffle: {} channels are not a multiple of {}",
          sym::to_string(extent(x, -3)), f * f);
  Sizes lead(sizes.begin(), sizes.end() - 3), apart = lead, out = lead;
  apart.insert(apart.end(), {channels, Expr(f), Expr(f), h, w});
  out.insert(out.end(), {channels, h * Expr(f), w * Expr(f)});
  int64_t n = rank - 3;
  Ints order;
  for (int64_t d = 0; d <= n; ++d) order.push_back(d);
  order.insert(order.end(), {n + 3, n + 1, n + 4, n + 2});
  const Tensor arranged = reshape(permute(reshape(x, apart), order), out);
  return {f == 1 ? call1("clone", {arranged}) : arranged};  // never the tensor itself
}

std::vector<Tensor> pixel_unshuffle(const CallReader& c) {
  Tensor x = c.tensor("self");
  int64_t f = c.integer("downscale_factor"), rank = x.dim();
  TOROID_USER_CHECK(rank >= 3 && f >= 1 && f < (1 << 15),
                    "pixel_unshuffle: expected at least 3 dimensions and a positive factor, got {} and {}", rank, f);
  Sizes sizes = sizes_of(x);
  Expr h = sym::floor_div(extent(x, -2), f), w = sym::floor_div(extent(x, -1), f), channels = extent(x, -3);
  for (const int64_t d : {-2, -1})
    require({sym::Rel::Eq, sym::mod(extent(x, d), f), 0}, "pixel_unshuffle: the image sizes are not multiples of {}", f);
  Sizes lead(sizes.begin(), sizes.end() - 3), apart = lead, out = lead;
  apart.insert(apart.end(), {channels, h, Expr(f), w, Expr(f)});
  out.insert(out.end(), {channels * Expr(f * f), h, w});
  int64_t n = rank - 3;
  Ints order;
  for (int64_t d = 0; d <= n; ++d) order.push_back(d);
  order.insert(order.end(), {n + 2, n + 4, n + 1, n + 3});
  const Tensor arranged = reshape(permute(reshape(x, apart), order), out);
  return {f == 1 ? call1("clone", {arranged}) : arranged};  // never the tensor itself
}

std::vector<Tensor> channel_shuffle(const CallReader& c) {
  Tensor x = c.tensor("self");
  Expr groups = c.integer("groups");
  TOROID_USER_CHECK(x.dim() >= 3 && groups.constant() >= 1, "{}: expected at least 3 dimensions and positive groups", c.op().name);
  Sizes sizes = sizes_of(x);
  Expr each = sym::floor_div(sizes[1], groups);
  require({sym::Rel::Eq, sym::mod(sizes[1], groups), 0}, "{}: {} channels are not a multiple of {} groups", c.op().name,
          sym::to_string(sizes[1]), groups.constant());
  Sizes apart{sizes[0], groups, each};
  apart.insert(apart.end(), sizes.begin() + 2, sizes.end());
  const Tensor arranged = reshape(transpose(reshape(x, apart), 1, 2), sizes);
  return {groups == Expr(1) || each == Expr(1) ? call1("clone", {arranged}) : arranged};  // never the tensor itself
}

// Rows `name` (sizes and scales apart) and `name`.vec.
void add_resize(Table& t, const std::string& name, size_t spatial, bool align, Decompose rule) {
  std::string scales = spatial == 1 ? ", float? scales=None" : "";
  for (size_t d = 0; spatial > 1 && d < spatial; ++d) scales += std::string(", float? ") + kScaleNames[3 - spatial + d] + "=None";
  std::string corners = align ? ", bool align_corners" : "";
  t.composite(name + "(Tensor self, SymInt[" + std::to_string(spatial) + "] output_size" + corners + scales + ") -> Tensor", rule);
  t.composite(name + ".vec(Tensor input, SymInt[]? output_size" + corners + ", float[]? scale_factors) -> Tensor", rule);
}

}  // namespace

void add_resample_rows(Table& t) {
  add_resize(t, "upsample_nearest1d", 1, false, nearest<1, false>);
  add_resize(t, "upsample_nearest2d", 2, false, nearest<2, false>);
  add_resize(t, "upsample_nearest3d", 3, false, nearest<3, false>);
  add_resize(t, "_upsample_nearest_exact1d", 1, false, nearest<1, true>);
  add_resize(t, "_upsample_nearest_exact2d", 2, false, nearest<2, true>);
  add_resize(t, "_upsample_nearest_exact3d", 3, false, nearest<3, true>);
  add_resize(t, "upsample_linear1d", 1, true, smooth<1, false>);
  add_resize(t, "upsample_bilinear2d", 2, true, smooth<2, false>);
  add_resize(t, "upsample_trilinear3d", 3, true, smooth<3, false>);
  add_resize(t, "upsample_bicubic2d", 2, true, smooth<2, true>);
  add_resize(t, "_upsample_bilinear2d_aa", 2, true, resize_antialiased<false>);
  add_resize(t, "_upsample_bicubic2d_aa", 2, true, resize_antialiased<true>);
  t.composite("pixel_shuffle(Tensor self, int upscale_factor) -> Tensor", pixel_shuffle);
  t.composite("pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor", pixel_unshuffle);
  t.composite("channel_shuffle(Tensor self, SymInt groups) -> Tensor", channel_shuffle);
  t.composite("native_channel_shuffle(Tensor self, SymInt groups) -> Tensor", channel_shuffle);
  add_grid_sample_rows(t);
  add_detection_rows(t);
}

}  // namespace toroid::ops
