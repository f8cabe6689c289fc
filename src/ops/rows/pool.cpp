// Rows of pooling over fixed windows: written as strided windows (views) that are then reduced.
#include "ops/rows/pool.h"

#include <limits>

#include "base/check.h"
#include "ops/rows/forms.h"

namespace toroid::ops {

using namespace compose;

Operand lowest_value(DType t) {
  switch (t) {
    case DType::I8:
      return Expr(std::numeric_limits<int8_t>::min());
    case DType::I16:
      return Expr(std::numeric_limits<int16_t>::min());
    case DType::I32:
      return Expr(std::numeric_limits<int32_t>::min());
    case DType::I64:
      return Expr(std::numeric_limits<int64_t>::min());
    default:
      return is_float(t) ? Operand(-std::numeric_limits<double>::infinity()) : Operand(Expr(0));
  }
}

Tensor flat_windows(const Tensor& windows, int64_t spatial) {
  Sizes sizes = sizes_of(windows), window(sizes.end() - spatial, sizes.end());
  sizes.resize(sizes.size() - static_cast<size_t>(spatial));
  sizes.push_back(product_of(window));
  return reshape(windows, sizes);
}

Tensor trailing_amax(const Tensor& windows, int64_t spatial) {
  return call1("amax", {windows, dims_from(windows.dim() - spatial, windows.dim())});
}

void check_pool_input(const CallReader& c, const Tensor& x, size_t spatial) {
  TOROID_USER_CHECK(x.dim() == static_cast<int64_t>(spatial) + 1 || x.dim() == static_cast<int64_t>(spatial) + 2,
                    "{}: the input must have {} or {} dimensions, it has {}", c.op().name, spatial + 1, spatial + 2, x.dim());
  TOROID_USER_CHECK(!is_complex(x.dtype()) && !is_bool(x.dtype()), "{}: dtype {} is not supported", c.op().name, name_of(x.dtype()));
}

namespace {

struct Pool {
  Ints kernel, stride, padding, dilation;
  Sizes in, out;
  int64_t lead = 0;  // dimensions before the spatial ones

