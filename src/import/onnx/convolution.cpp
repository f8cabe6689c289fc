// Convolutions, and the windows that they share with poolings.
#include <algorithm>

#include "base/check.h"
#include "import/onnx/windows.h"

namespace toroid::import::onnx {

bool Windows::is_padded() const {
  auto some = [](const std::vector<int64_t>& v) { return std::any_of(v.begin(), v.end(), [](int64_t p) { return p != 0; }); };
  return some(begin) || some(end);
}

Sizes Windows::pad_widths() const {
  Sizes out;
  for (size_t d = spatial(); d-- > 0;) {
    out.push_back(begin[d]);
    out.push_back(end[d]);
  }
  return out;
}

Windows read_windows(OpCall& c, const Tensor& x, std::vector<int64_t> kernel) {
  Windows w;
  w.kernel = c.integers("kernel_shape");
  TOROID_USER_CHECK(kernel.empty() || w.kernel.empty() || w.kernel == kernel,
                    "the attribute \"kernel_shape\" is not the shape of the weights");
  if (w.kernel.empty()) w.kernel = std::move(kernel);
  auto n = static_cast<size_t>(std::max<int64_t>(rank_of(x) - 2, 0));
  auto list = [&](const char* name, size_t size, int64_t otherwise) {
    auto v = c.integers(name);
    if (v.empty()) v.assign(size, otherwise);
    TOROID_USER_CHECK(v.size() == size, "the attribute \"{}\" has {} numbers; {} are expected", name, v.size(), size);
    return v;
  };
  TOROID_USER_CHECK(n > 0 && w.kernel.size() == n, "a kernel of {} dimensions for a tensor of {}, which has {} spatial ones",
                    w.kernel.size(), rank_of(x), n);
  w.strides = list("strides", n, 1);
  w.dilations = list("dilations", n, 1);
  constexpr int64_t kMost = 1 << 30;
  auto fits = [](int64_t i) { return i > 0 && i <= kMost; };
  for (auto* v : {&w.kernel, &w.strides, &w.dilations})
    TOROID_USER_CHECK(std::all_of(v->begin(), v->end(), fits), "kernel sizes, strides and dilations are positive, and at most {}", kMost);
  auto pads = list("pads", 2 * n, 0);
  TOROID_USER_CHECK(std::all_of(pads.begin(), pads.end(), [](int64_t p) { return p >= -kMost && p <= kMost; }),
                    "a padding is wider than {}", kMost);
  w.begin.assign(pads.begin(), pads.begin() + static_cast<int64_t>(n));
  w.end.assign(pads.begin() + static_cast<int64_t>(n), pads.end());
  std::string mode = c.text("auto_pad", "NOTSET");
  if (mode == "NOTSET" || mode.empty()) return w;
  w.begin.assign(n, 0);
  w.end.assign(n, 0);
  if (mode == "VALID") return w;
  bool upper = mode == "SAME_UPPER";
  TOROID_USER_CHECK(upper || mode == "SAME_LOWER", "the attribute \"auto_pad\" is \"{}\", which is unknown", mode);
  for (size_t d = 0; d < n; ++d) {
    // As many windows as there are strides; what they reach beyond the tensor is padding.
    int64_t reach = (w.kernel[d] - 1) * w.dilations[d] + 1, total = std::max<int64_t>(reach - w.strides[d], 0);
    if (w.strides[d] != 1) {
      int64_t size = known_size(sizes_of(x)[d + 2], "a size that is padded by auto_pad");
      int64_t windows = (size + w.strides[d] - 1) / w.strides[d];
      total = std::max<int64_t>((windows - 1) * w.strides[d] + reach - size, 0);
    }
    (upper ? w.begin : w.end)[d] = total / 2;
    (upper ? w.end : w.begin)[d] = total - total / 2;
  }
  return w;
}

namespace {

std::vector<int64_t> kernel_of(const Tensor& weight) {
  auto sizes = known_sizes(weight, "the size of a kernel");
  TOROID_USER_CHECK(sizes.size() >= 3, "the weights have {} dimensions; at least 3 are expected", sizes.size());
  return {sizes.begin() + 2, sizes.end()};
}

Tensor convolve(Tensor x, const Tensor& weight, const Arg<Tensor>& bias, const Windows& w, int64_t groups) {
  std::vector<int64_t> padding = w.begin;
  if (!w.is_symmetric()) {
    x = op("constant_pad_nd", x, w.pad_widths(), 0);
    padding.assign(w.spatial(), 0);
  }
  return op("convolution", x, weight, bias, w.strides, padding, w.dilations, false, std::vector<int64_t>(w.spatial(), 0), groups);
}

Tensor conv_of(OpCall& c) {
  Tensor x = c.in(0), weight = c.in(1);
  Windows w = read_windows(c, x, kernel_of(weight));
  return convolve(x, weight, c.has(2) ? Arg<Tensor>(c.in(2)) : kNone, w, c.integer("group", 1));
}

void conv(OpCall& c) { c.set(0, conv_of(c)); }

// With a summand and an activation.
void fused_conv(OpCall& c) {
  Tensor out = conv_of(c);
  c.set(0, fused_activation(c, c.has(3) ? op("add.Tensor", out, c.in(3)) : out));
}

// Pads or crops the spatial dimensions at their ends (`first` elements before, so that `size` are left).
Tensor cut(Tensor x, size_t spatial, const std::vector<int64_t>& first, const std::vector<int64_t>& size) {
  Sizes widths;
  bool change = false;
  for (size_t d = spatial; d-- > 0;) {
    int64_t have = known_size(sizes_of(x)[d + 2], "the size of a result");
    widths.push_back(-first[d]);
    widths.push_back(first[d] + size[d] - have);
    change = change || first[d] != 0 || size[d] != have;
  }
  return change ? op("constant_pad_nd", x, widths, 0) : x;
}

void conv_transpose(OpCall& c) {
  Tensor x = c.in(0), weight = c.in(1);
  Windows w = read_windows(c, x, kernel_of(weight));
  size_t n = w.spatial();
  auto added = c.integers("output_padding"), wanted = c.integers("output_shape");
  if (added.empty()) added.assign(n, 0);
  if (wanted.size() == n + 2) wanted.erase(wanted.begin(), wanted.begin() + 2);
  TOROID_USER_CHECK(added.size() == n && (wanted.empty() || wanted.size() == n), "output_padding and output_shape are lists of {} numbers",
                    n);
  std::string mode = c.text("auto_pad", "NOTSET");
  bool same = mode.starts_with("SAME");
  int64_t groups = c.integer("group", 1);
  Arg<Tensor> bias = c.has(2) ? Arg<Tensor>(c.in(2)) : kNone;
  bool plain = wanted.empty() && !same && w.is_symmetric();
  for (size_t d = 0; d < n; ++d) plain = plain && added[d] < std::max(w.strides[d], w.dilations[d]);
  if (plain) return c.set(0, op("convolution", x, weight, bias, w.strides, w.begin, w.dilations, true, added, groups));
  // All that the kernels reach, then the part that is asked for.
  std::vector<int64_t> none(n, 0), first(n), size(n);
  Tensor all = op("convolution", x, weight, kNone, w.strides, none, w.dilations, true, none, groups);
  auto in = known_sizes(x, "the size of a transposed convolution with these attributes");
  for (size_t d = 0; d < n; ++d) {
    constexpr int64_t kMost = int64_t{1} << 48;  // Expr stays at the ends of 64 bits
    const int64_t reach =
        ((Expr(in[d + 2]) - 1) * Expr(w.strides[d]) + (Expr(w.kernel[d]) - 1) * Expr(w.dilations[d]) + 1 + Expr(added[d])).constant();
    TOROID_USER_CHECK(std::max({reach, w.begin[d], w.end[d]}) < kMost && std::min({reach, w.begin[d], w.end[d]}) > -kMost,
                      "a size of the result is beyond {}", kMost);
    first[d] = w.begin[d];
    size[d] = reach - w.begin[d] - w.end[d];
    if (wanted.empty() && !same) continue;
    size[d] = wanted.empty() ? in[d + 2] * w.strides[d] : wanted[d];
    int64_t over = std::max<int64_t>(reach - size[d], 0);
    first[d] = mode == "SAME_UPPER" ? over / 2 : over - over / 2;
    if (wanted.empty() || mode == "SAME_UPPER" || mode == "SAME_LOWER") continue;
    first[d] = over - over / 2;
  }
  Tensor out = cut(all, n, first, size);
  if (c.has(2)) out = op("add.Tensor", out, along_axis(c.in(2), 1, rank_of(out)));
  c.set(0, out);
}

// Columns [n, channels * block, windows] back to the image, where overlapping windows add up.
void col2im(OpCall& c) {
  auto image = c.numbers(1), block = c.numbers(2);
  size_t n = image.size();
  TOROID_USER_CHECK(n == block.size() && n >= 1 && n <= 2, "images of {} dimensions in blocks of {}; Toroid has those of 1 and 2", n,
                    block.size());
  auto list = [&](const char* name, size_t size, int64_t otherwise) {
    auto v = c.integers(name);
    if (v.empty()) v.assign(size, otherwise);
    TOROID_USER_CHECK(v.size() == size, "the attribute \"{}\" has {} numbers; {} are expected", name, v.size(), size);
    return v;
  };
  auto strides = list("strides", n, 1), dilations = list("dilations", n, 1), pads = list("pads", 2 * n, 0);
  std::vector<int64_t> none(2, 0), padded = image;
  for (size_t d = 0; d < n; ++d) padded[d] += pads[d] + pads[n + d];
  auto plane = [&](std::vector<int64_t> v, int64_t lead) {
    if (n == 1) v.insert(v.begin(), lead);
    return v;
  };
  Tensor out = op("col2im", c.in(0), plane(padded, 1), plane(block, 1), plane(dilations, 1), none, plane(strides, 1));
  Sizes widths;
  for (size_t d = n; d-- > 0;) {
    widths.push_back(-pads[d]);
    widths.push_back(-pads[n + d]);
  }
  out = op("constant_pad_nd", out, widths, 0);
  c.set(0, n == 2 ? out : op("squeeze.dims", out, std::vector<int64_t>{2}));
}

}  // namespace

void add_convolution_operators(Operators& t) {
  t.add("Conv", 1, conv);
  t.add("com.microsoft", "FusedConv", 1, fused_conv);
  t.add("ConvTranspose", 1, conv_transpose);
  t.add("Col2Im", 18, col2im);
}

}  // namespace toroid::import::onnx
