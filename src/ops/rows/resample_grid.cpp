// Sampling at given coordinates: grid_sampler_2d, grid_sampler_3d, and the affine grid.
#include "base/check.h"
#include "ops/rows/resample.h"

namespace toroid::ops {
namespace {

using namespace compose;

enum Interpolation : int64_t { kLinear = 0, kNearest = 1, kCubic = 2 };
enum Padding : int64_t { kZeros = 0, kBorder = 1, kReflection = 2 };

// A size where a Scalar is expected, and where a tensor or a number is.
Operand scalar(const Expr& size) { return size.is_const() ? Operand(static_cast<double>(size.constant())) : Operand(size); }
Operand number(const Expr& size, DType dtype) { return size.is_const() ? scalar(size) : Operand(call1("scalar_tensor", {size, dtype})); }

struct Sampler {
  Tensor x;
  Sizes sizes;  // spatial sizes of the input
  int64_t padding;
  bool align;
  Tensor batch, channel;  // index tensors laid out as [n, c, out...]

  // Coordinates in [-1, 1] to input positions.
  Tensor positions(const Tensor& grid, size_t d) const {
    const auto factor = number(align ? sizes[d] - 1 : sizes[d], grid.dtype());
    const Tensor twice = mul(add(grid, 1.0), factor);
    return mul(align ? twice : sub(twice, 1.0), 0.5);
  }

  // Mirrors positions at the borders until they are inside.
  Tensor reflect(const Tensor& at, size_t d) const {
    const double low = align ? 0 : -0.5;
    const Expr span = align ? sizes[d] - 1 : sizes[d];
    if (span == Expr(0)) return mul(at, 0.0);
    const Expr wide = sym::max(span, 1);  // of a size that turns out to be 1 the caller keeps 0
    Tensor distance = call1("abs", {sub(at, low)}), extra = call1("fmod.Scalar", {distance, scalar(wide)});
    Tensor turns = floor(div(distance, number(wide, at.dtype())));
    Tensor even = call1("eq.Scalar", {call1("fmod.Scalar", {turns, 2.0}), 0.0});
    return add(where(even, extra, call1("rsub.Scalar", {extra, scalar(wide)})), low);
  }

  Tensor padded(const Tensor& at, size_t d) const {
    if (padding == kZeros) return at;
    return clamp(padding == kReflection ? reflect(at, d) : at, 0.0, scalar(sizes[d] - 1));
  }

