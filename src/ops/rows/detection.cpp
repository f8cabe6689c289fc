// Operations of torchvision that detectors are made of: nms and roi_align, under the names that exported programs give them.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "ops/rows/dense_values.h"
#include "ops/rows/resample.h"

namespace toroid::ops {
namespace {

using namespace compose;

void nms_meta(MetaCall& c) {
  const TensorType &boxes = *c.tensor("dets"), &scores = *c.tensor("scores");
  const std::string error =
      fmt::format("{}: expected boxes [n, 4] and a score for each, got {} and {}", c.op().name, to_string(boxes), to_string(scores));
  c.require_rank(boxes, 2, "{}", error);
  c.require_same(boxes.sizes[1], 4, "{}", error);
  c.require_vector(scores, boxes.sizes[0], "{}", error);
  c.result(DType::I64, {c.fresh_size()});
}

// From the best score down, boxes that do not cover too much of what one that was kept covers.
void nms_kernel(KernelCall& c) {
  const auto boxes = load_values<double>(c.tensor("dets")), scores = load_values<double>(c.tensor("scores"));
  const double most = c.real("iou_threshold");
  std::vector<size_t> order(scores.size()), kept;
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::isnan(scores[a]) ? !std::isnan(scores[b]) : scores[a] > scores[b];  // NaN first, as sort has it
  });
  auto area = [&](const double* b) { return (b[2] - b[0]) * (b[3] - b[1]); };
  auto overlap = [&](const double* a, const double* b) {
    const double w = std::min(a[2], b[2]) - std::max(a[0], b[0]), h = std::min(a[3], b[3]) - std::max(a[1], b[1]);
    const double common = std::max(w, 0.0) * std::max(h, 0.0);
    return common / (area(a) + area(b) - common);
  };
  for (size_t i : order)
    if (std::none_of(kept.begin(), kept.end(), [&](size_t k) { return overlap(&boxes[4 * k], &boxes[4 * i]) > most; })) kept.push_back(i);
  c.outputs[0] = Tensor::empty({static_cast<int64_t>(kept.size())}, DType::I64);
  std::copy(kept.begin(), kept.end(), c.outputs[0].data<int64_t>());
}

// Positions of samples along one dimension of each region: [regions, bins * samples].
Tensor sample_positions(const Tensor& begin, const Tensor& length, int64_t bins, int64_t samples) {
  const Tensor parts = mul(add(arange(bins * samples, begin.dtype()), 0.5), 1 / static_cast<double>(bins * samples));
  const Tensor from_begin = mul(unsqueeze(length, 1), parts);
  return add(unsqueeze(begin, 1), from_begin);
}

// The two pixels around each position and their weights: none for positions more than a pixel outside.
struct Around {
  std::array<Tensor, 2> at, weight;
};

Around pixels_around(const Tensor& position, const Expr& size) {
  const Tensor below = call1("le.Scalar", {position, size});
  Tensor inside = cast(logical_and(ge(position, -1.0), below), position.dtype());
  Tensor place = clamp(position, 0.0, size - 1), low = floor(place), part = sub(place, low);
  Tensor first = cast(low, DType::I64);
  return {{first, clamp(add(first, Expr(1)), std::monostate{}, size - 1)},
          {mul(call1("rsub.Scalar", {part, 1.0}), inside), mul(part, inside)}};
}

std::vector<Tensor> roi_align(const CallReader& c) {
  Tensor x = c.tensor("input"), rois = c.tensor("rois");
  const int64_t height = c.integer("pooled_height"), width = c.integer("pooled_width"), samples = c.integer("sampling_ratio");
  TOROID_USER_CHECK(x.dim() == 4 && rois.dim() == 2 && equal(extent(rois, 1), 5) && x.dtype() == rois.dtype() && is_float(x.dtype()),
                    "{}: expected images of four dimensions and regions [n, 5] of one dtype of floats, got {} and {}", c.op().name,
                    to_string(x), to_string(rois));
  TOROID_USER_CHECK(height > 0 && width > 0 && std::max({height, width, samples}) < (1 << 12),
                    "{}: {} x {} bins of {} samples are not supported", c.op().name, height, width, samples);
  TOROID_USER_CHECK(samples > 0,
                    "{}: with sampling_ratio {} the number of samples follows from the regions' contents; export with a positive one",
                    c.op().name, samples);
  const bool aligned = c.flag("aligned");
  const DType compute = compute_type(x.dtype());
  rois = cast(rois, compute);
  auto edge = [&](int64_t i) { return add(mul(select(rois, 1, i), c.real("spatial_scale")), aligned ? -0.5 : 0.0); };
  auto along_axis = [&](int64_t first, int64_t bins, int64_t dim) {
    Tensor begin = edge(first), length = sub(edge(first + 2), begin);
    if (!aligned) length = call1("clamp_min", {length, 1.0});
    return pixels_around(sample_positions(begin, length, bins, samples), extent(x, dim));
  };
  Around ys = along_axis(2, height, 2), xs = along_axis(1, width, 3);
  const Expr count = extent(rois, 0);
  const Tensor of_image = call1("_check_index", {cast(select(rois, 1, 0), DType::I64), extent(x, 0), "roi_align", Expr(0), false});
  Tensor image = reshape(of_image, {count, 1, 1}), wide = cast(x, compute), sum;
  for (size_t i = 0; i < 4; ++i) {
    Tensor corner = index(wide, {image, Tensor(), unsqueeze(ys.at[i / 2], 2), unsqueeze(xs.at[i % 2], 1)});  // [n, rows, columns, channels]
    const Tensor across = unsqueeze(xs.weight[i % 2], 1), weight = mul(unsqueeze(ys.weight[i / 2], 2), across);
    Tensor part = mul(corner, unsqueeze(weight, 3));
    sum = i == 0 ? part : add(sum, part);
  }
  Tensor bins = reshape(sum, {count, height, samples, width, samples, extent(x, 1)});
  return {cast(permute(mean(bins, {Expr(2), Expr(4)}), {0, 3, 1, 2}), x.dtype())};
}

}  // namespace

void add_detection_rows(Table& t) {
  t.primitive("torchvision.nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor", nms_meta, nms_kernel);
  t.composite(
      "torchvision.roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, int "
      "sampling_ratio, "
      "bool aligned) -> Tensor",
      roi_align);
}

}  // namespace toroid::ops
