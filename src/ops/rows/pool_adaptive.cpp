// Adaptive and fractional pooling: windows whose starts are computed for each output, gathered and reduced.
#include <algorithm>

#include "base/check.h"
#include "ops/rows/pool.h"

namespace toroid::ops {
namespace {

using namespace compose;

// Window i of an adaptive pool covers floor(i * in / out) up to ceil((i + 1) * in / out). Sizes may be symbolic.
struct AdaptiveDim {
  Expr in, out, longest;
  Tensor start;   // [out]
  Tensor length;  // [out]; undefined when all windows have the longest length
};

// The length of all windows where the output is known to divide the input.
std::optional<Expr> even_window(const Expr& in, const Expr& out) {
  if (in == out) return Expr(1);
  if (out.is_const() && out.constant() >= 1 && sym::known_multiple(in, out)) return sym::floor_div(in, out);
  return std::nullopt;
}

Tensor floor_div_by(const Tensor& a, const Expr& b) { return b == Expr(1) ? a : call1("div.Tensor_mode", {a, b, std::string("floor")}); }

AdaptiveDim adaptive_dim(const Expr& in, const Expr& out) {
  AdaptiveDim d{in, out, 0, {}, {}};
  Tensor scaled = mul(arange(out), in);
  d.start = floor_div_by(scaled, out);
  if (auto even = even_window(in, out)) {
    d.longest = *even;
    return d;
  }
  d.longest = sym::ceil_div(in, out) + 1;
  if (in.is_const() && out.is_const() && out.constant() % (in.constant() % out.constant()) == 0) d.longest = d.longest - 1;
  d.length = sub(floor_div_by(add(scaled, in + out - 1), out), d.start);
  return d;
}

struct Adaptive {
  std::vector<AdaptiveDim> dims;
  int64_t lead = 0;
  int64_t spatial() const { return static_cast<int64_t>(dims.size()); }
};

Sizes read_output(const CallReader& c, size_t spatial) {
  Sizes out = c.exprs("output_size");
  TOROID_USER_CHECK(out.size() == spatial, "{}: argument \"output_size\" must have {} numbers (or one), it has {}", c.op().name, spatial,
                    out.size());
  return out;
}

void check_spatial(const CallReader& c, const Expr& in, const Expr& out) {
  for (const auto& fits :
       {sym::Relation{sym::Rel::Ge, in, 1}, sym::Relation{sym::Rel::Ge, out, 1}, sym::Relation{sym::Rel::Lt, out, 1 << 30}})
    require(fits, "{}: spatial sizes must be positive, got {} to {}", c.op().name, sym::to_string(in), sym::to_string(out));
}

Adaptive read_adaptive(const CallReader& c, const Tensor& x, size_t spatial) {
  check_pool_input(c, x, spatial);
  Adaptive a;
  a.lead = x.dim() - static_cast<int64_t>(spatial);
  Sizes out = read_output(c, spatial);
  for (size_t d = 0; d < spatial; ++d) {
    Expr in = extent(x, a.lead + static_cast<int64_t>(d));
    check_spatial(c, in, out[d]);
    a.dims.push_back(adaptive_dim(in, out[d]));
  }
  return a;
}

// Lays [out] or [out, window] along output dimension d and window dimension d of windows without leading dimensions.
Tensor lay(const Tensor& t, size_t d, int64_t spatial) {
  Sizes sizes(static_cast<size_t>(2 * spatial), Expr(1));
  sizes[d] = extent(t, 0);
  if (t.dim() == 2) sizes[d + static_cast<size_t>(spatial)] = extent(t, 1);
  return reshape(t, sizes);
}

// [lead..., out..., window...], windows filled up to the longest with elements that `valid` excludes (undefined: there are none).
Tensor gather_windows(const Tensor& x, const Adaptive& a, Tensor* valid) {
  std::vector<Tensor> indices(static_cast<size_t>(a.lead));
  for (size_t d = 0; d < a.dims.size(); ++d) {
    const AdaptiveDim& s = a.dims[d];
    Tensor offset = arange(s.longest);
    Tensor at = add(unsqueeze(s.start, 1), offset);
    if (s.length.defined()) {
      at = clamp(at, std::monostate{}, s.in - 1);
      Tensor inside = lay(call1("lt.Tensor", {offset, unsqueeze(s.length, 1)}), d, a.spatial());
      *valid = valid->defined() ? logical_and(*valid, inside) : inside;
    }
    indices.push_back(lay(at, d, a.spatial()));
  }
  return index(x, std::move(indices));
}

// Where every output divides its input, windows are a plain reshape: [lead..., out, window, out, window, ...].
std::optional<Tensor> even_windows(const Tensor& x, const Sizes& out) {
  Sizes sizes = sizes_of(x);
  size_t lead = sizes.size() - out.size();
  Sizes split(sizes.begin(), sizes.begin() + static_cast<int64_t>(lead));
  for (size_t d = 0; d < out.size(); ++d) {
    auto even = even_window(sizes[lead + d], out[d]);
    if (!even) return std::nullopt;
    split.insert(split.end(), {out[d], *even});
  }
  return reshape(x, split);
}

template <size_t kSpatial>
std::vector<Tensor> adaptive_avg_pool(const CallReader& c) {
  Tensor input = c.tensor("self");
  check_pool_input(c, input, kSpatial);
  Tensor x = cast(input, compute_type(input.dtype()));
  const Sizes out = read_output(c, kSpatial);
  const bool whole = std::all_of(out.begin(), out.end(), [](const Expr& e) { return e == Expr(1); });  // a mean, also of nothing
  for (int64_t d = 0, n = kSpatial; d < n && !whole; ++d) check_spatial(c, extent(x, d - n), out[static_cast<size_t>(d)]);
  if (auto even = even_windows(x, out)) {
    Sizes dims;
    for (int64_t d = 0; d < static_cast<int64_t>(kSpatial); ++d) dims.emplace_back(x.dim() - static_cast<int64_t>(kSpatial) + 2 * d + 1);
    return {cast(mean(*even, dims), input.dtype())};
  }
  Adaptive a = read_adaptive(c, x, kSpatial);
  Tensor valid, windows = gather_windows(x, a, &valid), count;
  if (valid.defined()) windows = where(valid, windows, full({}, 0, windows.dtype()));
  Expr common = 1;
  for (size_t d = 0; d < kSpatial; ++d) {
    const AdaptiveDim& s = a.dims[d];
    if (!s.length.defined()) {
      common *= s.longest;
      continue;
    }
    Tensor n = along(cast(s.length, x.dtype()), static_cast<int64_t>(d), kSpatial);
    count = count.defined() ? mul(count, n) : n;
  }
  Tensor total = sum(windows, dims_from(windows.dim() - static_cast<int64_t>(kSpatial), windows.dim()));
  if (count.defined()) total = div(total, count);
  return {cast(common == Expr(1) ? total : div(total, common), input.dtype())};
}

template <size_t kSpatial>
std::vector<Tensor> adaptive_max_pool(const CallReader& c) {
  Tensor x = c.tensor("self");
  Adaptive a = read_adaptive(c, x, kSpatial);
  Tensor valid, windows = gather_windows(x, a, &valid);
  if (valid.defined()) windows = where(valid, windows, call1("scalar_tensor", {lowest_value(x.dtype()), x.dtype()}));
  Tensor best = call1("argmax", {flat_windows(windows, kSpatial), Expr(-1)}), rest = best, flat;
  std::vector<Tensor> position(kSpatial);
  for (size_t d = kSpatial; d-- > 0;) {
    position[d] = d == 0 ? rest : call1("remainder.Scalar", {rest, a.dims[d].longest});
    if (d > 0) rest = floor_div_by(rest, a.dims[d].longest);
  }
  for (size_t d = 0; d < kSpatial; ++d) {
    Tensor at = add(along(a.dims[d].start, a.lead + static_cast<int64_t>(d), best.dim()), position[d]);
    flat = d == 0 ? at : add(mul(flat, a.dims[d].in), at);
  }
  return {trailing_amax(windows, kSpatial), flat};
}

// ---- fractional ----

// Starts [n, c, out] of the windows of one dimension: equally spaced steps of a fractional length, shifted by the sample, the last
// window at the end.
Tensor fractional_starts(const Tensor& sample, int64_t in, int64_t out, int64_t kernel) {
  Tensor last = full({Expr(1)}, static_cast<double>(in - kernel), DType::I64);
  Sizes lead = sizes_of(sample);
  lead.push_back(Expr(1));
  last = expand(last, lead);
  if (out == 1) return last;
  double alpha = static_cast<double>(in - kernel) / static_cast<double>(out - 1);
  Tensor s = unsqueeze(sample, -1);
  Tensor steps = cast(mul(add(arange(out - 1, sample.dtype()), s), alpha), DType::I64);
  return cat({sub(steps, cast(mul(s, alpha), DType::I64)), last}, -1);
}

template <size_t kSpatial>
std::vector<Tensor> fractional_max_pool(const CallReader& c) {
  Tensor x = c.tensor("self"), samples = c.tensor("random_samples");
  check_pool_input(c, x, kSpatial);
  bool alone = x.dim() == static_cast<int64_t>(kSpatial) + 1;
  if (alone) x = unsqueeze(x, 0);
  TOROID_USER_CHECK(samples.dim() == 3 && is_float(samples.dtype()) && fixed_extent(samples, 2) == static_cast<int64_t>(kSpatial) &&
                        equal(extent(samples, 0), extent(x, 0)) && equal(extent(samples, 1), extent(x, 1)),
                    "{}: random_samples must be floats of sizes [batch, channels, {}]", c.op().name, kSpatial);
  samples = cast(samples, compute_type(samples.dtype()));
  Ints kernel = spread(c, "kernel_size", kSpatial), out = spread(c, "output_size", kSpatial);
  size_t rank = 2 + 2 * kSpatial;  // n, c, out..., kernel...
  auto lay_out = [&](const Tensor& t, std::vector<size_t> dims) {
    Sizes sizes(rank, Expr(1));
    for (size_t i = 0; i < dims.size(); ++i) sizes[dims[i]] = extent(t, static_cast<int64_t>(i));
    return reshape(t, sizes);
  };
  std::vector<Tensor> indices{lay_out(arange(extent(x, 0)), {0}), lay_out(arange(extent(x, 1)), {1})};
  Tensor flat;
  for (size_t d = 0; d < kSpatial; ++d) {
    int64_t in = fixed_extent(x, static_cast<int64_t>(d) + 2);
    TOROID_USER_CHECK(kernel[d] >= 1 && out[d] >= 1 && out[d] < (1 << 30) && out[d] + kernel[d] - 1 <= in,
                      "{}: window {} and output {} do not fit a spatial size of {}", c.op().name, kernel[d], out[d], in);
    // Two-dimensional samples are stored column first.
    int64_t which = static_cast<int64_t>(kSpatial == 2 ? 1 - d : d);
    Tensor starts = fractional_starts(select(samples, 2, which), in, out[d], kernel[d]);
    const Tensor window = lay_out(arange(kernel[d]), {2 + kSpatial + d}), at = add(lay_out(starts, {0, 1, 2 + d}), window);
    indices.push_back(at);
    flat = d == 0 ? at : add(mul(flat, Expr(in)), at);
  }
  Tensor windows = index(x, std::move(indices));
  Sizes sizes = sizes_of(windows);
  Tensor positions = flat_windows(expand(flat, sizes), kSpatial);
  Tensor best = call1("argmax", {flat_windows(windows, kSpatial), Expr(-1), true});
  Tensor values = trailing_amax(windows, kSpatial), found = squeeze(call1("gather", {positions, Expr(-1), best}), -1);
  if (alone) return {squeeze(values, 0), squeeze(found, 0)};
  return {values, found};
}

template <size_t kSpatial>
void add_rows_for(Table& t) {
  std::string n = std::to_string(kSpatial), list = "int[" + n + "] ";
  std::string sized = std::string("d(Tensor self, ") + (kSpatial == 1 ? "int" : "SymInt") + "[" + n + "] output_size) -> Tensor";
  t.composite("adaptive_avg_pool" + n + sized, adaptive_avg_pool<kSpatial>);
  t.composite("adaptive_max_pool" + n + "d(Tensor self, " + list + "output_size) -> (Tensor, Tensor)", adaptive_max_pool<kSpatial>);
  if constexpr (kSpatial > 1) {
    t.composite("_adaptive_avg_pool" + n + sized, adaptive_avg_pool<kSpatial>);
    t.composite("fractional_max_pool" + n + "d(Tensor self, " + list + "kernel_size, " + list +
                    "output_size, Tensor random_samples) -> (Tensor, Tensor)",
                fractional_max_pool<kSpatial>);
  }
}

}  // namespace

void add_adaptive_pool_rows(Table& t) {
  add_rows_for<1>(t);
  add_rows_for<2>(t);
  add_rows_for<3>(t);
}

}  // namespace toroid::ops
