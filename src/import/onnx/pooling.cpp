// Poolings over windows and over whole tensors.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/scalar.h"
#include "import/onnx/windows.h"

namespace toroid::import::onnx {
namespace {

std::string pool_name(const char* what, const Windows& w, const char* suffix = "") {
  TOROID_USER_CHECK(w.spatial() <= 3, "a pooling over {} dimensions; Toroid has those over 1, 2 and 3", w.spatial());
  return fmt::format("{}_pool{}d{}", what, w.spatial(), suffix);
}

// Padding by zeros would be pooled like elements: the smallest number never wins.
Tensor pad_with_least(const Tensor& x, const Windows& w) {
  Arg<Tensor> least = -HUGE_VAL;
  if (!is_float(x.dtype())) {
    bool is_signed = x.dtype() == DType::I8 || x.dtype() == DType::I16 || x.dtype() == DType::I32 || x.dtype() == DType::I64;
    auto bits = static_cast<int64_t>(8 * size_of(x.dtype()));
    least = Expr(is_signed ? std::numeric_limits<int64_t>::min() >> (64 - bits) : 0);
  }
  return op("constant_pad_nd", x, w.pad_widths(), least);
}

// Places within the padded plane of each channel become places in the whole tensor.
Tensor whole_indices(const Tensor& plane, const Sizes& in, const Windows& pad, bool columns_first) {
  size_t n = pad.spatial();
  Tensor rest = plane, flat;
  Expr stride = 1;
  std::vector<Tensor> place(n);
  for (size_t d = n; d-- > 0;) {
    Expr padded = in[d + 2] + pad.begin[d] + pad.end[d];
    place[d] = op("sub.Tensor", op("remainder.Scalar", rest, padded), Expr(pad.begin[d]));
    if (d > 0) rest = op("floor_divide", rest, op("scalar_tensor", padded, DType::I64));
  }
  auto join = [&](size_t d) {
    Tensor part = op("mul.Tensor", place[d], stride);
    flat = flat.defined() ? op("add.Tensor", flat, part) : part;
    stride *= in[d + 2];
  };
  if (columns_first)
    for (size_t d = 0; d < n; ++d) join(d);
  else
    for (size_t d = n; d-- > 0;) join(d);
  Tensor channels = op("mul.Tensor", op("arange", in[0] * in[1], DType::I64), stride);
  Sizes shape = {in[0], in[1]};
  shape.resize(n + 2, 1);
  return op("add.Tensor", flat, reshape(channels, shape));
}

void max_pool(OpCall& c) {
  Tensor x = c.in(0);
  Windows w = read_windows(c, x), none = w;
  none.begin.assign(w.spatial(), 0);
  none.end = none.begin;
  bool narrow = w.is_symmetric();  // PyTorch's poolings take paddings up to half a window
  for (size_t d = 0; d < w.spatial(); ++d) narrow = narrow && w.begin[d] <= w.kernel[d] / 2;
  Sizes in = sizes_of(x);
  Tensor padded = narrow ? x : pad_with_least(x, w);
  const auto& padding = narrow ? w.begin : none.begin;
  bool ceil = c.integer("ceil_mode", 0) != 0, columns_first = c.integer("storage_order", 0) != 0;
  if (!c.wants(1)) return c.set(0, op(pool_name("max", w), padded, w.kernel, w.strides, padding, w.dilations, ceil));
  auto both = op_all(pool_name("max", w, "_with_indices"), padded, w.kernel, w.strides, padding, w.dilations, ceil);
  c.set(0, both[0]);
  c.set(1, whole_indices(both[1], in, narrow ? none : w, columns_first));
}

Tensor average(const Tensor& x, const Windows& w, const std::vector<int64_t>& padding, bool ceil, bool count_padding) {
  return op(pool_name("avg", w), x, w.kernel, w.strides, padding, ceil, count_padding);
}

// The sum of each window: a convolution of each channel by ones.
Tensor window_sums(const Tensor& x, const Windows& w) {
  Sizes sizes = sizes_of(x), plane = sizes, ones = {1, 1};
  plane[1] = 1;
  plane[0] = sizes[0] * sizes[1];
  for (int64_t k : w.kernel) ones.push_back(k);
  std::vector<int64_t> none(w.spatial(), 0);
  Tensor out = op("convolution", reshape(x, plane), op("full", ones, 1.0, x.dtype()), kNone, w.strides, none, w.dilations, false, none, 1);
  Sizes result = sizes_of(out);
  result[0] = sizes[0];
  result[1] = sizes[1];
  return reshape(out, result);
}

Tensor dilated_average(const Tensor& x, Windows w, bool ceil, bool count_padding) {
  Windows pad = w;
  auto in = known_sizes(x, "a size that is pooled with dilations");
  std::vector<int64_t> extra(w.spatial(), 0);
  for (size_t d = 0; d < w.spatial() && ceil; ++d) {  // the last window may reach beyond the end, but must begin before it
    int64_t size = in[d + 2] + w.begin[d] + w.end[d], reach = (w.kernel[d] - 1) * w.dilations[d] + 1;
    int64_t more = (w.strides[d] - (size - reach) % w.strides[d]) % w.strides[d];
    if (size - reach + more < in[d + 2] + w.begin[d]) extra[d] = more;
  }
  for (size_t d = 0; d < w.spatial(); ++d) pad.end[d] += extra[d];
  Tensor sums = window_sums(op("constant_pad_nd", x, pad.pad_widths(), 0), w);
  Sizes plane = sizes_of(x);
  plane[0] = plane[1] = 1;
  Tensor ones = op("full", plane, 1.0, x.dtype());
  if (count_padding) {
    ones = op("constant_pad_nd", ones, w.pad_widths(), 1.0);
    for (size_t d = 0; d < w.spatial(); ++d) pad.begin[d] = 0, pad.end[d] = extra[d];
  }
  return op("div.Tensor", sums, window_sums(op("constant_pad_nd", ones, pad.pad_widths(), 0), w));
}

void average_pool(OpCall& c) {
  Tensor x = c.in(0);
  Windows w = read_windows(c, x);
  bool ceil = c.integer("ceil_mode", 0) != 0, count = c.integer("count_include_pad", 0) != 0, narrow = w.is_symmetric();
  if (std::any_of(w.dilations.begin(), w.dilations.end(), [](int64_t d) { return d != 1; }))
    return c.set(0, dilated_average(x, w, ceil, count));
  for (size_t d = 0; d < w.spatial(); ++d) narrow = narrow && w.begin[d] <= w.kernel[d] / 2;
  if (narrow) return c.set(0, average(x, w, w.begin, ceil, count));
  std::vector<int64_t> none(w.spatial(), 0);
  Tensor sums = average(op("constant_pad_nd", x, w.pad_widths(), 0), w, none, ceil, true);
  if (count) return c.set(0, sums);
  // The part of each window that lies in the tensor.
  Sizes plane = sizes_of(x);
  plane[0] = plane[1] = 1;
  Tensor ones = op("constant_pad_nd", op("full", plane, 1.0, x.dtype()), w.pad_widths(), 0);
  c.set(0, op("div.Tensor", sums, average(ones, w, none, ceil, true)));
}

void lp_pool(OpCall& c) {
  Tensor x = c.in(0);
  Windows w = read_windows(c, x);
  double p = static_cast<double>(c.integer("p", 2));
  TOROID_USER_CHECK(!c.integer("ceil_mode", 0), "Toroid has this pooling without ceil_mode");
  Tensor powers = op("pow.Tensor_Scalar", op("abs", x), p);
  if (w.is_padded()) powers = op("constant_pad_nd", powers, w.pad_widths(), 0);
  c.set(0, op("pow.Tensor_Scalar", window_sums(powers, w), 1 / p));
}

void global_average(OpCall& c) { c.set(0, op("mean.dim", c.in(0), range(2, rank_of(c.in(0))), true)); }
void global_max(OpCall& c) { c.set(0, op("amax", c.in(0), range(2, rank_of(c.in(0))), true)); }

void global_lp(OpCall& c) {
  double p = static_cast<double>(c.integer("p", 2));
  c.set(0, op("linalg_vector_norm", c.in(0), p, range(2, rank_of(c.in(0))), true));
}

// The inverse of a max pooling: each value goes to its place in the whole tensor, all else is zero.
void max_unpool(OpCall& c) {
  Tensor x = c.in(0), places = c.in(1);
  Windows w = read_windows(c, x);
  Sizes in = sizes_of(x), out = {in[0], in[1]}, own = out;
  for (size_t d = 0; d < w.spatial(); ++d) own.push_back((in[d + 2] - 1) * w.strides[d] + w.kernel[d] - w.begin[d] - w.end[d]);
  out = c.has(2) ? c.sizes(2) : own;
  Expr count = 1, own_count = 1;
  for (size_t d = 0; d < out.size(); ++d) {
    count *= out[d];
    own_count *= own[d];
  }
  Tensor zeros = op("full", Sizes{own_count}, 0.0, x.dtype());
  Tensor flat = op("scatter.src", zeros, 0, reshape(places, {numel_of(places)}), reshape(x, {numel_of(x)}));
  Tensor image = reshape(flat, own);
  // The places count in a tensor of the size that follows from the attributes; a larger result has zeros after it.
  Sizes widths;
  for (size_t d = out.size(); d-- > 2;) {
    widths.push_back(0);
    widths.push_back(out[d] - own[d]);
  }
  c.set(0, out == own ? image : op("constant_pad_nd", image, widths, 0));
}

}  // namespace

void add_pooling_operators(Operators& t) {
  t.add("MaxPool", 1, max_pool);
  t.add("AveragePool", 1, average_pool);
  t.add("LpPool", 2, lp_pool);
  t.add("GlobalAveragePool", 1, global_average);
  t.add("GlobalMaxPool", 1, global_max);
  t.add("GlobalLpPool", 2, global_lp);
  t.add("MaxUnpool", 9, max_unpool);
}

}  // namespace toroid::import::onnx
