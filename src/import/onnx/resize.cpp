// Sampling of images: Resize and Upsample by tables of places and weights, one dimension after the other; GridSample and RoiAlign.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "import/onnx/operators.h"

namespace toroid::import::onnx {
namespace {

struct Resizing {
  std::string mode, nearest, transform;
  double cubic = -0.75, outside_value = 0;
  bool exclude_outside = false, antialias = false;
};

// A factor as it was meant: files have it as a number of 32 bits, which of 0.7 is a little less, and 10 * 0.7 is to be 7.
struct Fraction {
  int64_t numerator = 1, denominator = 1;
  double value() const { return static_cast<double>(numerator) / static_cast<double>(denominator); }
};

// The first continued fraction that is the same number of 32 bits.
Fraction fraction_of(double scale) {
  constexpr int64_t kLargest = 1 << 24;
  TOROID_USER_CHECK(scale >= 1.0 / kLargest && scale <= kLargest, "a size is resized by {}; factors from 1/{} to {} are supported", scale,
                    kLargest, kLargest);
  Fraction before{0, 1}, found{1, 0};
  for (double rest = scale;;) {
    const int64_t whole = whole_number(std::floor(rest));
    before = std::exchange(found, {whole * found.numerator + before.numerator, whole * found.denominator + before.denominator});
    if (static_cast<float>(found.value()) == static_cast<float>(scale)) return found;
    rest = 1 / (rest - static_cast<double>(whole));
  }
}

// A size times a factor, rounded down.
Expr scaled(const Expr& size, const Fraction& f) { return sym::floor_div(size * Expr(f.numerator), f.denominator); }

// One dimension: its size before and after, the factor, and for cropping the part that is shown.
struct Line {
  int64_t in = 0, out = 0;
  double scale = 1, start = 0, end = 1;
};

double place_of(const Resizing& r, const Line& l, int64_t i) {
  auto x = static_cast<double>(i), in = static_cast<double>(l.in), out = static_cast<double>(l.out), exact = l.scale * in;
  if (r.transform == "half_pixel") return (x + 0.5) / l.scale - 0.5;
  if (r.transform == "pytorch_half_pixel") return exact > 1 ? (x + 0.5) / l.scale - 0.5 : 0;
  if (r.transform == "align_corners") return exact == 1 ? 0 : x * (in - 1) / (exact - 1);
  if (r.transform == "asymmetric") return x / l.scale;
  if (r.transform == "tf_half_pixel_for_nn") return (x + 0.5) / l.scale;
  if (r.transform == "half_pixel_symmetric") return in / 2 * (1 - out / exact) + (x + 0.5) / l.scale - 0.5;
  if (r.transform == "tf_crop_and_resize")
    return out > 1 ? l.start * (in - 1) + x * (l.end - l.start) * (in - 1) / (out - 1) : 0.5 * (l.start + l.end) * (in - 1);
  fail<UserError>("the attribute \"coordinate_transformation_mode\" is \"{}\", which is unknown", r.transform);
}

int64_t nearest_of(const Resizing& r, double x) {
  if (r.nearest == "floor") return whole_number(std::floor(x));
  if (r.nearest == "ceil") return whole_number(std::ceil(x));
  bool half = x == std::floor(x) + 0.5;
  if (r.nearest == "round_prefer_floor") return whole_number(half ? std::floor(x) : std::round(x));
  if (r.nearest == "round_prefer_ceil") return whole_number(half ? std::ceil(x) : std::round(x));
  fail<UserError>("the attribute \"nearest_mode\" is \"{}\", which is unknown", r.nearest);
}

// Weights of the neighbours of a place, the first of which is `first`.
struct Taps {
  int64_t first = 0;
  std::vector<double> weights;
};

// The weight of a neighbour at a distance.
double weight_of(const Resizing& r, double distance) {
  double d = std::abs(distance), a = r.cubic;
  if (r.mode == "linear") return std::max(1 - d, 0.0);
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

// With antialias the neighbours of a smaller result are those that its pixels cover.
Taps taps_of(const Resizing& r, double x, double scale) {
  if (r.mode == "nearest") return {nearest_of(r, x), {1}};
  TOROID_USER_CHECK(r.mode == "linear" || r.mode == "cubic", "the attribute \"mode\" is \"{}\", which is unknown", r.mode);
  double shrink = r.antialias ? std::min(scale, 1.0) : 1, reach = r.mode == "linear" ? 1 : 2, t = x - std::floor(x), sum = 0;
  auto first = whole_number(std::floor(-reach / shrink)) + 1;
  Taps out{whole_number(std::floor(x)) + first, {}};
  for (int64_t i = first; i < 2 - first; ++i) {
    out.weights.push_back(weight_of(r, shrink * (static_cast<double>(i) - t)));
    sum += out.weights.back();
  }
  for (double& w : out.weights) w /= sum;
  return out;
}

Tensor resize_axis(const Tensor& x, int64_t axis, const Resizing& r, const Line& l) {
  std::vector<Taps> taps;
  std::vector<double> outside;
  for (int64_t i = 0; i < l.out; ++i) {
    double place = place_of(r, l, i);
    taps.push_back(taps_of(r, place, l.scale));
    outside.push_back(r.transform == "tf_crop_and_resize" && (place < 0 || place > static_cast<double>(l.in - 1)) ? 1 : 0);
    auto& t = taps.back();
    if (!r.exclude_outside) continue;
    double sum = 0;
    for (size_t k = 0; k < t.weights.size(); ++k) {
      int64_t at = t.first + static_cast<int64_t>(k);
      if (at < 0 || at >= l.in) t.weights[k] = 0;
      sum += t.weights[k];
    }
    for (double& w : t.weights) w /= sum;
  }
  auto vector = [&](const std::vector<double>& v, DType t) {
    return along_axis(Tensor::of(v, std::vector<int64_t>{l.out}, t), axis, rank_of(x));
  };
  Tensor sum;
  for (size_t k = 0; k < taps[0].weights.size(); ++k) {
    Sizes places;
    std::vector<double> weights;
    for (auto& t : taps) {
      places.push_back(std::clamp<int64_t>(t.first + static_cast<int64_t>(k), 0, l.in - 1));
      weights.push_back(t.weights[k]);
    }
    Tensor picked = op("index_select", x, axis, integer_tensor(places));
    if (r.mode != "nearest") picked = op("mul.Tensor", picked, vector(weights, x.dtype()));
    sum = sum.defined() ? op("add.Tensor", sum, picked) : picked;
  }
  if (std::find(outside.begin(), outside.end(), 1) == outside.end()) return sum;
  return op("where.ScalarSelf", vector(outside, DType::Bool), r.outside_value, sum);
}

// ---- sizes that change: the same places and weights, computed in the graph (in f64, as the tables are) ----

Tensor plus(const Tensor& a, double b) { return op("add.Tensor", a, b); }

// The factor is a number, or follows from sizes.
struct OpenLine {
  Expr in, out;
  Tensor scale, length;  // 0-d; length: of the result before it is rounded down to `out`
};

Tensor open_places(const Resizing& r, const OpenLine& l) {
  Tensor x = op("arange", l.out, DType::F64);
  if (r.transform == "asymmetric") return op("div.Tensor", x, l.scale);
  if (r.transform == "tf_half_pixel_for_nn") return op("div.Tensor", plus(x, 0.5), l.scale);
  Tensor centred = plus(op("div.Tensor", plus(x, 0.5), l.scale), -0.5);
  if (r.transform == "half_pixel") return centred;
  if (r.transform == "pytorch_half_pixel") return op("where.ScalarOther", op("gt.Scalar", l.length, 1.0), centred, 0.0);
  TOROID_USER_CHECK(r.transform == "align_corners", "the coordinates \"{}\" are not supported for sizes that change", r.transform);
  Tensor steps = plus(l.length, -1);
  Tensor spread = op("div.Tensor", op("mul.Tensor", x, op("scalar_tensor", l.in - 1, DType::F64)), steps);
  return op("where.ScalarOther", op("ne.Scalar", steps, 0.0), spread, 0.0);
}

Tensor open_nearest(const Resizing& r, const Tensor& x) {
  if (r.nearest == "floor") return op("floor", x);
  if (r.nearest == "ceil") return op("ceil", x);
  if (r.nearest == "round_prefer_floor") return op("ceil", plus(x, -0.5));
  if (r.nearest == "round_prefer_ceil") return op("floor", plus(x, 0.5));
  fail<UserError>("the attribute \"nearest_mode\" is \"{}\", which is unknown", r.nearest);
}

// As weight_of, for the two nearest neighbours (within a distance of 1) and the two behind these.
Tensor cubic_weight(const Resizing& r, const Tensor& d, bool near) {
  const double a = r.cubic;
  const auto times = [&](const Tensor& x) { return op("mul.Tensor", x, d); };
  const auto of = [&](double third, double second) { return times(plus(op("mul.Tensor", d, third), second)); };
  return near ? plus(times(of(a + 2, -(a + 3))), 1) : plus(times(plus(of(a, -5 * a), 8 * a)), -4 * a);
}

Tensor resize_open_axis(const Tensor& x, int64_t axis, const Resizing& r, const OpenLine& l) {
  TOROID_USER_CHECK(!r.exclude_outside && !r.antialias, "antialias and exclude_outside are not supported for sizes that change");
  Tensor place = open_places(r, l);
  auto pick = [&](const Tensor& at) {
    Tensor inside = op("minimum", op("clamp_min", cast(at, DType::I64), 0), op("scalar_tensor", l.in - 1, DType::I64));
    return op("index_select", x, axis, inside);
  };
  if (r.mode == "nearest") return pick(open_nearest(r, place));
  TOROID_USER_CHECK(r.mode == "linear" || r.mode == "cubic", "the attribute \"mode\" is \"{}\", which is unknown", r.mode);
  const Tensor low = op("floor", place), part = op("sub.Tensor", place, low);
  const auto along = [&](const Tensor& t) { return along_axis(cast(t, x.dtype()), axis, rank_of(x)); };
  if (r.mode == "linear") return op("lerp.Tensor", pick(low), pick(plus(low, 1)), along(part));
  Tensor sum;
  for (int tap : {-1, 0, 1, 2}) {
    const Tensor distance = tap <= 0 ? plus(part, -tap) : op("rsub.Scalar", part, static_cast<double>(tap));
    const Tensor weighed = op("mul.Tensor", pick(plus(low, tap)), along(cubic_weight(r, distance, tap == 0 || tap == 1)));
    sum = sum.defined() ? op("add.Tensor", sum, weighed) : weighed;
  }
  return sum;
}

Tensor resize_open(const Tensor& x, int64_t axis, const Resizing& r, const Fraction* scale, const Expr& target) {
  OpenLine l;
  l.in = sizes_of(x)[static_cast<size_t>(axis)];
  l.out = scale ? scaled(l.in, *scale) : target;
  if (!scale && l.out == l.in) return x;
  auto size = [](const Expr& e) { return op("scalar_tensor", e, DType::F64); };
  l.scale = scale ? op("scalar_tensor", scale->value(), DType::F64) : op("div.Tensor", size(l.out), size(l.in));
  l.length = scale ? op("mul.Tensor", l.scale, size(l.in)) : size(l.out);
  return resize_open_axis(x, axis, r, l);
}

void resize_all(OpCall& c, Resizing r, const std::vector<double>& scales, const Sizes& sizes, const std::vector<int64_t>& axes,
                const std::vector<double>& roi) {
  Tensor x = c.in(0);
  size_t n = axes.size();
  TOROID_USER_CHECK((scales.size() == n) != (sizes.size() == n), "{} scales and {} sizes; expected are {} of one of them", scales.size(),
                    sizes.size(), n);
  bool crop = r.transform == "tf_crop_and_resize";
  TOROID_USER_CHECK(!crop || roi.size() == 2 * n, "the part to be shown has {} numbers; {} are expected", roi.size(), 2 * n);
  std::string policy = c.text("keep_aspect_ratio_policy", "stretch");
  double common = 0;  // one factor for all
  for (size_t i = 0; i < n && policy != "stretch" && !sizes.empty(); ++i) {
    double s = static_cast<double>(known_size(sizes[i], "a size of the result")) /
               static_cast<double>(known_size(sizes_of(x)[static_cast<size_t>(axes[i])], "a size that is resized"));
    common = common == 0 ? s : policy == "not_larger" ? std::min(common, s) : std::max(common, s);
  }
  for (size_t i = 0; i < n; ++i) {
    if (!scales.empty() && scales[i] == 1 && !crop) continue;
    const Fraction factor = scales.empty() ? Fraction() : fraction_of(scales[i]);
    bool open = !sizes_of(x)[static_cast<size_t>(axes[i])].is_const() || (!sizes.empty() && !sizes[i].is_const());
    if (open && !crop && common == 0) {
      x = resize_open(x, axes[i], r, scales.empty() ? nullptr : &factor, sizes.empty() ? Expr(0) : sizes[i]);
      continue;
    }
    Line l;
    l.in = known_size(sizes_of(x)[static_cast<size_t>(axes[i])], "a size that is resized");
    auto in = static_cast<double>(l.in);
    l.scale = !scales.empty() ? factor.value() : common != 0 ? common : static_cast<double>(sizes[i].constant()) / in;
    l.out = !scales.empty() ? scaled(l.in, factor).constant() : common != 0 ? whole_number(std::round(in * l.scale)) : sizes[i].constant();
    if (crop) {
      l.start = roi[i];
      l.end = roi[n + i];
    }
    constexpr int64_t kLongest = 1 << 24;  // tables of places and weights are computed while importing
    TOROID_USER_CHECK(l.in > 0 && l.out > 0 && l.out <= kLongest && (!r.antialias || l.in <= kLongest), "a size of {} becomes {}", l.in,
                      l.out);
    if (l.scale != 1 || crop) x = resize_axis(x, axes[i], r, l);
  }
  c.set(0, x);
}

void resize(OpCall& c) {
  Resizing r{c.text("mode", "nearest"),
             c.text("nearest_mode", "round_prefer_floor"),
             c.text("coordinate_transformation_mode", "half_pixel"),
             c.real("cubic_coeff_a", -0.75),
             c.real("extrapolation_value", 0),
             c.integer("exclude_outside", 0) != 0,
             c.integer("antialias", 0) != 0};
  auto axes = c.has_attribute("axes") ? normal_axes(c.integers("axes"), rank_of(c.in(0))) : range(0, rank_of(c.in(0)));
  std::vector<double> scales = c.has(2) ? c.real_numbers(2) : std::vector<double>();
  Sizes sizes = c.has(3) ? c.sizes(3) : Sizes();
  bool crop = r.transform == "tf_crop_and_resize";
  resize_all(c, r, scales, sizes, axes, crop ? c.real_numbers(1) : std::vector<double>());
}

// Version 10 of Resize, and Upsample before it: factors only.
void resize_by_scales(OpCall& c) {
  Resizing r{c.text("mode", "nearest"), "floor", "asymmetric"};
  if (r.mode == "bilinear") r.mode = "linear";
  auto scales = c.version() < 9 ? c.reals("scales") : c.real_numbers(1);
  resize_all(c, r, scales, {}, range(0, rank_of(c.in(0))), {});
}

void grid_sample(OpCall& c) {
  std::string mode = c.text("mode", c.version() < 20 ? "bilinear" : "linear"), padding = c.text("padding_mode", "zeros");
  int64_t interpolation = mode == "nearest" ? 1 : mode.ends_with("cubic") ? 2 : 0;
  int64_t outside = padding == "border" ? 1 : padding == "reflection" ? 2 : 0;
  c.set(0, op("grid_sampler", c.in(0), c.in(1), interpolation, outside, c.integer("align_corners", 0) != 0));
}

void affine_grid(OpCall& c) { c.set(0, op("affine_grid_generator", c.in(0), c.sizes(1), c.integer("align_corners", 0) != 0)); }

// ---- RoiAlign --------------------------------------------------------------------------------------------------------------------

// Places of samples along one dimension of each region: [regions, bins * samples].
Tensor sample_places(const Tensor& begin, const Tensor& end, int64_t bins, int64_t samples, bool at_least_one) {
  Tensor length = op("sub.Tensor", end, begin);
  if (at_least_one) length = op("clamp_min", length, 1.0);
  Tensor steps = op("arange", Expr(bins * samples), DType::F32);
  Tensor parts = op("div.Tensor", op("add.Tensor", steps, 0.5), static_cast<double>(bins * samples));
  return op("add.Tensor", op("unsqueeze", begin, 1), op("mul.Tensor", op("unsqueeze", length, 1), parts));
}

// The neighbours of places in a dimension, their weights, and which places are inside.
struct Neighbours {
  Tensor low, high, low_weight, high_weight;
};

Neighbours neighbours(const Tensor& place, const Expr& size) {
  Tensor inside = op("logical_and", op("ge.Scalar", place, -1.0), op("le.Scalar", place, size));
  Tensor at = op("clamp", place, 0.0, size - 1);
  Tensor floor = op("floor", at), low = cast(floor, DType::I64);
  Tensor part = op("sub.Tensor", at, floor), counts = cast(inside, place.dtype());
  return {low, op("clamp_max", op("add.Tensor", low, 1), size - 1), op("mul.Tensor", op("rsub.Scalar", part, 1.0), counts),
          op("mul.Tensor", part, counts)};
}

void roi_align(OpCall& c) {
  Tensor x = c.in(0), rois = c.in(1), batch = cast(c.in(2), DType::I64);
  int64_t height = c.integer("output_height", 1), width = c.integer("output_width", 1), samples = c.integer("sampling_ratio", 0);
  constexpr int64_t kMost = 1 << 20;
  TOROID_USER_CHECK(std::max({height, width, samples}) <= kMost && std::min(height, width) > 0,
                    "{} x {} bins of {} samples; at most {} of each are supported", height, width, samples, kMost);
  TOROID_USER_CHECK(samples > 0, "sampling_ratio is 0: how many samples there are would follow from the regions' contents");
  bool largest = c.text("mode", "avg") == "max";
  double scale = c.real("spatial_scale", 1);
  bool half = c.version() >= 16 && c.text("coordinate_transformation_mode", "half_pixel") == "half_pixel";
  auto edge = [&](int64_t i) { return op("sub.Tensor", op("mul.Tensor", op("select.int", rois, 1, i), scale), half ? 0.5 : 0.0); };
  Sizes s = sizes_of(x);
  TOROID_USER_CHECK(s.size() == 4, "a tensor of 4 dimensions is expected, this one has {}", s.size());
  Neighbours ys = neighbours(sample_places(edge(1), edge(3), height, samples, !half), s[2]);
  Neighbours xs = neighbours(sample_places(edge(0), edge(2), width, samples, !half), s[3]);
  Expr count = sizes_of(rois)[0];
  Tensor regions = reshape(batch, {count, 1, 1}), sum;
  for (bool down : {false, true})
    for (bool right : {false, true}) {
      Tensor y = op("unsqueeze", down ? ys.high : ys.low, 2), z = op("unsqueeze", right ? xs.high : xs.low, 1);
      Tensor corner = op("index.Tensor", x, std::vector<Tensor>{regions, Tensor(), y, z});  // [regions, rows, columns, channels]
      Tensor weight = op("mul.Tensor", op("unsqueeze", down ? ys.high_weight : ys.low_weight, 2),
                         op("unsqueeze", right ? xs.high_weight : xs.low_weight, 1));
      Tensor part = op("mul.Tensor", corner, op("unsqueeze", weight, 3));
      sum = sum.defined() ? op(largest ? "maximum" : "add.Tensor", sum, part) : part;  // the largest share of any neighbour
    }
  Tensor bins = reshape(sum, {count, height, samples, width, samples, s[1]});
  c.set(0, permuted(op(largest ? "amax" : "mean.dim", bins, std::vector<int64_t>{2, 4}), {0, 3, 1, 2}));
}

}  // namespace

void add_resize_operators(Operators& t) {
  t.add("Upsample", 7, resize_by_scales);
  t.add("Resize", 10, resize_by_scales);
  t.add("Resize", 11, resize);
  t.add("GridSample", 16, grid_sample);
  t.add("AffineGrid", 20, affine_grid);
  t.add("RoiAlign", 10, roi_align);
}

}  // namespace toroid::import::onnx
