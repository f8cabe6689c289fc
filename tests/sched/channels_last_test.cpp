// Convolutions that read a copy with other channels.
#include "sched/channels_last.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "errors.h"

namespace toroid::sched {
namespace {

using Kind = loop::BufferKind;
using Strides = std::vector<Expr>;
using Texts = std::vector<std::string>;

constexpr int64_t kSize = 14;

// Buffers: 0 the input, 1 the weight, 2 the result. 3 x 3, padded.
program::Program convolution(int64_t channels, bool channels_last, DType dtype, int64_t groups = 1, Kind weight = Kind::Constant) {
  program::Program p;
  program::Convolution c;
  c.n = 2, c.groups = groups, c.in_channels = channels, c.out_channels = 32;
  c.in_h = c.in_w = c.out_h = c.out_w = kSize;
  c.kernel_h = c.kernel_w = 3, c.pad_h = c.pad_w = 1;
  p.new_buffer("input", dtype, 2 * channels * kSize * kSize, Kind::Input);
  p.new_buffer("weight", dtype, 32 * channels / groups * 9, weight);
  p.new_buffer("out", dtype, 2 * 32 * kSize * kSize, Kind::Output);
  const int64_t plane = kSize * kSize;
  c.input = {0, dtype, 0,
             channels_last ? Strides{plane * channels, 1, kSize * channels, channels} : Strides{channels * plane, plane, kSize, 1}};
  c.weight = {1, dtype, 0, {channels / groups * 9, 9, 3, 1}};
  program::Node node;
  node.problem = c;
  const loop::Nest nest = loop::parse(fmt::format(
      "loop (n: 2, c: 32, h: 14, w: 14) {{\n v0: f32 = accumulate\n v1: {} = Cast v0\n store %2 [n*6272 + h*448 + w*32 + c] v1\n}}",
      name_of(dtype)));
  node.domain = nest.domain, node.body = nest.body;
  node.parts = {0};
  p.nodes = {node};
  return p;
}

Texts texts(const std::vector<program::Config>& ways) {
  Texts out;
  for (auto& w : ways) out.push_back(program::to_string(w));
  return out;
}
Texts on_gpu(const program::Program& p) { return texts(gpu_channels_last(p.nodes[0], p)); }

TEST(ChannelsLast, IsForInputsThatTemplatesReadBadly) {
  const DType half = DType::BF16;
  EXPECT_EQ(on_gpu(convolution(3, false, half)), Texts()) << "nearly three times as many channels";
  EXPECT_EQ(on_gpu(convolution(64, false, half)), Texts({"channels_last(multiple=8)"}));
  EXPECT_EQ(on_gpu(convolution(3, true, DType::F32)), Texts({"channels_last(multiple=4)"}));
  EXPECT_EQ(on_gpu(convolution(48, true, half)), Texts({"channels_last(multiple=64)"}));
  EXPECT_EQ(on_gpu(convolution(60, true, half)), Texts({"channels_last(multiple=8)", "channels_last(multiple=64)"}));
  EXPECT_EQ(on_gpu(convolution(64, true, half)), Texts());
  EXPECT_EQ(on_gpu(convolution(16, true, half)), Texts()) << "four times as many channels";
  EXPECT_EQ(on_gpu(convolution(12, true, half, 4)), Texts()) << "groups";
  EXPECT_EQ(on_gpu(convolution(60, true, half, 1, Kind::Input)), Texts()) << "a weight that only the run knows";
}

TEST(ChannelsLast, PixelsByThemselvesAreProducts) {
  program::Program p = convolution(60, true, DType::BF16);
  auto& c = std::get<program::Convolution>(p.nodes[0].problem);
  c.kernel_h = c.kernel_w = 1, c.pad_h = c.pad_w = 0;
  EXPECT_EQ(on_gpu(p), Texts());
}

TEST(ChannelsLast, ZerosAreChannelsToo) {
  program::Program p = convolution(3, false, DType::BF16);
  channels_last(p, 0, {"channels_last", {{"multiple", 8}}});
  ASSERT_EQ(p.nodes.size(), 2u);
  const auto& c = std::get<program::Convolution>(p.nodes[1].problem);
  EXPECT_EQ(c.in_channels, 8);
  EXPECT_EQ(c.input.strides, Strides({kSize * kSize * 8, 1, kSize * 8, 8}));
  EXPECT_EQ(c.weight.strides, Strides({72, 1, 24, 8}));
  ASSERT_EQ(p.rearranged.size(), 1u);
  EXPECT_EQ(p.rearranged[0].buffer, c.weight.buffer);
  EXPECT_EQ(program::writes(p.nodes[0]), std::vector<int>{c.input.buffer});
  loop::verify(p.nodes[0].domain, p.nodes[0].body, "channels_last");
}

TEST(ChannelsLast, WhatDoesNotApplySaysWhy) {
  program::Program p = convolution(64, true, DType::F32);
  const auto error = [&](const program::Config& way) { return test::error_of<UserError>([&] { channels_last(p, 0, way); }); };
  EXPECT_NE(error({"channels_last", {{"multiple", 16}}}).find("it changes nothing"), std::string::npos);
  EXPECT_NE(error({"channels_last", {{"multiple", 0}}}).find("0 is not from 1"), std::string::npos);
  EXPECT_NE(error({"channels_last", {}}).find("one number, multiple"), std::string::npos);
}

}  // namespace
}  // namespace toroid::sched
