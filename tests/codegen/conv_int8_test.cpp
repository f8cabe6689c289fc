// Convolutions of whole numbers of 8 bits: sums are exact.
#include "codegen/cpu/templates/conv_int8.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "codegen/conv_shape.h"
#include "device/cpu/isa.h"
#include "template_harness.h"

namespace toroid::codegen {
namespace {

using test_shapes::shape;
using testing::AlignedFloats;

// A third of them the largest, a third the smallest.
int8_t element(int64_t i, uint32_t seed) {
  const uint32_t x = (static_cast<uint32_t>(i) * 2654435761u + seed * 40503u) * 1664525u + 1013904223u;
  return x >> 16 & 1 ? int8_t(x >> 24) : x >> 17 & 1 ? int8_t(127) : int8_t(-128);
}

struct Numbers {
  DType type = DType::U8;
  int64_t zero = 0;
  int64_t at(const int8_t* p) const { return (type == DType::U8 ? int64_t{static_cast<uint8_t>(*p)} : int64_t{*p}) - zero; }
};

int64_t reference(const ConvShape& s, const Numbers& numbers, const int8_t* x, const int8_t* oihw, int64_t image, int64_t o, int64_t p) {
  const int64_t in_group = s.channels / s.groups, base = o / (s.out_channels / s.groups) * in_group;
  int64_t sum = 0;
  for (int64_t i = 0; i < in_group; ++i)
    for (int64_t kh = 0; kh < s.kernel_h; ++kh)
      for (int64_t kw = 0; kw < s.kernel_w; ++kw) {
        const int64_t ih = p / s.out_w() * s.stride_h - s.pad_top + kh * s.dilation_h;
        const int64_t iw = p % s.out_w() * s.stride_w - s.pad_left + kw * s.dilation_w;
        if (ih < 0 || ih >= s.height || iw < 0 || iw >= s.width) continue;
        sum += numbers.at(x + ((image * s.height + ih) * s.width + iw) * s.channels + base + i) *
               oihw[((o * in_group + i) * s.kernel_h + kh) * s.kernel_w + kw];
      }
  return sum;
}

constexpr int64_t kImages = 2;

// Points of two images that differ from the definition. Depthwise shapes have a kernel of their own.
int64_t wrong(const ConvShape& s, const Numbers& numbers, int lanes = 16, const char* isa = "native", const ConvInt8Tile* tile = nullptr) {
  ConvConfig c;
  c.name = "conv";
  c.batch = kImages;
  c.shape = s, c.input = ConvInput::Nhwc, c.input_type = numbers.type, c.zero = numbers.zero, c.scratch_buffer = 3;
  c.repeatable_epilogue = s.out_channels % 2 == 0;
  const ConvInt8Tile t = tile ? *tile : choose_conv_int8_tile(s, lanes);
  c.tile = s.depthwise() ? choose_conv_tile(s, c.input, lanes) : ConvTile{.lanes = lanes};
  const int64_t pixels = s.out_h() * s.out_w(), taps = s.kernel_h * s.kernel_w, in_group = s.channels / s.groups;
  c.epilogue.declarations = fmt::format("int* restrict out = (int*)bufs[2] + image * {};", pixels * s.out_channels);
  c.epilogue.vector = fmt::format("*(t_vi32_unaligned*)(out + pixel * {} + oc) = acc;", s.out_channels);
  c.epilogue.scalar = fmt::format("out[pixel * {} + oc] = acc;", s.out_channels);
  const int64_t points = kImages * s.height * s.width * s.channels, weights = s.out_channels * in_group * taps;
  const int64_t bytes = s.depthwise() ? conv_packed_elements(c) * 4 : conv_int8_packed_bytes(s, t);
  const int64_t scratch_bytes = s.depthwise() ? 64 : conv_int8_scratch_bytes(s, t);
  AlignedFloats x(ceil_div(points, 4)), out(kImages * pixels * s.out_channels), packed(ceil_div(bytes, 4)), scratch(scratch_bytes / 2);
  auto* from = static_cast<int8_t*>(x.get());
  for (int64_t i = 0; i < points; ++i) from[i] = element(i, 1);
  std::vector<int8_t> oihw(static_cast<size_t>(weights)), ohwi(oihw);
  for (int64_t i = 0; i < weights; ++i) {
    oihw[static_cast<size_t>(i)] = element(i, 2);
    ohwi[static_cast<size_t>((i / (in_group * taps) * taps + i % taps) * in_group + i / taps % in_group)] = oihw[static_cast<size_t>(i)];
  }
  std::fill_n(static_cast<char*>(scratch.get()), 2 * scratch_bytes, char(-1));  // a fresh launch
  if (s.depthwise()) {
    pack_depthwise_weights(c, oihw.data(), static_cast<int32_t*>(packed.get()));
  } else {
    for (int64_t g = 0; g < s.groups; ++g) pack_conv_int8_weights(c, t, ohwi.data(), g, packed.get());
  }
  const int64_t tasks = s.depthwise() ? conv_task_count(c, nullptr) : kImages * conv_int8_task_count(s, t);
  testing::run_template(s.depthwise() ? conv_text(c) : conv_int8_text(c, t), c.name, lanes,
                        {x.get(), packed.get(), out.get(), scratch.get()}, nullptr, tasks, isa);
  const auto* got = static_cast<const int32_t*>(out.get());
  int64_t differ = 0;
  for (int64_t i = 0; i < kImages * pixels * s.out_channels; ++i)
    differ +=
        got[i] != reference(s, numbers, from, oihw.data(), i / s.out_channels / pixels, i % s.out_channels, i / s.out_channels % pixels);
  return differ;
}

TEST(ConvInt8, WindowsStridesAndBorders) {
  const Numbers u8{DType::U8, 131}, i8{DType::I8, -7};
  EXPECT_EQ(wrong(shape(8, 9, 7, 20, 3, 1, 1), u8), 0);
  EXPECT_EQ(wrong(shape(8, 9, 7, 20, 3, 1, 1), i8), 0);
  EXPECT_EQ(wrong(shape(12, 10, 11, 70, 3, 2, 1), u8), 0);
  EXPECT_EQ(wrong(shape(16, 5, 6, 33, 1, 2, 0), i8), 0);
  EXPECT_EQ(wrong(shape(4, 12, 9, 5, 3, 1, 2, 1, 2), u8), 0);
}

TEST(ConvInt8, ChannelsThatAreNoWholeFours) {
  EXPECT_EQ(wrong(shape(3, 15, 14, 24, 7, 2, 3), {DType::U8, 114}), 0);
  EXPECT_EQ(wrong(shape(3, 15, 14, 24, 7, 2, 3), {DType::I8, 0}), 0);
  EXPECT_EQ(wrong(shape(5, 6, 6, 16, 1, 1, 0), {DType::U8, 3}), 0);
}

TEST(ConvInt8, Groups) {
  EXPECT_EQ(wrong(shape(16, 6, 7, 40, 3, 1, 1, 2), {DType::U8, 9}), 0);
  EXPECT_EQ(wrong(shape(6, 6, 7, 10, 3, 2, 1, 2), {DType::I8, 9}), 0);
}

TEST(ConvInt8, AFilterAChannel) {
  for (int64_t channels : {16, 40})
    for (const Numbers& x : {Numbers{DType::U8, 128}, Numbers{DType::I8, 5}}) {
      EXPECT_EQ(wrong(shape(channels, 9, 20, channels, 3, 1, 1, channels), x), 0) << channels;
      EXPECT_EQ(wrong(shape(channels, 9, 9, channels, 5, 2, 2, channels), x), 0) << channels;
    }
}

TEST(ConvInt8, OnOtherProcessors) {
  const ConvShape shapes[] = {shape(8, 5, 6, 20, 3, 1, 1), shape(16, 5, 9, 16, 3, 1, 1, 16)};
  for (auto& s : shapes) {
    EXPECT_EQ(wrong(s, {DType::U8, 200}, 8, "scalar"), 0);
    if (device::host().isa >= device::Isa::Avx2) {
      EXPECT_EQ(wrong(s, {DType::I8, 20}, 8, "avx2"), 0);
    }
    if (device::host().isa >= device::Isa::Avx512) {
      EXPECT_EQ(wrong(s, {DType::U8, 20}, 16, "avx512"), 0);
    }
  }
}

TEST(ConvInt8, AllTiles) {
  const ConvShape s = shape(8, 7, 9, 40, 3, 1, 1);
  for (const ConvInt8Tile& t : other_conv_int8_tiles(s, 16)) {
    if (conv_int8_tile_refusal(s, t) != "") continue;
    EXPECT_EQ(wrong(s, {DType::U8, 77}, 16, "native", &t), 0) << t.pixels << "x" << t.vecs << " in tasks of " << t.block;
  }
  EXPECT_NE(conv_int8_tile_refusal(s, {.pixels = 16, .vecs = 2}), "");
}

}  // namespace
}  // namespace toroid::codegen
