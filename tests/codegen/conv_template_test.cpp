#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstring>

#include "codegen/conv_shape.h"
#include "codegen/cpu/templates/conv_winograd.h"
#include "template_harness.h"

namespace toroid::codegen {
namespace {

using test_shapes::shape;
using testing::AlignedFloats;
using testing::FloatsBeforeAWall;
using testing::values;

double reference(const ConvShape& s, AlignedFloats& x, AlignedFloats& w, int64_t image, int64_t o, int64_t oh, int64_t ow) {
  const int64_t in_group = s.channels / s.groups, base = o / (s.out_channels / s.groups) * in_group;
  double sum = 0;
  for (int64_t i = 0; i < in_group; ++i) {
    for (int64_t kh = 0; kh < s.kernel_h; ++kh) {
      for (int64_t kw = 0; kw < s.kernel_w; ++kw) {
        const int64_t ih = oh * s.stride_h - s.pad_top + kh * s.dilation_h, iw = ow * s.stride_w - s.pad_left + kw * s.dilation_w;
        if (ih < 0 || ih >= s.height || iw < 0 || iw >= s.width) continue;
        sum += double(x[((image * s.channels + base + i) * s.height + ih) * s.width + iw]) *
               w[((o * in_group + i) * s.kernel_h + kh) * s.kernel_w + kw];
      }
    }
  }
  return sum;
}

// The weights as they lie where they are no constants: behind an offset, with NaN between output channels, and a wall behind the last one.
std::unique_ptr<FloatsBeforeAWall> weights_in_place(ConvConfig& c, ConvWeights order, AlignedFloats& oihw) {
  const int64_t in = c.shape.channels / c.shape.groups, taps = c.shape.kernel_h * c.shape.kernel_w, length = in * taps;
  c.weights = order, c.weight_stride = length + 3, c.weight_offset = 5;
  const int64_t floats = c.weight_offset + (c.shape.out_channels - 1) * c.weight_stride + length;
  auto out = std::make_unique<FloatsBeforeAWall>(floats);
  for (int64_t i = 0; i < floats; ++i) (*out)[i] = NAN;
  for (int64_t i = 0; i < c.shape.out_channels * length; ++i) {
    const int64_t channel = i % length / taps, tap = i % taps;
    (*out)[c.weight_offset + i / length * c.weight_stride + (order == ConvWeights::Oihw ? i % length : tap * in + channel)] = oihw[i];
  }
  return out;
}

// Runs the kernel on NCHW data given in `input`'s layout, output stored as NHWC, and compares with the definition.
void expect_right(const ConvShape& s, ConvInput input, int lanes, const ConvTile* tile = nullptr, bool repeatable = false) {
  constexpr int64_t kImages = 2;
  ConvConfig c;
  c.name = "conv";
  c.batch = Extent::at(0);
  c.shape = s, c.input = input, c.scratch_buffer = 3, c.repeatable_epilogue = repeatable;
  c.tile = tile ? *tile : choose_conv_tile(s, input, lanes);
  const int64_t plane = s.height * s.width, pixels = s.out_h() * s.out_w(), blocks = ceil_div(s.channels, lanes);
  c.epilogue.declarations = fmt::format("float* restrict out = (float*)bufs[2] + image * {};", pixels * s.out_channels);
  c.epilogue.vector = fmt::format("t_store(out + pixel * {} + oc, acc);", s.out_channels);
  c.epilogue.scalar = fmt::format("out[pixel * {} + oc] = acc;", s.out_channels);
  AlignedFloats x = values(kImages * s.channels * plane, 1),
                w = values(s.out_channels * s.channels / s.groups * s.kernel_h * s.kernel_w, 2);
  AlignedFloats in(kImages * blocks * lanes * plane), packed(conv_packed_elements(c));
  pack_conv_weights(c, &w[0], &packed[0]);
  for (int64_t i = 0; i < kImages * s.channels * plane; ++i) {
    const int64_t image = i / plane / s.channels, channel = i / plane % s.channels, p = i % plane;
    if (input == ConvInput::Nchw) in[i] = x[i];
    if (input == ConvInput::Nhwc) in[(image * plane + p) * s.channels + channel] = x[i];
  }
  if (input == ConvInput::Blocked) {
    testing::run_template(nchw_to_blocked_text("reorder", s.channels, plane, lanes), "reorder", lanes, {x.get(), in.get()}, nullptr,
                          kImages * blocks);
  }
  for (ConvWeights order : {ConvWeights::Packed, ConvWeights::Oihw, ConvWeights::Ohwi}) {
    if (order != ConvWeights::Packed && input == ConvInput::Blocked) continue;  // whose channels may be padded
    std::unique_ptr<FloatsBeforeAWall> lying;
    if (order != ConvWeights::Packed) lying = weights_in_place(c, order, w);
    AlignedFloats out(kImages * pixels * s.out_channels), scratch(2 * conv_scratch_bytes(c) / 4);
    std::memset(scratch.get(), 0xff, static_cast<size_t>(2 * conv_scratch_bytes(c)));  // a fresh launch
    const int64_t params[] = {kImages};
    testing::run_template(conv_text(c), c.name, lanes, {in.get(), lying ? lying->get() : packed.get(), out.get(), scratch.get()}, params,
                          conv_task_count(c, params));
    for (int64_t image = 0; image < kImages; ++image) {
      for (int64_t o = 0; o < s.out_channels; ++o) {
        for (int64_t p = 0; p < pixels; ++p) {
          ASSERT_NEAR(out[(image * pixels + p) * s.out_channels + o], reference(s, x, w, image, o, p / s.out_w(), p % s.out_w()), 1e-4)
              << "weights " << static_cast<int>(order) << " image " << image << " channel " << o << " pixel " << p;
        }
      }
    }
  }
}

// The same for Winograd's kernel, on NHWC data.
void expect_winograd_right(const ConvShape& s, int lanes, const WinogradTile& tile, bool repeatable = false) {
  constexpr int64_t kImages = 2;
  ConvConfig c;
  c.name = "conv";
  c.batch = Extent::at(0);
  c.shape = s, c.input = ConvInput::Nhwc, c.scratch_buffer = 3, c.repeatable_epilogue = repeatable;
  c.tile.lanes = lanes;
  const int64_t plane = s.height * s.width, pixels = s.out_h() * s.out_w();
  c.epilogue.declarations = fmt::format("float* restrict out = (float*)bufs[2] + image * {};", pixels * s.out_channels);
  c.epilogue.vector = fmt::format("t_store(out + pixel * {} + oc, acc);", s.out_channels);
  c.epilogue.scalar = fmt::format("out[pixel * {} + oc] = acc;", s.out_channels);
  AlignedFloats x = values(kImages * s.channels * plane, 1), w = values(s.out_channels * s.channels * 9, 2);
  AlignedFloats in(kImages * s.channels * plane), out(kImages * pixels * s.out_channels), packed(winograd_packed_elements(s, tile));
  AlignedFloats scratch(2 * winograd_scratch_bytes(s, tile) / 4);
  for (int64_t job = 0; job < winograd_pack_jobs(s, tile); ++job) pack_winograd_weights(s, tile, &w[0], &packed[0], job, job + 1);
  for (int64_t i = 0; i < kImages * s.channels * plane; ++i)
    in[(i / plane / s.channels * plane + i % plane) * s.channels + i / plane % s.channels] = x[i];
  const int64_t params[] = {kImages};
  testing::run_template(winograd_text(c, tile), c.name, lanes, {in.get(), packed.get(), out.get(), scratch.get()}, params,
                        kImages * winograd_task_count(s, tile));
  for (int64_t image = 0; image < kImages; ++image)
    for (int64_t o = 0; o < s.out_channels; ++o)
      for (int64_t p = 0; p < pixels; ++p)
        ASSERT_NEAR(out[(image * pixels + p) * s.out_channels + o], reference(s, x, w, image, o, p / s.out_w(), p % s.out_w()), 1e-4)
            << "image " << image << " channel " << o << " pixel " << p;
}

class ConvLayouts : public ::testing::TestWithParam<ConvInput> {};

TEST_P(ConvLayouts, OddShapes) {
  for (int lanes : {8, 16}) {
    expect_right(shape(3, 11, 13, 20, 3, 1, 1), GetParam(), lanes);
    expect_right(shape(3, 17, 15, 16, 7, 2, 3), GetParam(), lanes);
    expect_right(shape(32, 7, 7, 24, 1, 1, 0), GetParam(), lanes);
    expect_right(shape(20, 9, 9, 16, 3, 2, 2, 1, 2), GetParam(), lanes);
    expect_right(shape(16, 2, 2, 16, 5, 1, 2), GetParam(), lanes);
  }
}

INSTANTIATE_TEST_SUITE_P(ConvTemplate, ConvLayouts, ::testing::Values(ConvInput::Blocked, ConvInput::Nhwc, ConvInput::Nchw));

TEST(ConvTemplate, PartialSumsAcrossChannelBlocks) {
  const ConvShape s = shape(64, 6, 20, 40, 3, 1, 1);
  ConvTile tile = choose_conv_tile(s, ConvInput::Blocked, 16);
  tile.block_c = 3;
  tile.block_rows = 4;
  tile.channels_inner = !tile.channels_inner;
  expect_right(s, ConvInput::Blocked, 16, &tile);
}

TEST(ConvTemplate, GroupsOfWholeVectors) { expect_right(shape(32, 5, 6, 48, 3, 1, 1, 2), ConvInput::Nhwc, 8); }

TEST(ConvTemplate, GroupsOfAnyNumberOfChannels) {
  for (bool repeatable : {false, true}) {
    expect_right(shape(3 * 34, 5, 6, 3 * 34, 1, 1, 0, 3), ConvInput::Nhwc, 16, nullptr, repeatable);
    expect_right(shape(2 * 6, 7, 5, 2 * 28, 1, 1, 0, 2), ConvInput::Nhwc, 16, nullptr, repeatable);
    expect_right(shape(4 * 5, 7, 5, 4 * 3, 3, 2, 1, 4), ConvInput::Nhwc, 8, nullptr, repeatable);
    expect_right(shape(2 * 16, 4, 5, 2 * 20, 3, 1, 1, 2), ConvInput::Nhwc, 8, nullptr, repeatable);
  }
  EXPECT_FALSE(conv_direct_supported(shape(8, 5, 5, 8, 1, 1, 0, 4), ConvInput::Nhwc, 16)) << "loops along pixels";
}

TEST(ConvTemplate, Depthwise) {
  for (ConvInput input : {ConvInput::Blocked, ConvInput::Nhwc}) {
    expect_right(shape(32, 9, 8, 32, 3, 1, 1, 32), input, 16);
    expect_right(shape(16, 9, 8, 16, 5, 2, 2, 16), input, 8);
  }
  expect_right(shape(40, 9, 8, 40, 3, 1, 1, 40), ConvInput::Blocked, 16);
}

TEST(ConvTemplate, RaggedChannelsOverlapOrGoOneByOne) {
  for (bool repeatable : {false, true}) {
    expect_right(shape(40, 9, 8, 40, 3, 1, 1, 40), ConvInput::Nhwc, 16, nullptr, repeatable);
    expect_right(shape(19, 7, 9, 19, 5, 2, 2, 19), ConvInput::Nhwc, 16, nullptr, repeatable);
    expect_right(shape(13, 6, 5, 13, 3, 1, 1, 13), ConvInput::Nhwc, 8, nullptr, repeatable);
    expect_right(shape(24, 5, 6, 21, 1, 1, 0), ConvInput::Nhwc, 16, nullptr, repeatable);
    expect_right(shape(24, 5, 6, 7, 3, 1, 1), ConvInput::Nhwc, 16, nullptr, repeatable);
  }
}

TEST(Winograd, OddSizesPaddingAndRaggedChannels) {
  for (int lanes : {8, 16})
    for (bool repeatable : {false, true}) {
      const auto check = [&](const ConvShape& s) { expect_winograd_right(s, lanes, choose_winograd_tile(s, lanes), repeatable); };
      check(shape(16, 8, 6, 32, 3, 1, 1));
      check(shape(32, 7, 9, 40, 3, 1, 0));
      check(shape(16, 5, 4, 21, 3, 1, 2));
      check(shape(16, 3, 3, 5, 3, 1, 0));
    }
}

TEST(Winograd, TasksOfRowsAndTilesOfChannels) {
  const ConvShape s = shape(16, 22, 13, 90, 3, 1, 1);
  for (int64_t rows : {1, 4, 11})
    for (int64_t channels : {1, 2}) expect_winograd_right(s, 8, {.lanes = 8, .squares = 5, .vecs = 2, .rows = rows, .channels = channels});
}

TEST(Winograd, TakesWhatItComputesFaster) {
  EXPECT_EQ(winograd_refusal(shape(64, 56, 56, 64, 3, 1, 1), ConvInput::Nhwc, 16), "");
  EXPECT_EQ(winograd_reluctance(shape(64, 56, 56, 64, 3, 1, 1)), "");
  EXPECT_NE(winograd_reluctance(shape(16, 56, 56, 16, 3, 1, 1)), "") << "few channels: transforming them is most of the work";
  EXPECT_NE(winograd_reluctance(shape(512, 3, 3, 512, 3, 1, 1)), "") << "few squares: their weights would be more to read";
  EXPECT_NE(winograd_refusal(shape(64, 56, 56, 64, 3, 2, 1), ConvInput::Nhwc, 16), "") << "steps of 2";
  EXPECT_NE(winograd_refusal(shape(64, 56, 56, 64, 3, 1, 1, 2), ConvInput::Nhwc, 16), "") << "groups";
  EXPECT_NE(winograd_refusal(shape(64, 56, 56, 64, 3, 1, 2, 1, 2), ConvInput::Nhwc, 16), "") << "dilation";
  EXPECT_NE(winograd_refusal(shape(20, 56, 56, 64, 3, 1, 1), ConvInput::Nhwc, 16), "") << "parts of vectors";
}

TEST(ConvTemplate, PackingInPartsIsTheSame) {
  ConvConfig c;
  c.shape = shape(40, 4, 4, 70, 3, 1, 1), c.input = ConvInput::Nhwc;
  c.tile = choose_conv_tile(c.shape, c.input, 16);
  c.tile.vecs = 2;
  AlignedFloats w = values(70 * 40 * 9, 4), whole(conv_packed_elements(c)), parts(conv_packed_elements(c));
  pack_conv_weights(c, &w[0], &whole[0]);
  ASSERT_GT(conv_pack_jobs(c), 1);
  for (int64_t job = 0; job < conv_pack_jobs(c); ++job) pack_conv_weights(c, &w[0], &parts[0], job, job + 1);
  for (int64_t i = 0; i < whole.size; ++i) ASSERT_EQ(whole[i], parts[i]) << i;
}

TEST(ConvTemplate, BlockedReorderRoundTrip) {
  const int64_t channels = 21, pixels = 19;
  AlignedFloats x = values(2 * channels * pixels, 3), blocked(2 * 32 * pixels), back(2 * channels * pixels);
  testing::run_template(nchw_to_blocked_text("to", channels, pixels, 16), "to", 16, {x.get(), blocked.get()}, nullptr, 4);
  testing::run_template(blocked_to_nchw_text("from", channels, pixels, 16), "from", 16, {blocked.get(), back.get()}, nullptr, 4);
  for (int64_t i = 0; i < x.size; ++i) ASSERT_EQ(x[i], back[i]) << i;
}

}  // namespace
}  // namespace toroid::codegen
