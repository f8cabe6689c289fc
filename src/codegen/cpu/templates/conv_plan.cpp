#include "codegen/cpu/templates/conv_plan.h"

#include <algorithm>

#include "base/check.h"

namespace toroid::codegen {
namespace {

TileKind kind_of(const ConvShape& s, bool joined, int64_t start, int64_t pixels) {
  TileKind kind{pixels, {}};
  for (int64_t kw = 0; kw < s.kernel_w; ++kw) {
    TapRange range{0, pixels};
    const auto inside = [&](int64_t p) {
      const int64_t x = (start + p) * s.stride_w - s.pad_left + kw * s.dilation_w;
      return joined || (x >= 0 && x < s.width);
    };
    while (range.first < pixels && !inside(range.first)) ++range.first;
    while (range.last > range.first && !inside(range.last - 1)) --range.last;
    kind.taps.push_back(range);
  }
  return kind;
}

}  // namespace

bool conv_direct_supported(const ConvShape& s, ConvInput input, int lanes) {
  if (s.groups == 1) return true;
  if (s.channels % s.groups || s.out_channels % s.groups || input == ConvInput::Nchw) return false;
  const int64_t out = s.out_channels / s.groups;
  if (input == ConvInput::Blocked) return (s.channels / s.groups) % lanes == 0;
  // With one tap the loops along pixels waste less than vectors of channels that are half empty.
  return out >= lanes || s.kernel_h * s.kernel_w > 1;
}

ConvPlan::ConvPlan(const ConvConfig& config) : c(config) {
  const ConvShape& s = c.shape;
  const int lanes = c.tile.lanes;
  TOROID_CHECK(s.out_h() > 0 && s.out_w() > 0, "convolution with an empty output");
  // A depthwise kernel reads whole vectors of channels: NHWC has no padding to read past its last channel, so the last vector ends there.
  const bool whole_vectors = c.input == ConvInput::Blocked || (c.input == ConvInput::Nhwc && s.channels >= lanes);
  TOROID_CHECK(s.depthwise() ? whole_vectors : conv_direct_supported(s, c.input, lanes),
               "no CPU convolution template for these groups and this layout");
  TOROID_CHECK(s.out_h() % c.tile.join_rows == 0, "joined rows must divide the output height");
  rows = s.out_h() / c.tile.join_rows;
  width = s.out_w() * c.tile.join_rows;
  group_channels = s.channels / s.groups;
  group_out = s.out_channels / s.groups;
  const int64_t plane = s.height * s.width;
  switch (c.input) {
    case ConvInput::Blocked:
      block_channels = lanes, channel_stride = 1, pixel_stride = lanes, row_stride = s.width * lanes, block_stride = plane * lanes;
      image_stride = ceil_div(s.channels, lanes) * block_stride;
      break;
    case ConvInput::Nhwc:
      block_channels = group_channels % lanes ? group_channels : lanes;
      channel_stride = 1, pixel_stride = s.channels, row_stride = s.width * s.channels, block_stride = lanes;
      image_stride = plane * s.channels;
      break;
    case ConvInput::Nchw:
      block_channels = group_channels, channel_stride = plane, pixel_stride = 1, row_stride = s.width, block_stride = 0;
      image_stride = plane * s.channels;
      break;
  }
  blocks = s.depthwise() ? ceil_div(s.channels, lanes) : ceil_div(group_channels, block_channels);
  oc_tile = static_cast<int64_t>(c.tile.vecs) * lanes;
  // A last depthwise vector that overlaps the one before it is part of its task: no two threads write the same place.
  const int64_t depthwise_tasks = c.input == ConvInput::Nhwc ? s.channels / lanes : blocks;
  oc_tiles = s.depthwise() ? depthwise_tasks : ceil_div(group_out, oc_tile);
  row_blocks = ceil_div(rows, c.tile.block_rows);
  c_chunks = ceil_div(blocks, c.tile.block_c);
  // Tiles of equal width (to one pixel), so that the last one is no sliver.
  const int64_t tiles = ceil_div(width, c.tile.pixels);
  int64_t start = 0;
  for (int64_t t = 0; t < tiles; ++t) {
    const int64_t pixels = width / tiles + (t < width % tiles ? 1 : 0);
    const TileKind kind = kind_of(s, c.tile.join_rows > 1, start, pixels);
    const auto known = std::find(kinds.begin(), kinds.end(), kind);
    const int index = static_cast<int>(known - kinds.begin());
    if (known == kinds.end()) kinds.push_back(kind);
    if (!runs.empty() && runs.back().kind == index) {
      ++runs.back().count;
    } else {
      runs.push_back({index, start, 1});
    }
    start += pixels;
  }
  if (rows == 1 && !s.depthwise()) cut_row(tiles);
}

void ConvPlan::cut_row(int64_t tiles) {
  // The input under a stretch stays in the second-level cache while output channels pass; a few threads have even shares.
  constexpr int64_t kInputBytes = 256 * 1024, kMinTasks = 8, kLeastTiles = 4;
  const int64_t wanted =
      std::max(ceil_div(c.shape.width * group_channels * 4, kInputBytes), ceil_div(kMinTasks, oc_tiles * c.shape.groups));
  stretch = std::max(ceil_div(tiles, wanted), kLeastTiles);
  if (stretch >= tiles) stretch = 0;
  if (stretch > 0) row_blocks = ceil_div(tiles, stretch);
}

int64_t ConvPlan::depthwise_start(int64_t block) const {
  const int64_t start = block * c.tile.lanes;
  return c.input == ConvInput::Nhwc ? std::min(start, c.shape.channels - c.tile.lanes) : start;
}

}  // namespace toroid::codegen
