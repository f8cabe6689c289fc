// Counting: histc, bincount, histogram and histogramdd.
#include <algorithm>

#include "base/check.h"
#include "ops/rows/host_lines.h"
#include "ops/rows/reduction_rules.h"

namespace toroid::ops {
namespace {

using namespace host;
using Edges = std::vector<double>;

constexpr int64_t kMaxBins = int64_t{1} << 31;

void check_bins(const Op& op, int64_t bins) { TOROID_USER_CHECK(bins > 0 && bins < kMaxBins, "{}: cannot make {} bins", op.name, bins); }

// NaN where one of them is.
double least(double a, double b) { return std::isnan(b) || b < a ? b : a; }
double most(double a, double b) { return std::isnan(b) || b > a ? b : a; }

void histc_meta(MetaCall& c) {
  check_bins(c.op(), c.integer("bins"));
  c.result(c.tensor("self")->dtype, {c.integer("bins")});
}
void histc_kernel(KernelCall& c) {
  Tensor self = c.tensor("self").contiguous();
  int64_t bins = c.integer("bins"), n = self.numel();
  double lo = c.real("min"), hi = c.real("max");
  if (lo == hi && n > 0) {
    lo = hi = get_real(self, 0);
    for (int64_t i = 0; i < n; ++i) lo = least(lo, get_real(self, i)), hi = most(hi, get_real(self, i));
  }
  if (lo == hi) lo -= 1, hi += 1;
  TOROID_USER_CHECK(std::isfinite(lo) && std::isfinite(hi) && lo < hi, "{}: the range [{}, {}] is not finite or empty", c.op().name, lo,
                    hi);
  std::vector<double> counts(static_cast<size_t>(bins));
  for (int64_t i = 0; i < n; ++i) {
    double v = get_real(self, i);
    if (!(v >= lo && v <= hi)) continue;
    double at = self.dtype() == DType::F32 ? (static_cast<float>(v) - static_cast<float>(lo)) * static_cast<float>(bins) /
                                                 (static_cast<float>(hi) - static_cast<float>(lo))
                                           : (v - lo) * static_cast<double>(bins) / (hi - lo);
    counts[static_cast<size_t>(std::clamp<int64_t>(static_cast<int64_t>(at), 0, bins - 1))] += 1;
  }
  for (int64_t i = 0; i < bins; ++i) put(c.outputs[0], i, Number::of(counts[static_cast<size_t>(i)]));
}

void bincount_meta(MetaCall& c) {
  auto* self = c.tensor("self");
  auto* weights = c.opt_tensor("weights");
  TOROID_USER_CHECK(self->dim() == 1 && !is_float(self->dtype) && !is_complex(self->dtype), "{}: one dimension of integers is needed",
                    c.op().name);
  if (weights) c.require_vector(*weights, self->sizes[0], "{}: weights and elements must be equally many", c.op().name);
  c.result(!weights ? DType::I64 : weights->dtype == DType::F32 ? DType::F32 : DType::F64, {c.fresh_size()});
}
void bincount_kernel(KernelCall& c) {
  Tensor self = c.tensor("self").contiguous(), weights = c.opt_tensor("weights");
  if (weights.defined()) weights = weights.contiguous();
  int64_t bins = c.integer("minlength");
  TOROID_USER_CHECK(bins >= 0, "{}: minlength is {}; it must not be negative", c.op().name, bins);
  for (int64_t i = 0; i < self.numel(); ++i) {
    int64_t v = get_int(self, i);
    TOROID_USER_CHECK(v >= 0 && v < kMaxBins, "{}: element {} is {}; it must be between 0 and 2^31", c.op().name, i, v);
    bins = std::max(bins, v + 1);
  }
  TOROID_USER_CHECK(bins < kMaxBins, "{}: minlength is {}", c.op().name, bins);
  std::vector<double> counts(static_cast<size_t>(bins));
  for (int64_t i = 0; i < self.numel(); ++i) counts[static_cast<size_t>(get_int(self, i))] += weights.defined() ? get_real(weights, i) : 1;
  DType t = !weights.defined() ? DType::I64 : weights.dtype() == DType::F32 ? DType::F32 : DType::F64;
  c.outputs[0] = Tensor::empty({bins}, t);
  for (int64_t i = 0; i < bins; ++i) put(c.outputs[0], i, Number::of(counts[static_cast<size_t>(i)]));
}

// The points of a histogram: [count, dimensions].
Tensor points_of(const Tensor& self, bool one_dimension) {
  Tensor x = self.contiguous();
  int64_t dims = one_dimension ? 1 : x.sizes().back();
  std::vector<int64_t> sizes = {dims ? x.numel() / dims : 0, dims};
  return x.as_strided(sizes, contiguous_strides(sizes));
}

// Equal bins between lo and hi, computed from both ends in the precision of the elements.
Edges linear_edges(double lo, double hi, int64_t bins, DType dtype) {
  Edges out;
  auto fill = [&]<class T>(T) {
    T a = static_cast<T>(lo), b = static_cast<T>(hi), step = (b - a) / static_cast<T>(bins);
    for (int64_t i = 0; i <= bins; ++i)
      out.push_back(i < (bins + 1) / 2 ? a + step * static_cast<T>(i) : b - step * static_cast<T>(bins - i));
  };
  if (dtype == DType::F32)
    fill(float{});
  else
    fill(double{});
  return out;
}

std::vector<Edges> counted_edges(const KernelCall& c, const Tensor& points, const std::vector<int64_t>& bins) {
  auto range = c.reals("range");
  int64_t n = points.sizes()[0], dims = points.sizes()[1];
  TOROID_USER_CHECK(range.empty() || static_cast<int64_t>(range.size()) == 2 * dims, "{}: range must have two numbers for each dimension",
                    c.op().name);
  std::vector<Edges> out;
  for (int64_t d = 0; d < dims; ++d) {
    double lo = 0, hi = n ? 0 : 1;
    if (!range.empty()) {
      lo = range[static_cast<size_t>(2 * d)];
      hi = range[static_cast<size_t>(2 * d + 1)];
    } else {
      for (int64_t i = 0; i < n; ++i) {
        double v = get_real(points, i * dims + d);
        lo = i ? least(lo, v) : v;
        hi = i ? most(hi, v) : v;
      }
    }
    if (lo == hi) lo -= 0.5, hi += 0.5;
    TOROID_USER_CHECK(std::isfinite(lo) && std::isfinite(hi) && lo < hi, "{}: the range [{}, {}] is not finite or empty", c.op().name, lo,
                      hi);
    out.push_back(linear_edges(lo, hi, bins[static_cast<size_t>(d)], points.dtype()));
  }
  return out;
}

Edges tensor_edges(const Tensor& t) { return t.to_vector(); }

void count_points(const KernelCall& c, const Tensor& points, const std::vector<Edges>& edges, const Tensor& out) {
  Tensor weight = c.opt_tensor("weight");
  if (weight.defined()) weight = weight.contiguous();
  int64_t n = points.sizes()[0], dims = points.sizes()[1];
  TOROID_USER_CHECK(!weight.defined() || weight.numel() == n, "{}: {} weights for {} points", c.op().name, weight.numel(), n);
  std::vector<double> counts(static_cast<size_t>(out.numel()));
  for (int64_t i = 0; i < n; ++i) {
    int64_t at = 0;
    bool inside = true;
    for (int64_t d = 0; d < dims && inside; ++d) {
      const Edges& e = edges[static_cast<size_t>(d)];
      double v = get_real(points, i * dims + d);
      inside = e.size() > 1 && v >= e.front() && v <= e.back();
      int64_t bin = std::upper_bound(e.begin(), e.end(), v) - e.begin() - 1, bins = static_cast<int64_t>(e.size()) - 1;
      at = at * bins + std::min(bin, bins - 1);
    }
    if (inside) counts[static_cast<size_t>(at)] += weight.defined() ? get_real(weight, i) : 1;
  }
  if (c.flag("density")) {
    double total = 0;
    for (double v : counts) total += v;
    for (size_t i = 0; i < counts.size(); ++i) {
      size_t rest = i;
      for (int64_t d = dims; d-- > 0;) {
        const Edges& e = edges[static_cast<size_t>(d)];
        size_t bin = rest % (e.size() - 1);
        rest /= e.size() - 1;
        counts[i] /= e[bin + 1] - e[bin];
      }
      counts[i] /= total;
    }
  }
  for (size_t i = 0; i < counts.size(); ++i) put(out, static_cast<int64_t>(i), Number::of(counts[i]));
}

void store_edges(const Edges& e, const Tensor& out) {
  for (size_t i = 0; i < e.size(); ++i) put(out, static_cast<int64_t>(i), Number::of(e[i]));
}

void histogram_meta(MetaCall& c) {
  check_bins(c.op(), c.integer("bins"));
  c.result(c.tensor("self")->dtype, {c.integer("bins")});
  c.result(c.tensor("self")->dtype, {c.integer("bins") + 1});
}
void histogram_kernel(KernelCall& c) {
  Tensor points = points_of(c.tensor("self"), true);
  auto edges = counted_edges(c, points, {c.integer("bins")});
  count_points(c, points, edges, c.outputs[0]);
  store_edges(edges[0], c.outputs[1]);
}
void require_edges(MetaCall& c, const TensorType* edges) {
  constexpr auto* kError = "{}: bins must be one dimension of edges";
  TOROID_USER_CHECK(edges, kError, c.op().name);
  c.require_rank(*edges, 1, kError, c.op().name);
  c.require({sym::Rel::Ge, edges->sizes[0], 1}, kError, c.op().name);
}
void histogram_bins_meta(MetaCall& c) {
  auto* bins = c.tensor("bins");
  require_edges(c, bins);
  c.result(c.tensor("self")->dtype, {bins->sizes[0] - 1});
  c.result(c.tensor("self")->dtype, bins->sizes);
}
void histogram_bins_kernel(KernelCall& c) {
  Edges edges = tensor_edges(c.tensor("bins"));
  count_points(c, points_of(c.tensor("self"), true), {edges}, c.outputs[0]);
  store_edges(edges, c.outputs[1]);
}

// How many numbers each point has.
Expr point_width(const MetaCall& c) {
  auto* self = c.tensor("self");
  TOROID_USER_CHECK(self->dim() >= 2, "{}: expected points [..., n], got {}", c.op().name, to_string(*self));
  return self->sizes.back();
}
std::vector<int64_t> bin_counts(MetaCall& c) {
  auto bins = c.integers("bins");
  const Expr wide = point_width(c);
  c.require_same(wide, static_cast<int64_t>(bins.size()), "{}: {} numbers of bins for points of {} dimensions", c.op().name, bins.size(),
                 sym::to_string(wide));
  for (int64_t b : bins) check_bins(c.op(), b);
  return bins;
}
void dd_edges_meta(MetaCall& c) {
  for (int64_t b : bin_counts(c)) c.result(c.tensor("self")->dtype, {b + 1});
}
void dd_edges_kernel(KernelCall& c) {
  auto edges = counted_edges(c, points_of(c.tensor("self"), false), c.integers("bins"));
  for (size_t d = 0; d < edges.size(); ++d) store_edges(edges[d], c.outputs[d]);
}
void dd_counts_meta(MetaCall& c) {
  auto bins = bin_counts(c);
  c.result(c.tensor("self")->dtype, {bins.begin(), bins.end()});
}
void dd_counts_kernel(KernelCall& c) {
  Tensor points = points_of(c.tensor("self"), false);
  count_points(c, points, counted_edges(c, points, c.integers("bins")), c.outputs[0]);
}
void dd_tensors_meta(MetaCall& c) {
  std::vector<Expr> sizes;
  for (auto* b : c.tensors("bins")) {
    require_edges(c, b);
    sizes.push_back(b->sizes[0] - 1);
  }
  c.require_same(point_width(c), static_cast<int64_t>(sizes.size()), "{}: one tensor of edges is needed for each dimension of the points",
                 c.op().name);
  c.result(c.tensor("self")->dtype, std::move(sizes));
}
void dd_tensors_kernel(KernelCall& c) {
  std::vector<Edges> edges;
  for (auto& b : c.tensors("bins")) edges.push_back(tensor_edges(b));
  count_points(c, points_of(c.tensor("self"), false), edges, c.outputs[0]);
}

}  // namespace

void add_reduction_histogram_rows(Table& t) {
  t.primitive("histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor", histc_meta, histc_kernel);
  t.primitive("bincount(Tensor self, Tensor? weights=None, SymInt minlength=0) -> Tensor", bincount_meta, bincount_kernel);
  t.primitive(
      "histogram.bin_ct(Tensor self, int bins=100, *, float[]? range=None, Tensor? weight=None, bool density=False) -> (Tensor hist, "
      "Tensor bin_edges)",
      histogram_meta, histogram_kernel);
  t.primitive(
      "histogram.bins_tensor(Tensor self, Tensor bins, *, Tensor? weight=None, bool density=False) -> (Tensor hist, Tensor bin_edges)",
      histogram_bins_meta, histogram_bins_kernel);
  t.primitive(
      "_histogramdd_bin_edges(Tensor self, int[] bins, *, float[]? range=None, Tensor? weight=None, bool density=False) -> Tensor[]",
      dd_edges_meta, dd_edges_kernel);
  t.primitive(
      "_histogramdd_from_bin_cts(Tensor self, int[] bins, *, float[]? range=None, Tensor? weight=None, bool density=False) -> Tensor",
      dd_counts_meta, dd_counts_kernel);
  t.primitive("_histogramdd_from_bin_tensors(Tensor self, Tensor[] bins, *, Tensor? weight=None, bool density=False) -> Tensor",
              dd_tensors_meta, dd_tensors_kernel);
}

}  // namespace toroid::ops
