// Convolutions of images with few channels, as first layers have them: a window's elements lie apart in memory, and tensor cores want many
// of them side by side. Pixels that one step passes over become one pixel of more channels (space to depth), padded to whole copies; as
// many of these in a row as make kTap elements are one tap, whose memory overlaps that of the next window's. A window of 7 x 7 that moves
// by 2 over 3 channels is 4 taps of 64 elements. What a tap has beyond the window meets weights of zero.
#include <fmt/format.h>

#include "base/check.h"
#include "lower/convolution.h"

namespace toroid::lower {

using loop::BodyBuilder;

namespace {

constexpr int64_t kTap = 64;  // elements

// How pixels are packed: [channel][row][column] of those that a step passes over.
struct Packing {
  int64_t pixel = 0, neighbours = 0;  // elements of a packed pixel; packed pixels of a tap
  int64_t taps_h = 0, taps_w = 0;     // of a window
  int64_t image_h = 0, image_w = 0;   // packed pixels of an image
  int64_t channels = 0, step_h = 0, step_w = 0;

  int64_t used() const { return channels * step_h * step_w; }  // elements of a packed pixel that are no padding
};

int64_t ceil_of(int64_t a, int64_t b) { return (a + b - 1) / b; }

std::optional<Packing> packing_of(const Lowering& l, const program::Convolution& f, DType dtype) {
  constexpr int64_t kMostChannels = 4, kMostWaste = 4, kResultsOfWorker = 256;
  const auto out_h = f.out_h.maybe_constant(), out_w = f.out_w.maybe_constant();
  if (!l.facts().copies_pieces || !is_half(dtype) || f.in_channels > kMostChannels || f.groups != 1 || f.dilation_h != 1 ||
      f.dilation_w != 1 || !out_h || !out_w)
    return {};
  if (f.kernel_h <= f.stride_h && f.kernel_w <= f.stride_w) return {};  // windows do not overlap: they are pixels already
  if (!sym::known_ge(f.n * f.out_h * f.out_w, kResultsOfWorker * l.facts().workers)) return {};
  Packing p{.channels = f.in_channels, .step_h = f.stride_h, .step_w = f.stride_w};
  constexpr int64_t kAligned = 8;
  for (p.pixel = kAligned; p.pixel < p.used();) p.pixel *= 2;
  if (p.pixel > kTap) return {};
  p.neighbours = kTap / p.pixel;
  p.taps_h = ceil_of(f.kernel_h, f.stride_h);
  p.taps_w = ceil_of(ceil_of(f.kernel_w, f.stride_w), p.neighbours);
  p.image_h = *out_h + p.taps_h - 1;
  p.image_w = *out_w + p.taps_w * p.neighbours - 1;
  if (p.taps_h * p.taps_w * kTap > kMostWaste * f.in_channels * f.kernel_h * f.kernel_w) return {};
  return p;
}

// Where the element `at` of a packed pixel is in the image: the channel, and row and column of those that a step passes over.
struct InPixel {
  InPixel(const Packing& p, const Expr& at)
      : channel(sym::floor_div(at, p.step_h * p.step_w)),
        row(sym::mod(sym::floor_div(at, p.step_w), p.step_h)),
        column(sym::mod(at, p.step_w)) {}
  Expr channel, row, column;
};

// The images as [image][row][column][element of a packed pixel].
int packed_images(Lowering& l, const graph::Value* images, const program::Convolution& f, const Packing& p) {
  const std::string what = fmt::format("pixels of {} x {} and {} x {}", p.step_h, p.step_w, f.pad_h, f.pad_w) +
                           fmt::format(" in {} x {} x {}", p.image_h, p.image_w, p.pixel);
  return l.shared_buffer(images, what, [&] {
    if (!l.value(images).place && l.value(images).work > 2) l.realize(images);
    const Lazy x = l.value(images);
    const std::vector<Expr> sizes = {f.n, p.image_h, p.image_w, p.pixel};
    const Place packed = l.allocate(images->name, {x.dtype, sizes, {}});
    l.fill(
        packed, x.dtype, sizes,
        [&](BodyBuilder& b, const Index& at) {
          const InPixel in(p, at[3]);
          const Expr row = at[1] * Expr(p.step_h) + in.row - Expr(f.pad_h), column = at[2] * Expr(p.step_w) + in.column - Expr(f.pad_w);
          return read_inside(b, x, {at[0], in.channel, row, column}, {{at[3], p.used()}, {row, f.in_h}, {column, f.in_w}});
        },
        images);
    return packed.buffer;
  });
}

// The convolution of packed images; no buffers yet.
program::Convolution packed_convolution(const program::Convolution& f, const Packing& p, DType dtype) {
  program::Convolution c = f;
  c.in_channels = kTap;
  c.kernel_h = p.taps_h, c.kernel_w = p.taps_w;
  c.stride_h = c.stride_w = 1;
  c.pad_h = c.pad_w = 0;
  c.dilation_h = 1, c.dilation_w = p.neighbours;
  c.in_h = p.image_h, c.in_w = p.image_w - p.neighbours + 1;
  const int64_t row = p.image_w * p.pixel;
  c.input = {-1, dtype, 0, {p.image_h * row, 1, row, p.pixel}};
  c.weight = {-1, dtype, 0, channels_last({f.out_channels, kTap, p.taps_h, p.taps_w})};
  return c;
}

// The weights as [result][tap row][tap column][element of a tap], zeros where a tap has no weight.
int packed_weight(Lowering& l, const graph::Value* weight, const program::Convolution& f, const Packing& p) {
  const Lazy w = l.value(weight);
  const std::vector<Expr> sizes = {f.out_channels, p.taps_h, p.taps_w, kTap};
  const Place packed = l.allocate(weight->name, {w.dtype, sizes, {}});
  l.fill(
      packed, w.dtype, sizes,
      [&](BodyBuilder& b, const Index& at) {
        const Expr of_pixel = sym::mod(at[3], p.pixel);
        const InPixel in(p, of_pixel);
        const Expr row = at[1] * Expr(p.step_h) + in.row,
                   column = (at[2] * Expr(p.neighbours) + sym::floor_div(at[3], p.pixel)) * Expr(p.step_w) + in.column;
        return read_inside(b, w, {at[0], in.channel, row, column}, {{of_pixel, p.used()}, {row, f.kernel_h}, {column, f.kernel_w}});
      },
      weight);
  return packed.buffer;
}

// The same of constants, which is done when the program is compiled.
int packed_constant(Lowering& l, const program::Convolution& f, const Packing& p, DType dtype) {
  const int64_t tap_row = p.taps_w * kTap, result = p.taps_h * tap_row;
  program::Rearranged packed;
  packed.buffer = l.program().new_buffer("weight_of_packed_pixels", dtype, f.out_channels * result, loop::BufferKind::Constant);
  const auto& s = f.weight.strides;
  for (int64_t row = 0; row < p.step_h; ++row)
    for (int64_t column = 0; column < f.kernel_w; ++column) {
      if (row >= f.kernel_h) continue;
      program::Rearranged::Part part;
      part.from = f.weight;
      part.from.offset = f.weight.offset + Expr(row) * s[2] + Expr(column) * s[3];
      part.from.strides = {s[0], s[1], Expr(p.step_h) * s[2]};
      part.sizes = {f.out_channels, f.in_channels, ceil_of(f.kernel_h - row, p.step_h)};
      part.strides = {result, p.step_h * p.step_w, tap_row};
      const int64_t pixel = column / p.step_w;
      part.offset = pixel / p.neighbours * kTap + pixel % p.neighbours * p.pixel + row * p.step_w + column % p.step_w;
      packed.parts.push_back(std::move(part));
    }
  l.program().rearranged.push_back(packed);
  return packed.buffer;
}

}  // namespace

bool lower_packed_pixels(Lowering& l, const graph::Node& n, const program::Convolution& f, bool constant_weight) {
  const graph::Value *images = std::get<graph::Value*>(n.args[0]), *weight = std::get<graph::Value*>(n.args[1]);
  const DType dtype = n.results[0]->type.dtype;
  const auto p = packing_of(l, f, dtype);
  if (!p) return false;
  bool known = f.weight.offset.is_const();
  for (auto& s : f.weight.strides) known = known && s.is_const();
  if (constant_weight && !known) return false;
  program::Convolution c = packed_convolution(f, *p, dtype);
  if (!l.takes(c, constant_weight)) return false;
  c.input.buffer = packed_images(l, images, f, *p);
  c.weight.buffer = constant_weight ? packed_constant(l, f, *p, dtype) : packed_weight(l, weight, f, *p);
  const auto* bias = std::get_if<graph::Value*>(&n.args[2]);
  define_template_result(l, n, append_convolution(l, n, c, bias ? *bias : nullptr, dtype));
  return true;
}

bool lower_packed_pixels_gradient(Lowering& l, const graph::Node& n, const program::Convolution& f) {
  const graph::Value *images = std::get<graph::Value*>(n.args[0]), *slope = std::get<graph::Value*>(n.args[2]);
  const TensorType& type = n.results[0]->type;
  const auto packing = packing_of(l, f, type.dtype);
  if (!packing) return false;
  const Packing p = *packing;
  const program::Convolution packed = packed_convolution(f, p, type.dtype);
  auto c = gradient_of_weights(packed, type.dtype);
  if (!c) return false;
  c->input.strides = {packed.input.strides[1], packed.input.strides[0], packed.input.strides[2], packed.input.strides[3]};
  if (!l.takes(*c)) return false;
  c->input.buffer = packed_images(l, images, f, p);
  c->weight = images_as_channels(l, slope);
  const Place made = append_convolution(l, n, *c, nullptr, type.dtype);  // [element of a tap, result, tap row, tap column]
  const Lazy taps = l.at_place({type.dtype, {Expr(kTap), f.out_channels, p.taps_h, p.taps_w}, {}}, made);
  Lazy lazy;
  lazy.dtype = type.dtype;
  lazy.sizes = type.sizes;
  lazy.at = [taps, p](BodyBuilder& b, const Index& at) {
    const Expr pixel = sym::floor_div(at[3], p.step_w);
    const Expr element = sym::mod(pixel, p.neighbours) * Expr(p.pixel) +
                         (at[1] * Expr(p.step_h) + sym::mod(at[2], p.step_h)) * Expr(p.step_w) + sym::mod(at[3], p.step_w);
    return taps.at(b, {element, at[0], sym::floor_div(at[2], p.step_h), sym::floor_div(pixel, p.neighbours)});
  };
  l.define(n.results[0], std::move(lazy));
  return true;
}

}  // namespace toroid::lower