  size_t spatial() const { return kernel.size(); }
  int64_t span(size_t d) const { return dilation[d] * (kernel[d] - 1) + 1; }
};

// Number of windows. With ceil_mode a last partial window counts when it starts inside of the input or its left padding.
Expr window_count(const CallReader& c, const Pool& p, size_t d, bool ceil_mode) {
  Expr room = p.in[d] + Expr(2 * p.padding[d] - p.span(d));
  Expr n = sym::floor_div(room + Expr(ceil_mode ? p.stride[d] - 1 : 0), p.stride[d]) + 1;
  if (ceil_mode && SymInt((n - 1) * Expr(p.stride[d])) >= SymInt(p.in[d] + Expr(p.padding[d]))) n = n - 1;
  require({sym::Rel::Ge, n, 1}, "{}: spatial dimension {} of size {} is smaller than the window {} with padding {}", c.op().name, d,
          sym::to_string(p.in[d]), p.span(d), p.padding[d]);
  return n;
}

Pool read_pool(const CallReader& c, size_t spatial) {
  Tensor x = c.tensor("self");
  check_pool_input(c, x, spatial);
  Pool p;
  p.kernel = spread(c, "kernel_size", spatial);
  p.stride = c.exprs("stride").empty() ? p.kernel : spread(c, "stride", spatial);
  p.padding = spread(c, "padding", spatial);
  p.dilation = c.op().schema.find("dilation") >= 0 ? spread(c, "dilation", spatial) : Ints(spatial, 1);
  p.lead = x.dim() - static_cast<int64_t>(spatial);
  for (size_t d = 0; d < spatial; ++d) {
    auto valid = [](int64_t v, int64_t lo) { return v >= lo && v < (int64_t{1} << 30); };
    TOROID_USER_CHECK(valid(p.kernel[d], 1) && valid(p.stride[d], 1) && valid(p.dilation[d], 1),
                      "{}: kernel_size, stride and dilation must be positive", c.op().name);
    TOROID_USER_CHECK(valid(p.padding[d], 0) && 2 * p.padding[d] <= p.span(d), "{}: padding {} must be at most half of the window {}",
                      c.op().name, p.padding[d], p.span(d));
    p.in.push_back(extent(x, p.lead + static_cast<int64_t>(d)));
    p.out.push_back(window_count(c, p, d, c.flag("ceil_mode")));
  }
  return p;
}

// [lead..., out..., kernel...]
Tensor windows_of(Tensor x, const Pool& p, bool ceil_mode, const Operand& fill) {
  Sizes pad;
  bool any = false;
  for (size_t d = 0; d < p.spatial(); ++d) {
    Expr right = p.padding[d];
    if (ceil_mode) right = sym::max((p.out[d] - 1) * Expr(p.stride[d]) + Expr(p.span(d) - p.padding[d]) - p.in[d], 0);
    pad.insert(pad.begin(), {Expr(p.padding[d]), right});
    any |= p.padding[d] != 0 || right != Expr(0);
  }
  if (any) x = call1("constant_pad_nd", {x, pad, fill});
  for (size_t d = 0; d < p.spatial(); ++d) {
    x = call1("unfold", {x, Expr(p.lead + static_cast<int64_t>(d)), Expr(p.span(d)), Expr(p.stride[d])});
    if (p.dilation[d] > 1) x = slice(x, -1, 0, p.span(d), p.dilation[d]);
  }
  return x;
}

// ---- maximum ----

// The places in their windows, by dimension, of elements with these numbers: [lead..., out...]. A window of -inf alone finds its padding
// first, for which its first element within the input stands.
std::vector<Tensor> places_in_windows(const Tensor& best, const Pool& p) {
  Tensor rest = best;
  std::vector<Tensor> place(p.spatial());
  for (size_t d = p.spatial(); d-- > 0;) {
    place[d] = d == 0 ? rest : remainder(rest, p.kernel[d]);
    if (d > 0) rest = floor_div(rest, p.kernel[d]);
    if (p.padding[d] == 0) continue;
    const Tensor before = sub(Expr(p.padding[d] + p.dilation[d] - 1), mul(arange(p.out[d]), Expr(p.stride[d])));
    const Tensor first = floor_div(before, p.dilation[d]);
    place[d] = call1("maximum", {place[d], along(first, p.lead + static_cast<int64_t>(d), best.dim())});
  }
  return place;
}

// Flat index into the spatial dimensions of the input of the element at position `best` of its window.
Tensor window_index(const Tensor& best, const Pool& p) {
  Tensor flat;
  const std::vector<Tensor> place = places_in_windows(best, p);
  for (size_t d = 0; d < p.spatial(); ++d) {
    Tensor start = mul(arange(p.out[d]), Expr(p.stride[d]));
    if (p.padding[d] != 0) start = sub(start, Expr(p.padding[d]));
    const Tensor offset = p.dilation[d] == 1 ? place[d] : mul(place[d], Expr(p.dilation[d]));
    const Tensor at = add(along(start, p.lead + static_cast<int64_t>(d), best.dim()), offset);
    flat = d == 0 ? at : add(mul(flat, p.in[d]), at);
  }
  return flat;
}

template <size_t kSpatial, bool kIndices>
std::vector<Tensor> max_pool(const CallReader& c) {
  Pool p = read_pool(c, kSpatial);
  Tensor x = c.tensor("self");
  Tensor windows = windows_of(x, p, c.flag("ceil_mode"), lowest_value(x.dtype()));
  Tensor values = trailing_amax(windows, kSpatial);
  if constexpr (!kIndices) return {values};
  return {values, window_index(call1("argmax", {flat_windows(windows, kSpatial), Expr(-1)}), p)};
}

// Which element of the window that begins `back` windows before the last one the elements of dimension d are; the number of elements of a
// window, or more, for those that are not in it. 1-d.
Tensor element_of_window(const Pool& p, size_t d, int64_t back) {
  const int64_t stride = p.stride[d], dilation = p.dilation[d], all = product_of(to_sizes(p.kernel)).constant();
  Tensor at = arange(p.in[d], DType::I32);
  if (p.padding[d] != 0) at = add(at, Expr(p.padding[d]));
  at = remainder(at, stride);
  if (back > 0) at = add(at, Expr(back * stride));
  Tensor number = dilation == 1 ? at : floor_div(at, dilation);
  if ((back + 1) * stride > p.span(d)) number = call1("where.ScalarOther", {call1("lt.Scalar", {at, Expr(p.span(d))}), number, Expr(all)});
  if (dilation > 1) number = call1("where.ScalarOther", {call1("eq.Scalar", {remainder(at, dilation), Expr(0)}), number, Expr(all)});
  return number;
}

// ---- average ----

// Number of elements that window i of dimension d is averaged over.
Tensor window_sizes(const Pool& p, size_t d, bool include_padding, DType dtype) {
  Tensor start = sub(mul(arange(p.out[d]), Expr(p.stride[d])), Expr(p.padding[d]));
  Tensor end = clamp(add(start, Expr(p.kernel[d])), std::monostate{}, p.in[d] + Expr(include_padding ? p.padding[d] : 0));
  if (!include_padding) start = call1("clamp", {start, Expr(0)});
  return cast(sub(end, start), dtype);
}

template <size_t kSpatial>
std::vector<Tensor> avg_pool(const CallReader& c) {
  Pool p = read_pool(c, kSpatial);
  Tensor x = c.tensor("self");
  bool ceil_mode = c.flag("ceil_mode"), include_padding = c.flag("count_include_pad"), padded = false;
  for (int64_t v : p.padding) padded |= v != 0;
  DType compute = compute_type(x.dtype());
  Tensor total = cast(windows_of(x, p, ceil_mode, Expr(0)), compute);
  total = sum(total, dims_from(total.dim() - static_cast<int64_t>(kSpatial), total.dim()));
  auto quotient = [&](const Operand& divisor) {
    Tensor q = is_int(x.dtype()) ? call1("div.Tensor_mode", {total, divisor, std::string("trunc")}) : div(total, divisor);
    return std::vector<Tensor>{cast(q, x.dtype())};
  };
  if (c.op().schema.find("divisor_override") >= 0 && c.has("divisor_override")) {
    int64_t divisor = c.integer("divisor_override");
    TOROID_USER_CHECK(divisor != 0, "{}: divisor_override must not be 0", c.op().name);
    return quotient(Expr(divisor));
  }
  if (!ceil_mode && (include_padding || !padded)) return quotient(product_of(to_sizes(p.kernel)));
  Tensor count;
  for (size_t d = 0; d < kSpatial; ++d) {
    Tensor n = along(window_sizes(p, d, include_padding, compute), static_cast<int64_t>(d), kSpatial);
    count = d == 0 ? n : mul(count, n);
  }
  return quotient(count);
}

// ---- backward and inverse of max pooling ----

// `values` put at flat spatial `indices` of zeros with the given sizes.
Tensor scatter_spatial(const CallReader& c, const Tensor& values, const Tensor& indices, const Sizes& sizes, size_t spatial,
                       bool accumulate) {
  auto flatten = [&](const Sizes& s) {
    Sizes out(s.begin(), s.end() - static_cast<int64_t>(spatial));
    out.push_back(product_of(Sizes(s.end() - static_cast<int64_t>(spatial), s.end())));
    return out;
  };
  Sizes flat = flatten(sizes_of(values));
  Tensor zeros = full(flatten(sizes), 0, values.dtype());
  const Tensor places = forms::checked_index(c, reshape(indices, flat), forms::size_at(zeros, -1), -1);
  return reshape(call1(accumulate ? "scatter_add" : "scatter.src", {zeros, Expr(-1), places, reshape(values, flat)}), sizes);
}

template <size_t kSpatial>
std::vector<Tensor> max_pool_backward(const CallReader& c) {
  return {scatter_spatial(c, c.tensor("grad_output"), c.tensor("indices"), sizes_of(c.tensor("self")), kSpatial, true)};
}

template <size_t kSpatial>
std::vector<Tensor> max_unpool(const CallReader& c) {
  Tensor x = c.tensor("self");
  check_pool_input(c, x, kSpatial);
  Sizes sizes = sizes_of(x), out = c.exprs("output_size");
  TOROID_USER_CHECK(out.size() == kSpatial, "{}: output_size must have {} numbers, it has {}", c.op().name, kSpatial, out.size());
  sizes.resize(sizes.size() - kSpatial);
  sizes.insert(sizes.end(), out.begin(), out.end());
  return {scatter_spatial(c, x, c.tensor("indices"), sizes, kSpatial, false)};
}

// Of a tensor with an element for each window of dimension d: for each input element the window that begins `back` windows before the last
// one that may hold it; `none` where there is no such window.
Tensor window_of_each(Tensor t, const Pool& p, size_t d, int64_t back, const Operand& none) {
  const int64_t dim = p.lead + static_cast<int64_t>(d), stride = p.stride[d], left = back * stride - p.padding[d];
  if (stride > 1) {
    Sizes sizes = sizes_of(t), repeated = sizes;
    repeated.insert(repeated.begin() + dim + 1, Expr(stride));
    sizes[static_cast<size_t>(dim)] = p.out[d] * Expr(stride);
    t = reshape(call1("expand", {call1("unsqueeze", {t, Expr(dim + 1)}), repeated}), sizes);
  }
  Sizes pad{Expr(left), p.in[d] - p.out[d] * Expr(stride) - Expr(left)};
  for (int64_t k = dim + 1; k < t.dim(); ++k) pad.insert(pad.begin(), {Expr(0), Expr(0)});
  return call1("constant_pad_nd", {t, pad, none});
}

template <size_t kSpatial>
void add_rows_for(Table& t) {
  std::string n = std::to_string(kSpatial), list = "int[" + n + "] ";
  std::string window = "(Tensor self, " + list + "kernel_size, " + list + "stride=[], " + list + "padding=0, ";
  std::string dilated = window + list + "dilation=1, bool ceil_mode=False) -> ";
  t.composite("avg_pool" + n + "d" + window + "bool ceil_mode=False, bool count_include_pad=True" +
                  (kSpatial == 1 ? "" : ", int? divisor_override=None") + ") -> Tensor",
              avg_pool<kSpatial>);
  t.composite("max_pool" + n + "d" + dilated + "Tensor", max_pool<kSpatial, false>);
  t.composite("max_pool" + n + "d_with_indices" + dilated + "(Tensor, Tensor)", max_pool<kSpatial, true>);
  if (kSpatial == 1) return;
  t.composite("max_pool" + n + "d_with_indices_backward(Tensor grad_output, Tensor self, " + list + "kernel_size, " + list + "stride, " +
                  list + "padding, " + list + "dilation, bool ceil_mode, Tensor indices) -> Tensor",
              max_pool_backward<kSpatial>);
  t.composite("adaptive_max_pool" + n + "d_backward(Tensor grad_output, Tensor self, Tensor indices) -> Tensor",
              max_pool_backward<kSpatial>);
  t.composite("max_unpool" + n + "d(Tensor self, Tensor indices, SymInt[" + n + "] output_size" +
                  (kSpatial == 3 ? ", int[3] stride, int[3] padding" : "") + ") -> Tensor",
              max_unpool<kSpatial>);
}

// Numbers of elements of windows are bytes where there are few, as they are kept for the gradient.
DType type_of_numbers(const Pool& p) {
  constexpr int64_t kMost = 256;
  return product_of(to_sizes(p.kernel)).constant() <= kMost ? DType::U8 : DType::I64;
}

}  // namespace

Tensor max_pool_best(const CallReader& c, size_t spatial) {
  const Tensor x = c.tensor("self");
  const Pool p = read_pool(c, spatial);
  const Tensor windows = windows_of(x, p, c.flag("ceil_mode"), lowest_value(x.dtype()));
  Tensor best = call1("argmax", {flat_windows(windows, static_cast<int64_t>(spatial)), Expr(-1)});
  if (std::any_of(p.padding.begin(), p.padding.end(), [](int64_t n) { return n != 0; })) {
    const std::vector<Tensor> place = places_in_windows(best, p);
    best = place[0];
    for (size_t d = 1; d < spatial; ++d) best = add(mul(best, Expr(p.kernel[d])), place[d]);
  }
  return cast(best, type_of_numbers(p));
}

Tensor max_pool_gradient(const CallReader& c, const Tensor& gradient, const Tensor& best, size_t spatial) {
  const Pool p = read_pool(c, spatial);
  Tensor sum;
  std::vector<int64_t> back(spatial, 0);
  for (bool more = true; more;) {
    Tensor g = gradient, at = best;
    for (size_t d = 0; d < spatial; ++d) {
      g = window_of_each(g, p, d, back[d], Expr(0));
      at = window_of_each(at, p, d, back[d], Expr(0));  // any: there is no gradient
    }
    Tensor own;
    for (size_t d = 0; d < spatial; ++d) {
      const Tensor number = along(element_of_window(p, d, back[d]), static_cast<int64_t>(d), static_cast<int64_t>(spatial));
      own = d == 0 ? number : add(mul(own, Expr(p.kernel[d])), number);
    }
    const Tensor part = call1("where.ScalarOther", {call1("eq.Tensor", {at, own}), g, Expr(0)});
    sum = sum.defined() ? add(sum, part) : part;
    more = false;
    for (size_t d = spatial; d-- > 0 && !more;) {
      more = (back[d] + 1) * p.stride[d] < p.span(d);
      back[d] = more ? back[d] + 1 : 0;
    }
  }
  return sum;
}

void add_pool_rows(Table& t) {
  add_rows_for<1>(t);
  add_rows_for<2>(t);
  add_rows_for<3>(t);
  add_adaptive_pool_rows(t);
}

}  // namespace toroid::ops
