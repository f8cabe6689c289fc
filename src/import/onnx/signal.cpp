// Fourier transforms, windows, and filters of hearing.
#include <cmath>
#include <cstdint>
#include <numbers>

#include "base/check.h"
#include "import/onnx/operators.h"
#include "import/onnx/tensors.h"

namespace toroid::import::onnx {
namespace {

constexpr int64_t kMostElements = 1 << 24;  // of a table that is computed while importing

DType result_dtype(OpCall& c) { return need_dtype(static_cast<int32_t>(c.integer("output_datatype", kFloat)), "the result"); }

// a0 - a1 cos(2 pi n / N) + a2 cos(4 pi n / N)
void window(OpCall& c, double a0, double a1, double a2) {
  int64_t size = c.number(0);
  TOROID_USER_CHECK(size >= 0 && size <= kMostElements, "a window of {} elements", size);
  int64_t period = c.integer("periodic", 1) ? size : size - 1;
  std::vector<double> v;
  for (int64_t n = 0; n < size; ++n) {
    double t = 2 * std::numbers::pi * static_cast<double>(n) / static_cast<double>(period);
    v.push_back(a0 - a1 * std::cos(t) + a2 * std::cos(2 * t));
  }
  c.set(0, Tensor::of(v, std::vector<int64_t>{size}, result_dtype(c)));
}

// [..., n, 1] or [..., n, 2] as complex numbers [..., n].
Tensor complex_of(const Tensor& x) {
  Sizes s = sizes_of(x);
  Tensor pairs = x;
  if (s.back() == Expr(1)) pairs = op("constant_pad_nd", x, Sizes{0, 1}, 0);
  TOROID_USER_CHECK(s.back() == Expr(1) || s.back() == Expr(2), "the last dimension has size {}; 1 is for real numbers, 2 for complex ones",
                    sym::to_string(s.back()));
  return op("view_as_complex", op("contiguous", pairs));
}

// Cut or filled with zeros to `length`, transformed along `axis`.
Tensor transformed(Tensor x, int64_t axis, const Expr& length, bool inverse, bool onesided) {
  Expr size = sizes_of(x)[static_cast<size_t>(axis)];
  if (!(length == size)) {
    Sizes widths(2 * static_cast<size_t>(rank_of(x) - axis), 0);
    widths.back() = length - size;
    x = op("constant_pad_nd", x, widths, 0);
  }
  constexpr int64_t kPlain = 0, kByLength = 2;
  Tensor out = op("_fft_c2c", complex_of(x), std::vector<int64_t>{axis}, inverse ? kByLength : kPlain, !inverse);
  if (onesided) out = op("slice.Tensor", out, axis, 0, sym::floor_div(length, 2) + 1);
  return op("view_as_real", out);
}

void dft(OpCall& c) {
  Tensor x = c.in(0);
  int64_t axis = c.version() < 20 ? c.integer("axis", 1) : c.has(2) ? c.number(2) : -2;
  axis = normal_axis(axis, rank_of(x));
  Expr length = c.has(1) ? c.size(1) : sizes_of(x)[static_cast<size_t>(axis)];
  bool inverse = c.integer("inverse", 0) != 0, onesided = c.integer("onesided", 0) != 0;
  if (!inverse || !onesided) return c.set(0, transformed(x, axis, length, inverse, onesided));
  // Half a spectrum gives a signal of real numbers, of which there are `length`.
  if (!c.has(1)) length = (length - 1) * 2;
  constexpr int64_t kByLength = 2;
  c.set(0, op("unsqueeze", op("_fft_c2r", complex_of(x), std::vector<int64_t>{axis}, kByLength, length), -1));
}

void stft(OpCall& c) {
  Tensor x = c.in(0);  // [batch, n, 1 or 2]
  Sizes s = sizes_of(x);
  TOROID_USER_CHECK(s.size() == 3, "a signal of 3 dimensions is expected, this one has {}", s.size());
  int64_t step = c.number(1);
  int64_t length = c.has(3) ? c.number(3) : known_size(numel_of(c.in(2)), "the size of the window");
  TOROID_USER_CHECK(step > 0 && length > 0, "frames of {} with a step of {}", length, step);
  Expr frames = sym::floor_div(s[1] - length, step) + 1;
  // places[f, i] = f * step + i
  Tensor starts = op("mul.Tensor", op("arange", frames, DType::I64), step);
  Tensor places = op("add.Tensor", reshape(starts, {frames, 1}), op("arange", Expr(length), DType::I64));
  Tensor cut = op("index.Tensor", x, std::vector<Tensor>{Tensor(), places});  // [batch, frames, length, 1 or 2]
  if (c.has(2)) cut = op("mul.Tensor", cut, reshape(c.in(2), {length, 1}));
  c.set(0, transformed(cut, 2, length, false, c.integer("onesided", 1) != 0));
}

// Triangles, equally wide on the scale of mel, over the bins of a spectrum.
void mel_weights(OpCall& c) {
  int64_t bins = c.number(0), length = c.number(1), rate = c.number(2);
  double low = c.real_number(3), high = c.real_number(4);
  TOROID_USER_CHECK(bins > 0 && bins <= kMostElements && length > 0 && length < INT64_MAX && rate > 0,
                    "{} bands over a transform of {} at {} samples a second", bins, length, rate);
  auto mel = [](double hz) { return 2595 * std::log10(1 + hz / 700); };
  double first = mel(low), step = (mel(high) - first) / static_cast<double>(bins + 2);
  std::vector<int64_t> edges;
  for (int64_t i = 0; i < bins + 2; ++i) {
    double hz = 700 * (std::pow(10, (first + step * static_cast<double>(i)) / 2595) - 1);
    edges.push_back(whole_number(std::floor(static_cast<double>(length + 1) * hz / static_cast<double>(rate))));
  }
  int64_t rows = length / 2 + 1;
  TOROID_USER_CHECK(rows <= kMostElements / bins, "{} bands over a transform of {} are more than fit a table", bins, length);
  std::vector<double> v(static_cast<size_t>(rows * bins), 0);
  auto at = [&](int64_t row, int64_t band) -> double& { return v[static_cast<size_t>(row * bins + band)]; };
  for (int64_t i = 0; i < bins; ++i) {
    int64_t from = edges[static_cast<size_t>(i)], top = edges[static_cast<size_t>(i + 1)], to = edges[static_cast<size_t>(i + 2)];
    if (top == from && top < rows) at(top, i) = 1;
    for (int64_t j = from; j <= top && j < rows && top > from; ++j)
      at(j, i) = static_cast<double>(j - from) / static_cast<double>(top - from);
    for (int64_t j = top; j < to && j < rows; ++j) at(j, i) = static_cast<double>(to - j) / static_cast<double>(to - top);
  }
  c.set(0, Tensor::of(v, std::vector<int64_t>{rows, bins}, result_dtype(c)));
}

}  // namespace

void add_signal_operators(Operators& t) {
  t.add("HannWindow", 17, [](OpCall& c) { window(c, 0.5, 0.5, 0); });
  t.add("HammingWindow", 17, [](OpCall& c) { window(c, 25.0 / 46, 21.0 / 46, 0); });
  t.add("BlackmanWindow", 17, [](OpCall& c) { window(c, 0.42, 0.5, 0.08); });
  t.add("DFT", 17, dft);
  t.add("STFT", 17, stft);
  t.add("MelWeightMatrix", 17, mel_weights);
}

}  // namespace toroid::import::onnx