  // Input at whole positions (floats, one tensor a dimension); 0 outside.
  Tensor fetch(const std::vector<Tensor>& at) const {
    std::vector<Tensor> indices{batch, channel};
    Tensor inside, zero = full({}, 0, at[0].dtype());
    for (size_t d = 0; d < sizes.size(); ++d) {
      const Tensor below = le(at[d], scalar(sizes[d] - 1)), valid = logical_and(ge(at[d], 0.0), below);
      indices.push_back(cast(where(valid, at[d], zero), DType::I64));
      inside = d == 0 ? valid : logical_and(inside, valid);
    }
    const Tensor none = full({}, 0, x.dtype());
    return where(inside, index(x, std::move(indices)), none);
  }
};

// Sum over all combinations of neighbours. Positions and weights: [dimension][neighbour].
Tensor combine(const Sampler& s, const std::vector<std::vector<Tensor>>& at, const std::vector<std::vector<Tensor>>& weights) {
  size_t each = at[0].size(), combinations = 1;
  for (size_t d = 0; d < at.size(); ++d) combinations *= each;
  Tensor total;
  for (size_t k = 0; k < combinations; ++k) {
    std::vector<Tensor> corner;
    Tensor weight;
    for (size_t d = 0, rest = k; d < at.size(); ++d, rest /= each) {
      corner.push_back(at[d][rest % each]);
      weight = d == 0 ? weights[d][rest % each] : mul(weight, weights[d][rest % each]);
    }
    Tensor part = mul(s.fetch(corner), weight);
    total = k == 0 ? part : add(total, part);
  }
  return total;
}

template <size_t kSpatial>
std::vector<Tensor> grid_sampler(const CallReader& c) {
  Tensor input = c.tensor("input"), grid = c.tensor("grid");
  int64_t mode = c.integer("interpolation_mode");
  TOROID_USER_CHECK(is_float(input.dtype()) && input.dim() == kSpatial + 2 && grid.dim() == kSpatial + 2,
                    "{}: input and grid must have {} dimensions, got {} and {}", c.op().name, kSpatial + 2, input.dim(), grid.dim());
  for (const auto& [size, expected] : {std::pair(extent(grid, -1), Expr(kSpatial)), std::pair(extent(grid, 0), extent(input, 0))})
    require({sym::Rel::Eq, size, expected}, "{}: the grid must have the input's batch and {} coordinates a point", c.op().name, kSpatial);
  TOROID_USER_CHECK(mode == kLinear || mode == kNearest || (mode == kCubic && kSpatial == 2), "{}: interpolation mode {} is not supported",
                    c.op().name, mode);
  DType compute = compute_type(input.dtype());
  Sampler s{cast(input, compute), {}, c.integer("padding_mode"), c.flag("align_corners"), {}, {}};
  TOROID_USER_CHECK(s.padding >= kZeros && s.padding <= kReflection, "{}: padding mode {} is not known", c.op().name, s.padding);
  s.batch = along(arange(extent(input, 0)), 0, kSpatial + 2);
  s.channel = along(arange(extent(input, 1)), 1, kSpatial + 2);
  std::vector<std::vector<Tensor>> at(kSpatial), weights(kSpatial);
  for (size_t d = 0; d < kSpatial; ++d) {
    s.sizes.push_back(extent(input, static_cast<int64_t>(d) + 2));
    require({sym::Rel::Ge, s.sizes[d], 1}, "{}: spatial sizes of the input must be positive", c.op().name);
    // The last coordinate of a point belongs to the first spatial dimension.
    Tensor coordinate = unsqueeze(select(cast(grid, compute), -1, static_cast<int64_t>(kSpatial - 1 - d)), 1);
    Tensor p = s.positions(coordinate, d);
    if (mode != kCubic) p = s.padded(p, d);
    if (mode == kNearest) {
      at[d] = {call1("round", {p})};
      continue;
    }
    Tensor first = floor(p), t = sub(p, first);
    if (mode == kLinear) {
      at[d] = {first, add(first, 1.0)};
      weights[d] = {call1("rsub.Scalar", {t, 1.0}), t};
    } else {
      for (double k : {-1.0, 0.0, 1.0, 2.0}) at[d].push_back(s.padded(add(first, k), d));
      for (auto& w : cubic_weights(t)) weights[d].push_back(w);
    }
  }
  Tensor y;
  if (mode == kNearest) {
    std::vector<Tensor> point;
    for (auto& a : at) point.push_back(a[0]);
    y = s.fetch(point);
  } else {
    y = combine(s, at, weights);
  }
  return {cast(y, input.dtype())};
}

// Positions -1 ... 1 of the pixels of one dimension: of their corners with align_corners, else of their centres.
Tensor pixel_positions(const Expr& n, bool align, DType dtype) {
  Tensor i = arange(n, dtype);
  if (!align) {
    const auto count = number(n, dtype);
    return sub(div(add(mul(i, 2.0), 1.0), count), 1.0);
  }
  const auto first = number(sym::min(n - 1, 1), dtype), steps = number(sym::max(n - 1, 1), dtype);
  return sub(div(mul(i, 2.0), steps), first);  // one pixel is in the middle
}

std::vector<Tensor> affine_grid(const CallReader& c) {
  Tensor theta = c.tensor("theta");
  Sizes size = c.exprs("size");
  auto spatial = static_cast<int64_t>(size.size()) - 2;
  TOROID_USER_CHECK(
      (spatial == 2 || spatial == 3) && theta.dim() == 3 && fixed_extent(theta, 1) == spatial && fixed_extent(theta, 2) == spatial + 1,
      "affine_grid_generator: size must have 4 or 5 numbers and theta sizes [n, 2, 3] or [n, 3, 4]");
  DType compute = compute_type(theta.dtype());
  Tensor t = cast(theta, compute);
  for (int64_t d = 0; d < spatial; ++d) t = unsqueeze(t, 1);  // [n, 1..., rows, columns]
  Tensor grid = select(t, -1, spatial);
  for (int64_t d = 0; d < spatial; ++d) {
    const Expr& n = size[static_cast<size_t>(d) + 2];
    for (const auto& fits : {sym::Relation{sym::Rel::Ge, n, 1}, sym::Relation{sym::Rel::Lt, n, 1 << 30}})
      require(fits, "affine_grid_generator: size {} is out of range", sym::to_string(n));
    Tensor p = along(pixel_positions(n, c.flag("align_corners"), compute), d + 1, spatial + 2);
    grid = add(grid, mul(select(t, -1, spatial - 1 - d), p));
  }
  return {cast(grid, theta.dtype())};
}

}  // namespace

void add_grid_sample_rows(Table& t) {
  t.composite("grid_sampler_2d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor",
              grid_sampler<2>);
  t.composite("grid_sampler_3d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor",
              grid_sampler<3>);
  t.composite(
      "grid_sampler(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor",
      [](const CallReader& c) -> std::vector<Tensor> { return c.tensor("input").dim() == 5 ? grid_sampler<3>(c) : grid_sampler<2>(c); });
  t.composite("affine_grid_generator(Tensor theta, SymInt[] size, bool align_corners) -> Tensor", affine_grid);
}

}  // namespace toroid::ops
